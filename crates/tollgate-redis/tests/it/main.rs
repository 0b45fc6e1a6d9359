//! The store against real servers.

mod conformance;
mod started;

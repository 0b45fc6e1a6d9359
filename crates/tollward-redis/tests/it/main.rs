//! The store against real servers.

// Clippy knows the test functions as tests, but not the functions they share.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout
)]

mod asked;
mod clocks;
mod cluster;
mod conformance;
mod flushed;
mod kept;
mod logged;
mod lost_replies;
mod outage;
mod promise;
mod refused_before;
mod refusing_servers;
mod reset;
mod secured;
mod sentinel;
mod started;

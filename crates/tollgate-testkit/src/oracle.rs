//! The oracle.

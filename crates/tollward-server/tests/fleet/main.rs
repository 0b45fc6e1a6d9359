//! Whole nodes with a directory behind them: processes of the binary on real PostgreSQL, Redis and SQLite.
//!
//! Every test has servers and nodes of its own, on free ports of the loopback interface. What has to come about by
//! itself is polled until it holds or the test gives up.

// Clippy knows the test functions as tests, but not the functions they share.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout
)]

mod clash;
mod counters;
mod crash;
mod desk;
mod live;
mod load;
mod node;
mod nonsense;
mod outage;
#[allow(dead_code, reason = "not all of what the other tests need")]
#[path = "../e2e/process.rs"]
mod process;
mod schemathesis;
mod secrets;
#[allow(dead_code, reason = "not all of what the other tests need")]
#[path = "../e2e/served.rs"]
mod served;
mod stale;
mod start;
mod words;

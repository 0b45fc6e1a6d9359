//! The binary with a real Redis behind it.
//!
//! Every test has servers and nodes of its own, on free ports of the loopback interface. Decisions get
//! two seconds where it matters who decides, so that a machine under load does not change the answers.
//! Where processes have to be waited for, a condition is polled until it holds or the test gives up.

// Clippy knows the test functions as tests, but not the functions they share.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod absence;
mod drain;
mod exact;
mod keys;
mod logs;
mod metrics;
mod nodes;
#[allow(dead_code, reason = "not all of what the other tests need")]
#[path = "../e2e/process.rs"]
mod process;
mod reload;
mod secrets;
#[allow(dead_code, reason = "not all of what the other tests need")]
#[path = "../e2e/served.rs"]
mod served;
mod settings;
mod sources;

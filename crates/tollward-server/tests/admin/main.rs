//! The admin API over real connections, with the directory in memory and in a file.
//!
//! Every server listens on free ports of the loopback interface and has a clock that the test moves. A change
//! is live on the node that made it when it is answered, so nothing has to be waited for there.

// Clippy knows the test functions as tests, but not the functions they share.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod access;
mod allow;
mod attempts;
mod audit;
mod away;
mod bad_input;
mod boosts;
mod budgets;
mod config;
mod desk;
mod document;
mod enforcement;
mod idempotency;
mod keys;
mod paging;
mod preconditions;
mod secrets;
#[allow(dead_code, reason = "not all of what the other tests need")]
#[path = "../e2e/served.rs"]
mod served;
mod status;
mod tenants;
mod users;

//! The server over real connections and the command line as a real process.
//!
//! One test binary, so that its tests run beside each other. Every server listens on a free port of
//! the loopback interface. Where time matters it is a manual clock that the test moves; where a
//! process has to be waited for, a condition is polled until it holds or the test gives up.

// Clippy knows the test functions as tests, but not the functions they share.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod access;
mod ai_api;
mod bad_input;
mod batch;
mod buckets;
mod bytes;
mod cli;
mod cli_admin;
mod cli_check;
mod cli_keys;
mod cli_lists;
mod cli_tenants;
mod client_answers;
mod connections;
mod decision;
mod drain;
mod ecommerce;
mod headers;
mod metrics;
mod oauth_video;
mod process;
mod reload;
mod served;
mod structured;
mod told;
mod waiting;

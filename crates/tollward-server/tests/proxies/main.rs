//! The binary behind real proxies that ask it before they pass a request on.
//!
//! The proxies are configured by the recipes of `docs/forward-auth.md` as they stand there, only with other addresses.
//! Each test has a server, a proxy and a service of its own, on free ports of the loopback interface. Where a proxy is
//! not on this machine, its tests are left out, and say so.

// Clippy knows the test functions as tests, but not the functions they share.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout
)]

mod door;
mod nginx;
#[allow(dead_code, reason = "not all of what the other tests need")]
#[path = "../e2e/process.rs"]
mod process;
mod promises;
mod recipe;
#[allow(dead_code, reason = "not all of what the other tests need")]
#[path = "../e2e/served.rs"]
mod served;
mod site;

//! The gateway over real connections, before real upstreams.
//!
//! One test binary, so that its tests run beside each other. Every server listens on a free port of
//! the loopback interface. Where time matters it is a manual clock that the test moves, except where a
//! request waits in a queue: that is real time, with generous bounds. The binary runs as a process where
//! signals, memory or other processes matter.

// Clippy knows the test functions as tests, but not the functions they share.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod anonymous;
mod authentication;
mod browser;
mod certificates;
mod cors;
mod degrade;
mod demo;
mod distributed;
mod ending;
mod enforcement;
mod failures;
mod gated;
mod headers;
mod http2;
mod logs;
mod messages;
mod outbound_gateway;
mod plan_gateway;
#[allow(dead_code, reason = "not all of what the other tests need")]
#[path = "../e2e/process.rs"]
mod process;
mod process_gateway;
mod proxies;
mod queue;
mod reload;
mod retry_after;
mod routes;
#[allow(dead_code, reason = "not all of what the other tests need")]
#[path = "../e2e/served.rs"]
mod served;
mod sigterm;
mod spoofing;
mod streaming;
mod tls;
mod tokens;
mod volume;
mod walkthrough;

//! What the forwarder promises, against real servers on sockets of their own.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod balance;
mod bodies;
mod failed;
mod fixtures;
mod front;
mod heads;
mod http2;
mod reuse;
mod script;
mod time;
mod tls;
mod trailers;

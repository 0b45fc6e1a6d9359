//! The front against raw sockets: what clients do wrong, how slowly they do it, and how it all ends.

// Clippy knows the test functions as tests, but not the functions they share.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod bare;
mod corpus;
mod drain;
mod front;
mod http2;
mod keep_alive;
mod slow;
mod table;
mod tls;
mod upgrade;

//! The gateway: a request comes in, is decided, and is passed on to an upstream.
//!
//! [`front`] is the side of the clients: sockets, TLS, HTTP/1.1 and HTTP/2, and everything that a
//! client may do wrong. The forwarding side knows the upstreams.

mod access_log;
mod forward;
pub mod front;
mod gateway;
mod line_log;
mod stats;
mod ticks;
mod trailers;

pub use access_log::{AccessLog, Logged};
pub use forward::{ForwardError, Forwarder, UpstreamBody, drop_hop_by_hop};
pub use gateway::{Answer, Gateway, UpstreamFailed};
pub use line_log::{LineLog, Written};
pub use stats::Stats;

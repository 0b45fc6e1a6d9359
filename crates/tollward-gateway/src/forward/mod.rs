//! Requests to upstreams, and their answers back.
//!
//! `forwarder.rs` takes a request, `pools.rs` chooses a target, `attempt.rs` sends it there, or
//! elsewhere. `server.rs` is a target with its connections: `http1.rs` for one request at a time,
//! `http2.rs` for many. `upload.rs` is the body on its way out, `body.rs` the one on its way back,
//! `tunnel.rs` what follows an upgrade. `clock.rs` and `patience.rs` know how long all this may take.

mod attempt;
mod body;
mod clock;
mod connect;
mod error;
mod forwarder;
mod head;
mod health;
mod http1;
mod http2;
mod patience;
mod pools;
mod server;
mod tls;
mod tunnel;
mod upload;

pub use body::UpstreamBody;
pub use error::ForwardError;
pub use forwarder::Forwarder;
pub use head::drop_hop_by_hop;

//! Connections of clients: sockets, TLS, HTTP/1.1 and HTTP/2, and everything that a client may do
//! wrong.
//!
//! A connection is one task on the worker that accepted it (`workers.rs`, `connection.rs`). Its socket
//! (`wire.rs`) tells its `Pulse` what happens: bytes, which `framing.rs` reads along for HTTP/1, and
//! whether the client keeps us from writing; bodies (`body.rs`) tell whether it keeps us waiting for
//! theirs or does not take ours. `Patience` looks at the pulse, with one timer a connection and a clock
//! of 100 ms, and ends what has stood still for too long. Before a service sees a request, `head.rs`
//! has refused what is ambiguous; what hyper refuses by itself is explained by `bare.rs`.

mod bare;
mod body;
mod clock;
mod connection;
mod framing;
mod head;
mod limits;
mod patience;
mod places;
mod pulse;
mod refused;
mod tls;
mod wire;
mod workers;

pub use bare::{Instead, Turn};
pub use body::{Body, BodyError};
pub use connection::RefusalHook;
pub use places::OpenHook;
pub use refused::{Refused, RefusedHook};
pub use tls::{Certificate, TlsError, tls_config};
pub use workers::{Workers, start};

//! Rate limiting as a tower layer, for axum, tonic, hyper and whatever else is a service of HTTP
//! requests.
//!
//! ```
//! use std::sync::Arc;
//! use tollward_engine::{Engine, SystemClock};
//! use tollward_store::MemoryStore;
//! use tollward_tower::RateLimitLayer;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let text = b"limits: { per-ip: { scope: ip, sustained: { rate: 10 }, burst: { capacity: 100 } } }";
//! let compiled = tollward_policy::compile(text).map_err(|faults| faults[0].to_string())?;
//! let store = Arc::new(MemoryStore::new(1_000_000));
//! let engine = Arc::new(Engine::new(compiled.policy, store, Arc::new(SystemClock::new())));
//! let layer = RateLimitLayer::new(engine);
//! # let _ = layer; Ok(())
//! # }
//! ```
//!
//! [`Gate`] is the whole way of a request up to the service that it is for: who calls, which limits
//! apply, the decision, the wait in a queue. [`RateLimitLayer`] puts it before a service, and the
//! gateway before its upstreams. A handler finds a [`Toll`] among the extensions of its request: who
//! called, and the means to change what the request costs once that is known.
//!
//! This crate reads no configuration and opens no socket.

mod body;
#[cfg(feature = "axum")]
mod extract;
mod frameworks;
mod gate;
mod hooks;
mod layer;
mod line;
mod service;
mod toll;

pub use body::Body;
pub use gate::{Admitted, Gate, Strangers};
pub use hooks::Address;
pub use layer::RateLimitLayer;
pub use service::{RateLimit, ResponseFuture};
pub use toll::Toll;
pub use tollward_http::Peer;

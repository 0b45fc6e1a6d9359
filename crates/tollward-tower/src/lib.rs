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
//! # The address of the peer
//!
//! The layer needs the address of whoever is connected. Servers provide it in different ways:
//!
//! | server | what to do |
//! |---|---|
//! | axum | enable the feature `axum`; serve with `into_make_service_with_connect_info::<SocketAddr>()` |
//! | tonic | enable the feature `tonic` |
//! | others | insert a [`Peer`] into the extensions of each request |
//!
//! Without an address the layer answers with 500 and logs the remedy once. A service whose callers have no
//! addresses says so with [`RateLimitLayer::address`].
//!
//! # Your own authentication
//!
//! By default, callers are known by the credentials that the policy describes: API keys, HTTP Basic,
//! JWTs. If your service authenticates callers itself, insert an [`Identity`] into the extensions of the
//! request, in a layer outside of this one. Where no waiting is needed, a function does as well:
//!
//! ```
//! # use tollward_tower::{Identity, RateLimitLayer};
//! # #[derive(Clone)]
//! # struct Session { user: String, plan: String }
//! # fn layer(layer: RateLimitLayer) -> RateLimitLayer {
//! let layer = layer
//!     .identify(|request| match request.extensions.get::<Session>() {
//!         Some(session) => Identity::new()
//!             .user(session.user.clone())
//!             .plan(session.plan.clone()),
//!         None => Identity::new(),
//!     })
//!     .cost(|request| if request.method == "POST" { 5 } else { 1 });
//! # layer
//! # }
//! ```
//!
//! [`RateLimitLayer::on_refusal`] changes what refusals look like.
//!
//! # tonic
//!
//! ```no_run
//! # #[cfg(feature = "tonic")]
//! # async fn serve(engine: std::sync::Arc<tollward_engine::Engine>) -> Result<(), Box<dyn std::error::Error>> {
//! use tollward_tower::RateLimitLayer;
//!
//! # let (_, service) = tonic_health::server::health_reporter();
//! let mut server = tonic::transport::Server::builder().layer(RateLimitLayer::new(engine));
//! server.add_service(service).serve("127.0.0.1:50051".parse()?).await?;
//! # Ok(())
//! # }
//! ```
//!
//! A route of the policy is the path of a method: `match: /grpc.health.v1.Health/Check`.
//!
//! # How it works
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
mod identity;
mod layer;
mod line;
mod refusal;
mod service;
mod toll;

pub use body::Body;
pub use gate::{Admitted, Gate, Strangers};
pub use hooks::Address;
pub use identity::Identity;
pub use layer::RateLimitLayer;
pub use refusal::Refusal;
pub use service::{RateLimit, ResponseFuture};
pub use toll::Toll;
pub use tollward_http::Peer;

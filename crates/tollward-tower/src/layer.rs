use std::sync::Arc;

use tollward_engine::Engine;
use tollward_http::Proofs;
use tower_layer::Layer;

use crate::{Gate, RateLimit, Strangers};

/// Puts a [`Gate`] before a service.
///
/// The caller's address is read from a [`Peer`](tollward_http::Peer) among the request's extensions, or
/// with the feature `axum` from its `ConnectInfo<SocketAddr>`. Without either, the address is unknown
/// and nobody is a trusted proxy.
#[derive(Clone)]
pub struct RateLimitLayer {
    gate: Gate,
}

impl RateLimitLayer {
    /// A layer that lets through what `engine` admits.
    pub fn new(engine: Arc<Engine>) -> Self {
        Self {
            gate: Gate::new(engine),
        }
    }

    /// Decides, counts and tells, and refuses nothing for want of tokens.
    #[must_use]
    pub fn shadow(self, shadow: bool) -> Self {
        Self {
            gate: self.gate.shadow(shadow),
        }
    }

    /// Asks callers of whom nothing is known who they are, unless the policy says otherwise.
    #[must_use]
    pub fn refuse_strangers(self) -> Self {
        Self {
            gate: self.gate.strangers(Strangers::Refused),
        }
    }

    /// The keys that tokens of users are checked with.
    #[must_use]
    pub fn proofs(self, proofs: Arc<Proofs>) -> Self {
        Self {
            gate: self.gate.proofs(proofs),
        }
    }
}

impl From<Gate> for RateLimitLayer {
    fn from(gate: Gate) -> Self {
        Self { gate }
    }
}

impl<S> Layer<S> for RateLimitLayer {
    type Service = RateLimit<S>;

    fn layer(&self, inner: S) -> RateLimit<S> {
        RateLimit::new(self.gate.clone(), inner)
    }
}

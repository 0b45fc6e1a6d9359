use std::sync::Arc;

use tollward_engine::Engine;
use tollward_http::Proofs;
use tower_layer::Layer;

use crate::{Address, Gate, RateLimit, Strangers};

/// Puts a [`Gate`] before a service.
///
/// The address of the peer is read from a [`Peer`](crate::Peer) among the request's extensions, or else
/// from what the framework puts there: `ConnectInfo<SocketAddr>` with the feature `axum`,
/// `TcpConnectInfo` or `TlsConnectInfo<TcpConnectInfo>` with the feature `tonic`. A request without any of
/// these is answered with 500, unless [`address`](Self::address) says otherwise.
///
/// Routes of the policy are matched by the path that the client sent. With the feature `axum` that is so
/// within `Router::nest` too: under `/api`, `match: POST /api/generate` is the route of `/generate`.
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

    /// Sets what happens to a request whose peer address is unknown: [`Address::Required`], the default,
    /// refuses it with 500.
    #[must_use]
    pub fn address(self, address: Address) -> Self {
        Self {
            gate: self.gate.address(address),
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

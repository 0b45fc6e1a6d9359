use std::sync::Arc;

use bytes::Bytes;
use http::Response;
use http::request::Parts;
use tollward_engine::Engine;
use tollward_http::Proofs;
use tower_layer::Layer;

use crate::{Address, Gate, Identity, RateLimit, Refusal, Strangers};

/// Puts a [`Gate`] before a service.
///
/// The address of the peer is read from a [`Peer`](crate::Peer) among the request's extensions, or else
/// from what the framework puts there: `ConnectInfo<SocketAddr>` with the feature `axum`,
/// `TcpConnectInfo` with the feature `tonic`, with or without TLS. A request without any of these is
/// answered with 500, unless [`address`](Self::address) says otherwise.
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

    /// Sets a function that says who calls, for services with an authentication of their own. Without it,
    /// an [`Identity`] among the extensions of the request says so, if there is one; with it, those are
    /// not looked at. [`Identity`] tells what becomes of the request's own credentials.
    ///
    /// The function must not block. An authentication that has to wait goes into a layer of its own,
    /// outside of this one, which inserts an [`Identity`].
    #[must_use]
    pub fn identify<F>(self, identify: F) -> Self
    where
        F: Fn(&Parts) -> Identity + Send + Sync + 'static,
    {
        Self {
            gate: self.gate.identify(identify),
        }
    }

    /// Sets a function that says what a request costs; without it, requests cost 1. The `cost` of the route
    /// multiplies it, then the `cost` of each limit. [`Toll::settle`](crate::Toll::settle) can replace it
    /// later.
    #[must_use]
    pub fn cost<F>(self, cost: F) -> Self
    where
        F: Fn(&Parts) -> u32 + Send + Sync + 'static,
    {
        Self {
            gate: self.gate.cost(cost),
        }
    }

    /// Sets a function that answers in place of the layer when a request is refused, for whatever reason;
    /// if it returns none, the layer answers as usual.
    ///
    /// The headers of the usual answer are added to the response, except where the response has a header of
    /// that name: `Retry-After`, the rate-limit headers, `WWW-Authenticate`, `Cache-Control`. Only
    /// `Content-Type` and the status of gRPC are not. A gRPC call expects a `grpc-status`; return none
    /// where [`Refusal::is_grpc`], unless the response has one.
    ///
    /// ```
    /// # use tollward_tower::RateLimitLayer;
    /// # fn styled(layer: RateLimitLayer) -> RateLimitLayer {
    /// layer.on_refusal(|refusal, _request| {
    ///     let body = format!(r#"{{"error":"{}"}}"#, refusal.reason.unwrap_or("refused"));
    ///     let response = http::Response::builder().status(refusal.status);
    ///     response.header("content-type", "application/json").body(body).ok()
    /// })
    /// # }
    /// ```
    #[must_use]
    pub fn on_refusal<F, B>(self, respond: F) -> Self
    where
        F: Fn(&Refusal<'_>, &Parts) -> Option<Response<B>> + Send + Sync + 'static,
        B: Into<Bytes>,
    {
        Self {
            gate: self.gate.on_refusal(respond),
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

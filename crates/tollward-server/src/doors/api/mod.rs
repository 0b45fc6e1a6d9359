//! The decision API: facts in JSON, decisions in JSON.

mod answer;
mod checks;
mod question;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::header::{AUTHORIZATION, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use tollward_engine::Engine;
use tollward_http::Problem;
use tollward_tower::Gate;

use self::checks::Checks;
use super::auth::Proxy;
use super::listener::Door;
use super::{body, reply, token};
use crate::metrics::Metrics;
use crate::server::Access;

/// The longest body of a single check.
const MAX_CHECK_BYTES: usize = 64 * 1024;
/// The longest body of a batch.
const MAX_BATCH_BYTES: usize = 1024 * 1024;

pub(crate) struct Api {
    pub(crate) engine: Arc<Engine>,
    /// Decides about whole requests, for proxies that ask.
    pub(crate) gate: Gate,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) access: Access,
    /// How long a client may take over a body.
    pub(crate) body_timeout: Duration,
    /// A check is made to its end once it was begun.
    pub(crate) finishes: bool,
}

/// Who reads the answer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reader {
    /// The caller: the whole decision, in JSON.
    Caller,
    /// The caller's client, to whom it is passed on: what a gateway would have answered.
    Client,
}

impl Door for Api {
    async fn answer(&self, peer: SocketAddr, request: Request<Incoming>) -> Response<Full<Bytes>> {
        match self.route(peer, request).await {
            Ok(response) => response,
            Err(problem) => reply::failure(&problem, "POST"),
        }
    }
}

impl Api {
    async fn route(
        &self,
        peer: SocketAddr,
        mut request: Request<Incoming>,
    ) -> Result<Response<Full<Bytes>>, Problem> {
        let token = request.headers().get(AUTHORIZATION);
        let token = token.map(HeaderValue::as_bytes);
        if !self.access.admits(peer, token) {
            return Err(Problem::new(
                StatusCode::UNAUTHORIZED,
                "Send `Authorization: Bearer` with the token of this door.",
            ));
        }
        if let Some(proxy) = Proxy::at(request.uri().path()) {
            // The proxy's own credential says nothing about its client.
            if self.access.is_token(token) {
                request.headers_mut().remove(AUTHORIZATION);
            }
            return Ok(proxy.answer(&self.gate, peer, request.into_parts().0).await);
        }
        let batch = match request.uri().path() {
            "/v1/check" => false,
            "/v1/check/batch" => true,
            _ => {
                return Err(Problem::new(
                    StatusCode::NOT_FOUND,
                    "There is POST /v1/check, POST /v1/check/batch and /auth/{nginx,traefik,caddy,envoy} here.",
                ));
            }
        };
        if request.method() != Method::POST {
            return Err(Problem::new(StatusCode::METHOD_NOT_ALLOWED, "Use POST."));
        }
        let reader = reader(request.uri().query(), batch)?;
        let max = if batch {
            MAX_BATCH_BYTES
        } else {
            MAX_CHECK_BYTES
        };
        let text = body::read(request.into_body(), max, self.body_timeout).await?;
        let checks = Checks {
            engine: self.engine.clone(),
            metrics: self.metrics.clone(),
        };
        let checked = async move {
            match batch {
                true => checks.batch(&text).await,
                false => checks.one(&text, reader).await,
            }
        };
        // What was begun is made to its end where it has to be, but nobody who has gone waits.
        let checked = match self.finishes {
            true => tokio::spawn(checked)
                .await
                .unwrap_or_else(|_| Err(broken())),
            false => checked.await,
        }?;
        if let Some(wait) = checked.wait {
            tokio::time::sleep(wait).await;
        }
        Ok(checked.response)
    }
}

impl Access {
    /// Whether this peer may ask: from this machine, from a network that is trusted, or with the token.
    fn admits(&self, peer: SocketAddr, authorization: Option<&[u8]>) -> bool {
        let ip = peer.ip().to_canonical();
        if ip.is_loopback() || self.peers.iter().any(|net| net.contains(&ip)) {
            return true;
        }
        self.is_token(authorization)
    }

    fn is_token(&self, authorization: Option<&[u8]>) -> bool {
        let bears = |token: &String| token::bears(authorization, token);
        self.token.as_ref().is_some_and(bears)
    }
}

/// The task that decided has died.
fn broken() -> Problem {
    let detail = "The check could not be made.";
    Problem::new(StatusCode::INTERNAL_SERVER_ERROR, detail)
}

fn reader(query: Option<&str>, batch: bool) -> Result<Reader, Problem> {
    match query {
        None | Some("") => Ok(Reader::Caller),
        Some("answer=client") if !batch => Ok(Reader::Client),
        Some(_) => Err(Problem::new(
            StatusCode::BAD_REQUEST,
            "The only query is `?answer=client`, on /v1/check.",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(token: Option<&str>, peers: &[&str]) -> Access {
        Access {
            token: token.map(Into::into),
            peers: peers.iter().map(|net| net.parse().unwrap()).collect(),
        }
    }

    fn admits(access: &Access, peer: &str, authorization: Option<&str>) -> bool {
        let peer = SocketAddr::new(peer.parse().unwrap(), 50_000);
        access.admits(peer, authorization.map(str::as_bytes))
    }

    #[test]
    fn this_machine_needs_no_token() {
        for peer in ["127.0.0.1", "127.8.9.10", "::1", "::ffff:127.0.0.1"] {
            assert!(admits(&access(None, &[]), peer, None), "{peer}");
            assert!(admits(&access(Some("s3cret"), &[]), peer, None), "{peer}");
        }
    }

    #[test]
    fn strangers_need_the_token() {
        let access = access(Some("s3cret"), &[]);
        for peer in ["192.0.2.1", "2001:db8::1", "::ffff:192.0.2.1", "0.0.0.0"] {
            for token in ["Bearer s3cret", "bearer s3cret", "BEARER s3cret"] {
                assert!(admits(&access, peer, Some(token)), "{peer} {token}");
            }
            assert!(!admits(&access, peer, None), "{peer}");
            for token in [
                "",
                "Bearer",
                "Bearer ",
                "Bearer s3cre",
                "Bearer s3cret ",
                "Bearer s3cret2",
                "Bearer S3CRET",
                "Bearer  s3cret",
                "Bearers3cret",
                "Basic s3cret",
                "s3cret",
                "s3cretBearer ",
            ] {
                assert!(!admits(&access, peer, Some(token)), "{peer} {token:?}");
            }
        }
    }

    #[test]
    fn without_a_token_nothing_is_the_token() {
        let access = access(None, &[]);
        for token in [None, Some(""), Some("Bearer "), Some("Bearer x")] {
            assert!(!admits(&access, "192.0.2.1", token), "{token:?}");
        }
    }

    #[test]
    fn trusted_networks_need_no_token() {
        let access = access(Some("s3cret"), &["10.0.0.0/8", "2001:db8::/32"]);
        for peer in ["10.1.2.3", "::ffff:10.1.2.3", "2001:db8:1::1"] {
            assert!(admits(&access, peer, None), "{peer}");
        }
        for peer in ["11.0.0.1", "::ffff:11.0.0.1", "2001:db9::1", "::10.1.2.3"] {
            assert!(!admits(&access, peer, None), "{peer}");
            assert!(admits(&access, peer, Some("Bearer s3cret")), "{peer}");
        }
    }
}

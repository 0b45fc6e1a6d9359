//! Decisions for proxies that ask before they pass a request on.
//!
//! Each asks in its own way, with the request's own headers; from the answer it takes whether to go on,
//! and what to say if not. An allow is exactly 200: Envoy takes every other status for a refusal.

use std::net::SocketAddr;

use http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use http::request::Parts;
use http::uri::PathAndQuery;
use http::{Method, Response, StatusCode, Uri};
use http_body_util::Full;
use hyper::body::Bytes;
use tollward_http::{Asker, DEGRADED, Peer, Problem, identity_headers, problem_response};
use tollward_tower::{Admitted, Gate};

/// A kind of proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Proxy {
    Nginx,
    /// It says what it was asked in `X-Forwarded-Method` and `X-Forwarded-Uri`.
    Traefik,
    /// The same.
    Caddy,
    /// It asks with the request's own method, and its path behind ours.
    Envoy,
}

const ORIGINAL_METHOD: HeaderName = HeaderName::from_static("x-original-method");
const ORIGINAL_URI: HeaderName = HeaderName::from_static("x-original-uri");
const FORWARDED_METHOD: HeaderName = HeaderName::from_static("x-forwarded-method");
const FORWARDED_URI: HeaderName = HeaderName::from_static("x-forwarded-uri");
/// What nginx is to answer: it can be told of a refusal by 401 and 403 only.
const STATUS: HeaderName = HeaderName::from_static("x-tollward-status");
const ENVOY: &str = "/auth/envoy";

impl Proxy {
    /// Who asks at this path.
    pub(crate) fn at(path: &str) -> Option<Self> {
        match path {
            "/auth/nginx" => Some(Self::Nginx),
            "/auth/traefik" => Some(Self::Traefik),
            "/auth/caddy" => Some(Self::Caddy),
            _ => {
                let rest = path.strip_prefix(ENVOY)?;
                (rest.is_empty() || rest.starts_with('/')).then_some(Self::Envoy)
            }
        }
    }

    /// Answers the proxy. Whoever asks here is trusted to say for whom it asks.
    pub(crate) async fn answer(
        self,
        gate: &Gate,
        peer: SocketAddr,
        asked: Parts,
    ) -> Response<Full<Bytes>> {
        let original = match self.original(asked) {
            Ok(original) => original,
            Err(problem) => return self.refuse(problem_response(&problem, Asker::default())),
        };
        match gate.admit(Some(Peer::relay(peer)), &original).await {
            Ok(admitted) => allow(admitted),
            Err(refusal) => self.refuse(refusal),
        }
    }

    /// The head of the request that the proxy asks about.
    fn original(self, mut asked: Parts) -> Result<Parts, Problem> {
        // Calls of gRPC are refused by an answer of 200, which a proxy would take for an allow.
        asked.headers.remove(CONTENT_TYPE);
        let (method, uri) = match self {
            Self::Nginx => (ORIGINAL_METHOD, ORIGINAL_URI),
            Self::Traefik | Self::Caddy => (FORWARDED_METHOD, FORWARDED_URI),
            Self::Envoy => {
                let target = asked.uri.path_and_query().map_or("", PathAndQuery::as_str);
                let target = target.strip_prefix(ENVOY).unwrap_or(target);
                let target = if target.is_empty() { "/" } else { target };
                asked.uri = origin(target).ok_or_else(|| bad("the path behind /auth/envoy"))?;
                return Ok(asked);
            }
        };
        let target = told(&asked.headers, &uri).and_then(origin);
        asked.uri = target.ok_or_else(|| bad(uri.as_str()))?;
        let told = told(&asked.headers, &method).and_then(|it| it.parse::<Method>().ok());
        asked.method = told.ok_or_else(|| bad(method.as_str()))?;
        Ok(asked)
    }

    /// A refusal in the words that the proxy can pass on.
    fn refuse(self, mut refusal: Response<Full<Bytes>>) -> Response<Full<Bytes>> {
        let status = refusal.status();
        if self == Self::Nginx && !matches!(status, StatusCode::UNAUTHORIZED) {
            let told = HeaderValue::from(status.as_u16());
            refusal.headers_mut().insert(STATUS, told);
            *refusal.status_mut() = StatusCode::FORBIDDEN;
        }
        refusal
    }
}

fn allow(admitted: Admitted) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::default());
    identity_headers(
        admitted.tenant.as_deref(),
        admitted.plan.as_deref(),
        admitted.user.as_deref(),
        response.headers_mut(),
    );
    if admitted.degraded {
        let yes = HeaderValue::from_static("true");
        response.headers_mut().insert(DEGRADED, yes);
    }
    admitted.headers.write_to(response.headers_mut());
    response
}

/// What the proxy says in a header. Two of them would be one of the proxy and one of its client.
fn told<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h str> {
    let mut values = headers.get_all(name).into_iter();
    match (values.next(), values.next()) {
        (Some(value), None) => std::str::from_utf8(value.as_bytes()).ok(),
        _ => None,
    }
}

/// Path and query. There is no fragment in what a client asks; reading one would leave out what an
/// upstream may take for more of the path.
fn origin(target: &str) -> Option<Uri> {
    if !target.starts_with('/') || target.contains('#') {
        return None;
    }
    PathAndQuery::try_from(target).ok().map(Uri::from)
}

fn bad(what: &str) -> Problem {
    Problem::new(
        StatusCode::BAD_REQUEST,
        format!(
            "The proxy does not say what was asked: {what} is missing or not what it should be."
        ),
    )
    .with("reason", "bad_input")
}

//! Whole answers, for doors that give them to clients.

use bytes::Bytes;
use http::header::{
    CACHE_CONTROL, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE,
};
use http::request::Parts;
use http::{Method, Response, StatusCode};
use http_body_util::Full;
use serde_json::Value;
use tollward_engine::Decision;
use tollward_policy::{IdentityOptions, ResponseOptions};

use crate::percent::encoded;
use crate::{Problem, Told, status};

/// On a request: it is to be served more cheaply. On an answer to whoever serves it: it is to do so.
pub const DEGRADED: HeaderName = HeaderName::from_static("x-ratelimit-degraded");

const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
const GRPC_MESSAGE: HeaderName = HeaderName::from_static("grpc-message");

/// What of a request shapes the answer to it. Small, so that it outlives the request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Asker {
    /// It asks for no body.
    head: bool,
    /// It is a call of gRPC, and answers to it have this type.
    grpc: Option<&'static str>,
}

impl From<&Parts> for Asker {
    fn from(request: &Parts) -> Self {
        let media_type = request.headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes);
        // The longer names first: they start as the shorter ones do.
        let grpc = [
            "application/grpc-web-text",
            "application/grpc-web",
            "application/grpc",
        ];
        let is = |name: &&str| {
            let start = media_type.and_then(|it| it.get(..name.len()));
            start.is_some_and(|it| it.eq_ignore_ascii_case(name.as_bytes()))
        };
        Self {
            head: request.method == Method::HEAD,
            // What is no POST is no call, whatever it says of a body.
            grpc: grpc
                .into_iter()
                .find(is)
                .filter(|_| request.method == Method::POST),
        }
    }
}

/// The whole answer to a client that is refused: status, headers, body.
pub fn refusal_response(
    decision: &Decision<'_>,
    options: &ResponseOptions,
    asker: impl Into<Asker>,
) -> Response<Full<Bytes>> {
    Told::new(decision, options).response(asker)
}

impl Told<'_, '_> {
    /// The whole answer to a client that is refused: status, headers, body.
    pub fn response(&self, asker: impl Into<Asker>) -> Response<Full<Bytes>> {
        let asker = asker.into();
        let mut response = match asker.grpc {
            Some(media_type) => grpc(media_type, &self.problem()),
            None => {
                let (media_type, body) = self.refusal();
                plain(status(self.decision), media_type, &body, asker)
            }
        };
        self.write_headers(response.headers_mut());
        response
    }
}

/// The whole answer to a client for whom something went wrong.
///
/// One that says "unauthorised" asks for a bearer token, unless [`challenge`] says what it asks for.
pub fn problem_response(problem: &Problem, asker: impl Into<Asker>) -> Response<Full<Bytes>> {
    let asker = asker.into();
    let mut response = match asker.grpc {
        Some(media_type) => grpc(media_type, problem),
        None => plain(
            problem.status,
            Problem::MEDIA_TYPE,
            &problem.to_json(),
            asker,
        ),
    };
    if problem.status == StatusCode::UNAUTHORIZED {
        let bearer = HeaderValue::from_static("Bearer");
        response.headers_mut().insert(WWW_AUTHENTICATE, bearer);
    }
    add_retry_after(problem.status, response.headers_mut());
    response
}

/// Adds `Retry-After` to an answer with status 503, unless it has one: one second, after which most of
/// what is away briefly is back.
pub fn add_retry_after(status: StatusCode, headers: &mut HeaderMap) {
    if status == StatusCode::SERVICE_UNAVAILABLE {
        let retry_after = headers.entry(RETRY_AFTER);
        retry_after.or_insert(HeaderValue::from_static("1"));
    }
}

/// Says by which credentials callers may prove who they are, in an answer that says "unauthorised".
pub fn challenge(options: &IdentityOptions, headers: &mut HeaderMap) {
    let key_is_bearer = options.api_key.header == http::header::AUTHORIZATION;
    let bearer = key_is_bearer || options.jwt.is_some();
    headers.remove(WWW_AUTHENTICATE);
    for (asked, scheme) in [
        (!key_is_bearer, "ApiKey"),
        (bearer, "Bearer"),
        (options.basic, "Basic realm=\"api\", charset=\"UTF-8\""),
    ] {
        if asked {
            headers.append(WWW_AUTHENTICATE, HeaderValue::from_static(scheme));
        }
    }
}

fn plain(
    status: StatusCode,
    media_type: &'static str,
    body: &Value,
    asker: Asker,
) -> Response<Full<Bytes>> {
    let body = match asker.head {
        true => Bytes::new(),
        false => body.to_string().into(),
    };
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    let media_type = HeaderValue::from_static(media_type);
    response.headers_mut().insert(CONTENT_TYPE, media_type);
    response
}

/// An answer of nothing but headers, which is how gRPC tells of failures.
fn grpc(media_type: &'static str, problem: &Problem) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::default());
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    // To caches it is a success like any other.
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(GRPC_STATUS, grpc_status(problem.status).into());
    let message = encoded(&problem.detail, |byte| matches!(byte, b' '..=b'~'));
    if let Ok(message) = HeaderValue::try_from(&*message) {
        headers.insert(GRPC_MESSAGE, message);
    }
    response
}

fn grpc_status(status: StatusCode) -> u16 {
    const UNKNOWN: u16 = 2;
    match status {
        StatusCode::BAD_REQUEST | StatusCode::UNPROCESSABLE_ENTITY => 3,
        StatusCode::FORBIDDEN => 7,
        StatusCode::TOO_MANY_REQUESTS | StatusCode::PAYLOAD_TOO_LARGE => 8,
        StatusCode::NOT_FOUND => 12,
        StatusCode::INTERNAL_SERVER_ERROR => 13,
        StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT => {
            14
        }
        StatusCode::UNAUTHORIZED => 16,
        _ => UNKNOWN,
    }
}

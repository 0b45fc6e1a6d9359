use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER};
use http::{Response, StatusCode};
use http_body_util::Full;
use tollward_engine::Reason;
use tollward_http::{Problem, Told};

const GRPC_STATUS: &str = "grpc-status";
const GRPC_MESSAGE: &str = "grpc-message";

/// Why a request is refused, and what it would be answered with: given to
/// [`RateLimitLayer::on_refusal`](crate::RateLimitLayer::on_refusal).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Refusal<'a> {
    /// The HTTP status: 429 for want of tokens, 422 for a cost that a limit can never hold, 403 for a denied
    /// route, 401 and 400 for the caller's credentials and path, 503 while limits cannot be checked, 500
    /// without an address. Also that of a gRPC call, whose answer has 200 and a `grpc-status`.
    pub status: StatusCode,
    /// The reason as a word for programs, such as `limit`, `denied`, `unknown_key`.
    pub reason: Option<&'a str>,
    /// The reason as a sentence for people.
    pub detail: &'a str,
    /// The name of the limit that refuses, if one does.
    pub limit: Option<&'a str>,
    /// How long to wait, in whole seconds; none if waiting does not help.
    pub retry_after: Option<Duration>,
    /// Whether the request is a gRPC call.
    pub is_grpc: bool,
    /// The headers of the ordinary answer.
    pub headers: &'a HeaderMap,
}

impl<'a> Refusal<'a> {
    /// A refusal by a decision.
    pub(crate) fn decided(
        told: &Told<'a, '_>,
        problem: &'a Problem,
        response: &'a Response<Full<Bytes>>,
    ) -> Self {
        Self {
            reason: told.decision.reason.map(Reason::word),
            limit: told.decision.shown().map(|status| &*status.limit.name),
            ..Self::undecided(problem, response)
        }
    }

    /// A refusal of a request that was not decided about.
    pub(crate) fn undecided(problem: &'a Problem, response: &'a Response<Full<Bytes>>) -> Self {
        let headers = response.headers();
        let secs = headers.get(RETRY_AFTER).map(HeaderValue::to_str);
        let secs = secs.and_then(|secs| secs.ok()?.parse().ok());
        Self {
            status: problem.status,
            reason: problem.reason(),
            detail: &problem.detail,
            limit: None,
            retry_after: secs.map(Duration::from_secs),
            is_grpc: headers.contains_key(GRPC_STATUS),
            headers,
        }
    }
}

/// The answer of the service's own making, with the headers of the ordinary one that it does not have, but
/// for those that say what the body is.
pub(crate) fn restyled(own: Response<Bytes>, ordinary: &HeaderMap) -> Response<Full<Bytes>> {
    let mut own = own.map(Full::new);
    for name in ordinary.keys() {
        let of_body = [CONTENT_TYPE, CONTENT_LENGTH].contains(name)
            || [GRPC_STATUS, GRPC_MESSAGE].contains(&name.as_str());
        if of_body || own.headers().contains_key(name) {
            continue;
        }
        for value in ordinary.get_all(name) {
            own.headers_mut().append(name, value.clone());
        }
    }
    own
}

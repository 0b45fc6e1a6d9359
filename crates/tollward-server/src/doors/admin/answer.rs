//! Answers to what was done.

use std::fmt;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::header::{CACHE_CONTROL, ETAG, HeaderName, HeaderValue};
use http::{HeaderMap, StatusCode};
use serde::Serialize;
use serde_json::Value;
use tollward_http::Problem;

use super::failure::Failure;
use super::precondition::entity_tag;
use crate::doors::reply;

/// Says that an answer is one that was given before.
const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

/// Says what is worth a thought about what was done.
const WARNING: HeaderName = HeaderName::from_static("x-tollward-warning");

/// An answer in JSON.
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) body: Value,
    /// Of what is shown, if it has one.
    pub(super) version: Option<i64>,
    /// It was given before, to the same request.
    pub(super) replayed: bool,
    /// What is worth a thought about what was done.
    pub(super) warning: Option<&'static str>,
}

impl fmt::Debug for Answer {
    /// Without the body: there may be a secret in it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answer")
            .field("status", &self.status)
            .field("version", &self.version)
            .field("replayed", &self.replayed)
            .finish_non_exhaustive()
    }
}

impl Answer {
    /// What was asked for.
    pub(super) fn ok(body: &impl Serialize) -> Result<Self, Failure> {
        Self::new(StatusCode::OK, body)
    }

    /// What was made.
    pub(super) fn created(body: &impl Serialize) -> Result<Self, Failure> {
        Self::new(StatusCode::CREATED, body)
    }

    fn new(status: StatusCode, body: &impl Serialize) -> Result<Self, Failure> {
        // Nothing that is answered has other keys than texts, which is all that can fail.
        let body = serde_json::to_value(body).map_err(|error| {
            let detail = format!("The answer cannot be written: {error}.");
            Failure::from(Problem::new(StatusCode::SERVICE_UNAVAILABLE, detail))
        })?;
        let version = body.get("version").and_then(Value::as_i64);
        Ok(Self {
            status,
            body,
            version,
            replayed: false,
            warning: None,
        })
    }
}

impl IntoResponse for Answer {
    fn into_response(self) -> Response {
        let mut response = reply::json(self.status, "application/json", &self.body);
        let headers: &mut HeaderMap = response.headers_mut();
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if let Some(version) = self.version {
            headers.insert(ETAG, entity_tag(version));
        }
        if self.replayed {
            headers.insert(REPLAYED, HeaderValue::from_static("true"));
        }
        if let Some(warning) = self.warning {
            headers.insert(WARNING, HeaderValue::from_static(warning));
        }
        response.map(Body::new)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_it_tells_is_not_printed() {
        let answer = Answer::created(&json!({ "secret": "tw_abc", "version": 3 })).unwrap();
        let printed = format!("{answer:?}");
        assert!(!printed.contains("tw_abc"), "{printed}");
        assert!(
            printed.contains("201") && printed.contains('3'),
            "{printed}"
        );
    }
}

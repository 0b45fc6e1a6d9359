//! Answers to what was done.

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::header::{CACHE_CONTROL, ETAG, HeaderName, HeaderValue};
use http::{HeaderMap, StatusCode};
use serde::Serialize;
use serde_json::Value;
use tollgate_http::Problem;

use super::failure::Failure;
use super::precondition::entity_tag;
use crate::doors::reply;

/// Says that an answer is one that was given before.
const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

/// An answer in JSON.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) body: Value,
    /// Of what is shown, if it has one.
    pub(super) version: Option<i64>,
    /// It was given before, to the same request.
    pub(super) replayed: bool,
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
        response.map(Body::new)
    }
}

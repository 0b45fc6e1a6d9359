//! Requests that are not done, and why.

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::header::{CACHE_CONTROL, ETAG, HeaderValue, RETRY_AFTER};
use serde_json::Value;
use tollward_directory::DirectoryError;
use tollward_http::Problem;
use tracing::warn;

use super::precondition::entity_tag;
use crate::doors::reply;

/// Why a request is not done: a problem, and the headers that belong to it.
#[derive(Debug)]
pub(super) struct Failure {
    problem: Problem,
    retry_after_secs: Option<u64>,
    /// The version that there is, where another one was meant.
    version: Option<i64>,
}

impl Failure {
    /// A problem whose kind a program can tell by `reason`.
    pub(super) fn new(status: StatusCode, reason: &str, detail: impl Into<String>) -> Self {
        Problem::new(status, detail).with("reason", reason).into()
    }

    /// What was sent cannot be read.
    pub(super) fn bad_input(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad_input", detail)
    }

    /// One value of what was sent makes no sense.
    pub(super) fn invalid(place: &str, message: impl Into<String>, hint: &str) -> Self {
        let message = message.into();
        let detail = format!("`{place}`: {message}");
        let mut error = serde_json::json!({ "place": place, "message": message });
        if !hint.is_empty() {
            error["hint"] = hint.into();
        }
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid", detail)
            .with("errors", Value::Array(vec![error]))
    }

    /// There is none of this name.
    pub(super) fn not_found(what: &str, id: &str) -> Self {
        let detail = format!("There is no {what} {id:?}.");
        Self::new(StatusCode::NOT_FOUND, "not_found", detail)
    }

    /// It does not go with what there is.
    pub(super) fn conflict(reason: &str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, reason, detail)
    }

    /// An entry of the configuration file.
    pub(super) fn read_only(what: &str, id: &str, file: &str, place: &str) -> Self {
        let detail = format!(
            "The {what} {id:?} is written in {file}, at `{place}`, and can be changed only there."
        );
        Self::conflict("read_only", detail)
            .with("file", file)
            .with("place", place)
    }

    /// Adds a member.
    pub(super) fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.problem = self.problem.with(name, value);
        self
    }

    /// Says when to come back.
    pub(super) fn retry_after(mut self, secs: u64) -> Self {
        self.retry_after_secs = Some(secs);
        self
    }

    /// Says which version there is.
    pub(super) fn at_version(mut self, version: i64) -> Self {
        self.version = Some(version);
        self
    }

    /// The answer.
    pub(super) fn to_response(&self) -> http::Response<http_body_util::Full<bytes::Bytes>> {
        let mut response = reply::failure(&self.problem, "");
        let headers = response.headers_mut();
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if let Some(secs) = self.retry_after_secs {
            headers.insert(RETRY_AFTER, secs.into());
        }
        if let Some(version) = self.version {
            headers.insert(ETAG, entity_tag(version));
        }
        response
    }
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        Self {
            problem,
            retry_after_secs: None,
            version: None,
        }
    }
}

impl From<DirectoryError> for Failure {
    /// Clashes of names are told apart before they come so far; what is left of them has to do with
    /// somebody who was faster.
    fn from(error: DirectoryError) -> Self {
        let away =
            |reason, detail: String| Self::new(StatusCode::SERVICE_UNAVAILABLE, reason, detail);
        match error {
            DirectoryError::Conflict(_) => Self::conflict(
                "conflict",
                "Somebody else changed the same just now. Look at it again, and repeat the change.",
            ),
            DirectoryError::Invalid(why) => {
                Self::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid", why)
            }
            error => {
                warn!(%error, "the directory did not answer the admin door");
                away(
                    "directory_unavailable",
                    format!(
                        "The directory cannot be used right now ({error}). Nothing was changed for certain: \
                         look before you repeat a change."
                    ),
                )
            }
        }
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        self.to_response().map(Body::new)
    }
}

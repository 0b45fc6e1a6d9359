//! What is sent: bodies, queries and the names in paths. Whatever is wrong with it becomes a problem.

use std::fmt;

use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use bytes::Bytes;
use http::StatusCode;
use http::request::Parts;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tollward_http::Problem;

use super::Shared;
use super::failure::Failure;
use crate::doors::body;

/// The longest body unless an endpoint says otherwise.
pub(super) const MAX_BYTES: usize = 1024 * 1024;

/// A body in JSON.
pub(super) struct Body<T, const MAX: usize = MAX_BYTES> {
    pub(super) value: T,
    /// Tells whether another request asks the same.
    pub(super) fingerprint: String,
}

/// A body as it was sent.
pub(super) struct Text<const MAX: usize = MAX_BYTES>(pub(super) Bytes);

/// The name at the end of a path.
pub(super) struct Id(pub(super) String);

/// A query of which every name is known, and given once.
pub(super) struct Asked<T>(pub(super) T);

impl<T: DeserializeOwned, const MAX: usize> FromRequest<Shared> for Body<T, MAX> {
    type Rejection = Failure;

    async fn from_request(request: Request, shared: &Shared) -> Result<Self, Failure> {
        let (parts, sent) = request.into_parts();
        let text = body::read(sent, MAX, shared.body_timeout).await?;
        let value = read_json(&text)?;
        Ok(Self {
            value,
            fingerprint: fingerprint(&parts, &text),
        })
    }
}

impl<const MAX: usize> FromRequest<Shared> for Text<MAX> {
    type Rejection = Failure;

    async fn from_request(request: Request, shared: &Shared) -> Result<Self, Failure> {
        let text = body::read(request.into_body(), MAX, shared.body_timeout).await?;
        Ok(Self(text))
    }
}

impl FromRequestParts<Shared> for Id {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, shared: &Shared) -> Result<Self, Failure> {
        let path = Path::<String>::from_request_parts(parts, shared).await;
        let Path(id) = path.map_err(|error| Failure::bad_input(error.body_text()))?;
        Ok(Self(id))
    }
}

impl<T: DeserializeOwned> FromRequestParts<Shared> for Asked<T> {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, shared: &Shared) -> Result<Self, Failure> {
        let query = Query::<T>::from_request_parts(parts, shared).await;
        let Query(asked) = query.map_err(|error| Failure::bad_input(error.body_text()))?;
        Ok(Self(asked))
    }
}

/// Reads a JSON object. What is wrong with it is told with its place.
pub(super) fn read_json<T: DeserializeOwned>(text: &[u8]) -> Result<T, Failure> {
    if !matches!(text.trim_ascii_start().first(), None | Some(b'{')) {
        // Serde would take the items of a list for the fields in their order.
        return Err(unreadable(
            "",
            "a body that is no JSON object, expected `{`",
        ));
    }
    let mut reader = serde_json::Deserializer::from_slice(text);
    let value = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let place = error.path().to_string();
        let place = if place == "." { "" } else { &place };
        unreadable(place, error.inner())
    })?;
    reader.end().map_err(|error| unreadable("", error))?;
    Ok(value)
}

/// Reads a value that was put together from what there is and what was sent.
pub(super) fn read_value<T: DeserializeOwned>(value: Value) -> Result<T, Failure> {
    serde_path_to_error::deserialize(value).map_err(|error| {
        let place = error.path().to_string();
        unreadable(if place == "." { "" } else { &place }, error.inner())
    })
}

/// What is wrong, where, and what would be right, as far as serde tells it apart.
fn unreadable(place: &str, why: impl fmt::Display) -> Failure {
    let why = why.to_string();
    // The place says it better.
    let why = match (place, why.rfind(" at line ")) {
        ("", _) | (_, None) => why,
        (_, Some(end)) => why.get(..end).unwrap_or(&why).to_owned(),
    };
    let (message, expected) = why.split_once(", expected ").unwrap_or((&why, ""));
    let mut error = json!({ "place": place, "message": message });
    if !expected.is_empty() {
        let expected = match expected {
            "u32" => "a whole number from 0 to 4294967295",
            "f64" => "a number",
            "a boolean" => "true or false",
            other => other,
        };
        error["hint"] = format!("write {expected}").into();
    }
    let at = match place {
        "" => String::new(),
        place => format!(" at `{place}`"),
    };
    let detail = format!("The body cannot be read{at}: {why}.");
    Problem::new(StatusCode::BAD_REQUEST, detail)
        .with("reason", "bad_input")
        .with("errors", json!([error]))
        .into()
}

fn fingerprint(parts: &Parts, text: &[u8]) -> String {
    let mut hash = Sha256::new();
    hash.update(parts.method.as_str());
    hash.update(b" ");
    hash.update(parts.uri.path());
    hash.update(b"\n");
    hash.update(text);
    super::secret::hex(&hash.finalize())
}

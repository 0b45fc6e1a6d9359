//! What a request says of who calls, as texts.

use http::header::{HeaderMap, HeaderName, HeaderValue};

use super::AuthFailure;

/// An `Authorization` header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Authorization<'r> {
    Bearer(&'r str),
    Basic(&'r str),
    Other,
}

impl<'r> Authorization<'r> {
    /// What a header says. Credentials that cannot be read are empty, which none may be.
    pub(crate) fn of(value: &'r HeaderValue) -> Self {
        let value = value.as_bytes();
        let end = value.iter().position(|byte| matches!(byte, b' ' | b'\t'));
        let (scheme, rest) = value.split_at(end.unwrap_or(value.len()));
        let credentials = || readable(rest).unwrap_or("").trim_matches(' ');
        if scheme.eq_ignore_ascii_case(b"bearer") {
            Self::Bearer(credentials())
        } else if scheme.eq_ignore_ascii_case(b"basic") {
            Self::Basic(credentials())
        } else {
            Self::Other
        }
    }
}

/// The value of a header that may be there once; `several` if it is there more often.
pub(super) fn only<'r>(
    headers: &'r HeaderMap,
    name: &HeaderName,
    several: AuthFailure,
) -> Result<Option<&'r HeaderValue>, AuthFailure> {
    let mut values = headers.get_all(name).into_iter();
    match (values.next(), values.next()) {
        (value, None) => Ok(value),
        _ => Err(several),
    }
}

/// A text without control characters that is not empty.
pub(super) fn text(value: &HeaderValue) -> Option<&str> {
    readable(value.as_bytes()).filter(|text| !text.is_empty())
}

fn readable(bytes: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(bytes).ok()?;
    (!text.chars().any(char::is_control)).then_some(text)
}

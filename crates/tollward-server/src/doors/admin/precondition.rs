//! `ETag` and `If-Match`: nobody overwrites what they have not seen.

use axum::extract::FromRequestParts;
use http::header::{HeaderValue, IF_MATCH};
use http::request::Parts;
use http::{HeaderMap, StatusCode};

use super::Shared;
use super::failure::Failure;

/// The versions that a change is meant for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum IfMatch {
    /// `*`: whatever there is.
    Any,
    /// One of these.
    Versions(Vec<i64>),
}

/// The most versions in one header.
const MAX_VERSIONS: usize = 16;

/// The `ETag` of a version.
pub(super) fn entity_tag(version: i64) -> HeaderValue {
    // Digits in quotes are a value of a header.
    HeaderValue::try_from(format!("\"{version}\""))
        .unwrap_or_else(|_| HeaderValue::from_static("\"0\""))
}

impl IfMatch {
    /// Reads the header, if there is one.
    pub(super) fn read(headers: &HeaderMap) -> Result<Option<Self>, Failure> {
        let mut versions = Vec::new();
        let values = headers.get_all(IF_MATCH);
        for value in values {
            let text = value.to_str().map_err(|_| malformed())?;
            for tag in text.split(',').map(str::trim) {
                if tag == "*" {
                    return Ok(Some(Self::Any));
                }
                versions.push(version(tag)?);
            }
        }
        match versions.len() {
            0 => Ok(None),
            1..=MAX_VERSIONS => Ok(Some(Self::Versions(versions))),
            _ => Err(malformed()),
        }
    }

    /// Whether the change was meant for what there is.
    pub(super) fn check(&self, version: i64) -> Result<(), Failure> {
        match self {
            Self::Any => Ok(()),
            Self::Versions(meant) if meant.contains(&version) => Ok(()),
            Self::Versions(_) => Err(Failure::new(
                StatusCode::PRECONDITION_FAILED,
                "stale",
                format!(
                    "It was changed since you saw it: it is at version \"{version}\" now. Look at it again, \
                     and repeat the change with `If-Match: \"{version}\"` if you still want it."
                ),
            )
            .with("version", version)
            .at_version(version)),
        }
    }
}

impl FromRequestParts<Shared> for IfMatch {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &Shared) -> Result<Self, Failure> {
        Self::read(&parts.headers)?.ok_or_else(|| {
            Failure::new(
                StatusCode::PRECONDITION_REQUIRED,
                "precondition_required",
                "Send `If-Match` with the `ETag` of what you mean to change, or `If-Match: *` to change \
                 whatever is there.",
            )
        })
    }
}

/// The version of a strong tag; -1, which nothing is at, for one that is not ours.
fn version(tag: &str) -> Result<i64, Failure> {
    let (weak, text) = match tag.strip_prefix("W/") {
        Some(text) => (true, text),
        None => (false, tag),
    };
    let inner = text
        .strip_prefix('"')
        .and_then(|text| text.strip_suffix('"'))
        .filter(|inner| !inner.contains('"'))
        .ok_or_else(malformed)?;
    let number = inner.parse().ok().filter(|number| *number >= 0);
    // A weak tag never matches.
    Ok(number.filter(|_| !weak).unwrap_or(-1))
}

fn malformed() -> Failure {
    Failure::bad_input("`If-Match` is not a list of entity tags such as `\"3\"`, nor `*`.")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(value: &str) -> Result<Option<IfMatch>, Failure> {
        let mut headers = HeaderMap::new();
        headers.insert(IF_MATCH, HeaderValue::from_str(value).unwrap());
        IfMatch::read(&headers)
    }

    #[test]
    fn tags_are_versions() {
        for (value, versions) in [
            ("\"3\"", &[3][..]),
            ("\"3\", \"4\"", &[3, 4]),
            ("W/\"3\"", &[-1]),
            ("\"abc\"", &[-1]),
            ("\"\"", &[-1]),
            ("\"-1\"", &[-1]),
        ] {
            let read = read(value).unwrap().unwrap();
            assert_eq!(read, IfMatch::Versions(versions.to_vec()), "{value}");
        }
        assert_eq!(read("*").unwrap(), Some(IfMatch::Any));
        assert!(IfMatch::read(&HeaderMap::new()).unwrap().is_none());
        for value in ["3", "\"3", "3\"", "", "\"3\" \"4\"", "\"1\",", "**", "W/3"] {
            assert!(read(value).is_err(), "{value}");
        }
    }

    #[test]
    fn nothing_is_at_the_version_of_a_strange_tag() {
        let strange = read("\"abc\"").unwrap().unwrap();
        for version in [0, 1, i64::MAX] {
            assert!(strange.check(version).is_err());
        }
        assert!(IfMatch::Any.check(7).is_ok());
        assert!(IfMatch::Versions(vec![6, 7]).check(7).is_ok());
        assert!(IfMatch::Versions(vec![6]).check(7).is_err());
    }
}

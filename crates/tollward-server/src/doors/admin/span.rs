//! Spans of time, as the configuration file has them: `90s`, `24h`.

use serde::de::Error;
use serde::{Deserialize, Deserializer};
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

/// A span of time, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span(pub(super) i64);

const PATTERN: &str = "^[0-9]{1,9}(ms|s|m|h|d)$";

impl Span {
    fn parse(text: &str) -> Option<Self> {
        let unit_at = text.find(|c: char| !c.is_ascii_digit())?;
        let (digits, unit) = text.split_at(unit_at);
        let scale = match unit {
            "ms" => 1,
            "s" => 1000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            _ => return None,
        };
        let number: i64 = digits.parse().ok().filter(|_| digits.len() <= 9)?;
        Some(Self(number * scale))
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let why = "not a span of time, expected a text such as `90s`, `24h` or `7d`";
        Self::parse(&text).ok_or_else(|| D::Error::custom(why))
    }
}

impl PartialSchema for Span {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(Type::String)
            .pattern(Some(PATTERN))
            .examples([serde_json::json!("24h")])
            .into()
    }
}

impl ToSchema for Span {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_with_units() {
        for (text, ms) in [
            ("0s", Some(0)),
            ("250ms", Some(250)),
            ("90s", Some(90_000)),
            ("24h", Some(86_400_000)),
            ("999999999d", Some(86_399_999_913_600_000)),
            ("1000000000d", None),
            ("", None),
            ("5", None),
            ("h", None),
            ("-1s", None),
            ("1.5h", None),
            ("1w", None),
            ("1 h", None),
        ] {
            assert_eq!(Span::parse(text).map(|span| span.0), ms, "{text}");
        }
    }
}

//! Moments and spans of time, as people write them.

use tollward_engine::{Clock, SystemClock};
use tollward_http::iso_ms;

/// A span as it was written, such as `90s` or `7d`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) text: String,
    ms: u64,
}

/// A moment: one of the calendar, or one so long ago.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum When {
    At(String),
    Ago(Span),
}

const UNITS: [(&str, u64); 5] = [
    ("ms", 1),
    ("s", 1000),
    ("m", 60_000),
    ("h", 3_600_000),
    ("d", 86_400_000),
];

impl Span {
    /// Reads a number and its unit: `ms`, `s`, `m`, `h` or `d`.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let unit_at = text.find(|c: char| !c.is_ascii_digit());
        let (digits, unit) = text.split_at(unit_at.unwrap_or(text.len()));
        let scale = UNITS.iter().find(|(name, _)| *name == unit);
        let number = digits.parse::<u64>().ok().filter(|_| digits.len() <= 9);
        match (number, scale) {
            (Some(number), Some((_, scale))) => Ok(Self {
                text: text.to_owned(),
                ms: number * scale,
            }),
            _ => Err("write a number and its unit: 90s, 15m, 24h or 7d".to_owned()),
        }
    }

    /// The moment at which it is over, if it begins now.
    pub(super) fn end(&self) -> String {
        iso_ms(now_ms().saturating_add(self.ms))
    }
}

impl When {
    /// Reads a moment, a day in UTC, or how long ago.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        if let Ok(span) = Span::parse(text) {
            return Ok(Self::Ago(span));
        }
        let shape: String = text
            .chars()
            .map(|c| if c.is_ascii_digit() { '0' } else { c })
            .collect();
        match &*shape {
            "0000-00-00" => Ok(Self::At(format!("{text}T00:00:00Z"))),
            shape if shape.starts_with("0000-00-00T00:00:00") => Ok(Self::At(text.to_owned())),
            _ => Err(
                "write a moment such as 2026-01-02T03:04:05Z, a day such as 2026-01-02, or how long ago: \
                 90s, 15m, 24h, 7d"
                    .to_owned(),
            ),
        }
    }

    /// As RFC 3339 has it.
    pub(super) fn moment(&self) -> String {
        match self {
            Self::At(moment) => moment.clone(),
            Self::Ago(span) => iso_ms(now_ms().saturating_sub(span.ms)),
        }
    }
}

fn now_ms() -> u64 {
    let clock = SystemClock::new();
    clock.calendar(clock.now()).as_micros() / 1000
}

/// A window as it is written: `minute`, `5m`.
pub(super) fn window(secs: u64) -> String {
    match secs {
        1 => "second".to_owned(),
        60 => "minute".to_owned(),
        3600 => "hour".to_owned(),
        86_400 => "day".to_owned(),
        _ => {
            let whole = |(_, ms): &&(&str, u64)| *ms >= 1000 && (secs * 1000).is_multiple_of(*ms);
            let unit = UNITS.iter().rev().find(whole);
            let (name, ms) = unit.unwrap_or(&("s", 1000));
            format!("{}{name}", secs * 1000 / ms)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_have_units() {
        for (text, ms) in [
            ("0s", 0),
            ("250ms", 250),
            ("90s", 90_000),
            ("7d", 604_800_000),
        ] {
            assert_eq!(Span::parse(text).unwrap().ms, ms, "{text}");
        }
        for text in [
            "",
            "5",
            "h",
            "-1s",
            "1.5h",
            "1w",
            "1 h",
            "1000000000d",
            "tomorrow",
        ] {
            assert!(Span::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn moments_are_written_in_three_ways() {
        let at = |text: &str| When::parse(text).unwrap().moment();
        assert_eq!(at("2026-01-02"), "2026-01-02T00:00:00Z");
        for text in ["2026-01-02T03:04:05Z", "2026-01-02T03:04:05.5+01:00"] {
            assert_eq!(at(text), text);
        }
        assert!(matches!(When::parse("2h"), Ok(When::Ago(_))));
        // Both read the clock, one after the other.
        let (earlier, later) = (at("999999999d"), Span::parse("0s").unwrap().end());
        assert_eq!(earlier, "1970-01-01T00:00:00.000Z");
        assert!(later.as_str() > "2024" && at("1h") < Span::parse("1h").unwrap().end());
        for text in ["", "yesterday", "2026-1-2", "03:04", "2026-01-02 03:04:05Z"] {
            assert!(When::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn windows_are_told_as_they_are_written() {
        for (secs, text) in [
            (1, "second"),
            (60, "minute"),
            (3600, "hour"),
            (86_400, "day"),
            (30, "30s"),
            (90, "90s"),
            (300, "5m"),
            (7200, "2h"),
            (604_800, "7d"),
        ] {
            assert_eq!(window(secs), text);
        }
    }
}

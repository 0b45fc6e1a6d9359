//! Moments as they are told and read: RFC 3339, in UTC when told.

use std::fmt;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use utoipa::openapi::schema::{KnownFormat, ObjectBuilder, SchemaFormat, Type};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

/// A moment, in milliseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Moment(pub(super) i64);

/// 9999-12-31T23:59:59.999Z: four digits of a year, and no more.
pub(super) const LAST: Moment = Moment(253_402_300_799_999);
const DAY_MS: i64 = 86_400_000;

impl Moment {
    /// Reads `2026-01-02T03:04:05Z`, with a fraction or an offset if need be.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (date, rest) = text.split_at_checked(10)?;
        let time = rest.strip_prefix(['T', 't', ' '])?;
        let [year, month, day] = numbers(date, '-', [4, 2, 2])?;
        let (clock, rest) = time.split_at_checked(8)?;
        let [hour, minute, second] = numbers(clock, ':', [2, 2, 2])?;
        let (millis, zone) = fraction(rest)?;
        let offset_minutes = offset(zone)?;
        let days_in_month = match month {
            2 if is_leap(year) => 29,
            2 => 28,
            4 | 6 | 9 | 11 => 30,
            1..=12 => 31,
            _ => return None,
        };
        // A leap second counts as the one before it.
        let fits = (1..=days_in_month).contains(&day) && hour < 24 && minute < 60 && second <= 60;
        let secs = (hour * 60 + minute - offset_minutes) * 60 + second.min(59);
        let moment = Self(days(year, month, day) * DAY_MS + secs * 1000 + millis);
        (fits && (0..=LAST.0).contains(&moment.0)).then_some(moment)
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = self.0.clamp(0, LAST.0);
        let (year, month, day) = date(ms / DAY_MS);
        let rest = ms % DAY_MS;
        let (hour, minute) = (rest / 3_600_000, rest / 60_000 % 60);
        let (second, millis) = (rest / 1000 % 60, rest % 1000);
        write!(
            f,
            "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z"
        )
    }
}

impl Serialize for Moment {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Moment {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| {
            D::Error::custom("not a moment, expected a text such as `2026-01-02T03:04:05Z`")
        })
    }
}

impl PartialSchema for Moment {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(Type::String)
            .format(Some(SchemaFormat::KnownFormat(KnownFormat::DateTime)))
            .into()
    }
}

impl ToSchema for Moment {}

fn numbers<const N: usize>(text: &str, between: char, widths: [usize; N]) -> Option<[i64; N]> {
    let mut parts = text.split(between);
    let mut numbers = [0; N];
    for (number, width) in numbers.iter_mut().zip(widths) {
        let part = parts.next().filter(|part| part.len() == width)?;
        let is_number = part.bytes().all(|byte| byte.is_ascii_digit());
        *number = part.parse().ok().filter(|_| is_number)?;
    }
    parts.next().is_none().then_some(numbers)
}

/// Milliseconds, and what stands behind them. Finer digits are dropped.
fn fraction(text: &str) -> Option<(i64, &str)> {
    let Some(digits) = text.strip_prefix('.') else {
        return Some((0, text));
    };
    let end = digits
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(digits.len());
    let (digits, zone) = digits.split_at(end);
    if digits.is_empty() || digits.len() > 9 {
        return None;
    }
    let millis = format!("{digits:0<3}").get(..3)?.parse().ok()?;
    Some((millis, zone))
}

/// Minutes that a clock there is ahead.
fn offset(zone: &str) -> Option<i64> {
    if zone.eq_ignore_ascii_case("z") {
        return Some(0);
    }
    let (sign, rest) = match zone.strip_prefix('+') {
        Some(rest) => (1, rest),
        None => (-1, zone.strip_prefix('-')?),
    };
    let [hours, minutes] = numbers(rest, ':', [2, 2])?;
    (hours < 24 && minutes < 60).then_some(sign * (hours * 60 + minutes))
}

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

/// Days since 1970-01-01 of a day of the Gregorian calendar, of the years 0 to 9999.
fn days(year: i64, month: i64, day: i64) -> i64 {
    // Counted from March, the leap day is the last of its year.
    let (year, month) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    year * 365 + leap_days + (153 * month + 2) / 5 + day - 1 - 719_468
}

/// The day of the calendar so many days after 1970-01-01.
fn date(days_since: i64) -> (i64, i64, i64) {
    // An estimate that is at most one year too late.
    let mut year = 1970 + days_since / 365;
    while days(year, 1, 1) > days_since {
        year -= 1;
    }
    let mut month = 12;
    while days(year, month, 1) > days_since {
        month -= 1;
    }
    (year, month, days_since - days(year, month, 1) + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_is_read() {
        for (ms, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400_001, "2000-02-29T00:00:00.001Z"),
            (1_765_469_725_120, "2025-12-11T16:15:25.120Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
            (LAST.0, "9999-12-31T23:59:59.999Z"),
        ] {
            assert_eq!(Moment(ms).to_string(), text);
            assert_eq!(Moment::parse(text), Some(Moment(ms)), "{text}");
        }
        // Every day of 400 years and some.
        for day in 0..150_000 {
            let moment = Moment(day * DAY_MS + 43_200_000);
            assert_eq!(Moment::parse(&moment.to_string()), Some(moment));
        }
    }

    #[test]
    fn other_ways_to_write_it() {
        let noon = Moment::parse("2026-01-02T12:00:00Z");
        assert!(noon.is_some());
        for text in [
            "2026-01-02T13:00:00+01:00",
            "2026-01-02t06:30:00.0-05:30",
            "2026-01-02 12:00:00.000000001z",
            "2026-01-03T00:00:00+12:00",
        ] {
            assert_eq!(Moment::parse(text), noon, "{text}");
        }
    }

    #[test]
    fn what_is_no_moment() {
        for text in [
            "",
            "2026-01-02",
            "2026-01-02T12:00:00",
            "2026-02-29T12:00:00Z",
            "2026-13-01T12:00:00Z",
            "2026-00-01T12:00:00Z",
            "2026-01-00T12:00:00Z",
            "2026-01-02T24:00:00Z",
            "2026-01-02T12:60:00Z",
            "2026-1-02T12:00:00Z",
            "+026-01-02T12:00:00Z",
            "2026-01-02T12:00:00.Z",
            "2026-01-02T12:00:00+1:00",
            "1969-12-31T23:59:59Z",
            "10000-01-01T00:00:00Z",
            "2026-01-02T12:00:00Zé",
            "2026-01-0éT12:00:00Z",
        ] {
            assert_eq!(Moment::parse(text), None, "{text}");
        }
    }
}

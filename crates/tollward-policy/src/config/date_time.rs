//! How a point in time is written: a date, a time and an offset, as RFC 3339 has them.

use serde_json::{Value as Json, json};

use super::decode::{Context, Decode};
use super::fault::{Spanned, quoted};
use super::schema::Defs;
use super::yaml::Node;

/// A point in time from 1970 to 9999, in Unix seconds; fractions of a second are dropped.
pub(crate) struct DateTime;

impl Decode for DateTime {
    type Value = Spanned<u64>;

    fn decode(node: &Node, cx: &mut Context) -> Option<Self::Value> {
        let (text, _) = cx.scalar(node, &Self::expected())?;
        match unix_seconds(text) {
            Ok(seconds) => Some(cx.spanned(node, seconds)),
            Err(flaw) => {
                let message = format!("{} {}", quoted(text), flaw.message());
                cx.fault_with(node, message, flaw.hint(text))
            }
        }
    }

    fn schema(_: &mut Defs) -> Json {
        json!({ "type": "string", "format": "date-time", "examples": ["2027-01-01T00:00:00Z"] })
    }

    fn expected() -> String {
        "a date with a time and an offset, such as `2027-01-01T00:00:00Z`".to_owned()
    }
}

/// Why a text is not a point in time.
#[derive(Clone, Copy)]
enum Flaw {
    Shape,
    NoTime,
    NoOffset,
    NoSuchDay,
    NoSuchTime,
    NoSuchOffset,
    OutOfRange,
}

impl Flaw {
    /// What is wrong, behind the text.
    fn message(self) -> &'static str {
        match self {
            Self::Shape => "is not a date with a time and an offset",
            Self::NoTime => "is a date without a time",
            Self::NoOffset => "has no offset",
            Self::NoSuchDay => "has a day that no calendar has",
            Self::NoSuchTime => "has a time that no clock shows",
            Self::NoSuchOffset => "has an offset that no clock has",
            Self::OutOfRange => "is out of range",
        }
    }

    fn hint(self, text: &str) -> String {
        match self {
            Self::NoTime => format!("write `{text}T00:00:00Z`"),
            Self::NoOffset if text.len() <= 40 => format!("write `{text}Z` if it is in UTC"),
            Self::NoSuchTime => "write `00:00:00` to `23:59:59`".to_owned(),
            Self::NoSuchOffset => "write `Z`, or `+00:00` to `+23:59` with `+` or `-`".to_owned(),
            Self::OutOfRange => "write `1970-01-01T00:00:00Z` to `9999-12-31T23:59:59Z`".to_owned(),
            Self::Shape | Self::NoOffset | Self::NoSuchDay => {
                format!("write {}", DateTime::expected())
            }
        }
    }
}

/// The seconds since the start of 1970.
fn unix_seconds(text: &str) -> Result<u64, Flaw> {
    let mut rest = Rest(text.as_bytes());
    let (year, month, day) = rest.triple::<4>(b'-').ok_or(Flaw::Shape)?;
    if rest.0.is_empty() {
        days(year, month, day)?;
        return Err(Flaw::NoTime);
    }
    rest.one_of(b"Tt").ok_or(Flaw::Shape)?;
    let (hour, minute, second) = rest.triple::<2>(b':').ok_or(Flaw::Shape)?;
    if rest.one_of(b".").is_some() {
        rest.fraction().ok_or(Flaw::Shape)?;
    }
    let days = days(year, month, day)?;
    // No leap seconds: no clock of ours shows them.
    if hour > 23 || minute > 59 || second > 59 {
        return Err(Flaw::NoSuchTime);
    }
    let offset = rest.offset()?;
    if !rest.0.is_empty() {
        return Err(Flaw::Shape);
    }
    let local = (days * 24 + hour) * 3600 + minute * 60 + second;
    let utc = local.checked_add_signed(-offset).ok_or(Flaw::OutOfRange)?;
    (utc <= LAST).then_some(utc).ok_or(Flaw::OutOfRange)
}

/// The last second of 9999.
const LAST: u64 = 253_402_300_799;

/// The days from the start of 1970 to a day of the calendar.
fn days(year: u64, month: u64, day: u64) -> Result<u64, Flaw> {
    const BEFORE: [u64; 12] = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];
    if year < 1970 {
        return Err(Flaw::OutOfRange);
    }
    let is_leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let longest = match month {
        2 if is_leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    };
    let month_index = usize::try_from(month).ok().and_then(|m| m.checked_sub(1));
    let before = month_index.and_then(|index| BEFORE.get(index));
    let before = before.ok_or(Flaw::NoSuchDay)?;
    if day == 0 || day > longest {
        return Err(Flaw::NoSuchDay);
    }
    // Leap days of all years before this one, less those before 1970.
    let past = year - 1;
    let leap_days = past / 4 - past / 100 + past / 400 - 477;
    let this_year = u64::from(is_leap && month > 2);
    Ok((year - 1970) * 365 + leap_days + before + this_year + (day - 1))
}

/// What is left to read.
struct Rest<'a>(&'a [u8]);

impl Rest<'_> {
    /// A number of exactly so many digits.
    fn number<const DIGITS: usize>(&mut self) -> Option<u64> {
        let (digits, rest) = self.0.split_first_chunk::<DIGITS>()?;
        let mut number = 0;
        for digit in digits {
            number = number * 10 + u64::from(char::from(*digit).to_digit(10)?);
        }
        self.0 = rest;
        Some(number)
    }

    /// Three numbers, the second and the third of two digits.
    fn triple<const FIRST: usize>(&mut self, between: u8) -> Option<(u64, u64, u64)> {
        let first = self.number::<FIRST>()?;
        self.one_of(&[between])?;
        let second = self.number::<2>()?;
        self.one_of(&[between])?;
        Some((first, second, self.number::<2>()?))
    }

    fn one_of(&mut self, bytes: &[u8]) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        if !bytes.contains(first) {
            return None;
        }
        self.0 = rest;
        Some(*first)
    }

    /// Passes at least one digit.
    fn fraction(&mut self) -> Option<()> {
        let digits = self.0.iter().take_while(|b| b.is_ascii_digit()).count();
        self.0 = self.0.get(digits..)?;
        (digits > 0).then_some(())
    }

    /// The seconds by which local time is ahead of UTC.
    fn offset(&mut self) -> Result<i64, Flaw> {
        if self.0.is_empty() {
            return Err(Flaw::NoOffset);
        }
        if self.one_of(b"Zz").is_some() {
            return Ok(0);
        }
        let sign = self.one_of(b"+-").ok_or(Flaw::Shape)?;
        let hours = self.number::<2>().ok_or(Flaw::Shape)?;
        self.one_of(b":").ok_or(Flaw::Shape)?;
        let minutes = self.number::<2>().ok_or(Flaw::Shape)?;
        if hours > 23 || minutes > 59 {
            return Err(Flaw::NoSuchOffset);
        }
        let ahead = i64::try_from(hours * 3600 + minutes * 60).map_err(|_| Flaw::NoSuchOffset)?;
        Ok(if sign == b'-' { -ahead } else { ahead })
    }
}

//! How windows, deadlines and allowances are written; all are read exactly, from their text.

use std::time::Duration;

use serde_json::{Value as Json, json};

use super::decode::{Context, Decode};
use super::fault::{Spanned, did_you_mean, quoted};
use super::schema::Defs;
use super::yaml::Node;

/// A span of time in whole seconds: a word, or a number with a unit.
pub(crate) struct Window;

/// The longest window: 366 days.
const MAX_SECONDS: u32 = 366 * 86_400;

const WORDS: [(&str, u32); 4] = [
    ("second", 1),
    ("minute", 60),
    ("hour", 3600),
    ("day", 86_400),
];

impl Decode for Window {
    type Value = Spanned<u32>;

    fn decode(node: &Node, cx: &mut Context) -> Option<Self::Value> {
        let (text, _) = cx.scalar(node, &Self::expected())?;
        match seconds(text) {
            Ok(seconds) => Some(cx.spanned(node, seconds)),
            Err((message, hint)) => cx.fault_with(node, message, hint),
        }
    }

    fn schema(_: &mut Defs) -> Json {
        json!({ "anyOf": [
            { "enum": WORDS.map(|(word, _)| word) },
            { "type": "string", "pattern": "^[0-9]+(ms|s|m|h|d)$" },
        ] })
    }

    fn expected() -> String {
        "`second`, `minute`, `hour`, `day` or a duration such as `30s`".to_owned()
    }
}

/// The seconds of a window, or what is wrong with it and what to do.
fn seconds(text: &str) -> Result<u32, (String, String)> {
    if let Some((_, seconds)) = WORDS.iter().find(|(word, _)| *word == text) {
        return Ok(*seconds);
    }
    let write = || format!("write {}", Window::expected());
    let shown = quoted(text);
    let range = || {
        (
            format!("{shown} is out of range"),
            "write `1s` to `366d`".to_owned(),
        )
    };
    let millis = millis(text).map_err(|flaw| match flaw {
        Flaw::NoNumber => {
            let meant = did_you_mean(text, WORDS.map(|(word, _)| word));
            let hint = meant.map(|word| format!("did you mean `{word}`?"));
            let message = format!("{shown} is not a window");
            (message, hint.unwrap_or_else(write))
        }
        Flaw::NoUnit => (format!("{shown} has no unit"), unit_hint(text, "s", write)),
        Flaw::Fraction => ("windows are whole seconds".to_owned(), write()),
        Flaw::UnknownUnit => {
            let hint = "write a number with one of `s`, `m`, `h` or `d`, such as `90m`";
            (format!("{shown} has an unknown unit"), hint.to_owned())
        }
        Flaw::TooLong => range(),
    })?;
    let whole = u32::try_from(millis.div_ceil(1000)).unwrap_or(u32::MAX);
    if !(1..=MAX_SECONDS).contains(&whole) {
        return Err(range());
    }
    if millis % 1000 != 0 {
        return Err((
            "windows are whole seconds".to_owned(),
            format!("write `{whole}s`"),
        ));
    }
    Ok(whole)
}

/// A span of time in whole milliseconds, from `MIN` to `MAX` of them.
pub(crate) struct Span<const MIN: u64, const MAX: u64>;

/// How long one answer may take.
pub(crate) type Deadline = Span<1, 10_000>;
/// How long something slow may take.
pub(crate) type Timeout = Span<1, 86_400_000>;
/// How much may be added to a time.
pub(crate) type Jitter = Span<0, 3_600_000>;

impl<const MIN: u64, const MAX: u64> Decode for Span<MIN, MAX> {
    type Value = Spanned<Duration>;

    fn decode(node: &Node, cx: &mut Context) -> Option<Self::Value> {
        let (text, _) = cx.scalar(node, &Self::expected())?;
        let write = || format!("write {}", Self::expected());
        let shown = quoted(text);
        // What was most likely meant.
        let unit = match () {
            () if MAX <= 10_000 => "ms",
            () if MIN >= 60_000 => "d",
            () => "s",
        };
        let (message, hint) = match millis(text) {
            Ok(millis) if (MIN..=MAX).contains(&millis) => {
                return Some(cx.spanned(node, Duration::from_millis(millis)));
            }
            Ok(_) | Err(Flaw::TooLong) => (format!("{shown} is out of range"), write()),
            Err(Flaw::NoNumber) => (format!("{shown} is not a duration"), write()),
            Err(Flaw::NoUnit) => (format!("{shown} has no unit"), unit_hint(text, unit, write)),
            Err(Flaw::Fraction) => ("durations are whole milliseconds".to_owned(), write()),
            Err(Flaw::UnknownUnit) => (format!("{shown} has an unknown unit"), write()),
        };
        cx.fault_with(node, message, hint)
    }

    fn schema(_: &mut Defs) -> Json {
        json!({ "type": "string", "pattern": "^[0-9]+(ms|s|m|h|d)$" })
    }

    fn expected() -> String {
        format!("`{}` to `{}`", written(MIN), written(MAX))
    }
}

/// A span in its longest unit.
fn written(millis: u64) -> String {
    let units = UNITS.iter().rev();
    let mut fitting = units.filter(|(_, scale)| millis >= *scale && millis.is_multiple_of(*scale));
    let (unit, scale) = fitting.next().unwrap_or(&UNITS[0]);
    format!("{}{unit}", millis / scale)
}

/// Units and their milliseconds.
const UNITS: [(&str, u64); 5] = [
    ("ms", 1),
    ("s", 1000),
    ("m", 60_000),
    ("h", 3_600_000),
    ("d", 86_400_000),
];

/// Why a text is not a whole number with a unit.
enum Flaw {
    NoNumber,
    NoUnit,
    Fraction,
    UnknownUnit,
    TooLong,
}

/// The milliseconds of a whole number with a unit.
fn millis(text: &str) -> Result<u64, Flaw> {
    let unit_at = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (digits, unit) = text.split_at(unit_at);
    if digits.is_empty() {
        return Err(Flaw::NoNumber);
    }
    if unit.is_empty() {
        return Err(Flaw::NoUnit);
    }
    if unit.starts_with('.') {
        return Err(Flaw::Fraction);
    }
    let scale = UNITS.iter().find(|(name, _)| *name == unit);
    let (_, scale) = scale.ok_or(Flaw::UnknownUnit)?;
    let number = digits.parse::<u64>().map_err(|_| Flaw::TooLong)?;
    number.checked_mul(*scale).ok_or(Flaw::TooLong)
}

/// The number with its unit, or what else to write if it is a long one.
fn unit_hint(digits: &str, unit: &str, otherwise: impl FnOnce() -> String) -> String {
    if digits.len() <= 8 {
        format!("write `{digits}{unit}`")
    } else {
        otherwise()
    }
}

/// A factor from `MIN` to `MAX` with at most three decimals, in thousandths.
pub(crate) struct Factor<const MIN: u32, const MAX: u32>;

/// How much more than the rate may be taken at once.
pub(crate) type Allowance = Factor<1, 1000>;
/// How much more than there is may be given away.
pub(crate) type Overcommit = Factor<1, 2>;

impl<const MIN: u32, const MAX: u32> Decode for Factor<MIN, MAX> {
    type Value = Spanned<u32>;

    fn decode(node: &Node, cx: &mut Context) -> Option<Self::Value> {
        let expected = Self::expected();
        let (text, plain) = cx.scalar(node, &expected)?;
        match thousandths(text) {
            Some(_) if !plain => {
                let message = format!("the text {} is not a number", quoted(text));
                cx.fault_with(node, message, "drop the quotes")
            }
            Some(factor) if (MIN * 1000..=MAX * 1000).contains(&factor) => {
                Some(cx.spanned(node, factor))
            }
            Some(_) => {
                let message = format!("{} is out of range", quoted(text));
                cx.fault_with(node, message, format!("write {expected}"))
            }
            None => {
                let message = format!("{} is not a decimal number", quoted(text));
                cx.fault_with(node, message, format!("write {expected}"))
            }
        }
    }

    fn schema(_: &mut Defs) -> Json {
        json!({ "type": "number", "minimum": MIN, "maximum": MAX })
    }

    fn expected() -> String {
        format!("a number from {MIN} to {MAX} with at most three decimals")
    }
}

/// A decimal number in thousandths; `None` if it is not written as one.
fn thousandths(text: &str) -> Option<u32> {
    let (whole, decimals) = text.split_once('.').unwrap_or((text, "0"));
    let are_digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let has_zero_first = whole.len() > 1 && whole.starts_with('0');
    if !are_digits(whole) || !are_digits(decimals) || has_zero_first || decimals.len() > 3 {
        return None;
    }
    let fraction = format!("{decimals:0<3}").parse::<u32>().ok()?;
    // What does not fit is out of range all the same.
    let whole = whole.parse::<u32>().unwrap_or(u32::MAX);
    Some(whole.saturating_mul(1000).saturating_add(fraction))
}

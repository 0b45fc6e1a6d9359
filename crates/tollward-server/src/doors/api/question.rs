use std::borrow::Cow;
use std::net::IpAddr;
use std::num::IntErrorKind;

use http::StatusCode;
use serde::de::{self, Deserialize, Deserializer};
use serde_json::value::RawValue;
use tollward_engine::Mode;
use tollward_http::Problem;
use tollward_policy::Facts;

/// The body of a check. Texts that need no unescaping are borrowed from it.
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Question<'a> {
    #[serde(borrow, default)]
    tenant: Option<Text<'a>>,
    #[serde(borrow, default)]
    plan: Option<Text<'a>>,
    #[serde(borrow, default)]
    user: Option<Text<'a>>,
    #[serde(borrow, default)]
    client: Option<Text<'a>>,
    #[serde(borrow, default)]
    api_key: Option<Text<'a>>,
    #[serde(borrow, default)]
    ip: Option<Text<'a>>,
    #[serde(borrow, default)]
    method: Option<Text<'a>>,
    #[serde(borrow, default)]
    path: Option<Text<'a>>,
    #[serde(default)]
    cost: Cost,
    #[serde(default)]
    peek: Option<bool>,
}

/// The body of a batch. Its items are read one by one, so that a bad one spoils only itself.
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BatchQuestion<'a> {
    #[serde(borrow)]
    pub(super) checks: Vec<&'a RawValue>,
}

#[derive(Debug, serde::Deserialize)]
#[serde(transparent)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

impl Question<'_> {
    pub(super) fn facts(&self) -> Result<Facts<'_>, Problem> {
        Ok(Facts {
            tenant: as_text(&self.tenant),
            plan: as_text(&self.plan),
            user: as_text(&self.user),
            client: as_text(&self.client),
            api_key: as_text(&self.api_key),
            ip: as_text(&self.ip)
                .filter(|ip| !ip.is_empty())
                .map(address)
                .transpose()?,
            method: as_text(&self.method),
            path: as_text(&self.path),
            cost: self.cost.0,
            ..Facts::default()
        })
    }

    pub(super) fn mode(&self) -> Mode {
        if self.peek == Some(true) {
            Mode::Peek
        } else {
            Mode::Charge
        }
    }
}

fn as_text<'a>(text: &'a Option<Text<'_>>) -> Option<&'a str> {
    text.as_ref().map(|text| &*text.0)
}

fn address(text: &str) -> Result<IpAddr, Problem> {
    text.parse().map_err(|_| {
        let detail =
            "The body is not a check: `ip` is not an address such as 192.0.2.1 or 2001:db8::1.";
        Problem::new(StatusCode::BAD_REQUEST, detail).with("reason", "bad_input")
    })
}

/// The cost asked for; 1 if the request does not say.
#[derive(Clone, Copy, Debug)]
struct Cost(u32);

impl Default for Cost {
    fn default() -> Self {
        Self(1)
    }
}

impl<'de> Deserialize<'de> for Cost {
    /// Reads the text of the number, since some whole numbers cannot be told from others once they are
    /// floats.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = <&RawValue>::deserialize(deserializer)?.get();
        whole(number).map(Cost).ok_or_else(|| {
            let most = u32::MAX;
            de::Error::custom(format_args!(
                "`cost` is not a whole number from 0 to {most}"
            ))
        })
    }
}

/// The value of a JSON number, if it is a whole number that fits, however it is written: `1`, `1.0` and
/// `10e-1` are one. None also for what is no number.
fn whole(json: &str) -> Option<u32> {
    let (is_negative, number) = match json.strip_prefix('-') {
        Some(number) => (true, number),
        None => (false, json),
    };
    let (digits, exponent) = match number.split_once(['e', 'E']) {
        Some((digits, exponent)) => (digits, saturated(exponent)?),
        None => (number, 0),
    };
    let (integer, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    // The digits up to the last that is not 0, and how many zeros follow it.
    let (mut value, mut zeros) = (0_u64, 0_u32);
    for digit in integer.chars().chain(fraction.chars()) {
        match digit.to_digit(10)? {
            0 if value == 0 => {}
            0 => zeros += 1,
            digit => {
                let shift = 10_u64.checked_pow(zeros + 1)?;
                value = value.checked_mul(shift)?.checked_add(digit.into())?;
                zeros = 0;
            }
        }
    }
    if value == 0 {
        return Some(0);
    }
    let places = i64::try_from(fraction.len()).ok()?;
    let exponent = exponent.saturating_add(zeros.into()).saturating_sub(places);
    // Negative: something is left behind the point.
    let scale = 10_u64.checked_pow(u32::try_from(exponent).ok()?)?;
    let value = value.checked_mul(scale).filter(|_| !is_negative)?;
    u32::try_from(value).ok()
}

/// An exponent. One that is too large for any number of ours is as good as the largest.
fn saturated(exponent: &str) -> Option<i64> {
    match exponent.parse::<i64>() {
        Ok(exponent) => Some(exponent),
        Err(error) => match error.kind() {
            IntErrorKind::PosOverflow => Some(i64::MAX),
            IntErrorKind::NegOverflow => Some(i64::MIN),
            _ => None,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::whole;

    #[test]
    fn whole_numbers_are_known_however_they_are_written() {
        for (number, value) in [
            ("0", 0),
            ("-0", 0),
            ("-0.0", 0),
            ("0e999999999999999999999", 0),
            ("0.000e-5", 0),
            ("1", 1),
            ("1.0", 1),
            ("1e0", 1),
            ("1E+0", 1),
            ("1e-0", 1),
            ("1.5e1", 15),
            ("0.001e3", 1),
            ("1200e-2", 12),
            ("100", 100),
            ("1000000000000000000000000000000e-30", 1),
            ("0.00000000000000000000000000000000007e35", 7),
            ("4294967295", u32::MAX),
            ("4294967295.0", u32::MAX),
            ("4294967295.000000000000000000000000000", u32::MAX),
            ("4.294967295e9", u32::MAX),
        ] {
            assert_eq!(whole(number), Some(value), "{number}");
        }
    }

    #[test]
    fn what_is_not_whole_or_does_not_fit_is_no_cost() {
        for number in [
            "1.5",
            "-1",
            "-1.0",
            "0.1",
            "1e-1",
            "15e-1",
            "1e10",
            "4294967296",
            "4294967296.0",
            // As floats, these are the nearest whole number.
            "4294967295.00000001",
            "1.00000000000000000000000000001",
            "0.99999999999999999999999999999",
            "1e-400",
            "1e400",
            "1e99999999999999999999",
            "1e-99999999999999999999",
            "99999999999999999999999999999999999999999",
            "10000000000000000000000000000000000000000",
            "\"1\"",
            "null",
            "true",
            "[]",
            "{}",
        ] {
            assert_eq!(whole(number), None, "{number}");
        }
    }
}

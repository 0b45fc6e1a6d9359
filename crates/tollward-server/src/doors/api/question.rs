use std::borrow::Cow;
use std::fmt;
use std::net::IpAddr;

use http::StatusCode;
use serde::de::{self, Deserialize, Deserializer, Unexpected, Visitor};
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
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(CostVisitor)
    }
}

struct CostVisitor;

impl Visitor<'_> for CostVisitor {
    type Value = Cost;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a `cost` that is a whole number from 0 to {}", u32::MAX)
    }

    fn visit_u64<E: de::Error>(self, cost: u64) -> Result<Cost, E> {
        let too_much = |_| E::invalid_value(Unexpected::Unsigned(cost), &self);
        u32::try_from(cost).map(Cost).map_err(too_much)
    }
}

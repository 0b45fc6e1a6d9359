use std::collections::BTreeMap;
use std::net::IpAddr;

use http::StatusCode;
use serde::Deserialize;
use tollward_http::Problem;
use tollward_policy::{Facts, MAX_KEY_TEXT, OwnedKey};
use utoipa::{IntoParams, ToSchema};

use crate::doors::body;

/// The buckets that are meant.
#[derive(Debug)]
pub(super) enum Selection {
    /// These.
    Keys(Vec<OwnedKey>),
    /// Those of a request like this.
    Request(Given),
}

/// The facts of a request, as they were sent.
#[derive(Debug, Default)]
pub(super) struct Given {
    tenant: Option<String>,
    plan: Option<String>,
    user: Option<String>,
    client: Option<String>,
    api_key: Option<String>,
    ip: Option<IpAddr>,
    method: Option<String>,
    path: Option<String>,
}

/// Which buckets are meant: either.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = BucketSelection)]
pub(super) struct Body {
    /// Buckets by their keys, at most 100.
    #[serde(default)]
    keys: Vec<String>,
    /// A caller by its facts: `tenant`, `plan`, `user`, `client`, `api_key`, `ip`, `method` and `path`.
    #[serde(default)]
    facts: BTreeMap<String, Option<String>>,
}

/// What is known of a request.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "describes what is read pair by pair")]
pub(super) struct FactParams {
    /// The tenant.
    tenant: Option<String>,
    /// The plan, which overrides what key, user and tenant say.
    plan: Option<String>,
    /// The user.
    user: Option<String>,
    /// The client.
    client: Option<String>,
    /// The API key itself.
    api_key: Option<String>,
    /// The caller's address.
    ip: Option<String>,
    /// The HTTP method.
    method: Option<String>,
    /// The path.
    path: Option<String>,
}

/// The most keys at once.
const MAX_KEYS: usize = 100;
const FACTS: &str = "`tenant`, `plan`, `user`, `client`, `api_key`, `ip`, `method` and `path`";

impl Selection {
    /// Reads a query: `key`, several times if need be, or facts.
    pub(super) fn from_query(query: &str) -> Result<Self, Problem> {
        let (mut keys, mut facts) = (Vec::new(), Vec::new());
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            if name == "key" {
                keys.push(value.into_owned());
            } else {
                facts.push((name.into_owned(), value.into_owned()));
            }
        }
        Self::new(&keys, facts)
    }

    /// Reads a body: `{"keys": [..]}` or `{"facts": {..}}`.
    pub(super) fn from_body(text: &[u8]) -> Result<Self, Problem> {
        let body: Body = body::read_object(text, "a choice of buckets")?;
        let given = body.facts.into_iter();
        let facts = given.filter_map(|(name, value)| Some((name, value?)));
        Self::new(&body.keys, facts.collect())
    }

    fn new(keys: &[String], facts: Vec<(String, String)>) -> Result<Self, Problem> {
        if keys.len() > MAX_KEYS {
            let detail =
                format!("At most {MAX_KEYS} keys are taken at once. Send several requests.");
            return Err(bad_input(detail));
        }
        match (keys.is_empty(), facts.is_empty()) {
            (true, true) => Err(bad_input(format!(
                "Name a bucket by its key, or a caller by its facts: {FACTS}."
            ))),
            (false, false) => Err(bad_input("Give keys or facts, not both.")),
            (false, true) => {
                let keys = keys.iter().map(|text| read_key(text));
                Ok(Self::Keys(keys.collect::<Result<_, _>>()?))
            }
            (true, false) => Ok(Self::Request(Given::new(facts)?)),
        }
    }
}

impl Given {
    /// Reads a query of nothing but facts, which may be none.
    pub(super) fn from_query(query: &str) -> Result<Self, Problem> {
        let pairs = form_urlencoded::parse(query.as_bytes());
        Self::new(pairs.into_owned().collect())
    }

    /// Reads facts of a body.
    pub(super) fn from_body(facts: BTreeMap<String, Option<String>>) -> Result<Self, Problem> {
        let given = facts.into_iter();
        let facts = given.filter_map(|(name, value)| Some((name, value?)));
        Self::new(facts.collect())
    }

    fn new(facts: Vec<(String, String)>) -> Result<Self, Problem> {
        let mut given = Self::default();
        let mut unknown = Vec::new();
        for (name, value) in facts {
            let is_empty = value.is_empty();
            let before = match &*name {
                "tenant" => given.tenant.replace(value),
                "plan" => given.plan.replace(value),
                "user" => given.user.replace(value),
                "client" => given.client.replace(value),
                "api_key" => given.api_key.replace(value),
                "method" => given.method.replace(value),
                "path" => given.path.replace(value),
                "ip" => {
                    let ip = value.parse().map_err(|_| {
                        bad_input("`ip` is not an address such as 192.0.2.1 or 2001:db8::1.")
                    })?;
                    given.ip.replace(ip).map(|ip| ip.to_string())
                }
                _ => {
                    unknown.push(format!("{name:?}"));
                    continue;
                }
            };
            if before.is_some() {
                return Err(bad_input(format!("`{name}` is given twice.")));
            }
            // It would mean the bucket of all who have none, which is hardly meant.
            if is_empty {
                return Err(bad_input(format!("`{name}` is empty.")));
            }
        }
        if unknown.is_empty() {
            return Ok(given);
        }
        let unknown = unknown.join(", ");
        Err(bad_input(format!(
            "There is no fact {unknown}: there are {FACTS}."
        )))
    }

    pub(super) fn facts(&self) -> Facts<'_> {
        Facts {
            tenant: self.tenant.as_deref(),
            plan: self.plan.as_deref(),
            user: self.user.as_deref(),
            client: self.client.as_deref(),
            api_key: self.api_key.as_deref(),
            ip: self.ip,
            method: self.method.as_deref(),
            path: self.path.as_deref(),
            ..Facts::default()
        }
    }
}

fn read_key(text: &str) -> Result<OwnedKey, Problem> {
    text.parse().map_err(|error| {
        let which = if text.len() <= 2 * MAX_KEY_TEXT {
            format!("{text:?}")
        } else {
            format!("A text of {} bytes", text.len())
        };
        bad_input(format!(
            "{which} is not a key that can be looked up: {error}."
        ))
    })
}

fn bad_input(detail: impl Into<String>) -> Problem {
    Problem::new(StatusCode::BAD_REQUEST, detail).with("reason", "bad_input")
}

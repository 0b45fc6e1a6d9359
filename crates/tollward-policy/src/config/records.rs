//! The directory and what is recorded in it, as they are written.

use std::time::Duration;

use serde_json::{Value as Json, json};

use super::decode::{Context, Decode};
use super::directory_url::DirectoryUrl;
use super::duration::Span;
use super::fault::Spanned;
use super::gateway::AccessLog;
use super::record::{record, words};
use super::schema::Defs;
use super::yaml::Node;

/// 3660 days, in milliseconds.
const LONGEST: u64 = 3660 * 86_400_000;

/// How long something is kept.
type Retention = Span<60_000, LONGEST>;

record! {
    /// Where tenants, users, keys, the audit trail and usage live beside this file.
    pub struct Directory {
        /// The database: `sqlite:` or `postgres://`; the memory of this process unless told
        /// otherwise.
        url: Option<Spanned<DirectoryUrl>> = optional Url,
        /// How long what was last read of it holds while it cannot be reached, from 1 s to 7 d; `10m`
        /// unless told otherwise.
        max_stale: Option<Spanned<Duration>> = optional Span<1000, { 7 * 86_400_000 }>,
        /// What becomes of the API keys in it after that; `serve` unless told otherwise.
        stale: Option<Spanned<Stale>> = optional Stale,
    }
}

words! {
    /// What becomes of the API keys of a directory that has not been reached for too long.
    pub enum Stale {
        /// They hold as they were last read.
        Serve = "serve",
        /// Requests with one of them are answered 503.
        Refuse = "refuse",
    }
}

record! {
    /// What is written of refusals and changes.
    pub struct Audit {
        /// Where they go as lines of JSON, besides the directory: `off`, `stdout`, or a file; `off`
        /// unless told otherwise.
        log: Option<Spanned<AccessLog>> = optional AccessLog,
        /// How long refusals of one caller by one limit are one event, from 1 s to 1 h; `60s` unless
        /// told otherwise.
        interval: Option<Spanned<Duration>> = optional Span<1000, 3_600_000>,
        /// How long the directory keeps events, from 1 m to 3660 d; `90d` unless told otherwise.
        retention: Option<Spanned<Duration>> = optional Retention,
    }
}

record! {
    /// How use is summed up, and how long that is kept.
    pub struct Usage {
        /// How often sums are written to the directory, from 1 s to 60 s; `5s` unless told otherwise.
        interval: Option<Spanned<Duration>> = optional Span<1000, 60_000>,
        /// How long sums are kept.
        retention: Option<UsageRetention> = optional UsageRetention,
    }
}

record! {
    /// How long sums of use are kept.
    pub struct UsageRetention {
        /// Those of a minute, from 10 m to 3660 d; `2d` unless told otherwise.
        minute: Option<Spanned<Duration>> = optional Span<600_000, LONGEST>,
        /// Those of an hour, from 1 m to 3660 d; `60d` unless told otherwise.
        hour: Option<Spanned<Duration>> = optional Retention,
        /// Those of a day, from 1 m to 3660 d; `800d` unless told otherwise.
        day: Option<Spanned<Duration>> = optional Retention,
    }
}

/// The URL of a directory. Faults do not show the text: it may hold a password.
struct Url;

impl Decode for Url {
    type Value = Spanned<DirectoryUrl>;

    fn decode(node: &Node, cx: &mut Context) -> Option<Self::Value> {
        let (text, _) = cx.scalar(node, &Self::expected())?;
        match text.parse() {
            Ok(url) => Some(cx.spanned(node, url)),
            Err(fault) => cx.fault_with(node, fault.message, fault.hint),
        }
    }

    fn schema(_: &mut Defs) -> Json {
        json!({ "type": "string", "examples": [
            "sqlite:tollward.db",
            "sqlite::memory:",
            "postgres://USER:PASSWORD@db.example.com/tollward",
        ] })
    }

    fn expected() -> String {
        "a URL such as `sqlite:tollward.db` or `postgres://HOST/DATABASE`".to_owned()
    }
}

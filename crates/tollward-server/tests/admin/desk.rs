//! Somebody at the admin door of a server.

use std::net::SocketAddr;
use std::path::Path;

use serde_json::Value;
use tollward_policy::DirectoryUrl;
use tollward_server::Options;
use tollward_testkit::http::{Connection, Response};

use crate::served::{Served, json};

pub(crate) const TOKEN: &str = "s3cret-of-the-operator";

/// Plans, a file tenant with a budget, and a key of the file.
pub(crate) const CONFIG: &str = "
identity: { anonymous: allow }
plans:
  free: { rate_limit: { sustained: { rate: 10, window: minute }, scope: tenant } }
  pro: { rate_limit: { sustained: { rate: 1000, window: minute }, scope: tenant } }
tenants:
  partner:
    plan: pro
    rate_limit:
      sustained: { rate: 5000, window: minute }
      sharing: enforce
      budget: { mode: allocated, total: 5000, overcommit_ratio: 1.0 }
  partner-child: { parent: partner, rate_limit: { sustained: { rate: 1000, window: minute } } }
allow: [ { cidr: 192.0.2.0/24, reason: office } ]
";

/// A caller of the admin API with a token.
pub(crate) struct Desk<'a> {
    pub(crate) served: &'a Served,
    token: String,
}

/// A server with the directory in memory.
pub(crate) fn served() -> Served {
    with(CONFIG, |_| {})
}

/// A server with the directory in a file.
pub(crate) fn served_from(file: &Path) -> Served {
    with(CONFIG, |options| {
        options.directory = Some(DirectoryUrl::Sqlite(file.to_owned()));
    })
}

pub(crate) fn with(config: &str, change: impl FnOnce(&mut Options)) -> Served {
    Served::with(config, |options| {
        options.admin_token = Some(TOKEN.to_owned());
        change(options);
    })
}

impl<'a> Desk<'a> {
    pub(crate) fn of(served: &'a Served) -> Self {
        Self::bearing(served, TOKEN)
    }

    pub(crate) fn bearing(served: &'a Served, token: &str) -> Self {
        Self {
            served,
            token: token.to_owned(),
        }
    }

    /// Asks for something below `/admin/v1/`.
    pub(crate) fn ask(
        &self,
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
        body: &Value,
    ) -> Response {
        let bearer = format!("Bearer {}", self.token);
        let mut all = vec![("authorization", bearer.as_str())];
        all.extend_from_slice(headers);
        let text = if body.is_null() {
            String::new()
        } else {
            body.to_string()
        };
        send(self.served.admin, method, target, &all, text.as_bytes())
    }

    pub(crate) fn get(&self, target: &str) -> Response {
        self.ask("GET", target, &[], &Value::Null)
    }

    pub(crate) fn post(&self, target: &str, body: &Value) -> Response {
        self.ask("POST", target, &[], body)
    }

    /// Does something to what is there.
    pub(crate) fn act(&self, target: &str, version: &str, body: &Value) -> Response {
        self.ask("POST", target, &[("if-match", version)], body)
    }

    pub(crate) fn patch(&self, target: &str, version: &str, body: &Value) -> Response {
        self.ask("PATCH", target, &[("if-match", version)], body)
    }

    pub(crate) fn delete(&self, target: &str, version: &str) -> Response {
        self.ask("DELETE", target, &[("if-match", version)], &Value::Null)
    }

    /// What is there, which it has to be.
    pub(crate) fn shown(&self, target: &str) -> Value {
        ok(&self.get(target), 200)
    }

    /// Makes something, which has to be possible.
    pub(crate) fn made(&self, target: &str, body: &Value) -> Value {
        ok(&self.post(target, body), 201)
    }
}

/// Sends a request to `/admin/v1/`.
pub(crate) fn send(
    admin: SocketAddr,
    method: &str,
    target: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> Response {
    let mut connection = Connection::open(admin).unwrap();
    let target = format!("/admin/v1/{target}");
    let response = connection.request(method, &target, headers, body);
    response.unwrap_or_else(|error| panic!("{method} {target}: {error}"))
}

/// The body of an answer of this status.
pub(crate) fn ok(response: &Response, status: u16) -> Value {
    assert_eq!(response.status, status, "{}", response.text());
    assert_eq!(response.header("cache-control"), Some("no-store"));
    json(response)
}

/// The `ETag` of what is shown.
pub(crate) fn tag(shown: &Value) -> String {
    format!("\"{}\"", shown["version"].as_i64().unwrap())
}

/// A problem of this status and reason.
#[track_caller]
pub(crate) fn refused(response: &Response, status: u16, reason: &str) -> Value {
    assert_eq!(response.status, status, "{}", response.text());
    let media_type = response.header("content-type");
    assert_eq!(media_type, Some("application/problem+json"));
    let problem = json(response);
    assert_eq!(problem["status"], status, "{problem}");
    assert_eq!(problem["reason"], reason, "{problem}");
    problem
}

/// A limit of so many a minute.
pub(crate) fn per_minute(rate: u32) -> Value {
    serde_json::json!({ "sustained": { "rate": rate, "window": "minute" } })
}

//! Somebody at the admin door of a node.

use std::io;
use std::net::SocketAddr;

use serde_json::Value;
use tollward_testkit::http::{Connection, Response};

use crate::served::json;

pub(crate) const TOKEN: &str = "s3cret-of-the-operator";

/// A caller of the admin API with a token.
#[derive(Clone)]
pub(crate) struct Desk {
    admin: SocketAddr,
    bearer: String,
}

impl Desk {
    pub(crate) fn new(admin: SocketAddr, token: &str) -> Self {
        Self {
            admin,
            bearer: format!("Bearer {token}"),
        }
    }

    /// Asks for something below `/admin/v1/`; changes whatever version it has.
    pub(crate) fn try_ask(&self, method: &str, target: &str, body: &Value) -> io::Result<Response> {
        let mut connection = Connection::open(self.admin)?;
        let target = format!("/admin/v1/{target}");
        let headers = [("authorization", self.bearer.as_str()), ("if-match", "*")];
        let text = match body {
            Value::Null => String::new(),
            body => body.to_string(),
        };
        connection.request(method, &target, &headers, text.as_bytes())
    }

    #[track_caller]
    pub(crate) fn ask(&self, method: &str, target: &str, body: &Value) -> Response {
        let response = self.try_ask(method, target, body);
        response.unwrap_or_else(|error| panic!("{method} {target}: {error}"))
    }

    #[track_caller]
    pub(crate) fn get(&self, target: &str) -> Response {
        self.ask("GET", target, &Value::Null)
    }

    /// What is there, which it has to be.
    #[track_caller]
    pub(crate) fn shown(&self, target: &str) -> Value {
        done(&self.get(target), 200)
    }

    /// Makes something, which has to be possible.
    #[track_caller]
    pub(crate) fn made(&self, target: &str, body: &Value) -> Value {
        done(&self.ask("POST", target, body), 201)
    }

    /// Changes something, which has to be possible.
    #[track_caller]
    pub(crate) fn changed(&self, method: &str, target: &str, body: &Value) -> Value {
        done(&self.ask(method, target, body), 200)
    }
}

#[track_caller]
fn done(response: &Response, status: u16) -> Value {
    assert_eq!(response.status, status, "{}", response.text());
    json(response)
}

/// A text of an answer.
#[track_caller]
pub(crate) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("no text: {value}"))
}

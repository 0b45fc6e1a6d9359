//! Where a server of HTTP is, as a URL.

use super::host::{HostWords, host_and_port};
use crate::path::{self, PathOptions};

/// The longest URL, in bytes.
const MAX_URL: usize = 2048;

/// A server of HTTP, and a path on it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HttpUrl {
    /// Whether it is `https://`.
    pub tls: bool,
    /// A name or an address, that of IPv6 without brackets.
    pub host: Box<str>,
    /// The port.
    pub port: u16,
    /// Nothing, or a path without a slash at its end.
    pub path: Box<str>,
}

/// What is wrong with a URL. Neither part shows any of it: it may hold a password.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct UrlFault {
    pub(crate) message: String,
    pub(crate) hint: String,
}

type Parsed<T> = Result<T, UrlFault>;

fn wrong<T>(message: impl Into<String>, hint: impl Into<String>) -> Parsed<T> {
    Err(UrlFault {
        message: message.into(),
        hint: hint.into(),
    })
}

impl HttpUrl {
    /// Reads a URL. A query is left out where it may stand.
    pub(crate) fn parse(text: &str, may_have_query: bool) -> Parsed<Self> {
        if text.len() > MAX_URL {
            let message = format!("the URL has {} bytes, more than {MAX_URL}", text.len());
            return wrong(message, "write a shorter one");
        }
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            let hint = "write other characters as their escapes, as `%20` for a space";
            return wrong("the URL has a character that no URL has", hint);
        }
        let (tls, rest) = scheme(text)?;
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, behind) = rest.split_at(end);
        if authority.contains('@') {
            let hint = "remove what stands before the `@`, and the `@`";
            return wrong("a user or password in the URL", hint);
        }
        if behind.contains('#') {
            return wrong("a `#` in the URL", "remove it and what follows");
        }
        let (path, query) = match behind.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (behind, None),
        };
        if query.is_some() && !may_have_query {
            return wrong("a query in the URL", "remove the `?` and what follows");
        }
        let (host, port) = host(authority, if tls { 443 } else { 80 })?;
        Ok(Self {
            tls,
            host,
            port,
            path: prefix(path)?,
        })
    }
}

fn scheme(text: &str) -> Parsed<(bool, &str)> {
    const WRITE: &str = "write for example `http://127.0.0.1:9000`";
    let Some((scheme, rest)) = text.split_once("://") else {
        return wrong("not a URL", WRITE);
    };
    match scheme {
        _ if scheme.eq_ignore_ascii_case("http") => Ok((false, rest)),
        _ if scheme.eq_ignore_ascii_case("https") => Ok((true, rest)),
        _ => wrong("neither `http://` nor `https://`", WRITE),
    }
}

fn host(text: &str, default_port: u16) -> Parsed<(Box<str>, u16)> {
    const WORDS: HostWords = HostWords {
        missing: "write for example `127.0.0.1:9000`",
        name: "write a name such as `app.example.com`, or an address",
        port: "the port is not a number from 1 to 65535",
        port_hint: "write `HOST:PORT`",
    };
    match host_and_port(text, default_port, &WORDS) {
        Ok((host, port)) => Ok((host.to_ascii_lowercase().into(), port)),
        Err((message, hint)) => wrong(message, hint),
    }
}

/// The path as it stands before others.
fn prefix(path: &str) -> Parsed<Box<str>> {
    const OPTIONS: PathOptions = PathOptions {
        fold_case: false,
        keep_encoded_slash: true,
    };
    if path.is_empty() {
        return Ok("".into());
    }
    match path::forwardable(path, OPTIONS) {
        Ok(normal) if normal == path => Ok(path.strip_suffix('/').unwrap_or(path).into()),
        Ok(normal) => wrong("a path that is not normal", format!("write `{normal}`")),
        Err(fault) => wrong(fault.to_string(), "write for example `/base`"),
    }
}

//! Where a server of HTTP is, as a URL.

use std::net::Ipv6Addr;

use crate::path::{self, PathOptions};

/// The longest URL, in bytes.
const MAX_URL: usize = 2048;
/// The longest host name of the DNS.
const MAX_HOST: usize = 253;

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
    if text.parse::<Ipv6Addr>().is_ok() {
        let hint = "write it as `[2001:db8::1]`";
        return wrong("an IPv6 address without brackets", hint);
    }
    let (host, port) = match text.strip_prefix('[') {
        Some(inner) => {
            let address = inner.split_once(']');
            let address = address.and_then(|(ip, port)| Some((ip.parse::<Ipv6Addr>().ok()?, port)));
            let Some((ip, port)) = address else {
                return wrong("not an IPv6 address", "write it as `[2001:db8::1]`");
            };
            (ip.to_string(), port)
        }
        None => {
            let (host, port) = text.split_at(text.find(':').unwrap_or(text.len()));
            let is_host = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_');
            if host.is_empty() {
                return wrong("a host is missing", "write for example `127.0.0.1:9000`");
            }
            if host.len() > MAX_HOST || !host.bytes().all(is_host) {
                let hint = "write a name such as `app.example.com`, or an address";
                return wrong("not the name of a host", hint);
            }
            (host.to_ascii_lowercase(), port)
        }
    };
    let port = match port.strip_prefix(':') {
        Some(port) if port.bytes().all(|byte| byte.is_ascii_digit()) => port.parse().ok(),
        None if port.is_empty() => Some(default_port),
        _ => None,
    };
    match port.filter(|port| *port > 0) {
        Some(port) => Ok((host.into(), port)),
        None => wrong(
            "the port is not a number from 1 to 65535",
            "write `HOST:PORT`",
        ),
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

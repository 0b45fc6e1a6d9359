//! Origins of web pages, as `cors.origins` lists them.

use serde_json::{Value as Json, json};

use super::decode::{Context, Decode};
use super::fault::{Spanned, quoted};
use super::host::{HostWords, host_and_port};
use super::schema::Defs;
use super::yaml::Node;

/// The longest origin, in bytes.
const MAX_ORIGIN: usize = 512;

const EXAMPLE: &str = "write for example `https://app.example.com`";

/// Which origins of web pages are meant. The origin `null` is never meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// `*`: every origin but `null`.
    Any,
    /// This origin, byte for byte as browsers send it: `https://app.example.com:8443`, in lower case, without
    /// the default port of its scheme.
    Exact(Box<str>),
    /// `https://*.example.com`: every origin with exactly one label in place of the `*`.
    Subdomain {
        /// What stands before the label: `https://`.
        scheme: Box<str>,
        /// What stands after the label, with its dot: `.example.com` or `.example.com:8443`.
        domain: Box<str>,
    },
}

/// A message and a hint.
type OriginFault = (String, String);

impl Origin {
    fn parse(text: &str) -> Result<Self, OriginFault> {
        if text == "*" {
            return Ok(Self::Any);
        }
        if text.eq_ignore_ascii_case("null") {
            let message = "`null` is sent by every page without an origin, of whatever site";
            let hint = "serve the page from an origin of its own, and name that";
            return Err((message.into(), hint.into()));
        }
        if text.len() > MAX_ORIGIN {
            let message = format!(
                "the origin has {} bytes, more than {MAX_ORIGIN}",
                text.len()
            );
            return Err((message, EXAMPLE.into()));
        }
        let Some((scheme, rest)) = text.split_once("://") else {
            return Err(without_scheme(text));
        };
        let normal_scheme = normal_scheme(scheme)?;
        let end = rest.find(['/', '?', '#', '\\']).unwrap_or(rest.len());
        let (authority, behind) = rest.split_at(end);
        if authority.contains('@') {
            let hint = "remove what stands before the `@`, and the `@`";
            return Err(("a user or password in the origin".into(), hint.into()));
        }
        let (label, host) = match authority.strip_prefix("*.") {
            Some(domain) => ("*.", domain),
            None => ("", authority),
        };
        if host.contains('*') {
            let message = "`*` stands for one whole label, the first of the host";
            let hint = "write `https://*.example.com`, or `\"*\"` alone for every origin";
            return Err((message.into(), hint.into()));
        }
        let host = normal_host(&normal_scheme, host)?;
        if !label.is_empty() && !is_domain(&host) {
            let message = "`*` needs a domain of two labels or more behind it";
            return Err((message.into(), "write `https://*.example.com`".into()));
        }
        let normal = format!("{normal_scheme}://{label}{host}");
        if normal != text {
            let message = match behind {
                "/" => "an origin has no slash at its end",
                "" if normal.eq_ignore_ascii_case(text) => "browsers send origins in lower case",
                "" => "browsers send this origin in another form",
                _ => "an origin has no path, query or fragment",
            };
            return Err((message.into(), format!("write `{normal}`")));
        }
        Ok(match label {
            "" => Self::Exact(normal.into()),
            _ => Self::Subdomain {
                scheme: format!("{normal_scheme}://").into(),
                domain: format!(".{host}").into(),
            },
        })
    }

    /// As it is written.
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Any => "*".into(),
            Self::Exact(text) => text.to_string(),
            Self::Subdomain { scheme, domain } => format!("{scheme}*{domain}"),
        }
    }
}

fn without_scheme(text: &str) -> OriginFault {
    let host = text.to_ascii_lowercase();
    let hint = match normal_host("https", &host) {
        Ok(host) if !host.ends_with(':') => format!("write `https://{host}`"),
        _ => EXAMPLE.into(),
    };
    ("not an origin: it has no scheme".into(), hint)
}

fn normal_scheme(scheme: &str) -> Result<String, OriginFault> {
    let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
    if !scheme.starts_with(|c: char| c.is_ascii_alphabetic()) || !scheme.bytes().all(is_inner) {
        return Err(("not an origin: its scheme is none".into(), EXAMPLE.into()));
    }
    let scheme = scheme.to_ascii_lowercase();
    match &*scheme {
        "file" | "data" | "blob" | "ws" | "wss" | "ftp" => {
            let message = format!("no page has an origin with the scheme `{scheme}`");
            Err((message, EXAMPLE.into()))
        }
        _ => Ok(scheme),
    }
}

/// A host and its port as browsers send them.
fn normal_host(scheme: &str, text: &str) -> Result<String, OriginFault> {
    const WORDS: HostWords = HostWords {
        missing: EXAMPLE,
        name: "write a name such as `app.example.com` (as `xn--…` if it is not ASCII), or an address",
        port: "the port is not a number from 1 to 65535",
        port_hint: "write `https://HOST:PORT`",
    };
    let default_port = match scheme {
        "http" => 80,
        "https" => 443,
        // No port is 0, so a port is never left out.
        _ => 0,
    };
    let (host, port) = host_and_port(text, default_port, &WORDS)
        .map_err(|(message, hint)| (message.to_owned(), hint.to_owned()))?;
    let host = match host.contains(':') {
        true => format!("[{host}]"),
        false => host.to_ascii_lowercase(),
    };
    Ok(match port == default_port {
        true => host,
        false => format!("{host}:{port}"),
    })
}

/// Whether a host, which may have a port, is a name of two labels or more.
fn is_domain(host: &str) -> bool {
    let name = host.split(':').next().unwrap_or_default();
    let labels = name.split('.');
    let is_name = !name
        .split('.')
        .all(|it| it.bytes().all(|b| b.is_ascii_digit()));
    labels.clone().count() >= 2 && labels.clone().all(|label| !label.is_empty()) && is_name
}

impl Decode for Origin {
    type Value = Spanned<Self>;

    fn decode(node: &Node, cx: &mut Context) -> Option<Self::Value> {
        let (text, _) = cx.scalar(node, &Self::expected())?;
        match Self::parse(text) {
            Ok(origin) => Some(cx.spanned(node, origin)),
            Err((message, hint)) => {
                let message = format!("{}: {message}", quoted(text));
                cx.fault_with(node, message, hint)
            }
        }
    }

    fn schema(_: &mut Defs) -> Json {
        json!({
            "type": "string",
            "pattern": "^(\\*|[a-z][a-z0-9+.-]*://[^/?#@\\\\]+)$",
            "examples": ["https://app.example.com", "https://*.example.com", "*"],
        })
    }

    fn expected() -> String {
        "an origin such as `https://app.example.com`".to_owned()
    }
}

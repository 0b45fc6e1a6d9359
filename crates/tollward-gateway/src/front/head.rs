//! What a request must be before anybody else sees it.

use std::net::Ipv6Addr;

use http::header::{CONTENT_LENGTH, EXPECT, HOST, HeaderMap, HeaderName, HeaderValue, UPGRADE};
use http::request::Parts;
use http::uri::PathAndQuery;
use http::{Method, StatusCode, Uri, Version};
use http_body::Body as _;
use hyper::body::Incoming;
use hyper::upgrade::OnUpgrade;

use super::framing::{Head, Length};

const HTTP2_SETTINGS: HeaderName = HeaderName::from_static("http2-settings");

/// Why a request is not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) status: StatusCode,
    pub(super) detail: &'static str,
}

impl Refusal {
    pub(super) fn new(status: StatusCode, detail: &'static str) -> Self {
        Self { status, detail }
    }

    pub(super) fn too_long() -> Self {
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "the body is too long")
    }
}

fn bad(detail: &'static str) -> Refusal {
    Refusal::new(StatusCode::BAD_REQUEST, detail)
}

/// Whether hyper and we have read the same message.
pub(super) fn agree(head: Option<Head>, body: &Incoming) -> Result<(), Refusal> {
    let Some(head) = head else {
        return Err(bad("the message is not well delimited"));
    };
    if let Some(fault) = head.fault {
        return Err(bad(fault));
    }
    let agrees = match (head.length, body.size_hint().exact()) {
        (Length::Sized(ours), Some(theirs)) => ours == theirs,
        (Length::Chunked, None) => true,
        _ => false,
    };
    agrees
        .then_some(())
        .ok_or_else(|| bad("the length of the message is ambiguous"))
}

/// Checks a request, and gives it one form whatever it came in: its target starts with a slash (or is
/// `*`), and what it is meant for is in one Host.
pub(super) fn admit(
    request: &mut Parts,
    body: &Incoming,
    max_body: Option<u64>,
) -> Result<(), Refusal> {
    if request.method == Method::CONNECT {
        let detail = "this is not a forward proxy";
        return Err(Refusal::new(StatusCode::NOT_IMPLEMENTED, detail));
    }
    let has_body = !body.is_end_stream();
    if request.method == Method::TRACE && has_body {
        return Err(bad("TRACE has no body"));
    }
    admit_host(request)?;
    admit_target(request)?;
    admit_expectation(&request.headers)?;
    let length = body.size_hint().exact().unwrap_or(0);
    if max_body.is_some_and(|most| length > most) {
        return Err(Refusal::too_long());
    }
    if request.version == Version::HTTP_2 && !body.is_end_stream() {
        // RFC 9113 has a length there at most once; h2 takes the first.
        at_most_one(
            &request.headers,
            CONTENT_LENGTH,
            "more than one Content-Length",
        )?;
    }
    forget_bad_upgrades(request, has_body);
    Ok(())
}

/// Leaves one Host, which is right, or on HTTP/1.0 none.
fn admit_host(request: &mut Parts) -> Result<(), Refusal> {
    let host = at_most_one(&request.headers, HOST, "more than one Host")?;
    if host.is_some_and(|host| !is_authority(host.as_bytes())) {
        return Err(bad("Host is not a name and a port"));
    }
    let Some(authority) = request.uri.authority() else {
        return match host {
            None if request.version != Version::HTTP_10 => Err(bad("no Host")),
            _ => Ok(()),
        };
    };
    if !is_authority(authority.as_str().as_bytes()) {
        return Err(bad("the target's authority is not a name and a port"));
    }
    let is_same = |host: &HeaderValue| {
        let authority = authority.as_str().as_bytes();
        host.as_bytes().eq_ignore_ascii_case(authority)
    };
    match host {
        Some(host) if is_same(host) => return Ok(()),
        Some(_) if request.version == Version::HTTP_2 => {
            return Err(bad("Host is not the authority"));
        }
        None if request.version == Version::HTTP_11 => return Err(bad("no Host")),
        // RFC 9112: a target in absolute form counts, whatever Host says.
        _ => {}
    }
    let authority = HeaderValue::from_str(authority.as_str());
    let authority =
        authority.map_err(|_| bad("the target's authority is not a name and a port"))?;
    request.headers.insert(HOST, authority);
    Ok(())
}

/// Leaves the path and the query.
fn admit_target(request: &mut Parts) -> Result<(), Refusal> {
    let uri = &request.uri;
    match uri.scheme_str() {
        None if uri.authority().is_some() => return Err(bad("the target has no path")),
        None | Some("http" | "https") => {}
        Some(_) => return Err(bad("the target is not of http")),
    }
    let target = match uri.path_and_query() {
        Some(target) => target.clone(),
        None => PathAndQuery::from_static("/"),
    };
    let is_whole_server = target == "*" && request.method == Method::OPTIONS;
    let is_path = target.as_str().starts_with('/');
    if !is_whole_server && !is_path {
        return Err(bad("the target does not start with a slash"));
    }
    if uri.authority().is_some() {
        request.uri = Uri::from(target);
    }
    Ok(())
}

fn admit_expectation(headers: &HeaderMap) -> Result<(), Refusal> {
    let mut expectations = headers.get_all(EXPECT).iter();
    let is_known = |value: &HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"100-continue");
    match (expectations.next(), expectations.next()) {
        (None, _) => Ok(()),
        (Some(one), None) if is_known(one) => Ok(()),
        _ => Err(Refusal::new(
            StatusCode::EXPECTATION_FAILED,
            "only `100-continue` may be expected",
        )),
    }
}

/// Nobody is to upgrade to HTTP/2 behind our back, nor while there is a body to read first.
fn forget_bad_upgrades(request: &mut Parts, has_body: bool) {
    let values = request.headers.get_all(UPGRADE);
    let is_h2c = |value: &HeaderValue| {
        let mut protocols = value.as_bytes().split(|byte| *byte == b',');
        protocols.any(|protocol| protocol.trim_ascii().eq_ignore_ascii_case(b"h2c"))
    };
    if has_body || values.iter().any(is_h2c) {
        request.headers.remove(UPGRADE);
        request.headers.remove(HTTP2_SETTINGS);
        request.extensions.remove::<OnUpgrade>();
    }
}

fn at_most_one<'h>(
    headers: &'h HeaderMap,
    name: HeaderName,
    fault: &'static str,
) -> Result<Option<&'h HeaderValue>, Refusal> {
    let mut values = headers.get_all(name).iter();
    let first = values.next();
    match values.next() {
        None => Ok(first),
        Some(_) => Err(bad(fault)),
    }
}

/// A name or an address, perhaps with a port, and nothing else: what RFC 3986 allows beyond that is
/// no host that anybody has.
fn is_authority(text: &[u8]) -> bool {
    let (host, port) = match text {
        [b'[', rest @ ..] => {
            let Some(end) = rest.iter().position(|byte| *byte == b']') else {
                return false;
            };
            let address = std::str::from_utf8(&rest[..end]);
            if !address.is_ok_and(|address| address.parse::<Ipv6Addr>().is_ok()) {
                return false;
            }
            match &rest[end + 1..] {
                [] => return true,
                [b':', port @ ..] => (None, Some(port)),
                _ => return false,
            }
        }
        _ => match text.iter().position(|byte| *byte == b':') {
            Some(colon) => (Some(&text[..colon]), Some(&text[colon + 1..])),
            None => (Some(text), None),
        },
    };
    let is_name = |host: &[u8]| !host.is_empty() && host.iter().all(|byte| is_host_byte(*byte));
    host.is_none_or(is_name) && port.is_none_or(is_port)
}

fn is_host_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

fn is_port(port: &[u8]) -> bool {
    let digits = port.iter().all(u8::is_ascii_digit);
    let port = std::str::from_utf8(port).ok();
    digits && port.is_some_and(|port| port.parse::<u16>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::is_authority;

    #[test]
    fn hosts_that_are_none() {
        let good = ["a", "a:80", "10.0.0.1:1", "[::1]", "[::1]:8080", "a_b.c-d~"];
        for host in good {
            assert!(is_authority(host.as_bytes()), "{host}");
        }
        let bad = [
            "",
            ":80",
            "a:",
            "a:b",
            "a:+1",
            "a:65536",
            "a b",
            "a,b",
            "u@a",
            "a/b",
            "[::1",
            "[a]",
            "[::1]x",
            "[::1]:",
            "::1",
            "a:1:2",
            "a?b",
            "a#b",
            "a%2fb",
            "[fe80::1%25eth0]",
        ];
        for host in bad {
            assert!(!is_authority(host.as_bytes()), "{host}");
        }
    }
}

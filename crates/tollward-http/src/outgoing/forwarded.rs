use std::fmt::Write;
use std::net::IpAddr;

use bytes::{BufMut, BytesMut};
use http::header::{FORWARDED, HeaderMap, HeaderName, HeaderValue};
use tollward_policy::IdentityOptions;
use tollward_policy::config::ForwardingHeader;

use crate::Peer;
use crate::identity::X_FORWARDED_FOR;

const X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// Tells the next hop whom we ask for: appends the peer to `X-Forwarded-For`, says scheme and host as
/// the first trusted hop saw them, and appends to `Forwarded` if that is the header that is read here
/// or there is one.
///
/// It comes after [`strip`](crate::strip), so that what is there is a trusted peer's word.
pub fn add_forwarded(
    options: &IdentityOptions,
    peer: Peer,
    host: Option<&HeaderValue>,
    headers: &mut HeaderMap,
) {
    let ip = peer.address.ip().to_canonical();
    let proto = if peer.tls { "https" } else { "http" };
    let is_trusted = peer.is_trusted(options);
    // Of anybody else there is nothing there any more.
    if is_trusted {
        append(headers, X_FORWARDED_FOR, |list| write_ip(list, ip));
        let entry = headers.entry(X_FORWARDED_PROTO);
        entry.or_insert(HeaderValue::from_static(proto));
        if let Some(host) = host {
            let entry = headers.entry(X_FORWARDED_HOST);
            entry.or_insert_with(|| host.clone());
        }
    } else {
        headers.reserve(3);
        if let Some(value) = value(BytesMut::new(), |value| write_ip(value, ip)) {
            headers.insert(X_FORWARDED_FOR, value);
        }
        headers.insert(X_FORWARDED_PROTO, HeaderValue::from_static(proto));
        if let Some(host) = host {
            headers.insert(X_FORWARDED_HOST, host.clone());
        }
    }
    let reads_forwarded = options.forwarding == ForwardingHeader::Forwarded;
    if reads_forwarded || (is_trusted && headers.contains_key(FORWARDED)) {
        let host = host.and_then(|host| host.to_str().ok());
        let element = element(ip, proto, host);
        append(headers, FORWARDED, |list| {
            list.put_slice(element.as_bytes())
        });
    }
}

/// Adds an entry to a list, which is one line then: many read no more than one.
fn append(headers: &mut HeaderMap, name: HeaderName, entry: impl FnOnce(&mut BytesMut)) {
    let mut list = BytesMut::new();
    for line in headers.get_all(&name) {
        list.extend_from_slice(line.as_bytes());
        list.extend_from_slice(b", ");
    }
    if let Some(list) = value(list, entry) {
        headers.insert(name, list);
    }
}

/// What there is, and this behind it, as a value.
fn value(mut bytes: BytesMut, more: impl FnOnce(&mut BytesMut)) -> Option<HeaderValue> {
    bytes.reserve(48);
    more(&mut bytes);
    // What others had as a value, and what we put behind it, is one.
    HeaderValue::from_maybe_shared(bytes.freeze()).ok()
}

fn write_ip(bytes: &mut BytesMut, ip: IpAddr) {
    match ip {
        // By far the most common, and the formatter of the standard library takes ten times as long.
        IpAddr::V4(ip) => {
            let [a, b, c, d] = ip.octets();
            for (before, octet) in [("", a), (".", b), (".", c), (".", d)] {
                bytes.put_slice(before.as_bytes());
                bytes.put_slice(itoa::Buffer::new().format(octet).as_bytes());
            }
        }
        IpAddr::V6(ip) => {
            // Writing to memory does not fail.
            let _ = write!(bytes, "{ip}");
        }
    }
}

fn element(ip: IpAddr, proto: &str, host: Option<&str>) -> String {
    let mut element = match ip {
        IpAddr::V4(ip) => format!("for={ip}"),
        IpAddr::V6(ip) => format!("for=\"[{ip}]\""),
    };
    // What needs escapes is no host.
    let sound = |byte| matches!(byte, 0x21..=0x7e) && !matches!(byte, b'"' | b'\\');
    if let Some(host) = host.filter(|host| host.bytes().all(sound)) {
        // Writing to a string does not fail.
        let _ = write!(element, ";host=\"{host}\"");
    }
    element.push_str(";proto=");
    element.push_str(proto);
    element
}

use std::fmt::Write;
use std::net::IpAddr;

use http::header::{FORWARDED, HeaderMap, HeaderName, HeaderValue};
use tollgate_policy::IdentityOptions;
use tollgate_policy::config::ForwardingHeader;

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
    host: Option<&str>,
    headers: &mut HeaderMap,
) {
    let ip = peer.address.ip().to_canonical();
    let proto = if peer.tls { "https" } else { "http" };
    append(headers, X_FORWARDED_FOR, &ip.to_string());
    let entry = headers.entry(X_FORWARDED_PROTO);
    entry.or_insert(HeaderValue::from_static(proto));
    if let Some(Ok(host)) = host.map(HeaderValue::from_str) {
        headers.entry(X_FORWARDED_HOST).or_insert(host);
    }
    if options.forwarding == ForwardingHeader::Forwarded || headers.contains_key(FORWARDED) {
        append(headers, FORWARDED, &element(ip, proto, host));
    }
}

/// Adds an entry to a list, which is one line then: many read no more than one.
fn append(headers: &mut HeaderMap, name: HeaderName, entry: &str) {
    let mut list = Vec::with_capacity(64);
    for line in headers.get_all(&name) {
        list.extend_from_slice(line.as_bytes());
        list.extend_from_slice(b", ");
    }
    list.extend_from_slice(entry.as_bytes());
    // Values and what we put between them: this is a value.
    if let Ok(list) = HeaderValue::try_from(list) {
        headers.insert(name, list);
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

//! What a request says to the upstream.

// Clippy knows the test functions as tests, but not the functions they share.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::net::SocketAddr;

use http::{HeaderMap, HeaderName, HeaderValue};
use tollward_http::{Peer, add_forwarded, identity_headers, strip};
use tollward_policy::IdentityOptions;
use tollward_policy::config::ForwardingHeader;

fn options() -> IdentityOptions {
    IdentityOptions {
        user_header: Some(HeaderName::from_static("x-user-id")),
        client_header: Some(HeaderName::from_static("client-id")),
        trusted_proxies: vec!["10.0.0.0/8".parse().unwrap()],
        ..IdentityOptions::default()
    }
}

fn headers(lines: &[(&'static str, &'static str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in lines {
        headers.append(
            HeaderName::from_static(name),
            HeaderValue::from_static(value),
        );
    }
    headers
}

/// The names that are left, of headers with these.
fn left(options: &IdentityOptions, trusted: bool, names: &[&'static str]) -> Vec<String> {
    let lines: Vec<_> = names
        .iter()
        .flat_map(|name| [(*name, "a"), (*name, "b")])
        .collect();
    let mut headers = headers(&lines);
    strip(options, trusted, &mut headers);
    let mut left: Vec<_> = headers
        .keys()
        .map(|name| name.as_str().to_owned())
        .collect();
    left.sort();
    left
}

/// What nobody may say.
const NEVER: [&str; 13] = [
    "x-api-key",
    "x-tollward-tenant",
    "x-tollward-anything",
    "x_tollward_user",
    "x-ratelimit-limit",
    "x-ratelimit-remaining-minute",
    "ratelimit",
    "ratelimit-policy",
    "ratelimit-limit",
    "x-http-method",
    "x-http-method-override",
    "x_http_method-override",
    "x-method-override",
];
/// What a trusted peer may say.
const TRUSTED: [&str; 11] = [
    "client-id",
    "client_id",
    "forwarded",
    "x-forwarded-anything",
    "x-forwarded-for",
    "x-original-url",
    "x-real-ip",
    "x-rewrite-url",
    "x-user-id",
    "x-user_id",
    "x_forwarded_for",
];
/// What anybody may say.
const ANYBODY: [&str; 9] = [
    "accept",
    "authorization",
    "host",
    "rate",
    "x",
    "x-forward",
    "x-http-methods",
    "x-ratelimi",
    "x-user-ids",
];

#[test]
fn only_what_may_be_said_is_passed_on() {
    let all: Vec<_> = [&NEVER[..], &TRUSTED, &ANYBODY].concat();
    assert_eq!(left(&options(), false, &all), ANYBODY);
    let mut more = [&TRUSTED[..], &ANYBODY].concat();
    more.sort_unstable();
    assert_eq!(left(&options(), true, &all), more);
    assert_eq!(left(&options(), false, &ANYBODY), ANYBODY);
}

#[test]
fn credentials_are_passed_on_if_they_are_meant_to_be() {
    let with = |forward: bool, basic: bool, header: &'static str, value: &'static str| {
        let mut options = options();
        options.api_key.forward = forward;
        options.basic = basic;
        options.api_key.header = HeaderName::from_static(header);
        let mut headers = headers(&[("authorization", value), ("x-api-key", "k")]);
        strip(&options, false, &mut headers);
        ["authorization", "x-api-key"].map(|name| headers.contains_key(name))
    };
    for scheme in ["Basic eA==", "bAsIc eA=="] {
        assert_eq!(with(false, true, "x-api-key", scheme), [false, false]);
        assert_eq!(with(true, true, "x-api-key", scheme), [true, true]);
        assert_eq!(with(false, false, "x-api-key", scheme), [true, false]);
    }
    assert_eq!(with(false, true, "x-api-key", "Bearer x"), [true, false]);
    assert_eq!(
        with(false, false, "authorization", "Bearer k"),
        [false, true]
    );
    assert_eq!(with(true, false, "authorization", "Bearer k"), [true, true]);
}

fn peer(ip: &str, tls: bool) -> Peer {
    Peer::new(SocketAddr::new(ip.parse().unwrap(), 50_000), tls)
}

/// The headers of a request from this peer, on their way.
fn sent(
    options: &IdentityOptions,
    peer: Peer,
    lines: &[(&'static str, &'static str)],
) -> HeaderMap {
    let mut headers = headers(lines);
    strip(options, peer.is_trusted(options), &mut headers);
    let host = HeaderValue::from_static("api.example:8080");
    add_forwarded(options, peer, Some(&host), &mut headers);
    headers
}

const SAID: [(&str, &str); 5] = [
    ("x-forwarded-for", "203.0.113.9"),
    ("x-forwarded-for", "198.51.100.1, 10.0.0.9"),
    ("x-forwarded-proto", "https"),
    ("x-forwarded-host", "front.example"),
    ("forwarded", "for=203.0.113.9"),
];

#[test]
fn strangers_speak_for_themselves() {
    let sent = sent(&options(), peer("192.0.2.1", false), &SAID);
    assert_eq!(sent["x-forwarded-for"], "192.0.2.1");
    assert_eq!(sent["x-forwarded-proto"], "http");
    assert_eq!(sent["x-forwarded-host"], "api.example:8080");
    assert!(!sent.contains_key("forwarded"));
    assert_eq!(sent.len(), 3);
}

#[test]
fn trusted_peers_are_added_to() {
    let sent = sent(&options(), peer("::ffff:10.0.0.1", false), &SAID);
    let chain = "203.0.113.9, 198.51.100.1, 10.0.0.9, 10.0.0.1";
    assert_eq!(sent["x-forwarded-for"], chain);
    assert_eq!(sent["x-forwarded-proto"], "https");
    assert_eq!(sent["x-forwarded-host"], "front.example");
    let element = "for=203.0.113.9, for=10.0.0.1;host=\"api.example:8080\";proto=http";
    assert_eq!(sent["forwarded"], element);
    assert_eq!(sent.len(), 4);
}

#[test]
fn the_header_that_is_read_is_written() {
    let options = IdentityOptions {
        forwarding: ForwardingHeader::Forwarded,
        ..options()
    };
    let sent = sent(&options, peer("2001:db8::1", true), &[]);
    assert_eq!(sent["x-forwarded-for"], "2001:db8::1");
    assert_eq!(sent["x-forwarded-proto"], "https");
    let element = "for=\"[2001:db8::1]\";host=\"api.example:8080\";proto=https";
    assert_eq!(sent["forwarded"], element);
    let mut headers = HeaderMap::new();
    for host in [None, Some("a\"b"), Some("a b"), Some("a\\b")] {
        headers.clear();
        let host = host.map(HeaderValue::from_static);
        add_forwarded(
            &options,
            peer("192.0.2.1", true),
            host.as_ref(),
            &mut headers,
        );
        assert_eq!(headers["forwarded"], "for=192.0.2.1;proto=https");
    }
}

#[test]
fn the_next_hop_reads_what_is_written() {
    for forwarding in [ForwardingHeader::XForwardedFor, ForwardingHeader::Forwarded] {
        let options = IdentityOptions {
            forwarding,
            ..options()
        };
        for client in ["192.0.2.1", "2001:db8::1", "::ffff:192.0.2.1"] {
            let sent = sent(&options, peer(client, true), &SAID);
            let found = tollward_http::client_ip(&options, peer("10.0.0.1", true), &sent);
            assert_eq!(
                found,
                client.parse::<std::net::IpAddr>().unwrap().to_canonical()
            );
        }
    }
}

#[test]
fn the_upstream_is_told_who_calls() {
    let mut told = headers(&[
        ("x-tollward-plan", "spoofed"),
        ("x-tollward-user", "spoofed"),
    ]);
    strip(&options(), true, &mut told);
    identity_headers(Some("acme"), None, Some("ann@example.com"), &mut told);
    assert_eq!(told["x-tollward-tenant"], "acme");
    assert_eq!(told["x-tollward-user"], "ann@example.com");
    assert!(!told.contains_key("x-tollward-plan"));
    let mut seen = std::collections::HashSet::new();
    for (user, written) in [
        ("\u{e9}", "%C3%A9"),
        ("%C3%A9", "%25C3%25A9"),
        ("a b", "a%20b"),
        (" a", "%20a"),
        ("a\r\nx-evil: 1", "a%0D%0Ax-evil:%201"),
        ("\0", "%00"),
        ("a,b", "a,b"),
    ] {
        told.clear();
        identity_headers(None, None, Some(user), &mut told);
        assert_eq!(told["x-tollward-user"], written);
        assert!(seen.insert(written));
    }
    assert!(!told.contains_key("x-tollward-tenant"));
}

//! The client's address, case by case.

use std::collections::HashSet;

use tollward_http::{Proofs, client_ip, identify, locate};
use tollward_policy::IdentityOptions;
use tollward_policy::config::ForwardingHeader;

use crate::{NOW, head, peer, policy, sender};

fn options(forwarding: ForwardingHeader) -> IdentityOptions {
    IdentityOptions {
        trusted_proxies: vec!["10.0.0.0/8".parse().unwrap(), "fd00::/8".parse().unwrap()],
        forwarding,
        ..IdentityOptions::default()
    }
}

/// The address, and whether it is but a proxy's.
fn found(options: &IdentityOptions, from: &str, headers: &[(&str, &[u8])]) -> (String, bool) {
    let head = head(headers);
    let sender = sender(options, from, &head).unwrap();
    let facts = sender.facts();
    let ip = facts.ip.unwrap();
    assert_eq!(client_ip(options, peer(from), &head.headers), ip);
    (ip.to_string(), facts.ip_is_proxy)
}

fn listed(from: &str, lines: &[&str]) -> (String, bool) {
    let lines: Vec<_> = lines
        .iter()
        .map(|line| ("x-forwarded-for", line.as_bytes()))
        .collect();
    found(&options(ForwardingHeader::XForwardedFor), from, &lines)
}

fn forwarded(from: &str, lines: &[&str]) -> (String, bool) {
    let lines: Vec<_> = lines
        .iter()
        .map(|line| ("forwarded", line.as_bytes()))
        .collect();
    found(&options(ForwardingHeader::Forwarded), from, &lines)
}

fn client(ip: &str) -> (String, bool) {
    (ip.to_owned(), false)
}

fn proxy(ip: &str) -> (String, bool) {
    (ip.to_owned(), true)
}

#[test]
fn a_stranger_speaks_for_itself() {
    for lines in [&[][..], &["203.0.113.9"], &["10.0.0.1"], &["garbage"]] {
        assert_eq!(listed("192.0.2.1", lines), client("192.0.2.1"));
        assert_eq!(listed("::ffff:192.0.2.1", lines), client("192.0.2.1"));
        assert_eq!(listed("2001:db8::1", lines), client("2001:db8::1"));
    }
}

#[test]
fn the_right_most_stranger_is_the_client() {
    for from in ["10.0.0.1", "::ffff:10.0.0.1", "fd00::1"] {
        assert_eq!(listed(from, &["203.0.113.9"]), client("203.0.113.9"));
        assert_eq!(
            listed(from, &["1.1.1.1, 203.0.113.9"]),
            client("203.0.113.9")
        );
        assert_eq!(
            listed(from, &["1.1.1.1,203.0.113.9,10.2.2.2"]),
            client("203.0.113.9")
        );
        assert_eq!(
            listed(from, &["1.1.1.1", "203.0.113.9", "10.2.2.2"]),
            client("203.0.113.9")
        );
        assert_eq!(
            listed(from, &["203.0.113.9", "10.2.2.2, fd00::2"]),
            client("203.0.113.9")
        );
        assert_eq!(
            listed(from, &["203.0.113.9, ::ffff:10.2.2.2"]),
            client("203.0.113.9")
        );
        assert_eq!(listed(from, &["::ffff:203.0.113.9"]), client("203.0.113.9"));
        assert_eq!(
            listed(from, &["[2001:db8::9]:80, 10.2.2.2:99"]),
            client("2001:db8::9")
        );
    }
}

#[test]
fn the_left_most_is_the_client_if_all_are_trusted() {
    assert_eq!(
        listed("10.0.0.1", &["10.0.0.3, 10.0.0.2"]),
        client("10.0.0.3")
    );
    assert_eq!(
        listed("10.0.0.1", &["10.0.0.3", "fd00::1"]),
        client("10.0.0.3")
    );
}

#[test]
fn a_proxy_that_speaks_for_nobody_is_no_client() {
    assert_eq!(listed("10.0.0.1", &[]), proxy("10.0.0.1"));
    assert_eq!(listed("::ffff:10.0.0.1", &[]), proxy("10.0.0.1"));
    for garbage in [
        "",
        "unknown",
        "_gate",
        "203.0.113.9,",
        "203.0.113.9, ,",
        "1.2.3",
        "\"",
    ] {
        assert_eq!(
            listed("10.0.0.1", &[garbage]),
            proxy("10.0.0.1"),
            "{garbage}"
        );
    }
    assert_eq!(
        listed("10.0.0.1", &["203.0.113.9, unknown, 10.0.0.2"]),
        proxy("10.0.0.2")
    );
    assert_eq!(
        listed("10.0.0.1", &["203.0.113.9", "", "10.0.0.2"]),
        proxy("10.0.0.2")
    );
}

#[test]
fn only_the_header_that_is_named_is_read() {
    let headers: &[(&str, &[u8])] = &[
        ("forwarded", b"for=203.0.113.1"),
        ("x-forwarded-for", b"203.0.113.2"),
        ("x-real-ip", b"203.0.113.3"),
    ];
    let read = |form| found(&options(form), "10.0.0.1", headers);
    assert_eq!(read(ForwardingHeader::Forwarded), client("203.0.113.1"));
    assert_eq!(read(ForwardingHeader::XForwardedFor), client("203.0.113.2"));
    let others = found(
        &options(ForwardingHeader::Forwarded),
        "10.0.0.1",
        &headers[1..],
    );
    assert_eq!(others, proxy("10.0.0.1"));
}

#[test]
fn elements_of_forwarded() {
    for (line, address) in [
        ("for=203.0.113.9", client("203.0.113.9")),
        ("For=\"203.0.113.9:80\";Proto=https", client("203.0.113.9")),
        ("for=\"[2001:db8::9]:80\"", client("2001:db8::9")),
        ("for=\"[::ffff:203.0.113.9]\"", client("203.0.113.9")),
        (
            "for=1.1.1.1, for=203.0.113.9;host=\"a, for=9.9.9.9\"",
            client("203.0.113.9"),
        ),
        (
            "for=203.0.113.9, for=10.0.0.2;by=_gate",
            client("203.0.113.9"),
        ),
        ("for=10.0.0.3, for=10.0.0.2", client("10.0.0.3")),
        (
            "for=203.0.113.9, for=unknown, for=10.0.0.2",
            proxy("10.0.0.2"),
        ),
        ("for=203.0.113.9, for=_hidden", proxy("10.0.0.1")),
        ("for=203.0.113.9, proto=https", proxy("10.0.0.1")),
        // What a client leaves open is closed by the comma of the proxy that appends to it.
        ("for=\"1.1.1.1, for=203.0.113.9", client("203.0.113.9")),
        (
            "for=1.1.1.1;x=\", for=203.0.113.9;host=\"h\"",
            client("203.0.113.9"),
        ),
        ("for=1.1.1.1;x=\"\\, for=203.0.113.9", client("203.0.113.9")),
    ] {
        assert_eq!(forwarded("10.0.0.1", &[line]), address, "{line}");
        assert_eq!(
            forwarded("192.0.2.1", &[line]),
            client("192.0.2.1"),
            "{line}"
        );
    }
}

#[test]
fn what_lies_too_far_left_is_not_looked_at() {
    let hops = |count: usize| format!("203.0.113.9{}", ", 10.0.0.2".repeat(count));
    assert_eq!(listed("10.0.0.1", &[&hops(63)]), client("203.0.113.9"));
    assert_eq!(listed("10.0.0.1", &[&hops(64)]), proxy("10.0.0.2"));
    let many = vec!["10.0.0.2"; 64];
    assert_eq!(listed("10.0.0.1", &many), client("10.0.0.2"));
    let many = [&["203.0.113.9"][..], &many[..]].concat();
    assert_eq!(listed("10.0.0.1", &many), proxy("10.0.0.2"));
    let wide = |spaces: usize| format!("203.0.113.9,{}10.0.0.2", " ".repeat(spaces));
    assert_eq!(listed("10.0.0.1", &[&wide(8_000)]), client("203.0.113.9"));
    assert_eq!(listed("10.0.0.1", &[&wide(8_180)]), proxy("10.0.0.2"));
    assert_eq!(listed("10.0.0.1", &[&wide(60_000)]), proxy("10.0.0.1"));
    // The end of an address is not an address.
    let cut = format!("203.0.113.9,{}10.0.0.2", " ".repeat(8_192 - 8 - 1 - 9));
    assert_eq!(listed("10.0.0.1", &[&cut]), proxy("10.0.0.2"));
}

#[test]
fn a_network_of_ipv6_is_one_caller() {
    let policy = policy(
        "
identity: { ip: { trusted_proxies: [10.0.0.0/8] } }
limits: { per-ip: { sustained: { rate: 1, window: day }, scope: ip } }
",
    );
    let key = |from: &str, header: Option<&str>| {
        let headers = header.map(|header| ("x-forwarded-for", header.as_bytes()));
        let head = head(headers.as_slice());
        let options = policy.identity();
        let sender =
            identify(options, &Proofs::default(), &policy, peer(from), &head, NOW).unwrap();
        let request = policy.request(&sender.facts()).unwrap();
        let charges = request.charges();
        let charged: Vec<_> = charges
            .iter()
            .map(|(_, _, it)| it.key.scope.to_vec())
            .collect();
        assert_eq!(charged.len(), 1);
        charged
    };
    let mut keys = HashSet::new();
    for host in 0..5_000_u64 {
        let host = host.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let words: Vec<_> = [48, 32, 16, 0]
            .map(|bits| format!("{:x}", host >> bits & 0xffff))
            .into();
        let address = format!("2001:db8:1:2:{}", words.join(":"));
        keys.insert(key(&address, None));
        keys.insert(key("10.0.0.1", Some(&format!("[{address}]:443"))));
    }
    assert_eq!(keys.len(), 1);
    assert!(!keys.contains(&key("2001:db8:1:3::1", None)));
    let v4 = key("1.2.3.4", None);
    assert_eq!(key("::ffff:1.2.3.4", None), v4);
    for header in ["1.2.3.4", "::ffff:1.2.3.4", "[::ffff:1.2.3.4]:9"] {
        assert_eq!(key("10.0.0.1", Some(header)), v4);
        assert_eq!(key("::ffff:10.0.0.1", Some(header)), v4);
    }
    assert_ne!(key("1.2.3.5", None), v4);
}

/// Without a peer nobody is trusted, so no header says anything of the address.
#[test]
fn without_a_peer_the_address_is_unknown() {
    let policy = policy("identity: { ip: { trusted_proxies: [0.0.0.0/0, \"::/0\"] } }");
    let head = head(&[("x-forwarded-for", b"192.0.2.1")]);
    let proofs = Proofs::default();
    let sender = identify(policy.identity(), &proofs, &policy, None, &head, NOW).unwrap();
    let facts = sender.facts();
    assert_eq!((facts.ip, facts.ip_is_unknown), (None, true));
    let sender = identify(
        policy.identity(),
        &proofs,
        &policy,
        peer("10.0.0.1"),
        &head,
        NOW,
    );
    let facts = sender.as_ref().unwrap().facts();
    assert_eq!(
        (facts.ip, facts.ip_is_unknown),
        ("192.0.2.1".parse().ok(), false)
    );
}

/// For a caller who is known by other means, only the address is read: credentials are not looked at.
#[test]
fn locating_reads_no_credentials() {
    let text = "identity: { ip: { trusted_proxies: [10.0.0.0/8] }, user: { header: x-user } }";
    let policy = policy(text);
    let head = head(&[
        ("x-forwarded-for", b"192.0.2.1"),
        ("x-user", b"mallory"),
        ("x-api-key", b"\xff"),
    ]);
    let located = locate(policy.identity(), peer("10.0.0.1"), &head).unwrap();
    let facts = located.facts();
    assert_eq!(facts.ip, "192.0.2.1".parse().ok());
    assert_eq!(
        (facts.user, facts.client, facts.api_key),
        (None, None, None)
    );
    assert_eq!((facts.method, facts.path), (Some("GET"), Some("/a")));
}

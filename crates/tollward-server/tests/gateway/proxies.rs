//! Whose address it is when proxies ask for others.

use std::net::Ipv6Addr;

use tollward_testkit::upstream::Upstream;

use crate::gated::{Gated, remaining};

const CAPACITY: u64 = 20_000;

fn gated(upstream: &Upstream, header: &str) -> Gated {
    Gated::of(&format!(
        "
identity:
  anonymous: allow
  ip: {{ trusted_proxies: [127.0.0.0/8, 10.0.0.0/8], header: {header} }}
limits:
  per-ip: {{ sustained: {{ rate: 1, window: 366d }}, burst: {{ capacity: {CAPACITY} }}, scope: ip }}
allow: [ {{ cidr: 127.0.0.0/8, reason: health }}, {{ cidr: 203.0.113.0/24 }} ]
routes: [ {{ match: /**, upstream: app }} ]
upstreams: {{ app: {{ url: {} }} }}
",
        upstream.url()
    ))
}

/// What is left for whoever this header names.
fn left(gated: &Gated, header: (&str, &str)) -> u64 {
    let answer = gated.get("/", &[header]);
    assert_eq!(answer.status, 200, "{header:?}: {}", answer.text());
    remaining(&answer)
}

#[test]
fn the_right_most_untrusted_address_is_the_client() {
    let upstream = Upstream::start();
    let gated = gated(&upstream, "x-forwarded-for");
    let mut expected = CAPACITY;
    for chain in [
        "198.51.100.7",
        "198.51.100.7, 10.1.2.3",
        "198.51.100.7, 10.1.2.3, 10.9.9.9",
        "192.0.2.66, 198.51.100.7, 10.1.2.3",
        "lies, 198.51.100.7:1234, 10.1.2.3",
        "203.0.113.9,198.51.100.7,10.1.2.3,10.1.2.4",
        "::ffff:198.51.100.7, ::ffff:10.0.0.1",
    ] {
        expected -= 1;
        assert_eq!(
            left(&gated, ("x-forwarded-for", chain)),
            expected,
            "{chain}"
        );
    }
    // In several lines it is one list.
    let lines = [
        ("x-forwarded-for", "192.0.2.66"),
        ("x-forwarded-for", "198.51.100.7, 10.1.2.3"),
        ("x-forwarded-for", "10.1.2.4"),
    ];
    assert_eq!(remaining(&gated.get("/", &lines)), expected - 1);
    assert_eq!(
        upstream.last().header("x-forwarded-for"),
        Some("192.0.2.66, 198.51.100.7, 10.1.2.3, 10.1.2.4, 127.0.0.1")
    );
    // Where all are trusted it is the left-most.
    let all_trusted = ("x-forwarded-for", "10.1.1.1, 10.2.2.2");
    assert_eq!(left(&gated, all_trusted), CAPACITY - 1);
    assert_eq!(left(&gated, ("x-forwarded-for", "10.1.1.1")), CAPACITY - 2);
    // The other header is not read.
    let forwarded = ("forwarded", "for=198.51.100.7");
    assert_eq!(left(&gated, forwarded), CAPACITY - 1);
}

#[test]
fn forwarded_is_read_where_it_is_named() {
    let upstream = Upstream::start();
    let gated = gated(&upstream, "forwarded");
    let mut expected = CAPACITY;
    for chain in [
        "for=198.51.100.7",
        "For=\"198.51.100.7:80\";proto=https, for=10.0.0.1",
        "for=192.0.2.66, for=198.51.100.7;by=10.1.1.1, for=10.1.1.1",
    ] {
        expected -= 1;
        assert_eq!(left(&gated, ("forwarded", chain)), expected, "{chain}");
    }
    let seen = upstream.last();
    let forwarded = seen.header("forwarded").unwrap();
    let ours = ", for=127.0.0.1;host=\"tollward.test\";proto=http";
    assert!(forwarded.ends_with(ours), "{forwarded}");
}

#[test]
fn addresses_of_one_network_share_a_bucket() {
    let upstream = Upstream::start();
    let gated = gated(&upstream, "x-forwarded-for");
    let mut connection = gated.connect();
    let mut left = |address: &str| {
        let headers = [("x-forwarded-for", address)];
        let answer = connection.request("GET", "/", &headers, b"").unwrap();
        assert_eq!(answer.status, 200, "{address}");
        remaining(&answer)
    };
    for count in 1..=10_000_u64 {
        // All over the lower half, as far as it goes.
        let host = u128::from(count.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let address = Ipv6Addr::from((0x2001_0db8_0000_0001_u128 << 64) | host);
        assert_eq!(left(&address.to_string()), CAPACITY - count, "{address}");
    }
    assert_eq!(left("2001:db8:0:2::1"), CAPACITY - 1);
    // IPv4 is IPv4 however it is written, and each address is one caller.
    for (count, address) in ["1.2.3.4", "::ffff:1.2.3.4", "[::ffff:102:304]:80"]
        .iter()
        .enumerate()
    {
        assert_eq!(left(address), CAPACITY - 1 - count as u64, "{address}");
    }
    assert_eq!(left("::ffff:1.2.3.5"), CAPACITY - 1);
}

/// What a proxy does not say is not made up from its own address.
#[test]
fn the_address_of_a_proxy_is_not_on_the_allow_list() {
    let upstream = Upstream::start();
    let gated = gated(&upstream, "x-forwarded-for");
    let is_limited = |chain: Option<&str>| {
        let headers: Vec<_> = chain.iter().map(|it| ("x-forwarded-for", *it)).collect();
        let answer = gated.get("/", &headers);
        assert_eq!(answer.status, 200, "{chain:?}");
        answer.header("x-ratelimit-limit").is_some()
    };
    assert!(is_limited(None));
    assert!(is_limited(Some("unknown")));
    assert!(is_limited(Some("203.0.113.9, lies")));
    assert!(is_limited(Some("203.0.113.9, 192.0.2.1")));
    assert!(!is_limited(Some("203.0.113.9")));
    assert!(!is_limited(Some("192.0.2.1, 203.0.113.9, 10.0.0.1")));
}

//! What a caller says of itself, and nobody else does.

use tollward_testkit::upstream::{Request, Upstream};

use crate::gated::{Gated, remaining, sha256};
use crate::served::assert_problem;

/// Lies that a caller may tell, each in the form of the header that it abuses.
const LIES: [(&str, &str); 22] = [
    ("x-forwarded-for", "192.0.2.1"),
    ("x-forwarded-host", "lies.test"),
    ("x-forwarded-proto", "https"),
    ("x_forwarded_for", "192.0.2.1"),
    ("forwarded", "for=192.0.2.1;host=lies.test"),
    ("x-real-ip", "192.0.2.1"),
    ("x-tollward-tenant", "victim"),
    ("X-Tollward-Plan", "lies"),
    ("x_tollward_user", "lies"),
    ("x-user-id", "lies"),
    ("x_user_id", "lies"),
    ("x-client-id", "lies"),
    ("x-ratelimit-limit", "9999"),
    ("x-ratelimit-remaining", "9999"),
    ("x-ratelimit-degraded", "lies"),
    ("ratelimit", "\"lies\";r=9999"),
    ("ratelimit-policy", "\"lies\";q=9999"),
    ("x-http-method-override", "DELETE"),
    ("x-http-method", "DELETE"),
    ("x-method-override", "DELETE"),
    ("x-original-url", "/lies"),
    ("x-rewrite-url", "/lies"),
];

fn config(upstream: &Upstream, ip: &str) -> String {
    format!(
        "
identity:
  anonymous: allow
  user: {{ header: X-User-Id }}
  client: {{ header: X-Client-Id }}
  ip: {{ {ip} }}
limits:
  per-user: {{ sustained: {{ rate: 1, window: hour }}, burst: {{ capacity: 1000 }}, scope: user }}
  per-ip: {{ sustained: {{ rate: 1, window: hour }}, burst: {{ capacity: 2000 }}, scope: ip }}
allow: [ {{ user: lies }}, {{ cidr: 192.0.2.0/24 }} ]
tenants: {{ acme: {{}}, victim: {{}} }}
keys: [ {{ sha256: {}, tenant: acme }} ]
routes:
  - {{ match: /**, upstream: app }}
  - {{ match: \"DELETE /**\", deny: true }}
upstreams: {{ app: {{ url: {} }} }}
",
        sha256("a"),
        upstream.url()
    )
}

fn sorted(request: &Request) -> Vec<(String, String)> {
    let mut headers = request.headers.clone();
    headers.sort();
    headers
}

#[test]
fn lies_change_neither_the_bucket_nor_what_the_upstream_sees() {
    let upstream = Upstream::start();
    // The machine itself is not trusted.
    let gated = Gated::of(&config(&upstream, "trusted_proxies: [192.0.2.0/24]"));
    let honest = gated.get("/a", &[("x-other", "kept")]);
    assert_eq!(remaining(&honest), 999);
    let honest = upstream.last();
    let mut left = 999;
    let one_by_one = LIES.iter().map(std::slice::from_ref);
    for lies in one_by_one.chain([&LIES[..]]) {
        let headers = [lies, &[("x-other", "kept")]].concat();
        let answer = gated.get("/a", &headers);
        left -= 1;
        assert_eq!((answer.status, remaining(&answer)), (200, left), "{lies:?}");
        // Nothing of it comes through, and what we add says what is so.
        assert_eq!(sorted(&upstream.last()), sorted(&honest), "{lies:?}");
    }
    // Nor can a caller have us take away what we say.
    for name in ["x-forwarded-for", "x-forwarded-proto, x-other", "host"] {
        gated.get("/a", &[("connection", name)]);
        let seen = upstream.last();
        for name in ["x-forwarded-for", "x-forwarded-proto", "host"] {
            assert_eq!(seen.header(name), honest.header(name), "{name}");
        }
    }
    assert_eq!(honest.header("x-forwarded-for"), Some("127.0.0.1"));
    assert_eq!(honest.header("x-forwarded-proto"), Some("http"));
    assert_eq!(honest.header("x-forwarded-host"), Some("tollward.test"));
    assert_eq!(honest.header("x-other"), Some("kept"));
}

#[test]
fn a_key_proves_its_tenant_and_nothing_that_is_said_beside_it() {
    let upstream = Upstream::start();
    let gated = Gated::of(&config(&upstream, "trusted_proxies: []"));
    let headers = [&LIES[..], &[("x-api-key", "a")]].concat();
    assert_eq!(remaining(&gated.get("/a", &headers)), 999);
    let seen = upstream.last();
    assert_eq!(seen.header("x-tollward-tenant"), Some("acme"));
    assert_eq!(seen.header("x-tollward-user"), None);
    assert!(!format!("{seen:?}").contains("lies"), "{seen:?}");
    let hop = [("x-api-key", "a"), ("connection", "x-tollward-tenant")];
    gated.get("/a", &hop);
    assert_eq!(upstream.last().header("x-tollward-tenant"), Some("acme"));
    // Named as one hop's, a key is still a key.
    let hop = [("x-api-key", "a"), ("connection", "x-api-key")];
    assert_eq!(remaining(&gated.get("/a", &hop)), 997);
    // Who says so by two keys says nothing.
    let two = [("x-api-key", "a"), ("X-Api-Key", "b")];
    assert_problem(&gated.get("/a", &two), 401, "two keys");
}

#[test]
fn a_trusted_peer_is_believed() {
    let upstream = Upstream::start();
    let gated = Gated::of(&config(&upstream, "trusted_proxies: [127.0.0.0/8]"));
    let ann = [
        ("x-user-id", "ann"),
        ("x-client-id", "web"),
        ("x-forwarded-for", "198.51.100.7"),
        ("x-tollward-user", "lies"),
        ("x-http-method-override", "DELETE"),
    ];
    assert_eq!(remaining(&gated.get("/a", &ann)), 999);
    let seen = upstream.last();
    assert_eq!(seen.header("x-user-id"), Some("ann"));
    assert_eq!(seen.header("x-tollward-user"), Some("ann"));
    assert_eq!(
        seen.header("x-forwarded-for"),
        Some("198.51.100.7, 127.0.0.1")
    );
    assert_eq!(seen.header("x-http-method-override"), None);
    assert_eq!(remaining(&gated.get("/a", &ann)), 998);
    let bob = [("x-user-id", "bob"), ("x-forwarded-for", "198.51.100.7")];
    assert_eq!(remaining(&gated.get("/a", &bob)), 999);
    // A proxy that contradicts itself is not guessed at.
    let two = [("x-user-id", "ann"), ("x-user-id", "bob")];
    assert_problem(&gated.get("/a", &two), 400, "two users");
}

/// The path that the upstream sees for one that was asked for.
fn forwarded(gated: &Gated, upstream: &Upstream, target: &str) -> String {
    let answer = gated.get(target, &[]);
    assert_eq!(answer.status, 200, "{target}: {}", answer.text());
    upstream.last().target
}

fn with_routes(upstream: &Upstream) -> Gated {
    Gated::of(&format!(
        "
identity: {{ anonymous: allow }}
routes:
  - {{ match: /**, upstream: app }}
  - {{ match: /admin/**, upstream: app, rate_limit: {{ sustained: {{ rate: 1, window: hour }}, burst: {{ capacity: 100 }}, scope: ip }} }}
  - {{ match: /closed/**, deny: true }}
upstreams: {{ app: {{ url: {} }} }}
",
        upstream.url()
    ))
}

#[test]
fn what_is_forwarded_is_what_was_limited() {
    let upstream = Upstream::start();
    let gated = with_routes(&upstream);
    for (target, seen) in [
        ("/a", "/a"),
        ("/Case/Is/Kept", "/Case/Is/Kept"),
        ("/a/", "/a/"),
        ("/a//b///c", "/a/b/c"),
        ("/a/./b/../C", "/a/C"),
        ("/a/%2e%2E/%62", "/b"),
        ("/%7euser/%c3%a4", "/~user/%C3%A4"),
        ("/a%20b%26c", "/a%20b%26c"),
        ("/a?q=%2f/../%7e;&%zz?", "/a?q=%2f/../%7e;&%zz?"),
        ("/a/../b?x=//..//%2F&Y=%7e;z", "/b?x=//..//%2F&Y=%7e;z"),
        ("/a?", "/a?"),
        ("/..", "/"),
    ] {
        assert_eq!(forwarded(&gated, &upstream, target), seen, "{target}");
    }
}

#[test]
fn what_becomes_too_long_to_forward_is_not_forwarded_as_it_came() {
    let upstream = Upstream::start();
    let gated = with_routes(&upstream);
    // Written out, a brace takes three bytes.
    let braces = "{".repeat(7000);
    let before = upstream.count();
    for query in [50_000, 45_000, 44_000] {
        let target = format!("/x/../other/{braces}?{}", "a".repeat(query));
        let answer = gated.get(&target, &[]);
        let fits = "/other/?".len() + 3 * braces.len() + query <= 65_534;
        assert_eq!(answer.status, if fits { 200 } else { 414 }, "{query}");
    }
    assert_eq!(upstream.count(), before + 1);
}

#[test]
fn every_way_to_write_a_path_is_limited_alike() {
    let upstream = Upstream::start();
    let gated = with_routes(&upstream);
    let mut left = 100;
    for target in [
        "/admin/users",
        "/ADMIN/users",
        "//admin/users",
        "/x/../admin/users",
        "/./admin/users/",
        "/%61dmin/users",
        "/admin/./users?x",
        "/%41DMIN//users",
    ] {
        left -= 1;
        let answer = gated.get(target, &[]);
        assert_eq!(remaining(&answer), left, "{target}");
        let seen = upstream.last().target.to_lowercase();
        assert!(seen.starts_with("/admin/users"), "{target}: {seen}");
    }
    for target in ["/closed/a", "/CLOSED", "/a/../%63losed/x", "//closed//a"] {
        assert_problem(&gated.get(target, &[]), 403, target);
    }
}

#[test]
fn a_path_that_can_be_read_in_two_ways_is_refused() {
    let upstream = Upstream::start();
    let gated = with_routes(&upstream);
    for target in [
        "/admin%2Fusers",
        "/a%2fb",
        "/a/..%2fadmin",
        "/admin%5cusers",
        "/admin\\users",
        "/a/%00",
        "/a/%0d%0a",
        "/a%",
        "/a%2",
        "/a%zz",
        "/admin;x=1/users",
        "/x/..;/admin",
        "/;/admin/users",
        "/admin%3bx/users",
        "/%252e%252e%2fadmin",
        "/a//../admin/users",
    ] {
        let answer = gated.get(target, &[]);
        assert_eq!(answer.status, 400, "{target}: {}", answer.text());
        let media_type = answer.header("content-type");
        assert_eq!(media_type, Some("application/problem+json"), "{target}");
    }
    assert_eq!(upstream.count(), 0);
    // Where nothing hangs on it, parameters are the upstream's.
    assert_eq!(forwarded(&gated, &upstream, "/a;b=c/d"), "/a;b=c/d");
}

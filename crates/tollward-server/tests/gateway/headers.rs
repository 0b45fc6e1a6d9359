//! What answers tell of limits.

use sfv::{BareItem, FieldType, Item, List, ListEntry, Parser};
use tollward_testkit::http::Response;
use tollward_testkit::upstream::{Upstream, answer};

use crate::gated::{Gated, number};
use crate::served::json;

const NAMES: [&str; 8] = [
    "x-ratelimit-limit",
    "x-ratelimit-remaining",
    "x-ratelimit-reset",
    "ratelimit-limit",
    "ratelimit-remaining",
    "ratelimit-reset",
    "ratelimit-policy",
    "ratelimit",
];
const X: [&str; 3] = [NAMES[0], NAMES[1], NAMES[2]];
const IETF: [&str; 2] = [NAMES[6], NAMES[7]];
const IETF_06: [&str; 3] = [NAMES[3], NAMES[4], NAMES[5]];

/// Two limits, of which the tighter one gives a token every 30 seconds.
fn gated(upstream: &Upstream, response: &str) -> Gated {
    Gated::of(&format!(
        "
identity: {{ anonymous: allow }}
limits:
  tight: {{ sustained: {{ rate: 2, window: minute }}, burst: {{ capacity: 1 }}, scope: ip }}
  wide: {{ sustained: {{ rate: 10, window: minute }}, scope: [ip, route] }}
routes: [ {{ match: /**, upstream: app }} ]
upstreams: {{ app: {{ url: {} }} }}
response: {{ {response} }}
",
        upstream.url()
    ))
}

/// The names of headers about limits that are there.
fn told(response: &Response) -> Vec<&str> {
    let is_there = |name: &&str| response.headers.iter().any(|(it, _)| it == name);
    NAMES.into_iter().filter(is_there).collect()
}

/// Every header about limits is a structured field, by a parser that is not ours.
fn assert_structured(response: &Response) {
    for name in told(response) {
        let value = response.header(name).unwrap();
        if IETF.contains(&name) {
            let list: List = Parser::new(value).parse().unwrap();
            assert!(!list.is_empty());
            for entry in &list {
                let ListEntry::Item(item) = entry else {
                    panic!("{name}: {value}")
                };
                assert!(matches!(item.bare_item, BareItem::String(_)), "{value}");
                let keys: Vec<&str> = item.params.keys().map(|key| key.as_str()).collect();
                let expected = if name == "ratelimit" {
                    ["r", "t"]
                } else {
                    ["q", "w"]
                };
                assert_eq!(keys, expected, "{name}: {value}");
            }
            assert_eq!(list.serialize().unwrap(), value);
        } else {
            let item: Item = Parser::new(value).parse().unwrap();
            assert!(item.bare_item.as_integer().is_some(), "{name}: {value}");
        }
    }
}

#[test]
fn every_style_is_told_as_it_should_be() {
    let upstream = Upstream::start();
    let all = [&X[..], &IETF_06, &IETF].concat();
    for (style, expected) in [
        ("headers: none", vec![]),
        ("headers: []", vec![]),
        ("headers: x-ratelimit", X.to_vec()),
        ("headers: ietf", IETF.to_vec()),
        ("headers: ietf-06", IETF_06.to_vec()),
        ("headers: [x-ratelimit, ietf]", [&X[..], &IETF].concat()),
        (
            "headers: [ietf-06, x-ratelimit]",
            [&X[..], &IETF_06].concat(),
        ),
        ("headers: [x-ratelimit, ietf-06, ietf]", all),
    ] {
        let gated = gated(&upstream, style);
        let (admitted, refused) = (gated.get("/a", &[]), gated.get("/a", &[]));
        assert_eq!((admitted.status, refused.status), (200, 429), "{style}");
        for response in [&admitted, &refused] {
            assert_eq!(told(response), expected, "{style}");
            assert_structured(response);
        }
        // Whatever the style: that it is refused, and until when.
        assert_eq!(refused.header("retry-after"), Some("30"), "{style}");
        assert_eq!(refused.header("cache-control"), Some("no-store"));
        assert_eq!(admitted.header("retry-after"), None);
        assert_eq!(admitted.header("cache-control"), None);
    }
}

#[test]
fn all_limits_are_told_and_the_one_that_binds_is_shown() {
    let upstream = Upstream::start();
    let gated = gated(&upstream, "headers: [x-ratelimit, ietf, ietf-06]");
    let policy = "\"limit:tight\";q=1;w=30, \"limit:wide\";q=10;w=60";
    let admitted = gated.get("/a", &[]);
    let state = "\"limit:tight\";r=0;t=30, \"limit:wide\";r=9;t=6";
    assert_eq!(admitted.header("ratelimit"), Some(state));
    assert_eq!(admitted.header("ratelimit-policy"), Some(policy));
    gated.advance_ms(10_500);
    let refused = gated.get("/a", &[]);
    let state = "\"limit:tight\";r=0;t=20, \"limit:wide\";r=10;t=0";
    assert_eq!(refused.header("ratelimit"), Some(state));
    assert_eq!(refused.header("ratelimit-policy"), Some(policy));
    assert_eq!(number(&refused, "x-ratelimit-limit"), 1);
    assert_eq!(number(&refused, "ratelimit-reset"), 20);
    assert_eq!(number(&refused, "retry-after"), 20);
    assert_eq!(
        number(&refused, "x-ratelimit-reset"),
        gated.unix_secs() + 20
    );
}

#[test]
fn an_upstream_cannot_speak_for_the_gateway() {
    let upstream = Upstream::answering(|_| {
        let headers = [
            ("x-ratelimit-limit", "9999"),
            ("X-RateLimit-Remaining", "9999"),
            ("ratelimit", "\"inner\";r=5;t=1"),
        ];
        answer(200, &headers, b"")
    });
    let gated = gated(
        &upstream,
        "headers: [x-ratelimit, ietf], expose_headers: true",
    );
    let answer = gated.get("/a", &[]);
    assert_eq!(number(&answer, "x-ratelimit-limit"), 1);
    assert_eq!(number(&answer, "x-ratelimit-remaining"), 0);
    // What is a list has room for both.
    let lines = answer
        .headers
        .iter()
        .filter(|(name, _)| name == "ratelimit");
    let lines: Vec<&str> = lines.map(|(_, value)| &**value).collect();
    let all: List = Parser::new(&lines.join(", ")).parse().unwrap();
    assert_eq!(all.len(), 3, "{lines:?}");
    let exposed = answer.header("access-control-expose-headers").unwrap();
    for name in ["X-RateLimit-Remaining", "RateLimit", "Retry-After"] {
        assert!(exposed.split(", ").any(|it| it == name), "{exposed}");
    }
}

#[test]
fn a_caller_of_grpc_is_refused_in_its_own_words() {
    let upstream = Upstream::start();
    let gated = gated(&upstream, "headers: [x-ratelimit, ietf]");
    let headers = [
        ("content-type", "application/grpc+proto"),
        ("te", "trailers"),
    ];
    assert_eq!(gated.ask("POST", "/a.B/C", &headers).status, 200);
    let refused = gated.ask("POST", "/a.B/C", &headers);
    assert_eq!(refused.status, 200);
    assert_eq!(refused.header("grpc-status"), Some("8"));
    assert_eq!(refused.header("content-type"), Some("application/grpc"));
    let message = refused.header("grpc-message").unwrap();
    assert!(message.contains("Retry after 30 seconds."), "{message}");
    assert_eq!(refused.header("retry-after"), Some("30"));
    assert_eq!(refused.body, b"");
    assert_structured(&refused);
    assert_eq!(upstream.count(), 1);
}

#[test]
fn head_is_refused_without_a_body() {
    let upstream = Upstream::start();
    let gated = gated(&upstream, "headers: [x-ratelimit]");
    let mut connection = gated.connect();
    let mut ask = |method| connection.request(method, "/a", &[], b"").unwrap();
    assert_eq!(ask("GET").status, 200);
    for _ in 0..2 {
        // Had it a body, the next answer would not start where it should.
        let refused = ask("HEAD");
        assert_eq!((refused.status, number(&refused, "retry-after")), (429, 30));
        assert_eq!(number(&refused, "x-ratelimit-remaining"), 0);
        let refused = ask("GET");
        assert_eq!(refused.status, 429);
        assert_eq!(json(&refused)["violated-policies"][0], "limit:tight");
    }
    // Everything else about it is as for GET.
    assert_eq!(
        ask("HEAD").header("content-type"),
        Some("application/problem+json")
    );
}

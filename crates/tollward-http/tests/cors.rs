//! What pages of other origins are told.

// Clippy knows the test functions as tests, but not the functions they share.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use http::header::HeaderMap;
use http::request::Parts;
use http::{HeaderValue, Request};
use tollward_http::{CorsOutcome, CrossOrigin, cross_origin};
use tollward_policy::{Policy, compile};

const APP: &str = "https://app.example.com";

fn policy(cors: &str) -> Policy {
    let text = format!(
        "
upstreams: {{ app: {{ url: http://127.0.0.1:9000 }} }}
routes: [ {{ match: /**, upstream: app }}, {{ match: /own/**, cors: none }} ]
cors: {{ {cors} }}
"
    );
    compile(text.as_bytes()).unwrap().policy
}

fn head(method: &str, path: &str, headers: &[(&str, &str)]) -> Parts {
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(()).unwrap().into_parts().0
}

/// The headers and the outcome of a request that is no preflight, on an answer that has these already.
fn written(policy: &Policy, head: &Parts, answer: &[(&str, &str)]) -> (Vec<String>, CorsOutcome) {
    let Some(CrossOrigin::Request(headers, outcome)) = cross_origin(policy, head) else {
        panic!("{head:?}");
    };
    let mut answered = HeaderMap::new();
    for (name, value) in answer {
        let name: http::HeaderName = name.parse().unwrap();
        answered.append(name, HeaderValue::from_str(value).unwrap());
    }
    headers.write_to(&mut answered);
    (lines(&answered), outcome)
}

fn lines(headers: &HeaderMap) -> Vec<String> {
    let line = |(name, value): (&http::HeaderName, &HeaderValue)| {
        format!("{name}: {}", value.to_str().unwrap())
    };
    let mut lines: Vec<String> = headers.iter().map(line).collect();
    lines.sort();
    lines
}

/// The status, the lines of the head, the body and the outcome of the answer to a preflight.
fn preflight(
    policy: &Policy,
    path: &str,
    headers: &[(&str, &str)],
) -> (u16, Vec<String>, CorsOutcome) {
    let head = head("OPTIONS", path, headers);
    let Some(CrossOrigin::Preflight(answer, outcome)) = cross_origin(policy, &head) else {
        panic!("no preflight: {headers:?}");
    };
    (answer.status().as_u16(), lines(answer.headers()), outcome)
}

#[test]
fn origins_match_exactly_or_by_one_label() {
    let listed = policy(
        "origins: [https://app.example.com, 'https://*.example.org', 'http://*.b.test:81'], expose: false",
    );
    let any = policy("origins: '*', expose: false");
    for (origin, is_listed) in [
        (APP, true),
        ("https://app.example.com:443", false),
        ("https://app.example.com.evil.test", false),
        ("https://xapp.example.com", false),
        ("https://APP.example.com", false),
        ("http://app.example.com", false),
        ("https://app.example.com/", false),
        ("https://a.example.org", true),
        ("https://a-1.example.org", true),
        ("https://example.org", false),
        ("https://.example.org", false),
        ("https://evilexample.org", false),
        ("https://a.b.example.org", false),
        ("https://a.example.org:8443", false),
        ("http://a.example.org", false),
        ("https://evil.test/.example.org", false),
        ("https://evil.test#.example.org", false),
        ("https://u@.example.org", false),
        ("https://evil.test:80.example.org", false),
        ("https://a.example.org.evil.test", false),
        ("http://a.b.test:81", true),
        ("http://a.b.test", false),
        ("", false),
        ("*", false),
    ] {
        let head = head("GET", "/a", &[("origin", origin)]);
        let (lines, outcome) = written(&listed, &head, &[]);
        let mut expected = vec!["vary: Origin".to_owned()];
        if is_listed {
            expected.insert(0, format!("access-control-allow-origin: {origin}"));
        }
        assert_eq!(lines, expected, "{origin}");
        assert_eq!(outcome == CorsOutcome::Allowed, is_listed, "{origin}");
        let (lines, _) = written(&any, &head, &[]);
        assert_eq!(lines, ["access-control-allow-origin: *", "vary: Origin"]);
    }
}

#[test]
fn null_and_doubled_origins_never_match() {
    let any = policy("origins: '*'");
    let app = policy("origins: [https://app.example.com]");
    for policy in [&any, &app] {
        for origins in [
            &[("origin", "null")][..],
            &[("origin", APP), ("origin", APP)],
        ] {
            let (lines, outcome) = written(policy, &head("GET", "/", origins), &[]);
            assert_eq!(lines, ["vary: Origin"]);
            assert_eq!(outcome, CorsOutcome::OriginNotAllowed);
        }
    }
}

#[test]
fn what_pages_may_read() {
    let of = |cors: &str| {
        let policy = policy(&format!("origins: [https://app.example.com], {cors}"));
        written(&policy, &head("GET", "/", &[("origin", APP)]), &[]).0
    };
    let limits = "X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset, RateLimit-Policy, RateLimit, Retry-After";
    let origin = "access-control-allow-origin: https://app.example.com";
    let exposed = format!("access-control-expose-headers: {limits}");
    assert_eq!(of("expose: true"), [origin, &exposed, "vary: Origin"]);
    assert_eq!(of("expose: []"), [origin, &exposed, "vary: Origin"]);
    let more = format!("{exposed}, etag");
    assert_eq!(
        of("expose: [ETag, retry-after]"),
        [origin, &more, "vary: Origin"]
    );
    assert_eq!(
        of("expose: false, credentials: true"),
        [
            "access-control-allow-credentials: true",
            origin,
            "vary: Origin"
        ]
    );
}

#[test]
fn what_an_upstream_says_is_replaced() {
    let policy = policy("origins: [https://app.example.com], expose: false");
    let answer = [
        ("access-control-allow-origin", "*"),
        ("access-control-allow-origin", "https://other"),
        ("access-control-allow-credentials", "true"),
        ("access-control-expose-headers", "x-own"),
        ("access-control-anything", "new"),
        ("vary", "Accept-Encoding"),
        ("x-own", "yes"),
    ];
    let rest = ["vary: Accept-Encoding", "vary: Origin", "x-own: yes"];
    let origin = "access-control-allow-origin: https://app.example.com";
    let (lines, _) = written(&policy, &head("GET", "/", &[("origin", APP)]), &answer);
    assert_eq!(lines, [&[origin][..], &rest].concat());
    // To others it says nothing, whatever the upstream would.
    for headers in [&[("origin", "https://other")][..], &[]] {
        let (lines, _) = written(&policy, &head("GET", "/", headers), &answer);
        assert_eq!(lines, rest);
    }
}

#[test]
fn vary_is_not_doubled() {
    let policy = policy("origins: [https://app.example.com]");
    for vary in ["origin", "Accept, ORIGIN", "*", "Origin,Accept"] {
        let (lines, _) = written(&policy, &head("GET", "/", &[]), &[("vary", vary)]);
        assert_eq!(lines, [format!("vary: {vary}")]);
    }
    let (lines, _) = written(&policy, &head("GET", "/", &[]), &[("vary", "X-Origin")]);
    assert_eq!(lines, ["vary: Origin", "vary: X-Origin"]);
}

#[test]
fn pages_of_the_same_origin_are_nothing_to_tell_of() {
    let policy = policy("origins: [https://app.example.com]");
    let outcome = |headers: &[(&str, &str)]| written(&policy, &head("POST", "/", headers), &[]).1;
    assert_eq!(outcome(&[]), CorsOutcome::SameOrigin);
    let own = [
        ("host", "api.example.com"),
        ("origin", "https://api.example.com"),
    ];
    assert_eq!(outcome(&own), CorsOutcome::SameOrigin);
    let other = [
        ("host", "api.example.com"),
        ("origin", "https://example.com"),
    ];
    assert_eq!(outcome(&other), CorsOutcome::OriginNotAllowed);
}

#[test]
fn what_has_no_cors_is_left_alone() {
    let without = compile(b"").unwrap().policy;
    assert!(cross_origin(&without, &head("GET", "/", &[("origin", APP)])).is_none());
    let policy = policy("origins: [https://app.example.com]");
    assert!(cross_origin(&policy, &head("GET", "/own/x", &[("origin", APP)])).is_none());
    let asked = [("origin", APP), ("access-control-request-method", "GET")];
    assert!(cross_origin(&policy, &head("OPTIONS", "/own/x", &asked)).is_none());
}

#[test]
fn only_a_preflight_is_one() {
    let policy = policy("origins: [https://app.example.com]");
    let asked = ("access-control-request-method", "GET");
    for (method, headers) in [
        ("OPTIONS", &[("origin", APP)][..]),
        ("OPTIONS", &[asked]),
        ("OPTIONS", &[]),
        ("GET", &[("origin", APP), asked]),
    ] {
        let found = cross_origin(&policy, &head(method, "/", headers));
        assert!(
            matches!(found, Some(CrossOrigin::Request(..))),
            "{headers:?}"
        );
    }
}

const VARY: &str = "vary: Origin, Access-Control-Request-Method, Access-Control-Request-Headers";

#[test]
fn a_preflight_is_granted() {
    let policy = policy(
        "origins: [https://app.example.com], methods: [GET, PUT], headers: [X-Api-Key, X-Two], credentials: true, max_age: 5m, expose: false",
    );
    let (status, lines, outcome) = preflight(
        &policy,
        "/a",
        &[
            ("origin", APP),
            ("access-control-request-method", "PUT"),
            ("access-control-request-headers", "x-api-key,, X-TWO "),
            ("access-control-request-headers", "x-two"),
        ],
    );
    assert_eq!((status, outcome), (204, CorsOutcome::Preflight));
    assert_eq!(
        lines,
        [
            "access-control-allow-credentials: true",
            "access-control-allow-headers: x-api-key, x-two",
            "access-control-allow-methods: GET, PUT",
            "access-control-allow-origin: https://app.example.com",
            "access-control-max-age: 300",
            VARY,
        ]
    );
}

#[test]
fn a_preflight_is_refused() {
    use CorsOutcome::{HeaderNotAllowed, MethodNotAllowed, OriginNotAllowed};
    let policy = policy("origins: [https://app.example.com]");
    for (origin, method, headers, expected) in [
        ("https://evil.test", "GET", "x-api-key", OriginNotAllowed),
        ("null", "GET", "x-api-key", OriginNotAllowed),
        (APP, "PUT", "x-api-key", MethodNotAllowed),
        (APP, "get", "x-api-key", MethodNotAllowed),
        (APP, "", "x-api-key", MethodNotAllowed),
        (APP, "G T", "", MethodNotAllowed),
        (APP, "GET", "x-api-key, x-other", HeaderNotAllowed),
        (APP, "GET", "authorization", HeaderNotAllowed),
        (APP, "GET", "\"", HeaderNotAllowed),
    ] {
        let headers = [
            ("origin", origin),
            ("access-control-request-method", method),
            ("access-control-request-headers", headers),
        ];
        let (status, lines, outcome) = preflight(&policy, "/a", &headers);
        assert_eq!((status, outcome), (403, expected), "{headers:?}");
        assert_eq!(lines, ["content-type: application/problem+json", VARY]);
    }
}

#[test]
fn a_preflight_for_what_is_not_there() {
    let policy = compile(
        b"
upstreams: { app: { url: http://127.0.0.1:9000 } }
routes: [ { match: GET /a, upstream: app }, { match: /closed, deny: true } ]
cors: { origins: '*', expose: false }
",
    );
    let policy = policy.unwrap().policy;
    let asked = |method| [("origin", APP), ("access-control-request-method", method)];
    for (method, path, expected) in [
        ("GET", "/a", 204),
        ("HEAD", "/a", 204),
        // The request itself gets 404, 400 or 403, which the page can read.
        ("POST", "/a", 204),
        ("GET", "/b", 204),
        ("GET", "/a/%2F", 204),
        ("POST", "/closed", 204),
    ] {
        let (status, lines, _) = preflight(&policy, path, &asked(method));
        assert_eq!(status, expected, "{method} {path}");
        let origin = "access-control-allow-origin: *".to_owned();
        assert!(lines.contains(&origin), "{method} {path}: {lines:?}");
        assert!(lines.contains(&VARY.to_owned()), "{lines:?}");
    }
}

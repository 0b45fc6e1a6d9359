//! Keys, and clients who prove themselves by them.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use tollward_testkit::upstream::Upstream;

use crate::gated::{Gated, number, remaining, sha256};
use crate::served::{Client, assert_problem};

fn gated(upstream: &Upstream, identity: &str) -> Gated {
    Gated::of(&format!(
        "
identity: {{ {identity} }}
limits:
  per-client: {{ sustained: {{ rate: 1, window: hour }}, burst: {{ capacity: 100 }}, scope: client }}
tenants: {{ acme: {{}}, other: {{}} }}
keys:
  - {{ sha256: {}, tenant: acme, client: web }}
  - {{ sha256: {}, tenant: acme, client: web }}
  - {{ sha256: {}, tenant: other, client: app }}
routes: [ {{ match: /**, upstream: app }} ]
upstreams: {{ app: {{ url: {} }} }}
",
        sha256("web-1"),
        sha256("web-2"),
        sha256("app-1"),
        upstream.url()
    ))
}

fn basic(id: &str, key: &str) -> String {
    format!("Basic {}", STANDARD.encode(format!("{id}:{key}")))
}

#[test]
fn basic_proves_a_client_by_any_of_its_keys() {
    let upstream = Upstream::start();
    let gated = gated(&upstream, "client: { basic: true }");
    let ask = |authorization: &str| gated.get("/", &[("authorization", authorization)]);
    assert_eq!(remaining(&ask(&basic("web", "web-1"))), 99);
    assert_eq!(remaining(&ask(&basic("web", "web-2"))), 98);
    assert_eq!(remaining(&gated.with_key("web-1", "/")), 97);
    let seen = upstream.last();
    assert_eq!(seen.header("x-tollward-tenant"), Some("acme"));
    assert_eq!(seen.header("authorization"), None);
    assert_eq!(remaining(&ask(&basic("app", "app-1"))), 99);
    assert_eq!(upstream.last().header("authorization"), None);
    for wrong in [
        basic("web", "app-1"),
        basic("web", "guess"),
        basic("app", "web-1"),
        basic("", "web-1"),
        "Basic".into(),
        "Basic !!!".into(),
        format!("Basic {}", STANDARD.encode("web")),
    ] {
        let refused = ask(&wrong);
        let problem = assert_problem(&refused, 401, &wrong);
        assert_eq!(problem["reason"], "bad_credentials");
        let asked = refused.headers.iter();
        let asked = asked.filter(|(name, _)| name == "www-authenticate");
        let asked: Vec<&str> = asked.map(|(_, value)| &**value).collect();
        assert!(
            asked.iter().any(|it| it.starts_with("Basic realm=")),
            "{asked:?}"
        );
    }
    // Two callers in one request are none.
    let both = [
        ("authorization", &*basic("web", "web-1")),
        ("x-api-key", "app-1"),
    ];
    assert_problem(&gated.get("/", &both), 400, "two callers");
    assert_eq!(upstream.count(), 4);
}

#[test]
fn a_key_is_passed_on_only_where_that_is_wanted() {
    let upstream = Upstream::start();
    let secret = "api_key: { header: X-Secret }";
    let forwarding = "api_key: { header: X-Secret, forward: true }";
    for (identity, passed_on) in [(secret, None), (forwarding, Some("web-1"))] {
        let gated = gated(&upstream, identity);
        let answer = gated.get("/", &[("x-secret", "web-1")]);
        assert_eq!((answer.status, remaining(&answer)), (200, 99));
        assert_eq!(upstream.last().header("x-secret"), passed_on);
        // The usual header is not read here, and is the upstream's.
        assert_problem(&gated.with_key("web-1", "/"), 401, "another header");
    }
}

#[test]
fn a_key_may_stand_in_authorization() {
    let upstream = Upstream::start();
    let gated = gated(&upstream, "api_key: { header: Authorization }");
    let ask = |authorization: &str| gated.get("/", &[("authorization", authorization)]);
    assert_eq!(remaining(&ask("Bearer web-1")), 99);
    assert_eq!(remaining(&ask("bearer  web-2")), 98);
    assert_eq!(upstream.last().header("authorization"), None);
    for wrong in ["Bearer guess", "web-1", "Bearer", "Basic web-1", ""] {
        let refused = ask(wrong);
        assert_problem(&refused, 401, wrong);
        assert_eq!(
            refused.header("www-authenticate"),
            Some("Bearer"),
            "{wrong}"
        );
    }
}

#[test]
fn guessing_has_an_end_and_hurts_nobody_else() {
    let upstream = Upstream::start();
    let gated = gated(
        &upstream,
        "client: { basic: true }, ip: { trusted_proxies: [127.0.0.1] }",
    );
    let from = |ip: &str, key: &str| gated.get("/", &[("x-forwarded-for", ip), ("x-api-key", key)]);
    for guess in 0..20 {
        // Through either door it is a guess.
        let refused = match guess % 2 {
            0 => from("192.0.2.1", &format!("guess-{guess}")),
            _ => {
                let wrong = basic("web", &format!("guess-{guess}"));
                let headers = [("x-forwarded-for", "192.0.2.1"), ("authorization", &wrong)];
                gated.get("/", &headers)
            }
        };
        assert_problem(&refused, 401, "a guess");
    }
    for _ in 0..3 {
        let refused = from("192.0.2.1", "guess");
        assert_eq!(refused.status, 429);
        assert_eq!(number(&refused, "retry-after"), 6);
        assert_eq!(refused.header("cache-control"), Some("no-store"));
    }
    // The right key works, from there as from elsewhere, and elsewhere one may still mistype.
    assert_eq!(remaining(&from("192.0.2.1", "web-1")), 99);
    assert_eq!(remaining(&from("192.0.2.2", "web-1")), 98);
    assert_eq!(from("192.0.2.2", "guess").status, 401);
    assert_eq!(upstream.count(), 2);
    // Ten more a minute.
    gated.advance_ms(60_000);
    let statuses: Vec<u16> = (0..12).map(|_| from("192.0.2.1", "x").status).collect();
    assert_eq!(
        statuses,
        [[401; 6], [401, 401, 401, 401, 429, 429]].concat()
    );
    // None of it is a bucket of the victim's.
    let (_, state) =
        Client::new(gated.api).check(serde_json::json!({ "api_key": "web-1", "peek": true }));
    assert_eq!(state["remaining"], 98);
}

//! Routes that need no credentials, beside those that do.

use serde_json::json;
use tollward_testkit::http::Response;

use crate::served::json as body;
use crate::site::{Caller, Site, sha256, told};

fn config(rest: &str) -> String {
    format!(
        "
plans: {{ team: {{ rate_limit: {{ sustained: {{ rate: 1, window: 366d }}, burst: {{ capacity: 50 }}, scope: tenant }} }} }}
tenants: {{ acme: {{ plan: team }} }}
keys: [ {{ sha256: {}, tenant: acme }} ]
routes:
  - {{ match: /**, upstream: app }}
  - {{ match: /health, upstream: app, allow: true }}
  - {{ match: /search, upstream: app, auth: optional, rate_limit: {{ sustained: {{ rate: 1, window: 366d }}, burst: {{ capacity: 3 }}, scope: ip }} }}
  - {{ match: /login, upstream: app, auth: none, rate_limit: {{ sustained: {{ rate: 1, window: 366d }}, burst: {{ capacity: 2 }}, scope: ip }} }}
  - {{ match: /strict, upstream: app, auth: required }}
  - {{ match: /metered, upstream: app, allow: true, auth: required }}
{rest}
",
        sha256("right")
    )
}

/// The answers of the gateway and of the doors for proxies, which are the same.
#[track_caller]
fn ask(site: &Site, target: &str, key: Option<&str>) -> (Response, (u16, Option<String>)) {
    let headers: Vec<_> = key.map(|key| ("x-api-key", key)).into_iter().collect();
    let answer = site.get(target, &headers);
    let gateway = told(&answer);
    for proxy in ["nginx", "traefik", "caddy", "envoy"] {
        let same = told(&site.auth(proxy, target, &headers));
        assert_eq!(same, gateway, "{proxy} {target} {key:?}");
    }
    (answer, gateway)
}

fn refusal(status: u16, reason: &str) -> (u16, Option<String>) {
    (status, Some(reason.to_owned()))
}

#[test]
fn an_open_route_stands_beside_those_that_need_a_key() {
    for rest in ["", "enforcement: \"off\"", "enforcement: shadow"] {
        let site = Site::of(&config(rest));
        for key in [None, Some("right"), Some("wrong"), Some("")] {
            let (_, answer) = ask(&site, "/health", key);
            assert_eq!(answer, (200, None), "{key:?} {rest}");
        }
        // What is not open needs a key, also when nothing is limited.
        for target in ["/", "/anything", "/strict", "/metered", "/health/more"] {
            assert_eq!(
                ask(&site, target, None).1,
                refusal(401, "anonymous"),
                "{target}"
            );
            assert_eq!(ask(&site, target, Some("right")).1, (200, None), "{target}");
        }
        // Three of them: an address has twenty guesses, and every door counts.
        for target in ["/", "/metered", "/search"] {
            let wrong = ask(&site, target, Some("wrong")).1;
            assert_eq!(wrong, refusal(401, "unknown_key"), "{target}");
        }
    }
}

#[test]
fn credentials_are_optional_but_not_wrong() {
    let site = Site::of(&config(""));
    assert_eq!(site.get("/search", &[]).status, 200);
    assert_eq!(site.upstream.last().header("x-tollward-tenant"), None);
    let right = [("x-api-key", "right")];
    let answer = site.get("/search", &right);
    assert_eq!(answer.status, 200);
    let seen = site.upstream.last();
    assert_eq!(seen.header("x-tollward-tenant"), Some("acme"));
    assert_eq!(seen.header("x-tollward-plan"), Some("team"));
    let known = site.auth("nginx", "/search", &right);
    assert_eq!(known.header("x-tollward-tenant"), Some("acme"));
    assert_eq!(
        ask(&site, "/search", Some("wrong")).1,
        refusal(401, "unknown_key")
    );
    // Three were admitted from this address, and no more are, with a key or without.
    assert_eq!(ask(&site, "/search", None).1.0, 429);
    assert_eq!(ask(&site, "/search", Some("right")).1.0, 429);
    assert_eq!(site.upstream.count(), 2);
}

#[test]
fn where_no_credentials_are_read_none_are_wrong() {
    let site = Site::of(&config(""));
    assert_eq!(site.get("/login", &[("x-api-key", "wrong")]).status, 200);
    assert_eq!(site.upstream.last().header("x-tollward-tenant"), None);
    // The right one is not read either: the caller is as anonymous as the others of this address.
    let answer = site.get("/login", &[("x-api-key", "right")]);
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("x-ratelimit-remaining"), Some("0"));
    assert_eq!(site.upstream.last().header("x-tollward-tenant"), None);
    assert_eq!(site.upstream.last().header("x-tollward-plan"), None);
    for key in [None, Some("right"), Some("wrong")] {
        assert_eq!(ask(&site, "/login", key).1.0, 429, "{key:?}");
    }
    let left = site.left(&Caller::key("right"));
    assert_eq!(left, [("plan:team".to_owned(), 50)]);
    // Wrong keys that nobody reads are no guesses.
    for _ in 0..30 {
        site.get("/login", &[("x-api-key", "guess")]);
    }
    assert_eq!(site.get("/", &[("x-api-key", "guess")]).status, 401);
}

#[test]
fn the_decision_api_follows_the_same_routes() {
    let site = Site::of(&config(""));
    let check = |path: &str, key: Option<&str>| {
        let caller = Caller {
            key,
            ip: Some("192.0.2.1"),
            ..Caller::default()
        };
        told(&site.check(&caller.check(path)))
    };
    for key in [None, Some("wrong"), Some("right")] {
        assert_eq!(check("/health", key), (200, None), "{key:?}");
    }
    assert_eq!(check("/strict", None), refusal(401, "anonymous"));
    assert_eq!(check("/search", Some("wrong")), refusal(401, "unknown_key"));
    assert_eq!(check("/search", None), (200, None));
    for key in [Some("wrong"), Some("right")] {
        assert_eq!(check("/login", key), (200, None), "{key:?}");
    }
    let refused = site.check(&json!({ "path": "/login", "ip": "192.0.2.1" }));
    assert_eq!(refused.status, 429);
    assert_eq!(body(&refused)["limits"][0]["scope"], "ip");
}

#[test]
fn whoever_is_denied_is_denied_on_open_routes_too() {
    let site = Site::of(&config("deny: [ { cidr: 127.0.0.1, reason: abuse } ]\n"));
    for target in ["/health", "/login", "/search", "/"] {
        assert_eq!(
            ask(&site, target, None).1,
            refusal(403, "denied"),
            "{target}"
        );
    }
    assert_eq!(site.upstream.count(), 0);
}

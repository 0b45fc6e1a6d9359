//! Callers of whom nothing is proven.

use tollward_testkit::upstream::Upstream;

use crate::gated::{Gated, remaining, sha256};
use crate::served::assert_problem;

fn gated(upstream: &Upstream, identity: &str) -> Gated {
    Gated::of(&format!(
        "
identity: {{ {identity} }}
plans:
  guest: {{ rate_limit: {{ sustained: {{ rate: 1, window: hour }}, burst: {{ capacity: 3 }}, scope: user }} }}
  paid: {{ rate_limit: {{ sustained: {{ rate: 1, window: hour }}, burst: {{ capacity: 50 }}, scope: tenant }} }}
tenants: {{ acme: {{ plan: paid }} }}
keys: [ {{ sha256: {}, tenant: acme }} ]
routes: [ {{ match: /**, upstream: app }} ]
upstreams: {{ app: {{ url: {} }} }}
",
        sha256("right"),
        upstream.url()
    ))
}

#[test]
fn a_plan_lets_them_in_and_limits_them() {
    let upstream = Upstream::start();
    let gated = gated(&upstream, "anonymous: { plan: guest }");
    for left in [2, 1, 0] {
        let answer = gated.get("/", &[]);
        assert_eq!((answer.status, remaining(&answer)), (200, left));
        let seen = upstream.last();
        assert_eq!(seen.header("x-tollward-plan"), Some("guest"));
        assert_eq!(seen.header("x-tollward-tenant"), None);
    }
    assert_eq!(gated.get("/", &[]).status, 429);
    assert_eq!(remaining(&gated.with_key("right", "/")), 49);
    // A wrong key is not the same as none.
    assert_problem(&gated.with_key("wrong", "/"), 401, "a wrong key");
    assert_problem(&gated.with_key("", "/"), 401, "an empty key");
}

#[test]
fn allow_lets_them_in_without_a_plan() {
    let upstream = Upstream::start();
    let gated = gated(&upstream, "anonymous: allow");
    let answer = gated.get("/", &[]);
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("x-ratelimit-limit"), None);
    assert_eq!(upstream.last().header("x-tollward-plan"), None);
    assert_problem(&gated.with_key("wrong", "/"), 401, "a wrong key");
    assert_eq!(remaining(&gated.with_key("right", "/")), 49);
}

#[test]
fn unless_told_otherwise_they_are_refused() {
    let upstream = Upstream::start();
    for identity in ["", "anonymous: reject"] {
        let gated = gated(&upstream, identity);
        let refused = gated.get("/", &[]);
        let problem = assert_problem(&refused, 401, identity);
        assert_eq!(problem["reason"], "anonymous");
        assert_eq!(refused.header("www-authenticate"), Some("ApiKey"));
        assert_eq!(gated.with_key("right", "/").status, 200);
    }
    assert_eq!(upstream.count(), 2);
}

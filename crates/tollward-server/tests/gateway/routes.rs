//! Where requests go, and what upstreams cost.

use tollward_testkit::upstream::{Upstream, answer};

use crate::gated::{Gated, remaining, sha256};
use crate::served::assert_problem;

fn named(name: &'static str) -> Upstream {
    Upstream::answering(move |_| answer(200, &[], name.as_bytes()))
}

#[test]
fn the_most_specific_route_with_an_upstream_is_taken() {
    let (app, api) = (named("app"), named("api"));
    let gated = Gated::of(&format!(
        "
identity: {{ anonymous: allow }}
routes:
  - {{ match: /shop/**, upstream: app }}
  - {{ match: /shop/api/**, upstream: api }}
  - match: /shop/api/slow/**
    rate_limit: {{ sustained: {{ rate: 1, window: hour }}, burst: {{ capacity: 2 }}, scope: ip }}
  - {{ match: \"POST /shop/api/slow/write\", cost: 2 }}
  - {{ match: /shop/closed/**, deny: true }}
  - {{ match: /shop/free, allow: true }}
  - {{ match: /lonely, cost: 3 }}
  - {{ match: /shut/**, deny: true }}
upstreams: {{ app: {{ url: {} }}, api: {{ url: {} }} }}
",
        app.url(),
        api.url()
    ));
    for (target, server) in [
        ("/shop", "app"),
        ("/shop/", "app"),
        ("/shop/x", "app"),
        ("/shop/free", "app"),
        ("/shop/api", "api"),
        ("/shop/api/x", "api"),
        ("/shop/api/slow", "api"),
        ("/shop/api/slow/write", "api"),
    ] {
        let answer = gated.get(target, &[]);
        assert_eq!((answer.status, &*answer.text()), (200, server), "{target}");
    }
    // The limit is of the route that was matched, and the upstream of a wider one.
    assert_eq!(gated.get("/shop/api/slow/x", &[]).status, 429);
    assert_eq!(gated.get("/shop/api/x", &[]).status, 200);
    for target in ["/", "/lonely", "/shopping", "/shop%20"] {
        assert_problem(&gated.get(target, &[]), 404, target);
    }
    for target in ["/shop/closed/x", "/shut", "/shut/x"] {
        let closed = gated.get(target, &[]);
        assert_problem(&closed, 403, target);
        assert_eq!(closed.header("x-ratelimit-limit"), None);
    }
    assert_eq!((app.count(), api.count()), (4, 5));
}

#[test]
fn an_upstream_has_limits_of_its_own() {
    let (app, other) = (named("app"), named("other"));
    let key = sha256;
    let gated = Gated::of(&format!(
        "
tenants: {{ acme: {{}}, globex: {{}} }}
keys:
  - {{ sha256: {}, tenant: acme }}
  - {{ sha256: {}, tenant: acme }}
  - {{ sha256: {}, tenant: globex }}
routes:
  - {{ match: /a/**, upstream: app }}
  - {{ match: /b/**, upstream: app, cost: 2 }}
  - {{ match: /c/**, upstream: other }}
upstreams:
  app:
    url: {}
    rate_limit: {{ sustained: {{ rate: 1, window: minute }}, burst: {{ capacity: 5 }} }}
  other:
    url: {}
    rate_limit: {{ sustained: {{ rate: 1, window: minute }}, burst: {{ capacity: 5 }} }}
response: {{ headers: [x-ratelimit, ietf] }}
",
        key("a"),
        key("a2"),
        key("g"),
        app.url(),
        other.url()
    ));
    let answer = gated.with_key("a", "/a/x");
    assert_eq!(remaining(&answer), 4);
    let policy = "\"upstream:app\";q=5;w=300";
    assert_eq!(answer.header("ratelimit-policy"), Some(policy));
    // A bucket is that of a tenant at an upstream, whatever route or key leads there.
    assert_eq!(remaining(&gated.with_key("a2", "/b/x")), 2);
    assert_eq!(remaining(&gated.with_key("a", "/b/y")), 0);
    let refused = gated.with_key("a", "/a/x");
    assert_eq!(refused.status, 429);
    let problem = crate::served::json(&refused);
    assert_eq!(
        problem["violated-policies"],
        serde_json::json!(["upstream:app"])
    );
    assert_eq!(remaining(&gated.with_key("g", "/a/x")), 4);
    assert_eq!(remaining(&gated.with_key("a", "/c/x")), 4);
    assert_eq!((app.count(), other.count()), (4, 1));
}

#[test]
fn a_request_that_costs_too_much_is_told_so() {
    let app = named("app");
    let gated = Gated::of(&format!(
        "
identity: {{ anonymous: allow }}
routes: [ {{ match: /**, upstream: app, cost: 10 }} ]
limits: {{ small: {{ sustained: {{ rate: 5 }}, scope: ip }} }}
upstreams: {{ app: {{ url: {} }} }}
",
        app.url()
    ));
    assert_problem(&gated.get("/", &[]), 422, "more than the bucket holds");
    assert_eq!(app.count(), 0);
}

/// Requests go to all servers of an upstream, and its path comes before theirs.
#[test]
fn an_upstream_may_have_several_servers_and_a_path() {
    let servers = [named("1"), named("2")];
    let gated = Gated::of(&format!(
        "
identity: {{ anonymous: allow }}
routes: [ {{ match: /**, upstream: app }} ]
upstreams: {{ app: {{ urls: [\"{}/base\", \"{}/base/\"], host: target }} }}
gateway: {{ workers: 1 }}
",
        servers[0].url(),
        servers[1].url()
    ));
    for _ in 0..10 {
        assert_eq!(gated.get("/x/y?z", &[]).status, 200);
    }
    for server in &servers {
        assert!(server.count() >= 3, "{}", server.count());
        let seen = server.last();
        assert_eq!(seen.target, "/base/x/y?z");
        assert_eq!(seen.header("host"), Some(&*server.addr().to_string()));
        assert_eq!(seen.header("x-forwarded-host"), Some("tollward.test"));
    }
}

//! Where requests go, and what that costs.

use std::time::Duration;

use super::{assert_faults, charged, policy};
use crate::config::{HostHeader, Protocol};
use crate::{ClientCertificate, Facts, PathFault, Policy, Rejection, Target, UpstreamTls};

fn target(tls: bool, host: &str, port: u16, prefix: &str) -> Target {
    Target {
        tls,
        host: host.into(),
        port,
        prefix: prefix.into(),
    }
}

#[test]
fn what_holds_unless_the_file_says() {
    let policy =
        policy("upstreams: { app: { url: http://127.0.0.1:9000/ }, safe: { url: https://b/x/ } }");
    let [app, safe] = policy.upstreams() else {
        panic!("{:?}", policy.upstreams());
    };
    assert_eq!((&*app.name, &*safe.name), ("app", "safe"));
    assert_eq!(app.targets, [target(false, "127.0.0.1", 9000, "")]);
    assert_eq!(safe.targets, [target(true, "b", 443, "/x")]);
    assert_eq!(
        (app.host, safe.host),
        (HostHeader::Keep, HostHeader::Target)
    );
    for upstream in [app, safe] {
        assert_eq!(upstream.connect_timeout, Duration::from_secs(1));
        assert_eq!(upstream.response_timeout, Duration::from_secs(30));
        assert_eq!(upstream.idle_timeout, Duration::from_secs(60));
        assert_eq!(upstream.protocol, Protocol::Http1);
        assert_eq!(upstream.max_connections, 1024);
        assert_eq!(upstream.tls, UpstreamTls::default());
    }
}

#[test]
fn what_the_file_says() {
    let policy = policy(
        "
upstreams:
  app:
    urls: [https://a, https://b:8443/base]
    connect_timeout: 1ms
    response_timeout: 5m
    idle_timeout: 1h
    protocol: http2
    host: keep
    tls: { ca: ca.pem, cert: c.pem, key: c.key }
    max_connections: 3
",
    );
    let app = &policy.upstreams()[0];
    assert_eq!(
        app.targets,
        [target(true, "a", 443, ""), target(true, "b", 8443, "/base")]
    );
    assert_eq!(app.connect_timeout, Duration::from_millis(1));
    assert_eq!(app.response_timeout, Duration::from_secs(300));
    assert_eq!(app.idle_timeout, Duration::from_secs(3600));
    assert_eq!(
        (app.protocol, app.host),
        (Protocol::Http2, HostHeader::Keep)
    );
    assert_eq!(app.max_connections, 3);
    let client = ClientCertificate {
        cert: "c.pem".into(),
        key: "c.key".into(),
    };
    let tls = UpstreamTls {
        ca: Some("ca.pem".into()),
        client: Some(client),
    };
    assert_eq!(app.tls, tls);
}

#[test]
fn targets_as_they_are_written() {
    let table = [
        (target(false, "a", 80, ""), "a", "http://a"),
        (target(false, "a", 443, "/x"), "a:443", "http://a:443/x"),
        (target(true, "a", 443, ""), "a", "https://a"),
        (target(true, "a", 80, ""), "a:80", "https://a:80"),
        (target(false, "::1", 80, ""), "[::1]", "http://[::1]"),
        (target(true, "::1", 9, "/x"), "[::1]:9", "https://[::1]:9/x"),
    ];
    for (target, authority, url) in table {
        assert_eq!(target.authority(), authority);
        assert_eq!(target.to_string(), url);
    }
}

#[test]
fn servers_go_together() {
    assert_faults(
        "
upstreams:
  a: { urls: [] }
  b: { urls: [http://b, http://c, http://B:80/] }
  c: { urls: [http://c, https://c] }
  d: { url: http://d, tls: { ca: x } }
  e: { url: https://e, tls: { cert: x } }
  f: { url: https://f, tls: {} }
",
        &[
            "3:6: upstreams.a: the list of `urls` is empty; add one such as `http://127.0.0.1:9000`",
            "4:35: upstreams.b.urls[2]: the same server twice; remove one",
            "5:25: upstreams.c.urls[1]: `http://` and `https://` in one upstream; make two upstreams of it, or write the same for all",
            "6:28: upstreams.d.tls: `tls` for servers that are asked without it; remove it, or write `https://`",
            "7:29: upstreams.e.tls: `cert` without `key`; give both or neither",
            "8:29: upstreams.f.tls: a `tls` that says nothing; give it `ca`, or `cert` and `key`, or remove it",
        ],
    );
    let many: Vec<String> = (0..65).map(|n| format!("http://a:{}", n + 1)).collect();
    assert_faults(
        &format!("upstreams: {{ a: {{ urls: [{}] }} }}", many.join(", ")),
        &["1:17: upstreams.a: 65 servers, more than 64; make two upstreams of it"],
    );
    policy(&format!(
        "upstreams: {{ a: {{ urls: [{}] }} }}",
        many[1..].join(", ")
    ));
}

#[test]
fn an_upstream_that_is_named_exists() {
    assert_faults(
        "
upstreams: { app: { url: http://a } }
routes:
  - { match: /a, upstream: ap }
  - { match: /b, upstream: nowhere }
  - { match: /c, upstream: app, deny: true }
limits:
  x: { sustained: { rate: 1 }, strategy: degrade, degrade: { upstream: apq } }
",
        &[
            "4:28: routes[0].upstream: there is no upstream `ap`; did you mean `app`?",
            "5:28: routes[1].upstream: there is no upstream `nowhere`; add it under `upstreams`",
            "6:28: routes[2].upstream: an `upstream` of a route that is denied to all; remove it, or `deny`",
            "8:72: limits.x.degrade.upstream: there is no upstream `apq`; did you mean `app`?",
        ],
    );
    // It is there, but broken: it is not missed as well.
    assert_faults(
        "{ upstreams: { app: { url: a } }, routes: [{ match: /, upstream: app }] }",
        &["1:28: upstreams.app.url: not a URL; write for example `http://127.0.0.1:9000`"],
    );
}

fn shop() -> Policy {
    policy(
        "
upstreams:
  ap: { url: http://ap, rate_limit: { sustained: { rate: 1 } } }
  jobs:
    url: http://jobs
    rate_limits:
      all: { sustained: { rate: 1 }, scope: upstream, cost: 3 }
      each: { sustained: { rate: 1 }, scope: [user, upstream] }
  bare: { url: http://bare }
limits:
  by-upstream: { sustained: { rate: 1 }, scope: [upstream] }
plans:
  free: { rate_limit: { sustained: { rate: 1 }, scope: global } }
routes:
  - { match: /api/**, upstream: ap }
  - { match: /api/jobs/**, rate_limit: { sustained: { rate: 1 }, scope: route } }
  - { match: POST /api/jobs/*, cost: 2 }
  - { match: POST /api/jobs/**, upstream: jobs }
  - { match: /api/*/cheap, upstream: bare }
  - { match: /api/free/**, cost: 0 }
  - { match: /lost }
",
    )
}

fn upstream_of(
    policy: &Policy,
    method: Option<&'static str>,
    path: &'static str,
) -> Option<String> {
    let facts = Facts {
        method,
        path: Some(path),
        ..Facts::default()
    };
    let request = policy.request(&facts).unwrap();
    let name = request
        .upstream()
        .map(|index| policy.upstreams()[index].name.to_string());
    assert_eq!(request.explain().upstream, name);
    name
}

#[test]
fn the_next_less_specific_route_that_has_one() {
    let policy = shop();
    let table = [
        ("GET", "/api", Some("ap")),
        ("GET", "/api/x/y", Some("ap")),
        // `/api/jobs/**` has none, nor would `POST` be asked.
        ("GET", "/api/jobs/7", Some("ap")),
        // `POST /api/jobs/*` has none, the next is `POST /api/jobs/**`.
        ("POST", "/api/jobs/7", Some("jobs")),
        ("POST", "/api/jobs/7/8", Some("jobs")),
        ("POST", "/api/jobs", Some("jobs")),
        ("GET", "/api/jobs/cheap", Some("bare")),
        ("POST", "/api/jobs/cheap", Some("jobs")),
        ("GET", "/api/free", Some("ap")),
        ("GET", "/api/free/cheap", Some("bare")),
        ("GET", "/lost", None),
        ("GET", "/", None),
    ];
    for (method, path, expected) in table {
        let found = upstream_of(&policy, Some(method), path);
        assert_eq!(found.as_deref(), expected, "{method} {path}");
    }
}

/// A fact that is missing buys nothing: the upstream with more limits is taken.
#[test]
fn without_a_method_the_costlier_one() {
    let policy = shop();
    assert_eq!(
        upstream_of(&policy, None, "/api/jobs/7").as_deref(),
        Some("jobs")
    );
    assert_eq!(upstream_of(&policy, None, "/api/x").as_deref(), Some("ap"));
    assert_eq!(upstream_of(&policy, None, "/lost"), None);
}

#[test]
fn without_a_method_limits_of_upstreams_count() {
    for (get, post) in [("bare", "dear"), ("dear", "bare")] {
        let policy = policy(&format!(
            "
upstreams:
  bare: {{ url: http://bare }}
  dear: {{ url: http://dear, rate_limit: {{ sustained: {{ rate: 1 }} }} }}
routes: [{{ match: GET /, upstream: {get} }}, {{ match: POST /, upstream: {post} }}]
"
        ));
        assert_eq!(upstream_of(&policy, None, "/").as_deref(), Some("dear"));
    }
}

#[test]
fn what_people_are_told() {
    let policy = shop();
    let facts = Facts {
        tenant: Some("t"),
        method: Some("GET"),
        path: Some("/api"),
        ..Facts::default()
    };
    let explained = policy.request(&facts).unwrap().explain();
    assert_eq!(explained.upstream.as_deref(), Some("ap"));
    let last = explained.charges.last().unwrap();
    assert_eq!(last.name, "upstream:ap");
    let scope: Vec<_> = last
        .scope
        .iter()
        .map(|it| (it.word, it.by, &*it.value))
        .collect();
    assert_eq!(
        scope,
        [("tenant", "tenant", "t"), ("upstream", "upstream", "ap")]
    );
    assert!(
        last.rate
            .from
            .ends_with("upstreams.ap.rate_limit.sustained.rate")
    );
    let told = serde_json::to_value(policy.request(&Facts::default()).unwrap().explain()).unwrap();
    assert!(told.get("upstream").is_none());
}

#[test]
fn limits_of_upstreams_come_last() {
    let policy = shop();
    let facts = Facts {
        tenant: Some("t"),
        user: Some("u"),
        plan: Some("free"),
        method: Some("GET"),
        path: Some("/api/jobs/7"),
        ..Facts::default()
    };
    let expected = [
        "limit:by-upstream limit:by-upstream|upstream=ap 1",
        "plan:free plan 1",
        // Its key is too long to be readable.
        "route:/api/jobs/** #",
        "upstream:ap upstream:ap|tenant=t|upstream=ap 1",
    ];
    let all = charged(&policy, &facts);
    assert_eq!(all.len(), expected.len(), "{all:?}");
    for (found, expected) in all.iter().zip(expected) {
        assert!(found.starts_with(expected), "{found}");
    }
    let facts = Facts {
        method: Some("POST"),
        ..facts
    };
    let expected = [
        "limit:by-upstream limit:by-upstream|upstream=jobs 2",
        "plan:free plan 2",
        "upstream:jobs#all #",
        "upstream:jobs#each #",
    ];
    let all = charged(&policy, &facts);
    assert_eq!(all.len(), expected.len(), "{all:?}");
    for (found, expected) in all.iter().zip(expected) {
        assert!(found.starts_with(expected), "{found}");
    }
    // Its own cost times that of the route.
    assert!(all[2].ends_with(" 6") && all[3].ends_with(" 2"), "{all:?}");
    let nowhere = Facts {
        path: Some("/lost"),
        ..facts
    };
    assert_eq!(
        charged(&policy, &nowhere),
        [
            "limit:by-upstream limit:by-upstream|upstream= 1",
            "plan:free plan 1"
        ]
    );
    let name = policy
        .limits()
        .iter()
        .find(|limit| &*limit.name == "upstream:ap");
    assert_eq!(&*name.unwrap().scope_text, "tenant,upstream");
}

/// The same route, but another upstream: parameters that some servers drop must not choose it.
#[test]
fn a_path_that_goes_elsewhere_when_read_otherwise_is_refused() {
    let policy = policy(
        "
upstreams: { one: { url: http://one }, two: { url: http://two } }
routes:
  - { match: /a/** }
  - { match: /*/x, upstream: one }
  - { match: /**, upstream: two }
",
    );
    let at = |path| Facts {
        path: Some(path),
        method: Some("GET"),
        ..Facts::default()
    };
    assert_eq!(
        upstream_of(&policy, Some("GET"), "/a/x").as_deref(),
        Some("one")
    );
    assert_eq!(
        upstream_of(&policy, Some("GET"), "/a/y;p").as_deref(),
        Some("two")
    );
    for path in ["/a/x;p", "/a/x%3bp"] {
        let rejection = policy.request(&at(path)).unwrap_err();
        assert_eq!(rejection, Rejection::Path(PathFault::Parameters), "{path}");
    }
}

//! What a request is charged, and when it is not charged at all.

use std::net::IpAddr;

use super::{charged, policy, sha256};
use crate::config::Enforcement;
use crate::{Bypass, Denial, Facts, Policy, Treatment};

const PATH: Facts<'static> = Facts {
    tenant: Some("t"),
    plan: Some("pro"),
    user: None,
    client: None,
    api_key: None,
    is_authenticated: false,
    ip: None,
    ip_is_unknown: false,
    ip_is_proxy: false,
    method: Some("GET"),
    path: Some("/a"),
    path_is_kept: false,
    cost: 1,
};

#[test]
fn limits_then_plan_then_route() {
    let policy = policy(
        "
routes:
  - match: /a
    rate_limits: { z: { sustained: { rate: 1 } }, b: { sustained: { rate: 1 } } }
plans:
  pro: { rate_limits: { per-second: { sustained: { rate: 1 } }, per-day: { sustained: { rate: 1, window: day } } } }
limits:
  z: { sustained: { rate: 1 }, scope: global }
  a: { sustained: { rate: 1 }, scope: tenant }
",
    );
    let expected = [
        "limit:z limit:z 1",
        "limit:a limit:a|tenant=t 1",
        "plan:pro/per-second plan/per-second|tenant=t 1",
        "plan:pro/per-day plan/per-day|tenant=t 1",
    ];
    let all = charged(&policy, &PATH);
    assert_eq!(all[..4], expected);
    let names: Vec<_> = all[4..].iter().map(|text| text.split(' ').next()).collect();
    assert_eq!(names, [Some("route:/a#z"), Some("route:/a#b")]);
}

/// A limit of a route, named, is not the limit of the route of that name.
#[test]
fn limits_of_routes_do_not_share_buckets() {
    let policy = policy(
        "
routes:
  - { match: /a, rate_limits: { b: { sustained: { rate: 1 } } } }
  - { match: /a/b, rate_limit: { sustained: { rate: 1 } } }
",
    );
    let names: Vec<_> = policy.limits().iter().map(|limit| &*limit.name).collect();
    assert_eq!(names, ["route:/a#b", "route:/a/b", "wrong_keys"]);
    let families: Vec<_> = policy.limits().iter().map(|limit| &*limit.family).collect();
    assert_eq!(families, names);
}

fn costs(asked: u32, route: u32, limit: u32) -> u64 {
    let policy = policy(&format!(
        "
limits: {{ x: {{ sustained: {{ rate: 1 }}, cost: {limit} }} }}
routes: [{{ match: /a, cost: {route} }}]
"
    ));
    let facts = Facts {
        path: Some("/a"),
        cost: asked,
        ..Facts::default()
    };
    let request = policy.request(&facts).unwrap();
    let charges = request.charges();
    let (_, _, charge) = charges.iter().next().unwrap();
    assert_eq!(request.explain().charges[0].cost, charge.cost);
    charge.cost
}

#[test]
fn costs_multiply_and_saturate() {
    const MAX: u32 = u32::MAX;
    let wide = u64::from(MAX) * u64::from(MAX);
    let table = [
        (1, 1, 1, 1),
        (2, 3, 5, 30),
        (0, 3, 5, 0),
        (2, 0, 5, 0),
        (2, 3, 0, 0),
        (0, MAX, MAX, 0),
        (MAX, MAX, 0, 0),
        (MAX, 1, 1, u64::from(MAX)),
        (MAX, MAX, 1, wide),
        (MAX, 1, MAX, wide),
        (1, MAX, MAX, wide),
        (MAX, MAX, 2, u64::MAX),
        (MAX, MAX, MAX, u64::MAX),
    ];
    for (asked, route, limit, expected) in table {
        assert_eq!(
            costs(asked, route, limit),
            expected,
            "{asked} × {route} × {limit}"
        );
    }
}

#[test]
fn the_cost_of_a_route_multiplies_all_limits() {
    let policy = policy(
        "
limits: { x: { sustained: { rate: 1 }, scope: global, cost: 3 } }
plans: { pro: { rate_limit: { sustained: { rate: 1 }, scope: global } } }
routes:
  - { match: /a, cost: 5, rate_limit: { sustained: { rate: 1 }, scope: global, cost: 0 } }
  - { match: /free, cost: 0 }
",
    );
    let facts = Facts { cost: 2, ..PATH };
    let expected = [
        "limit:x limit:x 30",
        "plan:pro plan 10",
        "route:/a route:/a 0",
    ];
    assert_eq!(charged(&policy, &facts), expected);
    let facts = Facts {
        path: Some("/free"),
        ..facts
    };
    assert_eq!(
        charged(&policy, &facts),
        ["limit:x limit:x 0", "plan:pro plan 0"]
    );
    let facts = Facts {
        path: Some("/other"),
        ..facts
    };
    assert_eq!(
        charged(&policy, &facts),
        ["limit:x limit:x 6", "plan:pro plan 2"]
    );
}

#[test]
fn when_asks_for_a_proven_caller() {
    let policy = policy(&format!(
        "
limits:
  all: {{ sustained: {{ rate: 1 }}, scope: global }}
  anon: {{ sustained: {{ rate: 1 }}, scope: global, when: anonymous }}
  auth: {{ sustained: {{ rate: 1 }}, scope: global, when: authenticated }}
tenants: {{ t: {{}} }}
keys: [{{ sha256: {}, tenant: t }}]
",
        sha256("k")
    ));
    let anonymous = ["limit:all limit:all 1", "limit:anon limit:anon 1"];
    let authenticated = ["limit:all limit:all 1", "limit:auth limit:auth 1"];
    let none = Facts::default();
    let ip = Some(IpAddr::from([1, 2, 3, 4]));
    let table = [
        (none, anonymous),
        (Facts { ip, ..none }, anonymous),
        (
            Facts {
                tenant: Some("t"),
                ..none
            },
            anonymous,
        ),
        (
            Facts {
                user: Some(""),
                client: Some(""),
                ..none
            },
            anonymous,
        ),
        (
            Facts {
                user: Some("u"),
                ..none
            },
            authenticated,
        ),
        (
            Facts {
                client: Some("c"),
                ..none
            },
            authenticated,
        ),
        (
            Facts {
                api_key: Some("k"),
                ..none
            },
            authenticated,
        ),
    ];
    for (facts, expected) in table {
        assert_eq!(charged(&policy, &facts), expected, "{facts:?}");
    }
}

#[test]
fn shadow_is_per_limit_or_for_all() {
    let text = "
limits:
  a: { sustained: { rate: 1 }, scope: global, shadow: true }
  b: { sustained: { rate: 1 }, scope: global, shadow: false }
";
    let one = policy(text);
    let expected = ["limit:a limit:a 1 shadow", "limit:b limit:b 1"];
    assert_eq!(charged(&one, &Facts::default()), expected);
    assert_eq!(one.enforcement(), Enforcement::On);
    let all = policy(&format!("enforcement: shadow{text}"));
    let expected = ["limit:a limit:a 1 shadow", "limit:b limit:b 1 shadow"];
    assert_eq!(charged(&all, &Facts::default()), expected);
    let request = all.request(&Facts::default()).unwrap();
    assert_eq!(request.treatment, Treatment::Limited);
}

#[test]
fn nothing_applies_nothing_is_charged() {
    let policy = policy("plans: { pro: { rate_limit: { sustained: { rate: 1 } } } }");
    let request = policy.request(&Facts::default()).unwrap();
    assert_eq!(request.treatment, Treatment::Limited);
    assert!(request.charges().is_empty());
    assert_eq!(request.charges().iter().len(), 0);
}

fn allow_list(enforcement: &str) -> Policy {
    policy(&format!(
        "
enforcement: {enforcement}
limits: {{ x: {{ sustained: {{ rate: 1 }} }} }}
tenants: {{ acme: {{}}, other: {{}} }}
keys:
  - {{ sha256: {plain}, tenant: other }}
  - {{ sha256: {of_user}, user: root }}
  - {{ sha256: {of_tenant}, tenant: acme }}
  - {{ sha256: {listed}, tenant: other }}
allow:
  - {{ cidr: 192.0.2.0/24, reason: office }}
  - {{ cidr: 2001:db8::/32 }}
  - {{ api_key: {{ sha256: {listed} }}, reason: friend }}
  - {{ user: root, reason: operator }}
  - {{ tenant: acme, reason: ours }}
routes:
  - {{ match: /deny/**, deny: true }}
  - {{ match: /allow/**, allow: true }}
  - {{ match: /no/**, deny: false, allow: false, cost: 2 }}
",
        plain = sha256("plain"),
        of_user = sha256("of-user"),
        of_tenant = sha256("of-tenant"),
        listed = sha256("listed"),
    ))
}

#[test]
fn the_allow_list() {
    let policy = allow_list("on");
    let none = Facts::default();
    let ip = |text: &str| Facts {
        ip: Some(text.parse().unwrap()),
        ..none
    };
    let key = |secret| Facts {
        api_key: Some(secret),
        ..none
    };
    let user = |user| Facts {
        user: Some(user),
        ..none
    };
    let tenant = |tenant| Facts {
        tenant: Some(tenant),
        ..none
    };
    let table = [
        (none, None),
        (ip("192.0.2.0"), Some("office")),
        (ip("192.0.2.255"), Some("office")),
        (ip("::ffff:192.0.2.9"), Some("office")),
        (ip("192.0.3.0"), None),
        (ip("::ffff:192.0.3.0"), None),
        // IPv4 in other disguises is not IPv4.
        (ip("::192.0.2.9"), None),
        (ip("64:ff9b::192.0.2.9"), None),
        (ip("2001:db8:ffff::1"), Some("allow-list")),
        (ip("2001:db9::1"), None),
        (key("plain"), None),
        (key("listed"), Some("friend")),
        (key("of-user"), Some("operator")),
        (key("of-tenant"), Some("ours")),
        (user("root"), Some("operator")),
        (user("Root"), None),
        (user("acme"), None),
        (tenant("acme"), Some("ours")),
        (tenant("root"), None),
    ];
    for (facts, reason) in table {
        let expected = match reason {
            Some(reason) => Treatment::Bypassed(Bypass::AllowList(reason)),
            None => Treatment::Limited,
        };
        let request = policy.request(&facts).unwrap();
        assert_eq!(request.treatment, expected, "{facts:?}");
    }
}

#[test]
fn routes_and_enforcement_decide_before_the_allow_list() {
    use Treatment::{Bypassed, Limited};
    let denied = Treatment::Denied(Denial::Route);
    let listed = Bypassed(Bypass::AllowList("office"));
    let off = Bypassed(Bypass::EnforcementOff);
    let table = [
        ("on", "/deny/x", denied, denied),
        (
            "on",
            "/allow/x",
            Bypassed(Bypass::Route),
            Bypassed(Bypass::Route),
        ),
        ("on", "/no/x", Limited, listed),
        ("on", "/", Limited, listed),
        ("shadow", "/deny", denied, denied),
        ("shadow", "/", Limited, listed),
        ("off", "/deny", denied, denied),
        ("off", "/allow", off, off),
        ("off", "/no", off, off),
        ("off", "/", off, off),
    ];
    for (enforcement, path, stranger, friend) in table {
        let policy = allow_list(enforcement);
        let facts = Facts {
            path: Some(path),
            ..Facts::default()
        };
        let office = Facts {
            ip: Some(IpAddr::from([192, 0, 2, 1])),
            ..facts
        };
        let treatment = |facts: &Facts<'static>| policy.request(facts).unwrap().treatment;
        assert_eq!(treatment(&facts), stranger, "{enforcement} {path}");
        assert_eq!(treatment(&office), friend, "{enforcement} {path}");
        assert!(
            !matches!(treatment(&facts), Limited)
                || policy.request(&facts).unwrap().explain().reason.is_none()
        );
    }
}

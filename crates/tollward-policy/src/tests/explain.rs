//! What people are told.

use serde_json::json;

use super::{policy, sha256, tagged};
use crate::Facts;

fn shop() -> String {
    format!(
        "\
identity: {{ anonymous: {{ plan: free }} }}
plans:
  free:
    rate_limit: {{ sustained: {{ rate: 100, window: minute }}, burst: {{ capacity: 150 }}, scope: user }}
limits:
  system: {{ sustained: {{ rate: 10000 }}, scope: global, shadow: true }}
  per-ip:
    sustained: {{ rate: 10 }}
    burst: {{ allowance: 1.5 }}
    scope: [ip, route]
    cost: 2
routes:
  - match: POST /v1/Chat/*
    cost: 5
    rate_limit: {{ algorithm: sliding_window, sustained: {{ rate: 7, window: 5m }}, scope: tenant }}
  - {{ match: /admin/**, deny: true }}
  - {{ match: /health, allow: true }}
keys: [{{ sha256: {}, tenant: acme }}]
allow: [{{ user: root, reason: operator }}]
tenants: {{ acme: {{}} }}
",
        sha256("k")
    )
}

#[test]
fn a_request_of_an_unknown_caller() {
    let policy = policy(&shop());
    let facts = Facts {
        ip: Some("2001:db8::1".parse().unwrap()),
        method: Some("post"),
        path: Some("/v1/chat/x?y"),
        cost: 3,
        ..Facts::default()
    };
    let explained = policy.request(&facts).unwrap().explain();
    let asked = json!({ "value": 3, "from": "asked" });
    let route = json!({ "value": 5, "from": "route POST /v1/chat/*" });
    let expected = json!({
        "route": "POST /v1/chat/*",
        "route_from": "line 13, routes[0].match",
        "plan": "free",
        "plan_from": "identity.anonymous.plan",
        "treatment": "limited",
        "reason": null,
        "charges": [
            {
                "name": "limit:system",
                "key": "{799f7}limit:system",
                "scope": [{ "word": "global", "by": "global", "value": "" }],
                "algorithm": "token_bucket",
                "rate": { "value": 10000, "from": "line 6, limits.system.sustained.rate" },
                "window_secs": 1,
                "capacity": { "value": 10000, "from": "sustained.rate, the default" },
                "cost": 15,
                "cost_factors": [asked, route],
                "shadow": true,
            },
            {
                "name": "limit:per-ip",
                "key": "#KEY",
                "scope": [
                    { "word": "ip", "by": "ip", "value": "2001:db8::" },
                    { "word": "route", "by": "route", "value": "POST /v1/chat/*" },
                ],
                "algorithm": "token_bucket",
                "rate": { "value": 10, "from": "line 8, limits.per-ip.sustained.rate" },
                "window_secs": 1,
                "capacity": {
                    "value": 15,
                    "from": "sustained.rate, the default, times 1.5 from line 9, limits.per-ip.burst.allowance",
                },
                "cost": 30,
                "cost_factors": [asked, route, { "value": 2, "from": "line 11, limits.per-ip.cost" }],
                "shadow": false,
            },
            {
                "name": "plan:free",
                "key": "{2dd75}plan|ip=2001:db8::",
                "scope": [{ "word": "user", "by": "ip", "value": "2001:db8::" }],
                "algorithm": "token_bucket",
                "rate": { "value": 100, "from": "line 4, plans.free.rate_limit.sustained.rate" },
                "window_secs": 60,
                "capacity": { "value": 150, "from": "line 4, plans.free.rate_limit.burst.capacity" },
                "cost": 15,
                "cost_factors": [asked, route],
                "shadow": false,
            },
            {
                "name": "route:POST /v1/chat/*",
                "key": "#KEY",
                "scope": [{ "word": "tenant", "by": "ip", "value": "2001:db8::" }],
                "algorithm": "sliding_window",
                "rate": { "value": 7, "from": "line 15, routes[0].rate_limit.sustained.rate" },
                "window_secs": 300,
                "capacity": { "value": 7, "from": "sustained.rate, the default" },
                "cost": 15,
                "cost_factors": [asked, route],
                "shadow": false,
            },
        ],
    });
    let mut found = serde_json::to_value(&explained).unwrap();
    let mut hashed = 0;
    for charge in found["charges"].as_array_mut().unwrap() {
        let key = charge["key"].as_str().unwrap().to_owned();
        let (_, text) = tagged(&key);
        if text.len() == 33 && text.starts_with('#') {
            charge["key"] = "#KEY".into();
            hashed += 1;
        }
    }
    assert_eq!(found, expected);
    assert_eq!(hashed, 2);
}

/// Said of those charges only for which it is not this node's share of the limit.
#[test]
fn what_holds_without_the_store() {
    let policy = policy(
        "
store: { on_failure: open }
limits:
  a: { sustained: { rate: 1 } }
  b: { sustained: { rate: 1 }, on_failure: local }
  c: { sustained: { rate: 1 }, on_failure: closed }
",
    );
    let explained = policy.request(&Facts::default()).unwrap().explain();
    let found = serde_json::to_value(&explained).unwrap();
    let said = |charge: usize| found["charges"][charge].get("on_failure").cloned();
    assert_eq!(said(0), Some("open".into()));
    assert_eq!(said(1), None);
    assert_eq!(said(2), Some("closed".into()));
}

#[test]
fn a_request_with_a_key() {
    let policy = policy(&shop());
    let facts = Facts {
        api_key: Some("k"),
        ..Facts::default()
    };
    let explained = policy.request(&facts).unwrap().explain();
    assert_eq!((explained.route, explained.route_from), (None, None));
    let plan = explained.charges.last().unwrap();
    let scope = &plan.scope[0];
    assert_eq!(
        (plan.name.as_str(), scope.word, scope.by),
        ("plan:free", "user", "api_key")
    );
    // Enough of the hash to find it again, and never the key.
    assert_eq!(scope.value, sha256("k")[..12]);
    assert_eq!(plan.cost_factors.len(), 1);
}

#[test]
fn what_is_not_limited_says_why() {
    let policy = policy(&shop());
    let at = |path, user| Facts {
        path: Some(path),
        user,
        ..Facts::default()
    };
    let table = [
        (
            at("/ADMIN", Some("root")),
            "denied",
            "the route says `deny: true`",
        ),
        (
            at("/health", None),
            "bypass",
            "the route says `allow: true`",
        ),
        (at("/", Some("root")), "bypass", "the allow-list: operator"),
    ];
    for (facts, treatment, reason) in table {
        let explained = policy.request(&facts).unwrap().explain();
        assert_eq!(
            (explained.treatment, explained.reason.as_deref()),
            (treatment, Some(reason))
        );
        assert!(explained.charges.is_empty());
        assert_eq!(explained.plan.as_deref(), Some("free"));
    }
    let off = super::policy("enforcement: off");
    let explained = off.request(&Facts::default()).unwrap().explain();
    assert_eq!(explained.reason.as_deref(), Some("enforcement is off"));
}

#[test]
fn strange_ids_stay_json() {
    let policy = policy("limits: { x: { sustained: { rate: 1 }, scope: user } }");
    for id in ["a\r\nb", "\0", "\"", "</script>", "\u{202e}", "é"] {
        let facts = Facts {
            user: Some(id),
            ..Facts::default()
        };
        let explained = policy.request(&facts).unwrap().explain();
        let text = serde_json::to_string(&explained).unwrap();
        let read: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(read["charges"][0]["scope"][0]["value"], id);
    }
}

//! Limits that make requests cheaper instead of refusing them.

use serde_json::json;
use tollward_testkit::upstream::{Upstream, answer};

use crate::gated::{Gated, remaining};
use crate::served::Client;

fn named(name: &'static str) -> Upstream {
    Upstream::answering(move |_| answer(200, &[], name.as_bytes()))
}

fn config(app: &Upstream, cheap: &Upstream, degrade: &str) -> String {
    format!(
        "
identity: {{ anonymous: allow }}
limits:
  soft: {{ sustained: {{ rate: 1, window: minute }}, burst: {{ capacity: 3 }}, scope: ip, strategy: degrade{degrade} }}
  hard: {{ sustained: {{ rate: 1, window: minute }}, burst: {{ capacity: 6 }}, scope: ip }}
routes: [ {{ match: /**, upstream: app }} ]
upstreams: {{ app: {{ url: {} }}, cheap: {{ url: {} }} }}
",
        app.url(),
        cheap.url()
    )
}

/// Who served it, and whether it was marked.
fn served(gated: &Gated, by: &Upstream) -> (String, Option<String>) {
    let answer = gated.get("/", &[("x-ratelimit-degraded", "lies")]);
    assert_eq!(answer.status, 200, "{}", answer.text());
    let marker = by.last().header("x-ratelimit-degraded").map(str::to_owned);
    (answer.text(), marker)
}

#[test]
fn what_is_beyond_the_limit_is_marked() {
    let (app, cheap) = (named("app"), named("cheap"));
    let gated = Gated::of(&config(&app, &cheap, ""));
    for _ in 0..3 {
        assert_eq!(served(&gated, &app), ("app".into(), None));
    }
    for _ in 0..3 {
        assert_eq!(served(&gated, &app), ("app".into(), Some("true".into())));
    }
    // The other limit was charged all the while, and decides as ever.
    assert_eq!(gated.get("/", &[]).status, 429);
    // The degrading one was not charged: its token is there after its minute.
    gated.advance_ms(60_000);
    let answer = gated.get("/", &[]);
    assert_eq!((answer.status, remaining(&answer)), (200, 0));
    assert_eq!(app.last().header("x-ratelimit-degraded"), None);
    assert_eq!(cheap.count(), 0);
    let counted = "tollward_decisions_total{policy=\"limit:soft\",outcome=\"degraded\"} 3\n";
    let metrics = gated.metrics();
    assert!(metrics.contains(counted), "{metrics}");
}

#[test]
fn what_is_beyond_the_limit_may_go_elsewhere() {
    let (app, cheap) = (named("app"), named("cheap"));
    let gated = Gated::of(&config(&app, &cheap, ", degrade: { upstream: cheap }"));
    for _ in 0..3 {
        assert_eq!(served(&gated, &app), ("app".into(), None));
    }
    assert_eq!(
        served(&gated, &cheap),
        ("cheap".into(), Some("true".into()))
    );
    assert_eq!((app.count(), cheap.count()), (3, 1));
}

#[test]
fn the_decision_api_says_so() {
    let (app, cheap) = (named("app"), named("cheap"));
    let gated = Gated::of(&config(&app, &cheap, ""));
    let mut client = Client::new(gated.api);
    let mut check = || client.check(json!({ "ip": "192.0.2.1", "path": "/" }));
    for _ in 0..3 {
        let (status, answer) = check();
        assert_eq!((status, &answer["action"]), (200, &"allow".into()));
    }
    let (status, answer) = check();
    assert_eq!(
        (status, &answer["action"]),
        (200, &"degrade".into()),
        "{answer}"
    );
    assert_eq!(answer["allowed"], true);
    assert_eq!(answer["retry_after"], json!(null), "{answer}");
    let remaining: Vec<_> = answer["limits"]
        .as_array()
        .unwrap()
        .iter()
        .map(|limit| {
            (
                limit["name"].as_str().unwrap(),
                limit["remaining"].as_u64().unwrap(),
            )
        })
        .collect();
    assert_eq!(remaining, [("limit:soft", 0), ("limit:hard", 2)]);
}

/// What would have let it through says nothing of when to come again.
#[test]
fn a_refusal_is_told_by_the_limits_that_refuse() {
    let app = named("app");
    let gated = Gated::of(&format!(
        "
identity: {{ anonymous: allow }}
limits:
  soft: {{ sustained: {{ rate: 1, window: day }}, burst: {{ capacity: 1 }}, scope: ip, strategy: degrade }}
  hard: {{ sustained: {{ rate: 1, window: minute }}, burst: {{ capacity: 1 }}, scope: ip }}
routes: [ {{ match: /**, upstream: app }} ]
upstreams: {{ app: {{ url: {} }} }}
",
        app.url()
    ));
    assert_eq!(gated.get("/", &[]).status, 200);
    let refused = gated.get("/", &[]);
    assert_eq!(refused.status, 429);
    assert_eq!(refused.header("retry-after"), Some("60"));
    assert_eq!(
        crate::served::json(&refused)["violated-policies"],
        json!(["limit:hard"])
    );
    gated.advance_ms(60_000);
    let answer = gated.get("/", &[]);
    assert_eq!(answer.status, 200);
    assert_eq!(app.last().header("x-ratelimit-degraded"), Some("true"));
}

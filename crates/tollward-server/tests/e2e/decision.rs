//! A decision in JSON, to the letter.

use serde_json::json;

use crate::served::{Served, json as body};

const CONFIG: &str = "
limits:
  system: { sustained: { rate: 100, window: minute }, burst: { capacity: 200 }, scope: global, when: authenticated }
  trial: { sustained: { rate: 1, window: minute }, scope: user, shadow: true, when: authenticated }
plans:
  free: { rate_limit: { sustained: { rate: 4, window: second }, burst: { capacity: 10 }, scope: user } }
routes:
  - { match: /closed/**, deny: true }
  - { match: /open/**, allow: true }
";

#[test]
fn no_limit_is_null_everywhere() {
    let served = Served::of(CONFIG);
    let response = served.client().ask(json!({}));
    assert_eq!(response.status, 200);
    assert_eq!(response.header("content-type"), Some("application/json"));
    assert_eq!(
        response.text(),
        r#"{"allowed":true,"action":"allow","reason":null,"binding":null,"limit":null,"remaining":null,"reset_at":null,"retry_after":null,"retry_after_ms":null,"source":"none","limits":[]}"#
    );
    let names: Vec<_> = response.headers.iter().map(|(name, _)| &**name).collect();
    assert_eq!(names, ["content-type", "content-length", "date"]);
}

#[test]
fn an_admission_shows_the_nearest_limit() {
    let served = Served::of(CONFIG);
    let check = json!({ "user": "a", "plan": "free", "cost": 1 });
    let response = served.client().ask(check);
    assert_eq!(response.status, 200);
    assert_eq!(
        response.text(),
        r#"{"allowed":true,"action":"allow","reason":null,"binding":"plan:free","limit":10,"remaining":9,"reset_at":1765411201,"retry_after":null,"retry_after_ms":null,"source":"memory","limits":[{"name":"limit:system","scope":"global","limit":200,"remaining":199,"reset_at":1765411201,"denied":false},{"name":"limit:trial","scope":"user","limit":1,"remaining":0,"reset_at":1765411260,"denied":false,"shadow":true},{"name":"plan:free","scope":"user","limit":10,"remaining":9,"reset_at":1765411201,"denied":false}]}"#
    );
}

#[test]
fn a_refusal_shows_the_limit_that_binds() {
    let served = Served::of(CONFIG);
    let mut client = served.client();
    client.ask(json!({ "user": "a", "plan": "free", "cost": 10 }));
    let response = client.ask(json!({ "user": "a", "plan": "free", "cost": 5 }));
    assert_eq!(response.status, 429);
    // 5 tokens at 4 a second; full after 2.5 s.
    assert_eq!(
        response.text(),
        r#"{"allowed":false,"action":"deny","reason":"limit","binding":"plan:free","limit":10,"remaining":0,"reset_at":1765411203,"retry_after":2,"retry_after_ms":1250,"source":"memory","limits":[{"name":"limit:system","scope":"global","limit":200,"remaining":190,"reset_at":1765411206,"denied":false},{"name":"limit:trial","scope":"user","limit":1,"remaining":1,"reset_at":1765411200,"denied":true,"shadow":true},{"name":"plan:free","scope":"user","limit":10,"remaining":0,"reset_at":1765411203,"denied":true}]}"#
    );
}

#[test]
fn a_cost_beyond_the_capacity_wins_over_an_empty_bucket() {
    let served = Served::of(CONFIG);
    let mut client = served.client();
    let ask = |cost: u32| json!({ "user": "a", "plan": "free", "cost": cost });
    assert_eq!(client.check(ask(10)).0, 200);
    let response = client.ask(ask(11));
    assert_eq!(response.status, 422);
    let answer = body(&response);
    assert_eq!(answer["allowed"], false);
    assert_eq!(answer["action"], "deny");
    assert_eq!(answer["reason"], "cost_exceeds_capacity");
    assert_eq!(answer["binding"], "plan:free");
    assert!(answer["retry_after"].is_null() && answer["retry_after_ms"].is_null());
    assert_eq!(response.header("retry-after"), None);
    assert_eq!(response.header("cache-control"), Some("no-store"));
    let told = client.client_answer(ask(11));
    let problem = crate::served::assert_problem(&told, 422, "to the client");
    assert_eq!(problem["violated-policies"], json!(["plan:free"]));
    assert_eq!(client.check(ask(1)).0, 429);
}

#[test]
fn a_route_that_is_closed_or_open_to_all_is_charged_nothing() {
    let served = Served::of(CONFIG);
    let mut client = served.client();
    let ask = |path: &str| json!({ "user": "a", "plan": "free", "path": path, "cost": 1000 });
    let response = client.ask(ask("/closed/x"));
    assert_eq!(response.status, 403);
    assert_eq!(
        response.text(),
        r#"{"allowed":false,"action":"deny","reason":"denied","binding":null,"limit":null,"remaining":null,"reset_at":null,"retry_after":null,"retry_after_ms":null,"source":"none","limits":[]}"#
    );
    assert_eq!(response.header("retry-after"), None);
    let told = client.client_answer(ask("/closed/x"));
    crate::served::assert_problem(&told, 403, "to the client");
    let (status, answer) = client.check(ask("/open/x"));
    assert_eq!((status, &answer["action"]), (200, &json!("bypass")));
    assert_eq!(answer["reason"], "open_route");
    let (_, answer) = client.check(json!({ "user": "a", "plan": "free", "peek": true }));
    assert_eq!(answer["remaining"], 10);
}

#[test]
fn a_peek_decides_and_takes_nothing() {
    let served = Served::of(CONFIG);
    let mut client = served.client();
    let ask =
        |cost: u32, peek: bool| json!({ "user": "a", "plan": "free", "cost": cost, "peek": peek });
    for _ in 0..3 {
        let (status, answer) = client.check(ask(10, true));
        assert_eq!((status, &answer["remaining"]), (200, &json!(10)));
    }
    assert_eq!(client.check(ask(9, false)).0, 200);
    let (status, answer) = client.check(ask(2, true));
    assert_eq!((status, &answer["retry_after_ms"]), (429, &json!(250)));
    assert_eq!(client.check(ask(11, true)).0, 422);
    assert_eq!(client.check(ask(1, false)).0, 200);
}

#[test]
fn enforcement_can_be_turned_down_and_off() {
    let limited =
        "plans: { p: { rate_limit: { sustained: { rate: 1, window: day }, scope: user } } }";
    let check = json!({ "user": "a", "plan": "p", "cost": 1 });
    let served = Served::of(&format!("enforcement: shadow\n{limited}"));
    let mut client = served.client();
    for denied in [false, true, true] {
        let (status, answer) = client.check(check.clone());
        assert_eq!((status, &answer["allowed"]), (200, &json!(true)));
        assert_eq!(answer["limits"][0]["denied"], denied);
        assert_eq!(answer["limits"][0]["shadow"], true);
    }
    let served = Served::of(&format!("enforcement: 'off'\n{limited}"));
    let (status, answer) = served.client().check(check);
    assert_eq!((status, &answer["action"]), (200, &json!("bypass")));
    assert_eq!(answer["reason"], "enforcement_off");
}

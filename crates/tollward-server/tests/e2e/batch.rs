//! Many checks in one request.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

use serde_json::{Value, json};
use tollward_policy::compile;

use crate::served::{Client, Served, assert_problem, json as body};

const CONFIG: &str = "
plans: { p: { rate_limit: { sustained: { rate: 1, window: day }, burst: { capacity: 5 }, scope: user } } }
";

fn batch(client: &mut Client, checks: &[Value]) -> Vec<Value> {
    let question = json!({ "checks": checks }).to_string();
    let response = client.post("/v1/check/batch", question);
    assert_eq!(response.status, 200, "{}", response.text());
    assert_eq!(response.header("content-type"), Some("application/json"));
    let answer = body(&response);
    let object = answer.as_object().unwrap();
    assert_eq!(object.keys().collect::<Vec<_>>(), ["results"]);
    answer["results"].as_array().unwrap().clone()
}

#[test]
fn results_come_in_order_each_with_its_status() {
    let served = Served::of(CONFIG);
    let by = |user: &str, cost: u32| json!({ "user": user, "plan": "p", "cost": cost });
    let checks = [
        by("a", 3),
        by("b", 5),
        by("a", 3),
        json!({ "user": 5 }),
        by("a", 6),
        by("a", 2),
        json!({ "api_key": "nobody's" }),
        by("b", 1),
        json!({}),
    ];
    let results = batch(&mut served.client(), &checks);
    let statuses: Vec<_> = results
        .iter()
        .map(|it| it["status"].as_u64().unwrap())
        .collect();
    assert_eq!(statuses, [200, 200, 429, 400, 422, 200, 401, 429, 200]);
    let left: Vec<_> = results.iter().map(|it| it["remaining"].as_u64()).collect();
    assert_eq!(
        left,
        [
            Some(2),
            Some(0),
            Some(2),
            None,
            Some(2),
            Some(0),
            None,
            Some(0),
            None
        ]
    );
}

#[test]
fn an_item_is_a_decision_behind_its_status() {
    let served = Served::of(CONFIG);
    let response = served.client().post(
        "/v1/check/batch",
        r#"{"checks":[{"user":"a","plan":"p","cost":5}]}"#,
    );
    assert_eq!(
        response.text(),
        r#"{"results":[{"status":200,"allowed":true,"action":"allow","reason":null,"binding":"plan:p","limit":5,"remaining":0,"reset_at":1765843200,"retry_after":null,"retry_after_ms":null,"source":"memory","limits":[{"name":"plan:p","scope":"user","limit":5,"remaining":0,"reset_at":1765843200,"denied":false}]}]}"#
    );
}

#[test]
fn a_batch_has_at_most_a_thousand_checks() {
    let served = Served::of(CONFIG);
    let mut client = served.client();
    assert_eq!(batch(&mut client, &[]), [] as [Value; 0]);
    let checks = vec![json!({ "user": "a", "plan": "p" }); 1000];
    let results = batch(&mut client, &checks);
    let admitted = results.iter().filter(|it| it["status"] == 200).count();
    assert_eq!((results.len(), admitted), (1000, 5));

    let many = json!({ "checks": vec![json!({ "user": "b", "plan": "p" }); 1001] });
    let response = client.post("/v1/check/batch", many.to_string());
    assert_problem(&response, 413, "1001 checks");
    let (_, answer) = served
        .client()
        .check(json!({ "user": "b", "plan": "p", "peek": true }));
    assert_eq!(answer["remaining"], 5, "nothing of it was charged");
}

#[test]
fn what_is_not_a_batch_is_refused_whole() {
    let served = Served::of(CONFIG);
    let mut client = served.client();
    for text in [
        "",
        "{}",
        "[]",
        "[[]]",
        "[[{}]]",
        "null",
        r#"{"checks":null}"#,
        r#"{"checks":{}}"#,
        r#"{"checks":{"0":{}}}"#,
        r#"{"checks":"[]"}"#,
        r#"{"checks":[{}],"more":1}"#,
        r#"{"checks":[],"checks":[]}"#,
        r#"{"check":[{}]}"#,
        r#"{"checks":[{}"#,
        r#"{"checks":[{},]}"#,
        r#"{"checks":[{"user":"a","plan":"p"} {}]}"#,
    ] {
        assert_problem(&client.post("/v1/check/batch", text), 400, text);
    }
    let (_, answer) = client.check(json!({ "user": "a", "plan": "p", "peek": true }));
    assert_eq!(answer["remaining"], 5);
}

#[test]
fn all_checks_of_a_batch_see_one_policy() {
    let served = Served::of(CONFIG);
    let done = AtomicBool::new(false);
    let changed = |capacity: u32| CONFIG.replace("capacity: 5", &format!("capacity: {capacity}"));
    thread::scope(|scope| {
        scope.spawn(|| {
            for capacity in (10..20).cycle() {
                if done.load(Relaxed) {
                    return;
                }
                let compiled = compile(changed(capacity).as_bytes()).unwrap();
                served.engine.replace(compiled.policy);
            }
        });
        let mut client = served.client();
        let checks = vec![json!({ "user": "a", "plan": "p", "cost": 0 }); 300];
        let mut seen: Vec<Value> = Vec::new();
        for _ in 0..200 {
            let results = batch(&mut client, &checks);
            let first = results[0]["limit"].clone();
            assert!(results.iter().all(|it| it["limit"] == first));
            seen.push(first);
        }
        done.store(true, Relaxed);
        assert!(seen.iter().any(|limit| *limit != seen[0]), "{seen:?}");
    });
}

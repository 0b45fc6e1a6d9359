//! `examples/ai-api.yaml`: plans by cost.

use std::fs;

use serde_json::{Value, json};
use tollward_testkit::clock::ManualClock;

use crate::served::{Client, Served, example};

const PLANS: [(&str, u64, u64); 3] = [
    ("free", 100, 10),
    ("pro", 1000, 100),
    ("enterprise", 10_000, 1000),
];

fn by(user: &str, plan: &str, path: &str) -> Value {
    json!({ "user": user, "plan": plan, "method": "POST", "path": path })
}

#[test]
fn the_built_in_configuration_is_this_example() {
    let built_in = concat!(env!("CARGO_MANIFEST_DIR"), "/src/default.yaml");
    let example = fs::read_to_string(example("ai-api.yaml")).unwrap();
    assert_eq!(fs::read_to_string(built_in).unwrap(), example);
}

#[test]
fn each_call_has_its_cost() {
    let served = Served::example("ai-api.yaml");
    let mut client = served.client();
    for (path, cost) in [
        ("/v1/completions", 5),
        ("/v1/chat/completions", 5),
        ("/v1/jobs", 3),
        ("/v1/models", 1),
        ("/health", 0),
        ("/v1/something/else", 1),
    ] {
        let (status, answer) = client.check(by(path, "free", path));
        assert_eq!(status, 200, "{path}");
        assert_eq!(answer["remaining"], 100 - cost, "{path}");
        let mut thrice = by(path, "free", path);
        thrice["cost"] = 3.into();
        let (_, answer) = client.check(thrice);
        assert_eq!(
            answer["remaining"],
            100 - 4 * cost,
            "{path}, asked for three"
        );
    }
}

#[test]
fn twenty_completions_then_a_wait() {
    let served = Served::example("ai-api.yaml");
    let mut client = served.client();
    let completion = by("alice", "free", "/v1/chat/completions");
    let (admitted, refusal) = client.exhaust(&completion);
    assert_eq!(admitted, 20);
    // Five tokens at ten a second.
    assert_eq!(refusal["retry_after"], 1);
    assert_eq!(refusal["retry_after_ms"], 500);
    assert_eq!(refusal["binding"], "plan:free");
    assert_eq!(refusal["reset_at"], ManualClock::START_SECS + 10);

    let (status, answer) = client.check(by("alice", "free", "/health"));
    assert_eq!((status, &answer["remaining"]), (200, &json!(0)));
    assert_eq!(client.check(by("bob", "free", "/v1/models")).0, 200);

    served.advance_ms(499);
    assert_eq!(client.check(completion.clone()).0, 429);
    served.advance_ms(1);
    assert_eq!(client.check(completion.clone()).0, 200);
    served.advance_secs(3600);
    assert_eq!(client.exhaust(&completion).0, 20);
}

#[test]
fn every_plan_has_its_capacity_and_its_rate() {
    let served = Served::example("ai-api.yaml");
    let mut client = served.client();
    for (plan, capacity, rate) in PLANS {
        let models = by(plan, plan, "/v1/models");
        let mut all = models.clone();
        all["cost"] = capacity.into();
        let (status, answer) = client.check(all);
        assert_eq!((status, &answer["remaining"]), (200, &json!(0)), "{plan}");
        let (status, answer) = client.check(models.clone());
        assert_eq!((status, &answer["limit"]), (429, &json!(capacity)));
        assert_eq!(answer["retry_after_ms"], 1000 / rate);
        served.advance_secs(1);
        assert_eq!(u64::from(client.exhaust(&models).0), rate, "{plan}");
    }
}

#[test]
fn a_change_of_plan_keeps_what_is_spent() {
    let served = Served::example("ai-api.yaml");
    let mut client = served.client();
    let spent = |client: &mut Client, plan: &str| {
        let mut check = by("carol", plan, "/v1/models");
        check["peek"] = true.into();
        let (_, answer) = client.check(check);
        answer["limit"].as_u64().unwrap() - answer["remaining"].as_u64().unwrap()
    };
    client.exhaust(&by("carol", "free", "/v1/models"));
    for (plan, ..) in PLANS.into_iter().rev() {
        assert_eq!(spent(&mut client, plan), 100, "{plan}");
    }
}

#[test]
fn a_caller_without_a_plan_is_on_the_free_one() {
    let served = Served::example("ai-api.yaml");
    let mut client = served.client();
    let (_, answer) = client.check(json!({ "user": "dave" }));
    assert_eq!(answer["binding"], "plan:free");
    // Of whom nothing is known, all share one bucket; an address tells them apart.
    assert_eq!(client.exhaust(&json!({})).0, 100);
    assert_eq!(client.check(json!({ "path": "/v1/models" })).0, 429);
    assert_eq!(client.check(json!({ "ip": "192.0.2.1" })).0, 200);
}

#[test]
fn the_client_is_told_in_a_nested_body() {
    let served = Served::example("ai-api.yaml");
    let mut client = served.client();
    let completion = by("erin", "free", "/v1/completions");
    for left in (0..100).step_by(5).rev() {
        let response = client.client_answer(completion.clone());
        assert_eq!((response.status, response.body.len()), (200, 0));
        let remaining = response.header("x-ratelimit-remaining").unwrap();
        assert_eq!(remaining, left.to_string());
        assert_eq!(response.header("x-ratelimit-limit"), Some("100"));
        assert_eq!(response.header("retry-after"), None);
        assert_eq!(response.header("cache-control"), None);
    }
    let response = client.client_answer(completion);
    assert_eq!(response.status, 429);
    assert_eq!(response.header("content-type"), Some("application/json"));
    let body = crate::served::json(&response);
    assert_eq!(
        body,
        json!({ "error": {
            "code": "RATE_LIMIT_EXCEEDED",
            "message": "Rate limit exceeded. Retry after 1 second.",
            "retryAfter": 1,
            "limit": 100,
            "remaining": 0,
            "resetAt": "2025-12-11T00:00:10.000Z",
        }})
    );
    for (name, value) in [
        ("x-ratelimit-limit", "100"),
        ("x-ratelimit-remaining", "0"),
        ("x-ratelimit-reset", "1765411210"),
        ("retry-after", "1"),
        ("ratelimit-policy", "\"plan:free\";q=100;w=10"),
        ("ratelimit", "\"plan:free\";r=0;t=1"),
        ("cache-control", "no-store"),
    ] {
        assert_eq!(response.header(name), Some(value), "{name}");
    }
}

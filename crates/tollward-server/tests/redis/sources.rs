//! Who decided, as answers say it: Redis, a refusal of Redis that still holds, this node, nobody.

use serde_json::{Value, json};
use tollward_testkit::http::Response;
use tollward_testkit::redis::RedisServer;

use crate::nodes::{Node, PATIENT};
use crate::served::{Client, json as body, until};

const SLOW: &str = "sustained: { rate: 1, window: 366d }, scope: user";

/// A plan and a route for each word of `on_failure`.
fn config() -> String {
    let plan = |word: &str| {
        let limit = format!("{SLOW}, burst: {{ capacity: 3 }}, on_failure: {word}");
        format!("  {word}: {{ rate_limit: {{ {limit} }} }}\n")
    };
    let route = |word: &str| {
        let limit = format!("{SLOW}, burst: {{ capacity: 1000 }}, on_failure: {word}");
        format!("  - {{ match: /{word}, rate_limit: {{ {limit} }} }}\n")
    };
    let words = ["local", "open", "closed"];
    let plans: String = words.map(plan).concat();
    let routes: String = words.map(route).concat();
    format!(
        "{PATIENT}plans:\n{plans}  none: {{ rate_limit: {{ {SLOW} }} }}\nroutes:\n{routes}\
         \x20 - {{ match: /small, rate_limit: {{ {SLOW}, burst: {{ capacity: 2 }} }} }}\n\
         \x20 - {{ match: /trial, rate_limit: {{ {SLOW}, shadow: true, on_failure: closed }} }}\n\
         \x20 - {{ match: /free, cost: 0 }}\n"
    )
}

fn by(user: &str, plan: &str, path: &str, cost: u32) -> Value {
    json!({ "user": user, "plan": plan, "path": path, "cost": cost })
}

/// Two refusals of the same question: by Redis, and by what is remembered of it.
fn refused_twice(client: &mut Client, check: &Value) -> (Response, Response) {
    let (mut asked, mut remembered) = (None, None);
    until("a refusal that is remembered", || {
        let response = client.ask(check.clone());
        assert_eq!(response.status, 429, "{}", response.text());
        match body(&response)["source"].as_str() {
            Some("redis") => asked = Some(response),
            Some("remembered") if asked.is_some() => remembered = Some(response),
            Some("remembered") => {}
            other => panic!("refused by {other:?}"),
        }
        remembered.is_some()
    });
    (asked.unwrap(), remembered.unwrap())
}

/// The fields of an answer that do not change from moment to moment.
fn lasting(answer: &Value) -> Value {
    let mut lasting = answer.clone();
    for field in ["source", "reset_at", "retry_after", "retry_after_ms"] {
        lasting[field].take();
    }
    let limits = lasting["limits"].as_array_mut().unwrap();
    limits.iter_mut().for_each(|it| {
        it["reset_at"].take();
    });
    lasting
}

fn near(one: &Value, other: &Value, by: i64) -> bool {
    (one.as_i64().unwrap() - other.as_i64().unwrap()).abs() <= by
}

#[test]
fn a_remembered_refusal_is_like_the_one_it_remembers() {
    let redis = RedisServer::start();
    let node = Node::start(&config(), &redis.url());
    let mut client = node.client();
    let (status, answer) = client.check(by("alice", "local", "/else", 3));
    assert_eq!((status, &answer["source"]), (200, &json!("redis")));

    let (asked, remembered) = refused_twice(&mut client, &by("alice", "local", "/else", 1));
    let names = |response: &Response| -> Vec<String> {
        let names = response.headers.iter().map(|(name, _)| name.clone());
        names.collect()
    };
    assert_eq!(names(&asked), names(&remembered));
    for name in [
        "x-ratelimit-limit",
        "x-ratelimit-remaining",
        "cache-control",
    ] {
        assert!(remembered.header(name).is_some(), "{name}");
        assert_eq!(asked.header(name), remembered.header(name), "{name}");
    }
    let retry: u64 = remembered.header("retry-after").unwrap().parse().unwrap();
    let (asked, remembered) = (body(&asked), body(&remembered));
    assert_eq!(lasting(&asked), lasting(&remembered));
    assert_eq!(remembered["reason"], "limit");
    assert_eq!(remembered["binding"], "plan:local");
    assert_eq!(remembered["remaining"], 0);
    assert_eq!(remembered["retry_after"], retry);
    // A token of a year.
    assert!(near(&remembered["retry_after"], &json!(366 * 86_400), 60));
    assert!(near(&asked["reset_at"], &remembered["reset_at"], 2));
    assert!(near(
        &asked["retry_after_ms"],
        &remembered["retry_after_ms"],
        2000
    ));

    // To the client too.
    let told = client.client_answer(by("alice", "local", "/else", 1));
    assert_eq!(told.status, 429);
    assert!(told.header("retry-after").is_some());
    assert_eq!(body(&told)["violated-policies"], json!(["plan:local"]));
    // A look is at the truth.
    let peek = json!({ "user": "alice", "plan": "local", "peek": true });
    let (status, answer) = client.check(peek);
    assert_eq!((status, &answer["source"]), (429, &json!("redis")));
}

#[test]
fn a_remembered_refusal_is_of_that_question_only() {
    let redis = RedisServer::start();
    let node = Node::start(&config(), &redis.url());
    let mut client = node.client();
    assert_eq!(client.check(by("alice", "local", "/else", 1)).0, 200);
    refused_twice(&mut client, &by("alice", "local", "/else", 3));
    // Less was there all the time, more never will be, and others have their own.
    assert_eq!(client.check(by("alice", "local", "/else", 4)).0, 422);
    assert_eq!(client.check(by("bob", "local", "/else", 3)).0, 200);
    assert_eq!(client.check(by("alice", "local", "/else", 2)).0, 200);
}

#[test]
fn a_remembered_refusal_shows_every_limit() {
    let redis = RedisServer::start();
    let node = Node::start(&config(), &redis.url());
    let mut client = node.client();
    assert_eq!(client.check(by("alice", "local", "/else", 3)).0, 200);
    // Of the limit on the route nothing is spent.
    let (asked, remembered) = refused_twice(&mut client, &by("alice", "local", "/open", 1));
    assert_eq!(lasting(&body(&asked)), lasting(&body(&remembered)));
    assert_eq!(
        asked.header("ratelimit-policy"),
        remembered.header("ratelimit-policy")
    );
}

#[test]
fn a_degrading_limit_is_shown_while_it_has_tokens() {
    let redis = RedisServer::start();
    let limit = format!("{SLOW}, burst: {{ capacity: 2 }}, strategy: degrade");
    let config = format!("{PATIENT}plans: {{ free: {{ rate_limit: {{ {limit} }} }} }}\n");
    let node = Node::start(&config, &redis.url());
    let mut client = node.client();
    for (remaining, action) in [(1, "allow"), (0, "allow"), (0, "degrade")] {
        let response = client.ask(by("alice", "free", "/x", 1));
        let answer = body(&response);
        assert_eq!(
            (&answer["source"], &answer["action"]),
            (&json!("redis"), &json!(action))
        );
        assert_eq!(answer["binding"], "plan:free");
        assert_eq!(answer["remaining"], remaining);
        assert!(response.header("x-ratelimit-limit").is_some());
    }
}

#[test]
fn what_can_never_be_is_not_told_to_come_again() {
    let redis = RedisServer::start();
    let node = Node::start(&config(), &redis.url());
    let mut client = node.client();
    assert_eq!(client.check(by("alice", "local", "/else", 3)).0, 200);
    for _ in 0..5 {
        refused_twice(&mut client, &by("alice", "local", "/else", 1));
        let response = client.ask(by("alice", "local", "/small", 3));
        let answer = body(&response);
        assert_eq!(response.status, 422, "{answer}");
        assert_eq!(answer["reason"], "cost_exceeds_capacity");
        assert_eq!(response.header("retry-after"), None);
    }
}

/// A node whose Redis is gone.
fn cut_off() -> Node {
    let redis = RedisServer::start();
    let node = Node::start(&config(), &redis.url());
    let (_, answer) = node.client().check(by("before", "local", "/local", 1));
    assert_eq!(answer["source"], "redis");
    redis.kill();
    node.until_down();
    node
}

#[test]
fn the_strictest_word_of_a_request_decides() {
    let node = cut_off();
    let mut client = node.client();
    let strictest = [
        ("open", "open", "open"),
        ("open", "local", "local"),
        ("local", "open", "local"),
        ("local", "local", "local"),
        ("open", "closed", "none"),
        ("closed", "open", "none"),
        ("local", "closed", "none"),
        ("closed", "local", "none"),
        ("closed", "closed", "none"),
    ];
    for (plan, route, source) in strictest {
        // Each a caller of its own, so that nothing is spent.
        let user = format!("{plan}-{route}");
        let check = by(&user, plan, &format!("/{route}"), 1);
        let (status, answer) = client.check(check.clone());
        assert_eq!(answer["source"], source, "{plan} {route}: {answer}");
        let expected = if source == "none" { 503 } else { 200 };
        assert_eq!(status, expected, "{plan} {route}: {answer}");
        assert_eq!(answer["allowed"], status == 200);
        assert_eq!(client.client_answer(check.clone()).status, expected);
        let batch = json!({ "checks": [check] }).to_string();
        let answer = body(&client.post("/v1/check/batch", batch));
        let result = &answer["results"][0];
        assert_eq!(result["status"], expected, "{plan} {route}: {answer}");
        assert_eq!(result["source"], source, "{plan} {route}: {answer}");
    }
}

#[test]
fn closed_is_a_503_that_may_be_tried_again() {
    let node = cut_off();
    let mut client = node.client();
    let check = by("alice", "closed", "/else", 1);
    let response = client.ask(check.clone());
    assert_eq!(response.status, 503);
    assert_eq!(response.header("content-type"), Some("application/json"));
    assert_eq!(response.header("cache-control"), Some("no-store"));
    let retry = |response: &Response| {
        let retry = response.header("retry-after").map(str::parse::<u64>);
        matches!(retry, Some(Ok(1..)))
    };
    assert!(retry(&response), "{:?}", response.headers);
    let answer = body(&response);
    for (field, value) in [
        ("allowed", json!(false)),
        ("action", json!("deny")),
        ("reason", json!("store_unavailable")),
        ("source", json!("none")),
        ("binding", Value::Null),
        ("limits", json!([])),
    ] {
        assert_eq!(answer[field], value, "{field}: {answer}");
    }

    let told = client.client_answer(check.clone());
    assert_eq!(told.status, 503);
    assert_eq!(
        told.header("content-type"),
        Some("application/problem+json")
    );
    assert!(retry(&told), "{:?}", told.headers);
    let problem = body(&told);
    assert_eq!(problem["status"], 503);
    for member in ["type", "title", "detail"] {
        assert!(problem[member].as_str().is_some_and(|it| !it.is_empty()));
    }

    let batch = json!({ "checks": [check, by("alice", "open", "/else", 1), { "cost": -1 }] });
    let answer = body(&client.post("/v1/check/batch", batch.to_string()));
    let results = answer["results"].as_array().unwrap();
    let statuses: Vec<_> = results.iter().map(|it| it["status"].as_u64()).collect();
    assert_eq!(statuses, [Some(503), Some(200), Some(400)]);
    assert_eq!(results[0]["reason"], "store_unavailable");
}

#[test]
fn local_refuses_and_open_does_not() {
    let node = cut_off();
    let mut client = node.client();
    for admitted in [true, true, true, false, false] {
        let response = client.ask(by("alice", "local", "/open", 1));
        let answer = body(&response);
        assert_eq!(answer["allowed"], admitted, "{answer}");
        assert_eq!(answer["source"], "local", "{answer}");
        assert_eq!(answer["binding"], "plan:local", "{answer}");
        assert_eq!(answer["limit"], 3, "{answer}");
        assert_eq!(response.header("retry-after").is_some(), !admitted);
    }
    for _ in 0..20 {
        let response = client.ask(by("alice", "open", "/else", 1));
        let answer = body(&response);
        assert_eq!((response.status, &answer["source"]), (200, &json!("open")));
        assert_eq!(answer["limits"], json!([]));
        assert_eq!(response.header("x-ratelimit-limit"), None);
    }
    let told = client.client_answer(by("alice", "local", "/else", 1));
    assert_eq!(told.status, 429);
    assert!(told.header("retry-after").is_some());
}

/// What does not count cannot close anything, and what costs nothing needs no store.
#[test]
fn a_limit_in_shadow_never_closes() {
    let node = cut_off();
    let mut client = node.client();
    let (status, answer) = client.check(by("alice", "open", "/trial", 1));
    assert_eq!(status, 200, "{answer}");
    assert_eq!(answer["allowed"], true, "{answer}");
    let (status, answer) = client.check(json!({ "user": "alice" }));
    assert_eq!((status, &answer["source"]), (200, &json!("none")));
}

/// The kill switch works when it is needed most.
#[test]
fn enforcement_in_shadow_or_off_closes_nothing() {
    let node = cut_off();
    let check = by("alice", "closed", "/closed", 1);
    assert_eq!(node.client().check(check.clone()).0, 503);
    for enforcement in ["shadow", "'off'"] {
        node.reload(&format!("enforcement: {enforcement}\n{}", config()));
        let (status, answer) = node.client().check(check.clone());
        assert_eq!(status, 200, "{enforcement}: {answer}");
    }
}

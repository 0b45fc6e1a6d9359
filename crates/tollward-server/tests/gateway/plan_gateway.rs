//! `examples/plan-gateway.yaml` as it stands, but for the addresses.

use std::fs;

use tollward_testkit::http::{Connection, Response};
use tollward_testkit::upstream::Upstream;

use crate::demo::Demo;
use crate::gated::{Gated, number, passed, remaining};
use crate::process::arg;
use crate::process_gateway::GatewayProcess;
use crate::served::{Folder, assert_problem, example, json};

const UPSTREAM: &str = "http://127.0.0.1:9000";

fn config(upstream: &str) -> String {
    let text = fs::read_to_string(example("plan-gateway.yaml")).unwrap();
    assert!(text.contains(UPSTREAM));
    text.replace(UPSTREAM, upstream)
}

fn start() -> (Upstream, Gated) {
    let upstream = Upstream::start();
    let gated = Gated::of(&config(&upstream.url()));
    (upstream, gated)
}

fn assert_refused(gated: &Gated, refusal: &Response) {
    assert_eq!(refusal.status, 429, "{}", refusal.text());
    assert_eq!(number(refusal, "x-ratelimit-limit"), 10);
    assert_eq!(number(refusal, "x-ratelimit-remaining"), 0);
    assert_eq!(number(refusal, "x-ratelimit-reset"), gated.unix_secs() + 10);
    for (name, value) in [
        ("retry-after", "1"),
        ("ratelimit", "\"plan:free\";r=0;t=1"),
        ("ratelimit-policy", "\"plan:free\";q=10;w=10"),
        ("cache-control", "no-store"),
        ("content-type", "application/json"),
    ] {
        assert_eq!(refusal.header(name), Some(value), "{name}");
    }
    assert_eq!(
        json(refusal),
        serde_json::json!({
            "error": "Rate limit exceeded",
            "message": "Too many requests. Retry after 1 second.",
            "limit": 10,
            "remaining": 0,
            "resetAt": "2025-12-11T00:00:10.000Z",
        })
    );
}

#[test]
fn ten_pass_and_the_eleventh_is_told_when_to_come_again() {
    let (upstream, gated) = start();
    for left in (0..10).rev() {
        let answer = gated.with_key("demo-free", "/scores/submit");
        assert_eq!((answer.status, remaining(&answer)), (200, left));
        assert_eq!(answer.text(), "GET /scores/submit");
        assert_eq!(answer.header("retry-after"), None);
    }
    assert_refused(&gated, &gated.with_key("demo-free", "/scores/submit"));
    assert_eq!(upstream.count(), 10);
    // Other tenants have buckets of their own.
    assert_eq!(remaining(&gated.with_key("demo-pro", "/scores")), 99);
    assert_eq!(remaining(&gated.with_key("demo-enterprise", "/")), 499);
    gated.advance_ms(5000);
    assert_eq!(passed(&gated, 20, "/scores/submit", "demo-free"), 5);
}

#[test]
fn larger_plans_admit_more() {
    let (upstream, gated) = start();
    for (key, capacity, rate) in [("demo-pro", 100, 50), ("demo-enterprise", 500, 200)] {
        assert_eq!(passed(&gated, capacity + 10, "/", key), capacity, "{key}");
        gated.advance_ms(1000);
        assert_eq!(passed(&gated, rate + 10, "/", key), rate, "{key}");
    }
    assert_eq!(upstream.count(), 850);
}

#[test]
fn strangers_are_asked_who_they_are() {
    let (upstream, gated) = start();
    let wrong = gated.with_key("demo-fre", "/");
    let problem = assert_problem(&wrong, 401, "a wrong key");
    assert_eq!(problem["reason"], "unknown_key");
    let none = gated.get("/", &[]);
    assert_problem(&none, 401, "no key");
    for answer in [wrong, none] {
        assert_eq!(answer.header("www-authenticate"), Some("ApiKey"));
        assert_eq!(answer.header("x-ratelimit-limit"), None);
    }
    assert_eq!(upstream.count(), 0);
    assert_eq!(remaining(&gated.with_key("demo-free", "/")), 9);
}

#[test]
fn the_upstream_learns_who_calls_but_not_the_key() {
    let (upstream, gated) = start();
    for (key, tenant, plan) in [
        ("demo-free", "hobbyist", "free"),
        ("demo-pro", "startup", "pro"),
        ("demo-enterprise", "bigcorp", "enterprise"),
    ] {
        gated.with_key(key, "/a");
        let seen = upstream.last();
        assert_eq!(seen.header("x-tollward-tenant"), Some(tenant));
        assert_eq!(seen.header("x-tollward-plan"), Some(plan));
        assert_eq!(seen.header("x-tollward-user"), None);
        assert_eq!(seen.header("x-api-key"), None);
        assert_eq!(seen.header("host"), Some("tollward.test"));
        assert!(!format!("{seen:?}").contains(key), "{seen:?}");
    }
}

#[test]
fn the_binary_serves_it_before_the_demo_upstream() {
    let demo = Demo::start();
    let folder = Folder::new();
    let file = folder.write("plan-gateway.yaml", &config(&demo.url));
    let mut process = GatewayProcess::serve(&["--config", arg(&file)]);
    let mut connection = Connection::open(process.gateway).unwrap();
    let key = [("x-api-key", "demo-enterprise")];
    for left in [499, 498] {
        let answer = connection.request("POST", "/scores/a?b=c", &key, b"hello");
        let answer = answer.unwrap();
        // The clock is real: some of it may have come back.
        assert!((left..500).contains(&remaining(&answer)), "{answer:?}");
        let seen = json(&answer);
        assert_eq!(seen["method"], "POST");
        assert_eq!(
            (&seen["path"], &seen["query"]),
            (&"/scores/a".into(), &"b=c".into())
        );
        assert_eq!(seen["headers"]["x-tollward-tenant"], "bigcorp");
        assert_eq!(seen["headers"].get("x-api-key"), None);
    }
    let free = [("x-api-key", "demo-free")];
    let statuses: Vec<u16> = (0..15)
        .map(|_| connection.request("GET", "/", &free, b"").unwrap().status)
        .collect();
    assert_eq!(statuses[..10], [200; 10]);
    assert!(statuses.contains(&429), "{statuses:?}");
    process.end();
}

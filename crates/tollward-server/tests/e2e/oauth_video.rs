//! `examples/oauth-video.yaml`: limits of routes, each counted by another fact.

use serde_json::{Value, json};

use crate::served::{Served, json as body};

fn token(who: &Value) -> Value {
    let mut check = who.clone();
    check["method"] = "POST".into();
    check["path"] = "/oauth/token".into();
    check
}

#[test]
fn tokens_are_counted_per_client() {
    let served = Served::example("oauth-video.yaml");
    let mut client = served.client();
    let tv = token(&json!({ "client": "tv-app", "ip": "192.0.2.7" }));
    let (admitted, refusal) = client.exhaust(&tv);
    assert_eq!(admitted, 5);
    assert_eq!(refusal["binding"], "route:/oauth/token");
    assert_eq!(refusal["retry_after"], 12);
    assert_eq!(refusal["retry_after_ms"], 12_000);
    let elsewhere = token(&json!({ "client": "tv-app", "ip": "198.51.100.1" }));
    assert_eq!(client.check(elsewhere).0, 429);
    let other = token(&json!({ "client": "phone", "ip": "192.0.2.7" }));
    assert_eq!(client.check(other).0, 200);

    served.advance_secs(11);
    assert_eq!(client.check(tv.clone()).0, 429);
    served.advance_secs(1);
    assert_eq!(client.check(tv.clone()).0, 200);
    served.advance_secs(60);
    assert_eq!(client.exhaust(&tv).0, 5);
}

#[test]
fn a_missing_client_buys_nothing() {
    let served = Served::example("oauth-video.yaml");
    let mut client = served.client();
    // The address stands in for the client, and behind it one bucket for all.
    assert_eq!(client.exhaust(&token(&json!({ "ip": "192.0.2.7" }))).0, 5);
    assert_eq!(client.exhaust(&token(&json!({ "ip": "192.0.2.8" }))).0, 5);
    assert_eq!(client.exhaust(&token(&json!({}))).0, 5);
    assert_eq!(client.check(token(&json!({ "client": "" }))).0, 429);
    // A client that calls itself like an address has a bucket of its own.
    let named = token(&json!({ "client": "192.0.2.7", "ip": "192.0.2.7" }));
    assert_eq!(client.exhaust(&named).0, 5);
}

#[test]
fn device_codes_are_counted_per_address() {
    let served = Served::example("oauth-video.yaml");
    let mut client = served.client();
    let device = |ip: &str| json!({ "ip": ip, "client": "tv-app", "path": "/oauth/device" });
    let (admitted, refusal) = client.exhaust(&device("192.0.2.7"));
    assert_eq!(admitted, 10);
    assert_eq!(refusal["retry_after"], 30);
    assert_eq!(client.check(device("::ffff:192.0.2.7")).0, 429);
    assert_eq!(client.check(device("192.0.2.8")).0, 200);
    // A network of IPv6 is one caller.
    assert_eq!(client.exhaust(&device("2001:db8::1")).0, 10);
    assert_eq!(client.check(device("2001:db8::ffff:1")).0, 429);
    assert_eq!(client.check(device("2001:db8:0:1::1")).0, 200);
    served.advance_secs(60);
    assert_eq!(client.exhaust(&device("192.0.2.7")).0, 2);
    // Without an address there is nothing to count by.
    let (status, answer) = client.check(json!({ "path": "/oauth/device" }));
    assert_eq!((status, &answer["limits"]), (200, &json!([])));
}

#[test]
fn allowances_multiply_capacities() {
    let served = Served::example("oauth-video.yaml");
    let mut client = served.client();
    let api = json!({ "user": "u1", "method": "GET", "path": "/api/videos/1" });
    let (admitted, refusal) = client.exhaust(&api);
    assert_eq!((admitted, &refusal["limit"]), (150, &json!(150)));
    served.advance_secs(1);
    assert_eq!(client.exhaust(&api).0, 10);

    let public = json!({ "ip": "192.0.2.7", "path": "/public/trailer.mp4" });
    let (admitted, refusal) = client.exhaust(&public);
    assert_eq!((admitted, &refusal["limit"]), (2000, &json!(2000)));
    served.advance_secs(1);
    assert_eq!(client.exhaust(&public).0, 100);
}

#[test]
fn the_client_is_told_as_oauth_has_it() {
    let served = Served::example("oauth-video.yaml");
    let mut client = served.client();
    let tv = token(&json!({ "client": "tv-app" }));
    client.exhaust(&tv);
    let response = client.client_answer(tv);
    assert_eq!(response.status, 429);
    assert_eq!(response.header("content-type"), Some("application/json"));
    assert_eq!(
        body(&response),
        json!({
            "error": "rate_limit_exceeded",
            "error_description": "Too many requests. Retry after 12 seconds.",
            "retry_after": 12,
        })
    );
    assert_eq!(response.header("retry-after"), Some("12"));
    assert_eq!(response.header("x-ratelimit-limit"), Some("5"));
    assert_eq!(response.header("x-ratelimit-remaining"), Some("0"));
    assert_eq!(response.header("x-ratelimit-reset"), Some("1765411260"));
}

#[test]
fn paths_without_a_route_are_not_limited() {
    let served = Served::example("oauth-video.yaml");
    let mut client = served.client();
    let response = client.ask(json!({ "ip": "192.0.2.7", "path": "/status" }));
    let answer = body(&response);
    assert_eq!((response.status, &answer["action"]), (200, &json!("allow")));
    assert!(answer["limit"].is_null());
    assert_eq!(response.header("x-ratelimit-limit"), None);
}

//! `examples/ecommerce.yaml`: a limit for all, plans per user, tighter routes, a limit per address.

use serde_json::{Value, json};

use crate::served::{Client, Served, json as body};

fn names(answer: &Value) -> Vec<&str> {
    let limits = answer["limits"].as_array().unwrap();
    limits
        .iter()
        .map(|it| it["name"].as_str().unwrap())
        .collect()
}

fn costing(mut check: Value, cost: u32) -> Value {
    check["cost"] = cost.into();
    check
}

#[test]
fn plans_hold_per_user_and_show_their_rate() {
    let served = Served::example("ecommerce.yaml");
    let mut client = served.client();
    for (plan, rate, capacity) in [
        ("free", 100, 150),
        ("premium", 500, 750),
        ("enterprise", 2000, 3000),
    ] {
        let check = json!({ "user": plan, "plan": plan, "path": "/api/v1/products/7" });
        let (admitted, refusal) = client.exhaust(&check);
        assert_eq!(admitted, capacity, "{plan}");
        assert_eq!(refusal["binding"], format!("plan:{plan}"));
        assert_eq!(
            names(&refusal),
            ["limit:system".into(), format!("plan:{plan}")]
        );
        let response = client.client_answer(check.clone());
        let limit = response.header("x-ratelimit-limit").unwrap();
        assert_eq!(limit, rate.to_string(), "the rate, not the burst");
        served.advance_secs(60);
        assert_eq!(client.exhaust(&check).0, rate, "{plan}, a minute later");
        served.advance_secs(3600);
    }
}

#[test]
fn one_limit_is_for_all_together() {
    let served = Served::example("ecommerce.yaml");
    let mut client = served.client();
    for user in ["a", "b", "c", "d", "e"] {
        let check = costing(json!({ "user": user, "plan": "enterprise" }), 3000);
        assert_eq!(client.check(check).0, 200, "{user}");
    }
    let check = json!({ "user": "f", "plan": "enterprise" });
    let (status, refusal) = client.check(check.clone());
    assert_eq!(status, 429);
    assert_eq!(refusal["binding"], "limit:system");
    assert_eq!(refusal["limit"], 10_000);
    // 10000 a minute is one in 6 ms.
    assert_eq!(refusal["retry_after_ms"], 6);
    served.advance_ms(6);
    let (status, answer) = client.check(check);
    assert_eq!(status, 200, "{answer}");
    // What was refused by one limit was not charged to the other.
    assert_eq!(answer["limits"][1]["remaining"], 2999);
}

#[test]
fn addresses_are_limited_only_when_nobody_is_known_behind_them() {
    let served = Served::example("ecommerce.yaml");
    let mut client = served.client();
    let anonymous = json!({ "ip": "192.0.2.1", "path": "/api/v1/products" });
    let (_, answer) = client.check(anonymous.clone());
    assert_eq!(names(&answer), ["limit:system", "limit:per-ip"]);
    let (admitted, refusal) = client.exhaust(&anonymous);
    assert_eq!(admitted, 1499);
    assert_eq!(refusal["binding"], "limit:per-ip");
    assert_eq!(refusal["limit"], 1000);
    assert_eq!(refusal["retry_after_ms"], 60);

    for proof in ["user", "client"] {
        let mut known = anonymous.clone();
        known[proof] = "CUST-123".into();
        let (status, answer) = client.check(known);
        assert_eq!(status, 200);
        assert_eq!(names(&answer), ["limit:system", "plan:free"]);
    }
    let mut other = anonymous;
    other["ip"] = "192.0.2.2".into();
    assert_eq!(client.check(other).0, 200);
}

#[test]
fn sensitive_routes_are_tighter_and_apart() {
    let served = Served::example("ecommerce.yaml");
    let mut client = served.client();
    let premium = |user: &str, path: &str| json!({ "user": user, "plan": "premium", "path": path });
    for (path, other, name, rate, capacity) in [
        (
            "/api/v1/payments/1",
            "/api/v1/payments",
            "route:/api/v1/payments/**",
            10,
            15,
        ),
        (
            "/api/v1/admin/users/2",
            "/API/v1//admin/",
            "route:/api/v1/admin/**",
            10,
            15,
        ),
        (
            "/api/v1/orders/3",
            "/api/v1/%6Frders/4",
            "route:/api/v1/orders/**",
            100,
            150,
        ),
    ] {
        let (admitted, refusal) = client.exhaust(&premium("u1", path));
        assert_eq!(admitted, capacity, "{path}");
        assert_eq!(refusal["binding"], name);
        assert_eq!(refusal["limit"], rate);
        assert_eq!(refusal["limits"][2]["scope"], "user,route");
        assert_eq!(client.check(premium("u1", other)).0, 429, "{other}");
        assert_eq!(client.check(premium("u2", path)).0, 200, "another user");
        served.advance_secs(60);
        assert_eq!(client.exhaust(&premium("u1", path)).0, rate, "{path}");
    }
}

#[test]
fn a_refusal_by_a_route_leaves_the_plan_alone() {
    let served = Served::example("ecommerce.yaml");
    let mut client = served.client();
    let pay = json!({ "user": "u", "plan": "free", "path": "/api/v1/payments/1" });
    assert_eq!(client.exhaust(&pay).0, 15);
    for _ in 0..100 {
        client.ask(pay.clone());
    }
    let browse = json!({ "user": "u", "plan": "free", "path": "/api/v1/products" });
    assert_eq!(client.exhaust(&browse).0, 150 - 15);
}

#[test]
fn internal_services_are_let_through() {
    let served = Served::example("ecommerce.yaml");
    let mut client = served.client();
    for caller in [
        json!({ "ip": "10.20.3.4" }),
        json!({ "ip": "::ffff:10.20.3.4" }),
        json!({ "user": "svc-fulfilment" }),
        json!({ "user": "svc-fulfilment", "path": "/api/v1/payments/1", "cost": u32::MAX }),
    ] {
        let response = client.ask(caller.clone());
        assert_eq!(response.status, 200, "{caller}");
        let answer = body(&response);
        assert_eq!(answer["action"], "bypass");
        assert_eq!(answer["source"], "none");
        assert_eq!(answer["reason"], "allow_list");
        assert!(answer["limit"].is_null() && answer["remaining"].is_null());
        assert_eq!(answer["limits"], json!([]));
        let told = response
            .headers
            .iter()
            .find(|(name, _)| name.contains("ratelimit"));
        assert_eq!(told, None);
    }
    for stranger in [
        json!({ "ip": "10.21.0.1" }),
        json!({ "user": "SVC-FULFILMENT" }),
    ] {
        assert_eq!(client.check(stranger).1["action"], "allow");
    }
}

#[test]
fn the_client_is_told_in_a_flat_body() {
    let served = Served::example("ecommerce.yaml");
    let mut client = served.client();
    let pay = json!({ "user": "u", "plan": "free", "path": "/api/v1/payments/1" });
    client.exhaust(&pay);
    let response = client.client_answer(pay);
    assert_eq!(response.status, 429);
    assert_eq!(
        body(&response),
        json!({
            "error": "Rate limit exceeded",
            "message": "Too many requests. Retry after 6 seconds.",
            "limit": 10,
            "remaining": 0,
            "resetAt": "2025-12-11T00:01:30.000Z",
        })
    );
    assert_eq!(response.header("x-ratelimit-limit"), Some("10"));
    assert_eq!(response.header("retry-after"), Some("6"));
    assert_eq!(response.header("ratelimit"), None);
    assert_eq!(response.header("ratelimit-policy"), None);
}

#[test]
fn an_unknown_plan_is_refused_and_costs_nothing() {
    let served = Served::example("ecommerce.yaml");
    let mut client: Client = served.client();
    let (status, problem) = client.check(json!({ "user": "u", "plan": "gold" }));
    assert_eq!((status, &problem["reason"]), (400, &json!("unknown_plan")));
    let (_, answer) = client.check(json!({ "user": "u", "peek": true }));
    assert_eq!(answer["limits"][0]["remaining"], 15_000);
}

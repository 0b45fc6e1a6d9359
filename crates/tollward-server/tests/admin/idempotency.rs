//! `Idempotency-Key`.

use serde_json::{Value, json};
use tollward_testkit::http::Response;

use crate::desk::{Desk, ok, refused, served};

fn once(desk: &Desk<'_>, target: &str, key: &str, body: &Value) -> Response {
    desk.ask("POST", target, &[("idempotency-key", key)], body)
}

#[test]
fn what_is_asked_twice_is_done_once() {
    let served = served();
    let desk = Desk::of(&served);
    desk.made("users", &json!({ "id": "u" }));
    for (target, body) in [
        (
            "tenants",
            json!({ "id": "acme", "rate_limit": { "sustained": { "rate": 5 } } }),
        ),
        ("users", json!({ "id": "alice" })),
        ("keys", json!({ "tenant": "partner" })),
        ("allow", json!({ "user": "x", "reason": "r" })),
        (
            "boosts",
            json!({ "user": "u", "factor": 2, "duration": "1h" }),
        ),
        ("tokens", json!({ "name": "n", "role": "read" })),
    ] {
        let key = format!("once for {target}");
        let first = once(&desk, target, &key, &body);
        assert_eq!(first.header("idempotency-replayed"), None);
        let tag = first.header("etag").map(str::to_owned);
        let mut first = ok(&first, 201);
        let again = once(&desk, target, &key, &body);
        assert_eq!(
            again.header("idempotency-replayed"),
            Some("true"),
            "{target}"
        );
        assert_eq!(again.header("etag"), tag.as_deref());
        let again = ok(&again, 201);
        if first.get("secret").is_some() {
            assert!(first["secret"].is_string(), "{first}");
            first["secret"] = Value::Null;
        }
        assert_eq!(again, first, "{target}");
    }
    assert_eq!(desk.shown("keys")["items"].as_array().unwrap().len(), 1);
    let other = once(
        &desk,
        "keys",
        "once for keys",
        &json!({ "tenant": "partner-child" }),
    );
    refused(&other, 422, "idempotency_key_reused");
    let elsewhere = once(
        &desk,
        "users",
        "once for keys",
        &json!({ "tenant": "partner" }),
    );
    assert!(matches!(elsewhere.status, 400 | 422));
    // A day later it is another request.
    served.advance_secs(86_401);
    let later = once(
        &desk,
        "keys",
        "once for keys",
        &json!({ "tenant": "partner" }),
    );
    assert_eq!(later.header("idempotency-replayed"), None);
    ok(&later, 201);
}

#[test]
fn keys_of_others_are_others() {
    let served = served();
    let desk = Desk::of(&served);
    let made = desk.made("tokens", &json!({ "name": "ci", "role": "operate" }));
    let other = Desk::bearing(&served, made["secret"].as_str().unwrap());
    let body = json!({ "tenant": "partner" });
    let ids: Vec<Value> = [&desk, &other]
        .map(|desk| ok(&once(desk, "keys", "k", &body), 201)["id"].clone())
        .to_vec();
    assert_ne!(ids[0], ids[1]);
    for key in ["", "\u{e9}", &"x".repeat(256)] {
        assert_eq!(once(&desk, "keys", key, &body).status, 400, "{key:?}");
    }
}

/// The audit trail calls both the same, one after the other.
#[test]
fn a_token_does_not_have_the_keys_of_one_that_had_its_name() {
    let served = served();
    let desk = Desk::of(&served);
    let new = json!({ "name": "ci", "role": "operate" });
    let body = json!({ "tenant": "partner" });
    let made = [(); 2].map(|()| {
        let token = desk.made("tokens", &new);
        let bearer = Desk::bearing(&served, token["secret"].as_str().unwrap());
        let key = once(&bearer, "keys", "k", &body);
        assert_eq!(key.header("idempotency-replayed"), None);
        let key = ok(&key, 201);
        assert!(key["secret"].is_string(), "{key}");
        let target = format!("tokens/{}", token["id"].as_str().unwrap());
        ok(&desk.delete(&target, "*"), 200);
        key
    });
    assert_ne!(made[0]["id"], made[1]["id"]);
}

#[test]
fn a_refusal_is_not_remembered() {
    let served = served();
    let desk = Desk::of(&served);
    let body = json!({ "id": "x", "parent": "later" });
    refused(&once(&desk, "tenants", "k", &body), 422, "unknown_parent");
    desk.made("tenants", &json!({ "id": "later" }));
    ok(&once(&desk, "tenants", "k", &body), 201);
}

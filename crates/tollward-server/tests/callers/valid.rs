//! Keys that are valid, and the allow-list, which makes none valid.

use serde_json::{Value, json};

use crate::site::{Caller, Site, TRUSTING, done, refused, sha256};

const ONE: &str = "sustained: { rate: 1, window: 366d }, burst: { capacity: 1 }";

/// A limit that any caller has used up after one request.
fn config(rest: &str) -> String {
    format!(
        "{TRUSTING}limits: {{ one: {{ {ONE}, scope: ip }} }}\ntenants: {{ acme: {{}} }}\n{rest}"
    )
}

#[test]
fn a_revoked_key_is_not_valid_by_the_allow_list_of_the_file() {
    let site = Site::of(&config(""));
    let (id, secret) = site.key(&json!({ "tenant": "acme" }));
    let (other_id, other) = site.key(&json!({ "tenant": "acme" }));
    let entry = |secret: &str| {
        let hash = sha256(secret);
        format!("{{ api_key: {{ sha256: {hash} }}, reason: partner }}")
    };
    let allow = format!("allow: [ {}, {} ]\n", entry(&secret), entry(&other));
    done(&site.reload(&config(&allow)), 200);
    // Not limited, for as long as it is valid.
    for _ in 0..3 {
        site.admits(&Caller::key(&secret));
    }
    site.changed("POST", &format!("keys/{id}/revoke"), &Value::Null);
    site.refuses(&Caller::key(&secret), 401, "unknown_key");
    site.admits(&Caller::key(&other));
    site.changed("DELETE", &format!("keys/{other_id}"), &Value::Null);
    site.refuses(&Caller::key(&other), 401, "unknown_key");
    // Nobody is left whom the entries allow, and that is told.
    let clashes = site.shown("config")["clashes"].to_string();
    for secret in [&secret, &other] {
        assert!(clashes.contains(&sha256(secret)[..12]), "{clashes}");
    }
}

#[test]
fn a_key_that_the_file_no_longer_has_is_not_valid_by_the_allow_list() {
    let keys = format!(
        "keys: [ {{ sha256: {}, tenant: acme }} ]\n",
        sha256("of-file")
    );
    let site = Site::of(&config(&keys));
    let entry = json!({ "api_key_sha256": sha256("of-file"), "reason": "partner" });
    site.made("allow", &entry);
    for _ in 0..3 {
        site.admits(&Caller::key("of-file"));
    }
    done(&site.reload(&config("")), 200);
    site.refuses(&Caller::key("of-file"), 401, "unknown_key");
    done(&site.reload(&config(&keys)), 200);
    site.admits(&Caller::key("of-file"));
}

#[test]
fn nor_is_a_key_that_never_was() {
    let site = Site::of(&config(""));
    site.made(
        "allow",
        &json!({ "api_key_sha256": sha256("made-up"), "reason": "r" }),
    );
    site.refuses(&Caller::key("made-up"), 401, "unknown_key");
}

#[test]
fn the_key_of_a_deleted_tenant_is_not_valid() {
    let site = Site::of(&config(""));
    site.made("tenants", &json!({ "id": "brief" }));
    site.made("tenants", &json!({ "id": "below", "parent": "brief" }));
    let keys = ["brief", "below"].map(|tenant| site.key(&json!({ "tenant": tenant })));
    for (id, secret) in &keys {
        site.made("allow", &json!({ "key_id": id, "reason": "r" }));
        site.admits(&Caller::key(secret));
    }
    site.changed("DELETE", "tenants/brief?cascade=true", &Value::Null);
    for (_, secret) in &keys {
        site.refuses(&Caller::key(secret), 401, "unknown_key");
    }
}

#[test]
fn a_key_is_replaced_once() {
    let site = Site::of(&config(""));
    let (old, secret) = site.key(&json!({ "tenant": "acme" }));
    let rotate = |id: &str| site.post(&format!("keys/{id}/rotate"), &json!({ "overlap": "1h" }));
    let next = done(&rotate(&old), 201);
    let problem = refused(&rotate(&old), 409, "replaced");
    assert_eq!(problem["successor"], next["id"], "{problem}");
    let id = next["id"].as_str().unwrap();
    assert!(
        problem["detail"].as_str().unwrap().contains(id),
        "{problem}"
    );
    // A successor that nobody has is no reason to keep the old key.
    site.changed("POST", &format!("keys/{id}/revoke"), &Value::Null);
    let again = done(&rotate(&old), 201);
    assert_ne!(again["id"], next["id"]);
    let both = [&secret, again["secret"].as_str().unwrap()];
    for (secret, ip) in both.into_iter().zip(["192.0.2.1", "192.0.2.2"]) {
        let caller = Caller::key(secret).from(ip);
        assert_eq!(site.get("/", &caller.headers()).status, 200, "for an hour");
    }

    let third = again["id"].as_str().unwrap();
    site.changed("POST", &format!("keys/{third}/suspend"), &Value::Null);
    refused(&rotate(third), 409, "suspended");
    site.changed("POST", &format!("keys/{third}/resume"), &Value::Null);
    done(&rotate(third), 201);
}

//! Who may do what.

use serde_json::{Value, json};

use crate::desk::{Desk, ok, refused, send, served};
use crate::served::{Served, get};

/// Every method and path of the document, with names filled in.
fn operations(served: &Served) -> Vec<(String, String)> {
    let document = crate::served::json(&get(served.admin, "/admin/openapi.json"));
    let mut operations = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for method in item.as_object().unwrap().keys() {
            operations.push((method.to_uppercase(), path.replace("{id}", "some")));
        }
    }
    operations
}

#[test]
fn every_route_needs_a_token() {
    let served = served();
    let operations = operations(&served);
    let guarded: Vec<_> = operations
        .iter()
        .filter_map(|(method, path)| Some((method, path.strip_prefix("/admin/v1/")?)))
        .collect();
    assert!(guarded.len() > 40, "{guarded:?}");
    for (_, target) in guarded {
        // Also by methods that nobody answers.
        for method in [
            "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE",
        ] {
            let answer = send(served.admin, method, target, &[], b"");
            assert_eq!(answer.status, 401, "{method} {target}");
            assert_eq!(answer.header("www-authenticate"), Some("Bearer"));
        }
    }
    for target in [
        "",
        "nothing",
        "tenants/",
        "../v1/tenants",
        "tenants/a/b/c",
        "?x=y",
    ] {
        let answer = send(served.admin, "GET", target, &[], b"");
        assert_eq!(answer.status, 401, "{target}");
    }
    let bare = crate::served::get(served.admin, "/admin/v1");
    assert_eq!(bare.status, 401);
}

#[test]
fn with_a_token_what_is_not_there_is_told() {
    let served = served();
    let desk = Desk::of(&served);
    refused(&desk.get("nothing"), 404, "no_such_path");
    refused(&desk.get("tenants/"), 404, "no_such_path");
    for (method, target, allow) in [
        ("PUT", "tenants", "GET, HEAD, POST"),
        ("POST", "status", "GET, HEAD"),
        ("GET", "config/reload", "POST"),
    ] {
        let answer = desk.ask(method, target, &[], &Value::Null);
        assert_eq!(answer.status, 405, "{method} {target}");
        let mut methods: Vec<&str> = answer.header("allow").unwrap().split(", ").collect();
        methods.sort_unstable();
        assert_eq!(methods.join(", "), allow);
        let media_type = answer.header("content-type");
        assert_eq!(media_type, Some("application/problem+json"));
    }
}

/// A token of this role.
fn token(desk: &Desk<'_>, role: &str) -> (String, String) {
    let made = desk.made(
        "tokens",
        &json!({ "name": format!("the {role}"), "role": role }),
    );
    let text = |name: &str| made[name].as_str().unwrap().to_owned();
    (text("id"), text("secret"))
}

#[test]
fn roles_open_what_they_are_for() {
    let served = served();
    let admin = Desk::of(&served);
    let secrets: Vec<String> = ["read", "operate", "admin"]
        .map(|role| token(&admin, role).1)
        .to_vec();
    // What each needs, and the role of the first that may: 0 read, 1 operate, 2 admin.
    let table: [(&str, &str, Value, usize); 22] = [
        ("GET", "tenants", Value::Null, 0),
        ("GET", "users", Value::Null, 0),
        ("GET", "keys", Value::Null, 0),
        ("GET", "allow", Value::Null, 0),
        ("GET", "boosts", Value::Null, 0),
        ("GET", "audit", Value::Null, 0),
        ("GET", "usage", Value::Null, 0),
        ("GET", "status", Value::Null, 0),
        ("GET", "config", Value::Null, 0),
        ("GET", "explain?tenant=partner", Value::Null, 0),
        ("GET", "buckets?tenant=partner", Value::Null, 0),
        ("GET", "enforcement", Value::Null, 0),
        ("POST", "keys", json!({ "tenant": "partner" }), 1),
        (
            "POST",
            "buckets/reset",
            json!({ "facts": { "tenant": "partner" } }),
            1,
        ),
        (
            "POST",
            "buckets/grant",
            json!({ "facts": { "tenant": "partner" }, "tokens": 1 }),
            1,
        ),
        (
            "POST",
            "boosts",
            json!({ "tenant": "partner", "factor": 2, "duration": "1h" }),
            1,
        ),
        ("POST", "allow", json!({}), 1),
        ("POST", "config/reload", Value::Null, 1),
        ("PUT", "enforcement", json!({ "mode": null }), 1),
        ("POST", "tenants", json!({}), 2),
        ("POST", "users", json!({}), 2),
        ("GET", "tokens", Value::Null, 2),
    ];
    for (method, target, body, needed) in table {
        for (role, secret) in secrets.iter().enumerate() {
            let desk = Desk::bearing(&served, secret);
            let answer = desk.ask(method, target, &[("if-match", "*")], &body);
            let is_open = answer.status != 403 && answer.status != 401;
            assert_eq!(
                is_open,
                role >= needed,
                "{method} {target} by {role}: {}",
                answer.text()
            );
            if !is_open {
                refused(&answer, 403, "role");
            }
        }
    }
}

#[test]
fn a_token_ends() {
    let served = served();
    let admin = Desk::of(&served);
    let (id, secret) = token(&admin, "read");
    let reader = Desk::bearing(&served, &secret);
    assert_eq!(reader.get("status").status, 200);
    ok(&admin.delete(&format!("tokens/{id}"), "*"), 200);
    assert_eq!(reader.get("status").status, 401);
    // The secret is in no other answer.
    for target in ["tokens", &format!("tokens/{id}")] {
        assert!(!admin.get(target).text().contains(&secret), "{target}");
    }

    let soon = crate::tenants::moment(served.clock.unix_secs() + 60);
    let limited = json!({ "name": "short", "role": "read", "expires_at": soon });
    let secret = admin.made("tokens", &limited)["secret"]
        .as_str()
        .unwrap()
        .to_owned();
    let short = Desk::bearing(&served, &secret);
    assert_eq!(short.get("status").status, 200);
    served.advance_secs(61);
    assert_eq!(short.get("status").status, 401);
    refused(&admin.post("tokens", &limited), 422, "invalid");
}

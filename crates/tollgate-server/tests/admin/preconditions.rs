//! `If-Match` on every change.

use serde_json::{Value, json};

use crate::desk::{Desk, ok, refused, served};

#[test]
fn nobody_overwrites_what_they_have_not_seen() {
    let served = served();
    let desk = Desk::of(&served);
    desk.made("tenants", &json!({ "id": "t" }));
    desk.made("users", &json!({ "id": "u" }));
    let id = |made: Value| made["id"].as_str().unwrap().to_owned();
    let key = id(desk.made("keys", &json!({ "user": "u" })));
    let allow = id(desk.made("allow", &json!({ "user": "u", "reason": "r" })));
    let boost = id(desk.made(
        "boosts",
        &json!({ "user": "u", "factor": 2, "duration": "1h" }),
    ));
    let token = id(desk.made("tokens", &json!({ "name": "n", "role": "read" })));
    for (target, patch) in [
        ("tenants/t".to_owned(), Some(json!({ "plan": "free" }))),
        ("users/u".to_owned(), Some(json!({ "plan": "free" }))),
        (format!("keys/{key}"), Some(json!({ "plan": "free" }))),
        (format!("allow/{allow}"), None),
        (format!("boosts/{boost}"), None),
        (format!("tokens/{token}"), None),
    ] {
        assert_eq!(desk.get(&target).header("etag"), Some("\"1\""), "{target}");
        let requests = patch.into_iter().map(|patch| ("PATCH", patch));
        for (method, body) in requests.chain([("DELETE", Value::Null)]) {
            let ask = |headers: &[(&str, &str)]| desk.ask(method, &target, headers, &body);
            refused(&ask(&[]), 428, "precondition_required");
            for stale in ["\"0\"", "\"7\"", "W/\"1\"", "\"x\"", "\"7\", \"8\""] {
                let answer = ask(&[("if-match", stale)]);
                let problem = refused(&answer, 412, "stale");
                assert_eq!(problem["version"], 1, "{method} {target}");
                assert_eq!(answer.header("etag"), Some("\"1\""));
            }
            assert_eq!(ask(&[("if-match", "1")]).status, 400);
        }
        assert_eq!(desk.get(&target).header("etag"), Some("\"1\""), "{target}");
    }
    let patch = json!({ "plan": "free" });
    ok(&desk.patch("tenants/t", "\"7\", \"1\"", &patch), 200);
    refused(&desk.patch("tenants/t", "\"1\"", &patch), 412, "stale");
    ok(&desk.patch("tenants/t", "*", &patch), 200);
    refused(&desk.patch("tenants/none", "*", &patch), 404, "not_found");
}

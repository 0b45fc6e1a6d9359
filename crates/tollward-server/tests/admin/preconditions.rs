//! `If-Match` on every change.

use serde_json::{Value, json};

use crate::desk::{Desk, ok, refused, served, tag};

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
        let version = desk.shown(&target)["version"].clone();
        let tag = format!("\"{version}\"");
        assert_eq!(desk.get(&target).header("etag"), Some(&*tag), "{target}");
        let mut requests = vec![("DELETE", target.clone(), Value::Null)];
        requests.extend(patch.map(|patch| ("PATCH", target.clone(), patch)));
        if target.starts_with("keys/") {
            requests.push(("POST", format!("{target}/rotate"), json!({})));
            requests.push(("POST", format!("{target}/revoke"), Value::Null));
        }
        for (method, target, body) in requests {
            let ask = |headers: &[(&str, &str)]| desk.ask(method, &target, headers, &body);
            refused(&ask(&[]), 428, "precondition_required");
            let weak = format!("W/{tag}");
            for stale in ["\"0\"", "\"700\"", &weak, "\"x\"", "\"700\", \"800\""] {
                let answer = ask(&[("if-match", stale)]);
                let problem = refused(&answer, 412, "stale");
                assert_eq!(problem["version"], version, "{method} {target}");
                assert_eq!(answer.header("etag"), Some(&*tag));
            }
            assert_eq!(ask(&[("if-match", "1")]).status, 400);
        }
        assert_eq!(desk.get(&target).header("etag"), Some(&*tag), "{target}");
    }
    let patch = json!({ "plan": "free" });
    let tag = tag(&desk.shown("tenants/t"));
    let either = format!("\"700\", {tag}");
    ok(&desk.patch("tenants/t", &either, &patch), 200);
    refused(&desk.patch("tenants/t", &tag, &patch), 412, "stale");
    ok(&desk.patch("tenants/t", "*", &patch), 200);
    refused(&desk.patch("tenants/none", "*", &patch), 404, "not_found");
}

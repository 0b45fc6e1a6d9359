//! What cannot be read, and what makes no sense.

use serde_json::{Value, json};

use crate::desk::{Desk, TOKEN, ok, refused, send, served, tag};

#[test]
fn faults_have_their_place() {
    let served = served();
    let desk = Desk::of(&served);
    let table = [
        (json!({ "id": 5 }), 400, "id"),
        (json!({ "id": "x", "attributes": [] }), 400, "attributes"),
        (json!({ "id": "x", "rate": 5 }), 400, "rate"),
        (
            json!({ "id": "x", "rate_limit": { "sustained": { "rate": 0 } } }),
            422,
            "rate_limit.sustained.rate",
        ),
        (
            json!({ "id": "x", "rate_limit": { "sustained": { "rate": "5" } } }),
            422,
            "rate_limit.sustained.rate",
        ),
        (
            json!({ "id": "x", "rate_limit": { "sustained": { "rate": 1.5 } } }),
            422,
            "rate_limit.sustained.rate",
        ),
        (json!({ "id": "x", "rate_limit": 5 }), 422, "rate_limit"),
        (json!({ "id": "" }), 422, "id"),
        (json!({ "id": "a\nb" }), 422, "id"),
        (json!({ "id": "\u{202e}x" }), 422, "id"),
        (json!({ "id": "x".repeat(129) }), 422, "id"),
    ];
    for (body, status, place) in table {
        let answer = desk.post("tenants", &body);
        assert_eq!(answer.status, status, "{body}: {}", answer.text());
        let problem = crate::served::json(&answer);
        let error = &problem["errors"][0];
        assert_eq!(error["place"], place, "{body}: {problem}");
        assert!(
            error["message"].is_string() && error["hint"].is_string(),
            "{problem}"
        );
    }
    // All faults of a limit at once.
    let twice = json!({ "id": "x", "rate_limit": { "sustained": { "rate": 0 }, "brust": 1 } });
    let problem = refused(&desk.post("tenants", &twice), 422, "invalid_limit");
    assert_eq!(problem["errors"].as_array().unwrap().len(), 2, "{problem}");
    assert_eq!(desk.get("tenants/x").status, 404);
}

#[test]
fn bodies_that_are_no_json() {
    let served = served();
    let bearer = format!("Bearer {TOKEN}");
    for body in [
        &b""[..],
        b"{",
        b"[]",
        b"null",
        b"5",
        b"\"x\"",
        b"{} {}",
        b"\xff",
        b"{\"id\":\"\\ud800\"}",
        b"{\"id\":\"a\",\"id\":\"b\"}",
    ] {
        for target in [
            "tenants",
            "users",
            "keys",
            "allow",
            "boosts",
            "tokens",
            "buckets/grant",
        ] {
            let answer = send(
                served.admin,
                "POST",
                target,
                &[("authorization", &bearer)],
                body,
            );
            assert_eq!(
                answer.status,
                400,
                "{target} {:?}",
                String::from_utf8_lossy(body)
            );
            let media_type = answer.header("content-type");
            assert_eq!(media_type, Some("application/problem+json"));
        }
    }
    let nested = "[".repeat(100_000);
    let deep = format!("{{\"id\":\"x\",\"attributes\":{{\"a\":{nested}");
    let headers = [("authorization", bearer.as_str())];
    let answer = send(served.admin, "POST", "tenants", &headers, deep.as_bytes());
    assert_eq!(answer.status, 400);
    let long = format!("{{\"id\":\"{}\"}}", "x".repeat(1024 * 1024));
    let answer = send(served.admin, "POST", "tenants", &headers, long.as_bytes());
    assert_eq!(answer.status, 413);
    let wide = json!({ "id": "x", "attributes": { "a": "x".repeat(20_000) } });
    refused(&Desk::of(&served).post("tenants", &wide), 422, "invalid");
}

#[test]
fn names_of_any_characters_are_found() {
    let served = served();
    let desk = Desk::of(&served);
    for (id, encoded) in [
        ("a/b", "a%2Fb"),
        ("a b", "a%20b"),
        ("ü", "%C3%BC"),
        ("100%", "100%25"),
        ("?#&", "%3F%23%26"),
        ("a+b", "a+b"),
    ] {
        let made = desk.made("tenants", &json!({ "id": id }));
        assert_eq!(desk.shown(&format!("tenants/{encoded}"))["id"], id);
        ok(
            &desk.delete(&format!("tenants/{encoded}"), &tag(&made)),
            200,
        );
    }
    for odd in ["%FF", "%00", "%0a"] {
        let answer = desk.get(&format!("tenants/{odd}"));
        assert!(
            matches!(answer.status, 400 | 404 | 422),
            "{odd}: {}",
            answer.status
        );
        let answer = desk.delete(&format!("tenants/{odd}"), "*");
        assert!(
            matches!(answer.status, 400 | 404 | 422),
            "{odd}: {}",
            answer.status
        );
    }
}

#[test]
fn patches_change_only_what_can_be_changed() {
    let served = served();
    let desk = Desk::of(&served);
    desk.made("tenants", &json!({ "id": "t" }));
    for patch in [
        json!({ "id": "other" }),
        json!({ "version": 1 }),
        json!({ "paln": null }),
    ] {
        refused(&desk.patch("tenants/t", "*", &patch), 400, "bad_input");
    }
    let same = ok(&desk.patch("tenants/t", "*", &json!({})), 200);
    assert_eq!(same["plan"], Value::Null);
}

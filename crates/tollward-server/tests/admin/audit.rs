//! The audit trail of changes.

use serde_json::json;
use tollward_testkit::redis::RedisServer;

use crate::desk::{CONFIG, Desk, ok, refused, served, with};
use crate::served::until;
use crate::tenants::moment;

#[test]
fn who_did_what_from_where() {
    let served = served();
    let desk = Desk::of(&served);
    let made = desk.made("tokens", &json!({ "name": "ci", "role": "admin" }));
    let ci = Desk::bearing(&served, made["secret"].as_str().unwrap());
    ci.made("tenants", &json!({ "id": "acme", "plan": "free" }));
    ok(
        &ci.patch("tenants/acme", "*", &json!({ "plan": "pro" })),
        200,
    );
    let events = desk.shown("audit?identifier=tenant:acme");
    let newest = &events["items"][0];
    assert_eq!(newest["event"], "tenant_changed");
    assert_eq!(newest["actor"], "token:ci");
    assert_eq!(newest["address"], "127.0.0.1");
    assert_eq!(
        (&newest["before"]["plan"], &newest["after"]["plan"]),
        (&json!("free"), &json!("pro"))
    );
    assert!(!newest["node"].as_str().unwrap().is_empty());
    let by_admin = desk.shown("audit?actor=admin");
    assert_eq!(by_admin["items"][0]["event"], "token_created");
    assert_eq!(desk.get("audit?since=yesterday").status, 400);
    let future = desk.shown("audit?since=2030-01-01T00:00:00Z");
    assert_eq!(future["items"], json!([]));
}

#[test]
fn what_is_refused_leaves_no_trace() {
    let served = served();
    let desk = Desk::of(&served);
    for body in [
        json!({ "id": "x", "parent": "nobody" }),
        json!({ "id": "partner" }),
        json!({}),
    ] {
        assert!(desk.post("tenants", &body).status >= 400);
    }
    assert_eq!(desk.shown("audit")["items"], json!([]));
}

#[test]
fn buckets_that_were_touched_are_told() {
    let served = served();
    let desk = Desk::of(&served);
    let facts = json!({ "tenant": "partner", "plan": "free" });
    served.client().exhaust(&facts);
    let grant = json!({ "facts": facts, "limit": "plan:free", "tokens": 3 });
    let granted = ok(&desk.post("buckets/grant", &grant), 200);
    assert_eq!(granted["granted"], json!(["plan:free"]));
    assert_eq!(granted["buckets"][0]["remaining"], 3);
    // Never more than was spent.
    let much = json!({ "facts": facts, "limit": "plan:free", "tokens": u32::MAX });
    assert_eq!(
        ok(&desk.post("buckets/grant", &much), 200)["buckets"][0]["remaining"],
        10
    );
    ok(&desk.post("buckets/reset", &json!({ "facts": facts })), 200);
    for event in ["buckets_granted", "buckets_reset"] {
        until(event, || {
            let events = desk.shown(&format!("audit?event={event}"));
            events["items"][0]["actor"] == "admin"
        });
    }
    for wrong in [
        json!({ "facts": facts, "tokens": 0 }),
        json!({ "facts": facts, "limit": "plan:gold", "tokens": 1 }),
        json!({ "facts": facts, "tokens": -1 }),
        json!({ "facts": facts }),
    ] {
        assert!(
            matches!(desk.post("buckets/grant", &wrong).status, 400 | 422),
            "{wrong}"
        );
    }
}

#[test]
fn two_who_may_act_have_two_names() {
    let served = served();
    let desk = Desk::of(&served);
    let ends = moment(served.clock.unix_secs() + 60);
    let new = json!({ "name": "ci", "role": "operate", "expires_at": ends });
    let first = desk.made("tokens", &new);
    let same = json!({ "name": "ci", "role": "admin" });
    let problem = refused(&desk.post("tokens", &same), 409, "exists");
    assert!(
        problem["detail"]
            .to_string()
            .contains(first["id"].as_str().unwrap()),
        "{problem}"
    );
    desk.made("tokens", &json!({ "name": "CI", "role": "read" }));
    // The name of one that is over is free again.
    served.advance_secs(61);
    let second = desk.made("tokens", &same);
    refused(&desk.post("tokens", &same), 409, "exists");
    let target = format!("tokens/{}", second["id"].as_str().unwrap());
    ok(&desk.delete(&target, "*"), 200);
    desk.made("tokens", &same);
}

/// Nobody knows whether they were made full. That somebody wanted them to be is known.
#[test]
fn buckets_that_may_have_been_touched_are_told_too() {
    let redis = RedisServer::start();
    let served = with(CONFIG, |options| {
        options.redis = Some(redis.url().parse().unwrap());
    });
    let desk = Desk::of(&served);
    let facts = json!({ "tenant": "partner", "plan": "free" });
    let is_told = |event: &str, outcome: &str| {
        let events = desk.shown(&format!("audit?event={event}"));
        let events = events["items"].as_array().unwrap();
        events.iter().any(|event| {
            let key = event["after"]["key"].as_str().unwrap();
            event["after"]["outcome"] == outcome
                && event["actor"] == "admin"
                && event["identifier"] == json!(format!("bucket:{key}"))
        })
    };
    let reset = json!({ "facts": facts });
    let grant = json!({ "facts": facts, "limit": "plan:free", "tokens": 3 });
    let deeds = [
        ("buckets/reset", &reset, "buckets_reset"),
        ("buckets/grant", &grant, "buckets_granted"),
    ];
    for (target, body, event) in deeds {
        until("Redis does it", || desk.post(target, body).status == 200);
        until(event, || is_told(event, "done"));
    }
    redis.kill();
    for (target, body, event) in deeds {
        until("the loss is noticed", || {
            desk.post(target, body).status == 503
        });
        until(event, || is_told(event, "unknown"));
    }
    let unknown = desk.shown("audit?event=buckets_granted&limit=1");
    assert_eq!(unknown["items"][0]["severity"], "warning", "{unknown}");
    assert_eq!(unknown["items"][0]["after"]["tokens"], 3);
}

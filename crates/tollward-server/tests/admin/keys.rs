//! API keys.

use serde_json::{Value, json};

use crate::desk::{Desk, ok, refused, served, tag};
use crate::served::Served;
use crate::tenants::moment;

fn status(served: &Served, secret: &str) -> u16 {
    served.client().check(json!({ "api_key": secret })).0
}

fn secret(made: &Value) -> String {
    made["secret"].as_str().unwrap().to_owned()
}

#[test]
fn a_key_is_live_when_it_is_answered_and_dead_when_it_is_revoked() {
    let served = served();
    let desk = Desk::of(&served);
    let made = desk.made("keys", &json!({ "name": "backend", "tenant": "partner" }));
    let key = secret(&made);
    assert_eq!(key.len(), 52);
    assert!(key.starts_with("tw_") && key.starts_with(made["prefix"].as_str().unwrap()));
    assert_eq!(status(&served, &key), 200);
    let target = format!("keys/{}", made["id"].as_str().unwrap());
    let shown = desk.shown(&target);
    assert_eq!(shown["secret"], Value::Null);
    assert!(!shown.to_string().contains(&key));
    let revoked = ok(&desk.delete(&target, &tag(&made)), 200);
    assert!(revoked["revoked_at"].is_string());
    assert_eq!(status(&served, &key), 401);
    refused(
        &desk.patch(&target, "*", &json!({ "name": "x" })),
        409,
        "revoked",
    );
    refused(
        &desk.act(&format!("{target}/rotate"), "*", &json!({})),
        409,
        "revoked",
    );
    assert_eq!(desk.shown("keys")["items"], json!([]));
    let all = desk.shown("keys?revoked=true");
    assert_eq!(all["items"].as_array().unwrap().len(), 1);
    // Again, it is as it was.
    let again = desk.act(&format!("{target}/revoke"), &tag(&revoked), &Value::Null);
    assert_eq!(ok(&again, 200)["revoked_at"], revoked["revoked_at"]);
}

#[test]
fn a_key_ends() {
    let served = served();
    let desk = Desk::of(&served);
    let ends = moment(served.clock.unix_secs() + 60);
    let made = desk.made("keys", &json!({ "tenant": "partner", "expires_at": ends }));
    assert_eq!(made["expires_at"], ends);
    assert_eq!(status(&served, &secret(&made)), 200);
    served.advance_secs(61);
    crate::served::until("the key has ended", || {
        status(&served, &secret(&made)) == 401
    });
    let over = json!({ "tenant": "partner", "expires_at": ends });
    refused(&desk.post("keys", &over), 422, "invalid");
}

#[test]
fn a_replaced_key_overlaps_with_the_new_one() {
    let served = served();
    let desk = Desk::of(&served);
    let old = desk.made("keys", &json!({ "tenant": "partner", "plan": "pro" }));
    let target = format!("keys/{}/rotate", old["id"].as_str().unwrap());
    let new = ok(
        &desk.act(&target, &tag(&old), &json!({ "overlap": "1h" })),
        201,
    );
    assert_eq!(new["replaces"], old["id"]);
    assert_eq!(
        (&new["tenant"], &new["plan"]),
        (&json!("partner"), &json!("pro"))
    );
    assert_eq!(
        new["replaced"]["expires_at"],
        moment(served.clock.unix_secs() + 3600)
    );
    for key in [&old, &new] {
        assert_eq!(status(&served, &secret(key)), 200);
    }
    served.advance_secs(3601);
    crate::served::until("the old key has ended", || {
        status(&served, &secret(&old)) == 401
    });
    assert_eq!(status(&served, &secret(&new)), 200);
    let target = format!("keys/{}/rotate", new["id"].as_str().unwrap());
    let problem = desk.act(&target, "*", &json!({ "overlap": "400d" }));
    refused(&problem, 422, "invalid");
}

#[test]
fn a_key_belongs_to_somebody_who_is_there() {
    let served = served();
    let desk = Desk::of(&served);
    refused(&desk.post("keys", &json!({})), 422, "invalid");
    refused(
        &desk.post("keys", &json!({ "tenant": "nobody" })),
        422,
        "unknown_tenant",
    );
    refused(
        &desk.post("keys", &json!({ "tenant": "partner", "plan": "gold" })),
        422,
        "unknown_plan",
    );
    let made = desk.made("keys", &json!({ "tenant": "partner" }));
    let target = format!("keys/{}", made["id"].as_str().unwrap());
    let changed = ok(
        &desk.patch(
            &target,
            &tag(&made),
            &json!({ "plan": "free", "name": "n" }),
        ),
        200,
    );
    assert_eq!(
        (&changed["plan"], &changed["name"]),
        (&json!("free"), &json!("n"))
    );
    let explained = served.client().check(json!({ "api_key": secret(&made) })).1;
    assert!(
        explained["limits"].to_string().contains("plan:free"),
        "{explained}"
    );
}

#[test]
fn keys_of_the_file_are_shown_and_stay() {
    let hash = "ab".repeat(32);
    let config = format!(
        "{}keys: [ {{ sha256: '{hash}', tenant: partner }} ]\n",
        crate::desk::CONFIG
    );
    let served = crate::desk::with(&config, |_| {});
    let desk = Desk::of(&served);
    desk.made("keys", &json!({ "tenant": "partner-child" }));
    let listed = desk.shown("keys");
    let first = &listed["items"][0];
    assert_eq!(
        (&first["source"], &first["tenant"]),
        (&json!("file"), &json!("partner"))
    );
    assert_eq!(first["id"], "sha256:abababababab");
    assert_eq!(listed["items"][1]["source"], "directory");
    assert!(!listed.to_string().contains(&hash));
    assert_eq!(&desk.shown("keys/sha256:abababababab"), first);
    let child = desk.shown("keys?tenant=partner-child");
    assert_eq!(child["items"].as_array().unwrap().len(), 1);
    for answer in [
        desk.patch("keys/sha256:abababababab", "*", &json!({ "plan": "pro" })),
        desk.delete("keys/sha256:abababababab", "*"),
        desk.act("keys/sha256:abababababab/rotate", "*", &json!({})),
        desk.act("keys/sha256:abababababab/revoke", "*", &Value::Null),
    ] {
        refused(&answer, 409, "read_only");
    }
    for unknown in [
        "sha256:",
        "sha256:ab",
        "sha256:ababababab\u{e9}",
        "sha256:cdcdcdcdcdcd",
    ] {
        let encoded: String = unknown.bytes().map(|byte| format!("%{byte:02x}")).collect();
        refused(&desk.get(&format!("keys/{encoded}")), 404, "not_found");
    }
}

//! The allow-list.

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::desk::{Desk, ok, refused, served, tag};
use crate::served::until;
use crate::tenants::moment;

#[test]
fn whoever_is_on_it_is_never_limited() {
    let served = served();
    let desk = Desk::of(&served);
    let mut client = served.client();
    let made = desk.made("allow", &json!({ "user": "root", "reason": "on call" }));
    assert_eq!(
        (&made["kind"], &made["source"]),
        (&json!("user"), &json!("directory"))
    );
    let (_, decision) = client.check(json!({ "user": "root", "tenant": "partner" }));
    assert_eq!(decision["action"], "bypass", "{decision}");
    let target = format!("allow/{}", made["id"].as_str().unwrap());
    refused(
        &desk.post("allow", &json!({ "user": "root", "reason": "again" })),
        409,
        "exists",
    );
    ok(&desk.delete(&target, &tag(&made)), 200);
    let (_, decision) = client.check(json!({ "user": "root", "tenant": "partner" }));
    assert_ne!(decision["action"], "bypass", "{decision}");
    for event in ["rate_limit_whitelist_added", "rate_limit_whitelist_removed"] {
        let events = desk.shown(&format!("audit?event={event}"));
        assert_eq!(events["items"][0]["identifier"], "user:root", "{events}");
    }
}

#[test]
fn entries_name_one_caller() {
    let served = served();
    let desk = Desk::of(&served);
    let key = desk.made("keys", &json!({ "tenant": "partner" }));
    let made = desk.made(
        "allow",
        &json!({ "key_id": key["id"], "reason": "partner" }),
    );
    // Neither the key nor its whole hash is shown.
    assert_eq!(made["value"].as_str().unwrap().len(), 12);
    let (_, decision) = served.client().check(json!({ "api_key": key["secret"] }));
    assert_eq!(decision["action"], "bypass", "{decision}");
    for entry in [
        json!({ "reason": "nobody" }),
        json!({ "user": "a", "tenant": "b", "reason": "two" }),
        json!({ "cidr": "192.0.2.1/24", "reason": "bits" }),
        json!({ "cidr": "::ffff:192.0.2.0/120", "reason": "mapped" }),
        json!({ "cidr": "localhost", "reason": "name" }),
        json!({ "api_key_sha256": "abc", "reason": "short" }),
        json!({ "key_id": "key_none", "reason": "gone" }),
        json!({ "user": "a", "reason": "" }),
        json!({ "user": "a\u{0}b", "reason": "odd" }),
    ] {
        assert_eq!(desk.post("allow", &entry).status, 422, "{entry}");
    }
    desk.made(
        "allow",
        &json!({ "cidr": "2001:db8::/32", "reason": "lab" }),
    );
    desk.made("allow", &json!({ "cidr": "198.51.100.7", "reason": "one" }));
}

#[test]
fn the_files_entries_are_shown_and_stay() {
    let served = served();
    let desk = Desk::of(&served);
    let listed = desk.shown("allow");
    let first = &listed["items"][0];
    assert_eq!(
        (&first["source"], &first["value"]),
        (&json!("file"), &json!("192.0.2.0/24"))
    );
    assert_eq!(first["version"], Value::Null);
    let shown = desk.shown("allow/allow%5B0%5D");
    assert_eq!(&shown, first);
    refused(&desk.delete("allow/allow%5B0%5D", "*"), 409, "read_only");
    let same = json!({ "cidr": "192.0.2.0/24", "reason": "again" });
    let problem = refused(&desk.post("allow", &same), 409, "read_only");
    assert_eq!(problem["place"], "allow[0]");
    refused(&desk.delete("allow/allow%5B9%5D", "*"), 404, "not_found");
}

#[test]
fn a_key_that_is_revoked_is_off_the_list() {
    let served = served();
    let desk = Desk::of(&served);
    let check = |key: &Value| served.client().check(json!({ "api_key": key["secret"] })).0;
    for (method, end) in [("POST", "/revoke"), ("DELETE", "")] {
        let key = desk.made("keys", &json!({ "tenant": "partner" }));
        let entry = desk.made("allow", &json!({ "key_id": key["id"], "reason": "r" }));
        assert_eq!(check(&key), 200);
        let target = format!("keys/{}{end}", key["id"].as_str().unwrap());
        let version = tag(&key);
        let revoked = desk.ask(method, &target, &[("if-match", &version)], &Value::Null);
        assert!(ok(&revoked, 200)["revoked_at"].is_string());
        assert_eq!(check(&key), 401, "{method}");
        let target = format!("allow/{}", entry["id"].as_str().unwrap());
        refused(&desk.get(&target), 404, "not_found");
        let removed = desk.shown("audit?event=rate_limit_whitelist_removed&limit=1");
        let of_key = format!("api_key:{}", entry["value"].as_str().unwrap());
        assert_eq!(removed["items"][0]["identifier"], json!(of_key));
        assert_eq!(removed["items"][0]["actor"], "admin");
    }
}

#[test]
fn a_key_that_is_none_any_more_is_not_put_on_it() {
    let served = served();
    let desk = Desk::of(&served);
    let hash = |key: &Value| -> String {
        let digest = Sha256::digest(key["secret"].as_str().unwrap().as_bytes());
        digest.iter().map(|byte| format!("{byte:02x}")).collect()
    };
    let ends = moment(served.clock.unix_secs() + 60);
    let ended = desk.made("keys", &json!({ "tenant": "partner", "expires_at": ends }));
    let revoked = desk.made("keys", &json!({ "tenant": "partner" }));
    let target = format!("keys/{}", revoked["id"].as_str().unwrap());
    ok(&desk.delete(&target, "*"), 200);
    served.advance_secs(61);
    for (key, reason) in [(&revoked, "revoked"), (&ended, "expired")] {
        for entry in [
            json!({ "key_id": key["id"], "reason": "again" }),
            json!({ "api_key_sha256": hash(key), "reason": "again" }),
        ] {
            refused(&desk.post("allow", &entry), 409, reason);
        }
        until(reason, || {
            served.client().check(json!({ "api_key": key["secret"] })).0 == 401
        });
    }
}

//! Secrets are told once, and nowhere else.

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::desk::{CONFIG, Desk, TOKEN, ok, with};
use crate::served::{Folder, until};

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

#[test]
fn secrets_are_in_no_other_answer_and_in_no_record() {
    let folder = Folder::new();
    let log = folder.0.join("audit.log");
    let config = format!(
        "{CONFIG}audit: {{ log: '{}', interval: 1s }}\n",
        log.display()
    );
    let served = with(&config, |_| {});
    let desk = Desk::of(&served);
    let key = desk.made("keys", &json!({ "tenant": "partner" }));
    let rotate = format!("keys/{}/rotate", text(&key["id"]));
    let new = ok(&desk.act(&rotate, "*", &json!({})), 201);
    let token = desk.made("tokens", &json!({ "name": "ci", "role": "admin" }));
    desk.made("allow", &json!({ "key_id": key["id"], "reason": "r" }));
    served.client().check(json!({ "api_key": key["secret"] }));
    ok(
        &desk.delete(&format!("keys/{}", text(&key["id"])), "*"),
        200,
    );
    ok(
        &desk.delete(&format!("tokens/{}", text(&token["id"])), "*"),
        200,
    );

    let secrets = [&key, &new, &token].map(|made| text(&made["secret"]));
    let hash = |secret: &String| -> String {
        let digest = Sha256::digest(secret.as_bytes());
        digest.iter().map(|byte| format!("{byte:02x}")).collect()
    };
    let hashes = secrets.each_ref().map(hash);
    let hidden: Vec<&str> = secrets
        .iter()
        .chain(&hashes)
        .map(String::as_str)
        .chain([TOKEN])
        .collect();
    for target in [
        "keys?revoked=true",
        "tokens",
        "allow",
        "audit",
        "status",
        "config",
        "usage",
        "tenants",
        "enforcement",
    ] {
        let answer = desk.get(target);
        assert_eq!(answer.status, 200, "{target}");
        for hidden in &hidden {
            assert!(!answer.text().contains(hidden), "{target} tells {hidden}");
        }
    }
    until("the log has all of it", || {
        let log = std::fs::read_to_string(&log).unwrap_or_default();
        log.contains("token_revoked")
    });
    let log = std::fs::read_to_string(&log).unwrap();
    assert!(
        log.contains("key_rotated") && log.contains("rate_limit_whitelist_added"),
        "{log}"
    );
    for hidden in &hidden {
        assert!(!log.contains(hidden), "the log tells {hidden}");
    }
}

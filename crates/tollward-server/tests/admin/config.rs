//! The configuration, seen, read again and compared.

use std::fs;

use serde_json::{Value, json};
use tollward_server::{Options, Source};

use crate::desk::{CONFIG, Desk, TOKEN, ok, refused, send, served};
use crate::served::{ANY_PORT, Folder, Served};

/// A server whose file stays.
fn with_file(folder: &Folder, text: &str) -> Served {
    let file = folder.write("tollward.yaml", text);
    Served::with("{}", |options| {
        *options = Options {
            admin_token: Some(TOKEN.into()),
            api: Some(ANY_PORT),
            ..Options::new(Source::File(file))
        };
    })
}

#[test]
fn a_good_file_is_applied_and_a_bad_one_is_told() {
    let folder = Folder::new();
    let served = with_file(&folder, CONFIG);
    let desk = Desk::of(&served);
    let before = desk.shown("config");
    assert_eq!(before["hash"].as_str().unwrap().len(), 64);
    assert_eq!(before["last_error"], Value::Null);
    folder.write("tollward.yaml", &CONFIG.replace("rate: 10,", "rate: 20,"));
    let after = ok(&desk.post("config/reload", &Value::Null), 200);
    assert_ne!(after["hash"], before["hash"]);
    let events = desk.shown("config");
    assert_eq!(events["hash"], after["hash"]);

    folder.write("tollward.yaml", "limts: {}\n");
    let problem = refused(&desk.post("config/reload", &Value::Null), 422, "bad_config");
    assert!(
        problem["detail"].as_str().unwrap().contains("limts"),
        "{problem}"
    );
    let shown = desk.shown("config");
    assert_eq!(
        shown["hash"], after["hash"],
        "what is in force is shown, not what was refused"
    );
    assert!(
        shown["last_error"]["message"]
            .as_str()
            .unwrap()
            .contains("limts")
    );
    crate::served::until("the reload is in the audit trail", || {
        let events = desk.shown("audit?event=rate_limit_config_updated");
        events["items"][0]["actor"] == "admin"
    });
}

#[test]
fn a_file_that_takes_away_what_is_in_use_is_refused() {
    let folder = Folder::new();
    let served = with_file(&folder, CONFIG);
    let desk = Desk::of(&served);
    desk.made(
        "tenants",
        &json!({ "id": "acme", "plan": "free", "parent": "partner" }),
    );
    let other = CONFIG.replace("  free:", "  basic:");
    folder.write("tollward.yaml", &other);
    let problem = refused(&desk.post("config/reload", &Value::Null), 422, "bad_config");
    assert!(
        problem["detail"].as_str().unwrap().contains("`free`"),
        "{problem}"
    );
    // Without their parent, its children would be free of it.
    let start = CONFIG.find("tenants:").unwrap();
    let end = CONFIG.find("allow:").unwrap();
    let without = format!("{}{}", &CONFIG[..start], &CONFIG[end..]);
    folder.write("tollward.yaml", &without);
    let problem = refused(&desk.post("config/reload", &Value::Null), 422, "bad_config");
    let detail = problem["detail"].as_str().unwrap();
    assert!(
        detail.contains("`acme`") && detail.contains("`partner`"),
        "{detail}"
    );
}

#[test]
fn a_file_wins_over_the_directory() {
    let folder = Folder::new();
    let served = with_file(&folder, CONFIG);
    let desk = Desk::of(&served);
    desk.made("tenants", &json!({ "id": "acme", "plan": "free" }));
    let with_acme = CONFIG.replace("tenants:\n", "tenants:\n  acme: { plan: pro }\n");
    folder.write("tollward.yaml", &with_acme);
    let shown = ok(&desk.post("config/reload", &Value::Null), 200);
    assert!(shown["clashes"].to_string().contains("acme"), "{shown}");
    let acme = desk.shown("tenants/acme");
    assert_eq!(
        (&acme["source"], &acme["plan"]),
        (&json!("file"), &json!("pro"))
    );
    refused(&desk.delete("tenants/acme", "*"), 409, "read_only");
    fs::write(folder.0.join("tollward.yaml"), CONFIG).unwrap();
    ok(&desk.post("config/reload", &Value::Null), 200);
    assert_eq!(desk.shown("tenants/acme")["source"], "directory");
}

#[test]
fn a_candidate_is_compared() {
    let served = served();
    let bearer = format!("Bearer {TOKEN}");
    let diff = |text: &str| {
        let headers = [("authorization", bearer.as_str())];
        let answer = send(
            served.admin,
            "POST",
            "config/diff",
            &headers,
            text.as_bytes(),
        );
        ok(&answer, 200)
    };
    let same = diff(CONFIG);
    assert_eq!(
        (&same["valid"], &same["changes"]),
        (&json!(true), &json!([]))
    );
    let other = diff(
        &(CONFIG.replace("rate: 10,", "rate: 20,")
            + "store: { backend: redis, url: 'redis://u:pa55@h' }\n"),
    );
    assert_eq!(other["restart_required"], true);
    let text = other["changes"].to_string();
    assert!(
        text.contains("plans.free.rate_limit.sustained.rate"),
        "{text}"
    );
    assert!(!text.contains("pa55"), "{text}");
    let bad = diff("limts: {}\nenforcement: maybe\n");
    assert_eq!(bad["valid"], false);
    assert_eq!(bad["faults"].as_array().unwrap().len(), 2);
    assert_eq!(bad["faults"][1]["line"], 2);
    assert_eq!(diff("\u{0}")["valid"], false);
}

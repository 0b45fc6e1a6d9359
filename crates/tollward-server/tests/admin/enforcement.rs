//! The kill switch.

use serde_json::{Value, json};

use crate::desk::{Desk, ok, refused, served, tag};

#[test]
fn the_switch_is_live_when_it_is_answered() {
    let served = served();
    let desk = Desk::of(&served);
    let mut client = served.client();
    let check = json!({ "tenant": "partner", "plan": "free" });
    client.exhaust(&check);
    let before = desk.get("enforcement");
    assert_eq!(before.header("etag"), Some("\"0\""));
    assert_eq!(ok(&before, 200)["mode"], "on");
    let put = |version: &str, mode: Value| {
        let body = json!({ "mode": mode });
        desk.ask("PUT", "enforcement", &[("if-match", version)], &body)
    };
    let mut version = "\"0\"".to_owned();
    for (mode, status) in [("off", 200), ("shadow", 200), ("on", 429)] {
        let answer = put(&version, json!(mode));
        let answer = ok(&answer, 200);
        version = tag(&answer);
        assert_eq!(
            (&answer["mode"], &answer["source"]),
            (&json!(mode), &json!("directory"))
        );
        assert_eq!(client.check(check.clone()).0, status, "{mode}");
        assert_eq!(desk.shown("enforcement")["mode"], mode);
        assert_eq!(desk.shown("status")["enforcement"], mode);
    }
    refused(&put("\"0\"", json!("off")), 412, "stale");
    let file = ok(&put(&version, Value::Null), 200);
    assert_eq!(
        (&file["mode"], &file["source"]),
        (&json!("on"), &json!("file"))
    );
    assert_ne!(tag(&file), version);
    let events = desk.shown("audit?event=enforcement_changed");
    assert_eq!(events["items"].as_array().unwrap().len(), 4);
    assert_eq!(events["items"][3]["before"], json!({ "mode": "file" }));
    assert_eq!(put("*", json!("maybe")).status, 400);
}

//! How a node is.

use serde_json::{Value, json};

use crate::desk::{Desk, served, with};
use crate::served::until;

#[test]
fn a_node_tells_how_it_is() {
    let served = served();
    let desk = Desk::of(&served);
    until("it is ready", || desk.shown("status")["ready"] == true);
    let before = desk.shown("status");
    assert_eq!(before["store"], "memory");
    assert_eq!(before["directory"]["connected"], true);
    assert_eq!(before["directory"]["stale"], false);
    assert_eq!(before["config"]["clashes"], json!([]));
    for gap in ["usage", "audit_directory", "audit_log", "key_uses"] {
        assert_eq!(before["gaps"][gap], 0, "{gap}");
    }
    desk.made("tenants", &json!({ "id": "acme" }));
    let after = desk.shown("status");
    let revision = |status: &Value| status["directory"]["revision"].as_i64().unwrap();
    assert!(revision(&after) > revision(&before));
    let tenants = |status: &Value| status["directory"]["tenants"].as_u64().unwrap();
    assert_eq!(tenants(&after), tenants(&before) + 1);
}

#[test]
fn what_a_tenant_used_is_told() {
    let served = with(
        &format!("{}usage: {{ interval: 1s }}\n", crate::desk::CONFIG),
        |_| {},
    );
    let desk = Desk::of(&served);
    let check = json!({ "tenant": "partner", "plan": "free" });
    let (admitted, _) = served.client().exhaust(&check);
    until("the use is written", || {
        let usage = desk.shown("usage?tenant=partner&granularity=day");
        let row = &usage["items"][0];
        row["requests"] == admitted + 1 && row["refusals"] == 1
    });
    for granularity in ["minute", "hour", "day"] {
        let usage = desk.shown(&format!("usage?granularity={granularity}&plan=free"));
        assert_eq!(usage["items"].as_array().unwrap().len(), 1, "{usage}");
    }
    assert_eq!(desk.shown("usage?tenant=nobody")["items"], json!([]));
    assert_eq!(desk.get("usage?granularity=week").status, 400);
}

#[test]
fn a_request_is_explained() {
    let served = served();
    let desk = Desk::of(&served);
    let explained = desk.shown("explain?tenant=partner-child&path=/a");
    let text = explained.to_string();
    assert!(text.contains("tenant:partner"), "{text}");
    assert_eq!(explained["plan"], "pro");
    assert_eq!(desk.get("explain").status, 200);
    for query in ["usr=a", "plan=gold", "ip=here", "user=a&user=b"] {
        assert_eq!(desk.get(&format!("explain?{query}")).status, 400, "{query}");
    }
}

//! A file and a directory that name the same.

use serde_json::{Value, json};

use crate::desk::text;
use crate::node::Node;
use crate::served::Folder;
use crate::stale::hash;

pub(crate) const PLANS: &str = "
identity: { anonymous: allow }
plans:
  slow: { rate_limit: { sustained: { rate: 1, window: 366d }, burst: { capacity: 2 }, scope: tenant } }
  fast: { rate_limit: { sustained: { rate: 1, window: 366d }, burst: { capacity: 9 }, scope: tenant } }
";

#[test]
fn the_file_wins_and_says_so() {
    let folder = Folder::new();
    let url = format!("sqlite:{}", folder.0.join("directory.db").display());
    let env = [("TOLLWARD_DIRECTORY", url.as_str())];
    let node = Node::start(PLANS, &env);
    let desk = node.desk();
    desk.made("tenants", &json!({ "id": "acme", "plan": "slow" }));
    desk.made("tenants", &json!({ "id": "bravo", "plan": "slow" }));
    let key = desk.made("keys", &json!({ "tenant": "acme" }));
    let other = desk.made("keys", &json!({ "tenant": "bravo" }));
    let limit = |node: &Node, key: &Value| {
        let (_, decision) = node.peek(json!({ "api_key": key["secret"] }));
        decision["limit"].clone()
    };
    assert_eq!(
        (limit(&node, &key), limit(&node, &other)),
        (json!(2), json!(2))
    );
    drop(node);

    let hash = hash(text(&key["secret"]));
    let both = format!(
        "{PLANS}tenants: {{ acme: {{ plan: fast }}, charlie: {{ plan: fast }} }}\n\
         keys: [ {{ sha256: {hash}, tenant: charlie, user: carl }} ]\n"
    );
    let node = Node::start(&both, &env);
    let desk = node.desk();
    let config = desk.shown("config");
    let clashes = config["clashes"].as_array().unwrap();
    assert_eq!(clashes.len(), 2, "{config}");
    let all = config["clashes"].to_string();
    assert!(all.contains("acme") && all.contains(&hash[..12]), "{all}");
    assert!(!all.contains(&hash), "{all}");
    assert_eq!(desk.shown("status")["config"]["clashes"], config["clashes"]);
    // By the file: the tenant's plan, and whose the key is. The rest of the directory counts.
    let acme = desk.shown("tenants/acme");
    assert_eq!(
        (&acme["source"], &acme["plan"]),
        (&json!("file"), &json!("fast"))
    );
    assert_eq!(
        (limit(&node, &key), limit(&node, &other)),
        (json!(9), json!(2))
    );
    let (_, buckets) = node.peek(json!({ "tenant": "acme" }));
    assert_eq!(buckets["limit"], 9, "{buckets}");
    node.client().check(json!({ "api_key": key["secret"] }));
    let charlie = desk.shown("buckets?tenant=charlie").to_string();
    assert!(charlie.contains("\"remaining\":8"), "{charlie}");
    for (method, target) in [
        ("PATCH", "tenants/acme".to_owned()),
        ("DELETE", "tenants/acme".to_owned()),
    ] {
        let answer = desk.ask(method, &target, &json!({}));
        assert_eq!(answer.status, 409, "{method}: {}", answer.text());
        assert!(answer.text().contains("tollward.yaml"), "{}", answer.text());
    }
    drop(node);

    // Without the file's, the directory's are there as before.
    let node = Node::start(PLANS, &env);
    assert_eq!(node.desk().shown("config")["clashes"], json!([]));
    assert_eq!(
        (limit(&node, &key), limit(&node, &other)),
        (json!(2), json!(2))
    );
}

//! A directory that has been away for too long.

use std::time::Duration;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tollward_testkit::postgres::PostgresServer;

use crate::node::{Node, within};
use crate::served::get;

const PATIENCE: Duration = Duration::from_secs(30);
const OF_FILE: &str = "key-of-the-file";

fn config(stale: &str) -> String {
    let hash = hash(OF_FILE);
    format!(
        "directory: {{ max_stale: 1s, stale: {stale} }}\nidentity: {{ anonymous: allow }}\n\
         tenants: {{ partner: {{}} }}\nkeys: [ {{ sha256: {hash}, tenant: partner }} ]\n"
    )
}

/// A key as the file has it.
pub(crate) fn hash(key: &str) -> String {
    let digest = Sha256::digest(key.as_bytes());
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Whether a node is ready, and what it says.
fn readiness(node: &Node) -> (u16, String) {
    let page = get(node.process.admin, "/readyz");
    (page.status, page.text())
}

fn asked(node: &Node, key: &Value) -> (u16, Value) {
    node.client().check(json!({ "api_key": key }))
}

#[test]
fn keys_of_a_stale_directory_are_refused_if_told_so() {
    let postgres = PostgresServer::start();
    let url = postgres.database();
    let env = [("TOLLWARD_DIRECTORY", url.as_str())];
    let [refuses, serves] = ["refuse", "serve"].map(|stale| Node::start(&config(stale), &env));
    let desk = refuses.desk();
    let key = desk.made("keys", &json!({ "tenant": "partner" }))["secret"].clone();
    let is_normal = || {
        [&refuses, &serves].into_iter().all(|node| {
            let of_file = asked(node, &json!(OF_FILE)).0;
            let ready = readiness(node) == (200, "ready\n".to_owned());
            ready && of_file == 200 && asked(node, &key).0 == 200
        })
    };
    within(PATIENCE, "the key is known", is_normal);

    for _ in 0..2 {
        postgres.kill();
        within(PATIENCE, "the directory is stale", || {
            asked(&refuses, &key).0 == 503
        });
        let (_, problem) = asked(&refuses, &key);
        assert_eq!(problem["reason"], "directory_stale", "{problem}");
        assert_eq!(asked(&refuses, &json!(OF_FILE)).0, 200);
        // Nobody has become known by that, and callers without a key are not concerned.
        assert_ne!(asked(&refuses, &json!("no-key-at-all")).0, 200);
        assert_eq!(refuses.peek(json!({ "tenant": "partner" })).0, 200);
        let (status, words) = readiness(&refuses);
        assert_eq!(status, 503, "{words}");
        assert!(words.contains("directory"), "{words}");
        let status = desk.shown("status");
        assert_eq!(status["directory"]["stale"], true, "{status}");

        // The other goes on, and says that it does.
        within(PATIENCE, "the other is stale", || {
            readiness(&serves).1.contains("directory")
        });
        assert_eq!(readiness(&serves).0, 200);
        assert_eq!(asked(&serves, &key).0, 200);
        postgres.restart();
        within(PATIENCE, "all is as before", is_normal);
    }
}

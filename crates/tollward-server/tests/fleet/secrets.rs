//! Secrets are told once, to whoever made them, and are nowhere else.

use std::fs;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use tollward_testkit::http::Connection;
use tollward_testkit::postgres::{PASSWORD, PostgresServer};

use crate::clash::PLANS;
use crate::desk::{Desk, TOKEN, text};
use crate::node::{Node, within};
use crate::served::{Folder, get};
use crate::stale::hash;

const PATIENCE: Duration = Duration::from_secs(30);

/// What was made, and what of it nobody may see.
struct Made {
    secrets: Vec<String>,
    /// Paths below `/admin/v1/` of what there is.
    targets: Vec<String>,
}

/// Makes keys and tokens in every way there is.
fn make(node: &Node) -> Made {
    let desk = node.desk();
    desk.made("tenants", &json!({ "id": "acme", "plan": "slow" }));
    desk.made("users", &json!({ "id": "ann", "tenant": "acme" }));
    let once = |target: &str, body: &Value| {
        let mut connection = Connection::open(node.process.admin).unwrap();
        let bearer = format!("Bearer {TOKEN}");
        let headers = [
            ("authorization", bearer.as_str()),
            ("idempotency-key", "one"),
        ];
        let target = format!("/admin/v1/{target}");
        let body = body.to_string();
        let answer = connection.request("POST", &target, &headers, body.as_bytes());
        crate::served::json(&answer.unwrap())
    };
    let key = once("keys", &json!({ "tenant": "acme", "user": "ann" }));
    let again = once("keys", &json!({ "tenant": "acme", "user": "ann" }));
    assert_eq!((&again["id"], &again["secret"]), (&key["id"], &Value::Null));
    let id = text(&key["id"]).to_owned();
    let rotated = desk.made(&format!("keys/{id}/rotate"), &json!({ "overlap": "1h" }));
    let token = desk.made("tokens", &json!({ "name": "ci", "role": "operate" }));
    let gone = desk.made("tokens", &json!({ "name": "gone", "role": "read" }));
    let allow = desk.made("allow", &json!({ "key_id": id, "reason": "r" }));
    let boost = json!({ "tenant": "acme", "factor": 2, "duration": "1h", "reason": "r" });
    let boost = desk.made("boosts", &boost);
    desk.changed(
        "DELETE",
        &format!("tokens/{}", text(&gone["id"])),
        &Value::Null,
    );
    let ids = [
        ("keys", &key),
        ("keys", &rotated),
        ("tokens", &token),
        ("tokens", &gone),
        ("allow", &allow),
        ("boosts", &boost),
    ];
    let of = |(kind, made): (&str, &Value)| format!("{kind}/{}", text(&made["id"]));
    let mut targets: Vec<String> = ids.into_iter().map(of).collect();
    targets.extend(["tenants/acme".to_owned(), "users/ann".to_owned()]);
    let mut secrets: Vec<String> = [&key, &rotated, &token, &gone]
        .into_iter()
        .map(|made| text(&made["secret"]).to_owned())
        .collect();
    secrets.push(TOKEN.to_owned());
    Made { secrets, targets }
}

/// Uses all of them, rightly and wrongly.
fn use_all(node: &Node, made: &Made) {
    let mut connection = Connection::open(node.process.api).unwrap();
    for secret in &made.secrets {
        let near = format!("{secret}x");
        for key in [secret, &near] {
            node.client().check(json!({ "api_key": key }));
            let headers = [("x-api-key", key.as_str()), ("authorization", key.as_str())];
            connection
                .request("GET", "/v1/auth", &headers, b"")
                .unwrap();
            for target in ["status", "tenants", "nothing"] {
                Desk::new(node.process.admin, key).get(target);
            }
        }
        let desk = node.desk();
        let facts = json!({ "facts": { "api_key": secret } });
        desk.ask("POST", "buckets/reset", &facts);
        desk.ask(
            "POST",
            "buckets/grant",
            &json!({ "facts": { "api_key": secret }, "tokens": 1 }),
        );
    }
    for _ in 0..5 {
        node.client().check(json!({ "tenant": "acme" }));
    }
}

/// Every page that there is to be read, with what it is called.
fn pages(node: &Node, made: &Made) -> Vec<(String, Vec<u8>)> {
    let document = crate::served::json(&get(node.process.admin, "/admin/openapi.json"));
    let paths = document["paths"].as_object().unwrap();
    let read = paths.iter().filter(|(_, item)| item.get("get").is_some());
    let targets = read.filter_map(|(path, _)| path.strip_prefix("/admin/v1/"));
    let targets = targets.filter(|target| !target.contains('{'));
    let targets = targets.map(|target| match target {
        "keys" => "keys?revoked=true".to_owned(),
        "buckets" | "explain" => format!("{target}?tenant=acme&user=ann"),
        _ => target.to_owned(),
    });
    let desk = node.desk();
    let mut pages: Vec<(String, Vec<u8>)> = targets
        .chain(made.targets.iter().cloned())
        .map(|target| {
            let answer = desk.get(&target);
            assert_eq!(answer.status, 200, "{target}: {}", answer.text());
            (target, answer.body)
        })
        .collect();
    for target in ["/metrics", "/readyz", "/healthz"] {
        let page = get(node.process.admin, target);
        pages.push((target.to_owned(), page.body));
    }
    pages.push(("its output".to_owned(), node.process.output().into_bytes()));
    pages
}

fn assert_hidden(places: &[(String, Vec<u8>)], secrets: &[String]) {
    for (place, bytes) in places {
        for secret in secrets {
            // Also without its first characters, which are shown, and as it would be in hexadecimal digits.
            let end = &secret[secret.len() - 20..];
            let digits: String = end.bytes().map(|byte| format!("{byte:02x}")).collect();
            for hidden in [end, &digits] {
                assert!(!has(bytes, hidden), "{place} tells {secret}");
            }
        }
    }
}

fn has(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|it| it == text.as_bytes())
}

fn config(log: &Path) -> String {
    let log = log.display();
    format!("{PLANS}usage: {{ interval: 1s }}\naudit: {{ log: '{log}', interval: 1s }}\n")
}

/// Waits until the log has what was changed and what was refused.
fn logged(log: &Path) -> Vec<u8> {
    within(PATIENCE, "the log has all of it", || {
        let log = fs::read_to_string(log).unwrap_or_default();
        let has = |event| log.contains(event);
        has("key_rotated") && has("token_revoked") && has("rate_limit_exceeded")
    });
    fs::read(log).unwrap()
}

#[test]
fn with_a_file() {
    let folder = Folder::new();
    let log = folder.0.join("audit.log");
    let file = folder.0.join("directory.db");
    let url = format!("sqlite:{}", file.display());
    let mut node = Node::start(&config(&log), &[("TOLLWARD_DIRECTORY", &url)]);
    let made = make(&node);
    use_all(&node, &made);
    let mut places = pages(&node, &made);
    places.push(("the log".to_owned(), logged(&log)));
    let files = |places: &mut Vec<(String, Vec<u8>)>| {
        let mut all = Vec::new();
        for entry in fs::read_dir(&folder.0).unwrap().flatten() {
            let bytes = fs::read(entry.path()).unwrap();
            all.extend_from_slice(&bytes);
            places.push((entry.path().display().to_string(), bytes));
        }
        // The search is in the right place.
        assert!(has(&all, &hash(&made.secrets[0])));
    };
    files(&mut places);
    node.process.signal("TERM");
    assert_eq!(node.process.wait(), Some(0));
    files(&mut places);
    places.push(("its output".to_owned(), node.process.output().into_bytes()));
    assert_hidden(&places, &made.secrets);
}

/// All rows of all tables.
const ROWS: &str = "SELECT string_agg(query_to_xml('SELECT * FROM ' || quote_ident(table_name), \
     true, false, '')::text, ' ') FROM information_schema.tables WHERE table_schema = 'public'";

#[test]
fn with_postgresql() {
    let folder = Folder::new();
    let log = folder.0.join("audit.log");
    let postgres = PostgresServer::start();
    let url = postgres.database();
    let node = Node::start(&config(&log), &[("TOLLWARD_DIRECTORY", &url)]);
    let mut made = make(&node);
    use_all(&node, &made);
    let mut places = pages(&node, &made);
    places.push(("the log".to_owned(), logged(&log)));
    let rows = postgres.sql("test0", ROWS);
    assert!(rows.contains(&hash(&made.secrets[0])), "{rows}");
    places.push(("the database".to_owned(), rows.into_bytes()));
    // What it says of a database that is away, and of one that does not let it in.
    // Before that, so that no connection is made by the right one afterwards.
    postgres.sql("postgres", "ALTER USER tollward PASSWORD 'another'");
    postgres.kill();
    let error = || node.desk().shown("status")["directory"]["error"].clone();
    within(PATIENCE, "the database is away", || error().is_string());
    let refused = node.desk().ask("POST", "tenants", &json!({ "id": "b" }));
    places.push(("a refusal".to_owned(), refused.body));
    places.push(("status".to_owned(), error().to_string().into_bytes()));
    postgres.restart();
    within(PATIENCE, "the password is wrong", || {
        error().to_string().contains("password")
    });
    places.push(("status".to_owned(), error().to_string().into_bytes()));
    places.push(("its output".to_owned(), node.process.output().into_bytes()));
    made.secrets.push(PASSWORD.to_owned());
    assert_hidden(&places, &made.secrets);
}

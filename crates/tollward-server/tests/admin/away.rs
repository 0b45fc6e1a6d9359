//! A directory that does not take changes.

use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tollward_directory::Directory;
use tollward_policy::DirectoryUrl;

use crate::desk::{Desk, ok, refused, served_from};
use crate::served::Folder;

#[test]
fn changes_are_refused_and_the_rest_goes_on() {
    let folder = Folder::new();
    let file = folder.0.join("directory.db");
    let served = served_from(&file);
    let desk = Desk::of(&served);
    let key = desk.made("keys", &json!({ "tenant": "partner" }));
    // Somebody else writes, and does not come to an end.
    let runtime = Runtime::new().unwrap();
    let _entered = runtime.enter();
    let other = runtime.block_on(Directory::open(&DirectoryUrl::Sqlite(file)));
    let other = other.unwrap();
    let edit = runtime.block_on(other.edit(0)).unwrap();
    let body = json!({ "id": "acme" });
    let answer = desk.post("tenants", &body);
    refused(&answer, 503, "directory_unavailable");
    assert_eq!(answer.header("retry-after"), Some("1"));
    // What is in memory is not concerned.
    for target in [
        "status",
        "config",
        "enforcement",
        "explain?tenant=partner",
        "buckets?tenant=partner",
    ] {
        assert_eq!(desk.get(target).status, 200, "{target}");
    }
    let check = json!({ "api_key": key["secret"] });
    assert_eq!(served.client().check(check).0, 200);
    ok(
        &desk.post(
            "buckets/reset",
            &json!({ "facts": { "tenant": "partner" } }),
        ),
        200,
    );
    ok(&desk.post("config/diff", &Value::Null), 200);
    drop(edit);
    crate::served::until("changes are taken again", || {
        desk.post("tenants", &body).status == 201
    });
}

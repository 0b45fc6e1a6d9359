//! `tollward deny`, and `suspend` and `resume` of tenants, users and keys, against a running server.

use serde_json::{Value, json};

use crate::cli_admin::{Office, assert_words, cells};
use crate::served::{Client, json as body};

/// The status of a check, and the reason.
fn asked(office: &Office, check: Value) -> (u16, Value) {
    let answer = Client::new(office.process.api).ask(check);
    (answer.status, body(&answer)["reason"].clone())
}

fn suspended() -> (u16, Value) {
    (403, json!("suspended"))
}

/// The row of a table that begins with this cell.
fn row<'a>(table: &'a str, first: &str) -> Vec<&'a str> {
    let rows = cells(table);
    let found = rows.into_iter().find(|row| row.first() == Some(&first));
    found.unwrap_or_else(|| panic!("no {first}: {table}"))
}

#[test]
fn a_tenant_is_suspended_and_resumed() {
    let office = Office::open();
    office.ok(&["tenants", "create", "acme", "--rate", "100/minute"]);
    office.ok(&["tenants", "create", "below", "--parent", "acme"]);
    let suspend = ["tenants", "suspend", "acme", "--reason", "invoice 4711"];
    let said = office.ok(&suspend);
    assert_words(
        &said,
        &[
            "tenant      acme",
            "suspended   20",
            ": invoice 4711",
            "effective   100/minute",
        ],
    );
    assert_eq!(office.ok(&["tenants", "show", "acme"]), said);
    let table = office.ok(&["tenants", "list"]);
    let since = row(&table, "acme")[4];
    assert!(since.starts_with("20") && since.ends_with('Z'), "{table}");
    for tenant in ["acme", "below"] {
        assert_eq!(asked(&office, json!({ "tenant": tenant })), suspended());
    }
    // Again, and by whoever looked at another version of it.
    assert_eq!(office.ok(&suspend), said);
    office.refused(
        &["tenants", "resume", "acme", "--if-match", "1"],
        1,
        &["412"],
    );
    let said = office.ok(&["tenants", "resume", "acme"]);
    assert!(!said.contains("suspended"), "{said}");
    for tenant in ["acme", "below"] {
        assert_eq!(asked(&office, json!({ "tenant": tenant })).0, 200);
    }
    office.refused(
        &["tenants", "suspend", "partner"],
        1,
        &["409", "tollward.yaml", "tenants.partner", "deny-list"],
    );
    office.refused(&["tenants", "suspend", "none"], 1, &["404", "\"none\""]);
    let events = office.ok(&["audit", "list", "--event", "tenant_suspended"]);
    assert_words(&events, &["tenant:acme", "invoice 4711"]);
}

#[test]
fn a_user_and_a_key_are_suspended_and_resumed() {
    let office = Office::open();
    office.ok(&["users", "create", "ann", "--tenant", "partner"]);
    let key = office.json(&["keys", "create", "--tenant", "partner"]);
    let id = key["id"].as_str().unwrap();
    for (kind, id, check, heads) in [
        ("users", "ann", json!({ "user": "ann" }), "VERIFIED"),
        ("keys", id, json!({ "api_key": key["secret"] }), "EXPIRES"),
    ] {
        assert_eq!(asked(&office, check.clone()).0, 200, "{kind}");
        let said = office.ok(&[kind, "suspend", id, "--reason", "leaked"]);
        assert_words(&said, &[id, "suspended", ": leaked"]);
        assert_eq!(asked(&office, check.clone()), suspended(), "{kind}");
        let table = office.ok(&[kind, "list"]);
        assert_words(&table, &["SUSPENDED", heads]);
        let row = row(&table, id);
        assert!(
            row.iter()
                .any(|cell| cell.len() == 20 && cell.ends_with('Z')),
            "{table}"
        );
        let said = office.json(&[kind, "resume", id]);
        assert_eq!(said["suspended_at"], Value::Null);
        assert_eq!(asked(&office, check).0, 200, "{kind}");
    }
}

#[test]
fn a_key_is_not_rotated_twice() {
    let office = Office::open();
    let key = office.json(&["keys", "create", "--tenant", "partner"]);
    let id = key["id"].as_str().unwrap();
    let next = office.json(&["keys", "rotate", id]);
    let next = next["id"].as_str().unwrap();
    office.refused(&["keys", "rotate", id], 1, &["409", "replaced by", next]);
    office.ok(&["keys", "revoke", next]);
    assert_ne!(office.json(&["keys", "rotate", id])["id"], next);
}

#[test]
fn the_deny_list_is_added_to_and_taken_from() {
    let office = Office::open();
    assert_eq!(office.ok(&["deny", "list"]), "nobody is on the deny-list\n");
    let add = ["deny", "add", "--client", "scraper", "--reason", "abuse"];
    assert_words(&office.ok(&add), &["client", "scraper", "abuse"]);
    let scraper = || asked(&office, json!({ "client": "scraper" }));
    assert_eq!(scraper(), (403, json!("denied")));
    office.refused(&add, 1, &["409", "already"]);
    let table = office.ok(&["deny", "list"]);
    let rows = cells(&table);
    assert_eq!(
        rows[0],
        ["ID", "KIND", "CALLER", "REASON", "SOURCE", "CREATED"]
    );
    assert_eq!(rows[1][1..5], ["client", "scraper", "abuse", "directory"]);
    // It is another list than the one of those who are allowed.
    assert!(!office.ok(&["allow", "list"]).contains("scraper"));
    let id = rows[1][0];
    office.refused(&["allow", "remove", id], 1, &["404"]);
    let removed = office.ok(&["deny", "remove", id]);
    assert_eq!(removed, "removed client scraper from the deny-list\n");
    assert_eq!(scraper().0, 200);
    office.refused(&["deny", "add", "--reason", "x"], 2, &["--cidr"]);
}

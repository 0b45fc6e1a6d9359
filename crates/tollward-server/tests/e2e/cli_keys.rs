//! `tollward keys`, `allow`, `audit` and `usage` against a running server.

use serde_json::{Value, json};

use crate::cli_admin::{Office, assert_words, cells};
use crate::served::{Client, until};

#[test]
fn keys_of_the_file_are_listed_as_the_help_says() {
    let hash = "ab".repeat(32);
    let office = Office::of(&format!(
        "tenants: {{ acme: {{}} }}\nkeys: [ {{ sha256: {hash}, tenant: acme }} ]\n"
    ));
    assert_words(
        &office.ok(&["keys", "list"]),
        &["sha256:abababababab", "acme"],
    );
    let help = office.ok(&["keys", "list", "--help"]);
    assert_words(&help, &["those of the configuration file too"]);
}

#[test]
fn a_key_lives() {
    let office = Office::open();
    let create = [
        "keys",
        "create",
        "--tenant",
        "partner",
        "--plan",
        "pro",
        "--name",
        "backend",
        "--expires-in",
        "90d",
    ];
    let said = office.run(&create);
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert_words(&said.err, &["not shown again"]);
    let secret = said.out.lines().last().unwrap().to_owned();
    assert!(secret.starts_with("tw_") && secret.len() == 52, "{secret}");
    let check = |secret: &str| {
        Client::new(office.process.api)
            .check(json!({"api_key": secret}))
            .0
    };
    until("the key is known", || check(&secret) == 200);

    let listed = office.json(&["keys", "list", "--tenant", "partner"]);
    let key = &listed["items"][0];
    let id = key["id"].as_str().unwrap();
    assert_words(&said.out, &[id, "backend", "partner", "expires"]);
    let shown = office.ok(&["keys", "show", id]);
    assert_words(&shown, &[id, "prefix", "pro", "version"]);
    let table = office.ok(&["keys", "list"]);
    let rows = cells(&table);
    assert_eq!(
        rows[0][..6],
        ["ID", "NAME", "PREFIX", "TENANT", "USER", "CLIENT"]
    );
    assert_eq!(
        rows[1][..5],
        [id, "backend", &secret[..11], "partner", "pro"]
    );
    for text in [&shown, &table, &listed.to_string()] {
        assert!(!text.contains(&secret[..20]), "{text}");
    }
    let changed = office.json(&["keys", "change", id, "--no-expiry", "--name", "front end"]);
    assert_eq!(
        (&changed["expires_at"], &changed["name"]),
        (&Value::Null, &"front end".into())
    );

    // For scripts: the secret, and nothing else.
    let said = office.run(&["keys", "rotate", id, "--overlap", "1h", "--secret-only"]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    let rotated = said.out.trim_end();
    assert_eq!(said.out, format!("{rotated}\n"));
    assert!(rotated.starts_with("tw_") && rotated.len() == 52 && rotated != secret);
    assert_words(&said.err, &["replaces", id, "which ends at"]);
    assert!(!said.err.contains(rotated));
    until("both are known", || {
        check(rotated) == 200 && check(&secret) == 200
    });

    let said = office.ok(&["keys", "revoke", id]);
    assert_words(&said, &["revoked key", id]);
    until("it is refused", || check(&secret) == 401);
    assert_eq!(check(rotated), 200);
    assert_eq!(
        office.json(&["keys", "list"])["items"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
    let table = office.ok(&["keys", "list", "--revoked"]);
    assert_eq!(cells(&table)[0].last(), Some(&"REVOKED"));
    assert_eq!(table.lines().count(), 3);
    office.refused(&["keys", "rotate", id], 1, &["409 Conflict", "revoked"]);
    office.refused(&["keys", "revoke", "key_none"], 1, &["404", "key_none"]);
    let late = [
        "keys",
        "create",
        "--user",
        "a",
        "--expires-at",
        "2020-01-01T00:00:00Z",
    ];
    office.refused(&late, 1, &["is over", "still to come"]);
}

#[test]
fn the_allow_list_is_added_to_and_taken_from() {
    let office = Office::open();
    let add = [
        "allow",
        "add",
        "--cidr",
        "192.0.2.0/24",
        "--reason",
        "office",
    ];
    assert_words(&office.ok(&add), &["cidr", "192.0.2.0/24", "office"]);
    let entry = office.json(&["allow", "add", "--user", "root", "--reason", "on call"]);
    let id = entry["id"].as_str().unwrap();
    let listed = office.ok(&["allow", "list"]);
    let rows = cells(&listed);
    assert_eq!(
        rows[0],
        ["ID", "KIND", "CALLER", "REASON", "SOURCE", "CREATED"]
    );
    assert_eq!(
        rows[1],
        ["allow[0]", "cidr", "198.51.100.0/24", "monitoring", "file"]
    );
    assert!(
        rows.iter()
            .any(|row| row[..5] == [id, "user", "root", "on call", "directory"]),
        "{listed}"
    );
    assert_eq!(rows.len(), 4);
    office.refused(
        &["allow", "remove", "allow[0]"],
        1,
        &["tollward.yaml", "allow[0]"],
    );
    office.refused(&add, 1, &["409", "already"]);
    office.refused(
        &["allow", "add", "--cidr", "192.0.2.1/24", "--reason", "x"],
        1,
        &["cidr: write `192.0.2.0/24`"],
    );
    let removed = office.ok(&["allow", "remove", id]);
    assert_eq!(removed, "removed user root from the allow-list\n");
    office.refused(&["allow", "remove", id], 1, &["404"]);
}

#[test]
fn who_did_what_is_told_with_the_newest_first() {
    let office = Office::open();
    office.ok(&["tenants", "create", "acme", "--plan", "free"]);
    office.ok(&["tenants", "change", "acme", "--plan", "pro"]);
    let mut client = Client::new(office.process.api);
    // A name that a terminal would obey.
    let user = "a\u{1b}[2Jb";
    let asked = json!({"user": user, "plan": "free", "path": "/jobs/1"});
    client.exhaust(&asked);
    let listed = office.ok(&["audit", "list", "--identifier", "tenant:acme"]);
    let rows = cells(&listed);
    assert_eq!(rows[0], ["AT", "EVENT", "WHOM", "COUNT", "BY", "WHAT"]);
    let changed = [
        "tenant_changed",
        "tenant:acme",
        "1",
        "admin from 127.0.0.1",
        "plan: free → pro",
    ];
    assert_eq!(rows[1][1..], changed);
    assert_eq!(rows[2][1..4], ["tenant_created", "tenant:acme", "1"]);
    assert!(
        rows[1][0].ends_with('Z') && rows[1][0].len() == 20,
        "{listed}"
    );

    let mut refusals = String::new();
    until("the refusal is recorded", || {
        refusals = office.ok(&[
            "audit",
            "list",
            "--event",
            "rate_limit_exceeded",
            "--since",
            "1h",
        ]);
        refusals != "no events\n"
    });
    assert_words(&refusals, &["plan:free on /jobs/**", "user:a"]);
    assert!(!refusals.contains('\u{1b}'), "{refusals:?}");
    assert_eq!(
        office.ok(&["audit", "list", "--until", "2020-01-01"]),
        "no events\n"
    );
    assert_eq!(
        office.ok(&["audit", "list", "--actor", "nobody"]),
        "no events\n"
    );
    let newest = office.run(&["audit", "list", "--limit", "1", "--json"]);
    let newest: Value = serde_json::from_str(&newest.out).unwrap();
    assert_eq!(newest["items"].as_array().unwrap().len(), 1);
}

#[test]
fn usage_adds_up() {
    let office = Office::open();
    assert_eq!(office.ok(&["usage"]), "nothing was used\n");
    let mut client = Client::new(office.process.api);
    let asked = json!({"user": "a", "tenant": "partner", "plan": "free", "path": "/jobs/1"});
    let (admitted, _) = client.exhaust(&asked);
    assert_eq!(admitted, 3);
    client.check(json!({"user": "b", "tenant": "partner", "plan": "pro", "cost": 5}));
    let mut rows = String::new();
    until("all is written", || {
        rows = office.ok(&["usage", "--by", "day", "--tenant", "partner"]);
        rows.lines().count() == 4
    });
    let table = cells(&rows);
    let heads = [
        "FROM", "TENANT", "PLAN", "ROUTE", "REQUESTS", "REFUSALS", "TOKENS", "ERRORS",
    ];
    assert_eq!(table[0], heads);
    let free = ["partner", "free", "/jobs/**", "4", "1", "3", "0"];
    assert!(table.iter().any(|row| row[1..] == free), "{rows}");
    assert_eq!(table[3], ["TOTAL", "5", "1", "8", "0"]);
    let pro = office.json(&["usage", "--by", "minute", "--plan", "pro"]);
    assert_eq!(pro["items"][0]["tokens"], 5);
    assert_eq!(
        office.ok(&["usage", "--route", "/else"]),
        "nothing was used\n"
    );
    let said = office.run(&["usage", "--by", "day", "--limit", "1"]);
    assert_eq!(said.code, Some(0));
    assert_words(&said.err, &["--limit 0", "the total is theirs"]);
}

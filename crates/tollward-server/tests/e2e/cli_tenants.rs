//! `tollward tenants` and `tollward users` against a running server.

use serde_json::Value;

use crate::cli_admin::{Office, assert_words, cells};
use crate::process::arg;

#[test]
fn a_tenant_lives() {
    let office = Office::open();
    let made = office.ok(&[
        "tenants",
        "create",
        "acme",
        "--parent",
        "partner",
        "--plan",
        "pro",
        "--rate",
        "1000/min",
        "--burst",
        "100",
        "--sharing",
        "inherit",
    ]);
    let lines = [
        "tenant      acme",
        "parent      partner",
        "plan        pro",
        "limit       1000/minute, burst 100, inherit",
        "effective   1000/minute, burst 100",
        "charged to  acme: 1000/minute, burst 100",
        "charged to  partner: 5000/minute, burst 500",
        "source      directory",
        "version     1",
    ];
    assert_words(&made, &lines);
    assert_eq!(office.ok(&["tenants", "show", "acme"]), made);

    let changed = office.ok(&["tenants", "change", "acme", "--burst", "50", "--no-plan"]);
    assert_words(
        &changed,
        &["1000/minute, burst 50, inherit", "version     2"],
    );
    assert!(!changed.contains("plan "), "{changed}");
    let moved = office.ok(&["tenants", "move", "acme", "system"]);
    assert_words(&moved, &["parent      system", "version     3"]);
    let bare = office.ok(&["tenants", "change", "acme", "--no-rate-limit"]);
    assert!(!bare.contains("limit "), "{bare}");

    let listed = office.ok(&["tenants", "list"]);
    let rows = cells(&listed);
    assert_eq!(
        rows[0],
        [
            "TENANT",
            "PARENT",
            "PLAN",
            "LIMIT",
            "EFFECTIVE",
            "SUSPENDED",
            "SOURCE"
        ]
    );
    assert_eq!(rows[1], ["acme", "system", "directory"]);
    let partner = [
        "partner",
        "system",
        "5000/minute, burst 500, enforce",
        "5000/minute, burst 500",
        "file",
    ];
    assert_eq!(rows[2], partner);

    office.ok(&["tenants", "create", "below", "--parent", "acme"]);
    office.refused(
        &["tenants", "delete", "acme"],
        1,
        &["409 Conflict", "1 tenant", "cascade"],
    );
    let deleted = office.ok(&["tenants", "delete", "acme", "--cascade"]);
    assert_eq!(deleted, "deleted tenant acme\n");
    office.refused(
        &["tenants", "show", "below"],
        1,
        &["404 Not Found", "\"below\""],
    );
    office.refused(
        &["tenants", "change", "acme", "--plan", "pro"],
        1,
        &["404", "\"acme\""],
    );
    assert_eq!(
        office.ok(&["tenants", "list", "--parent", "acme"]),
        "no tenants\n"
    );
}

#[test]
fn budgets_come_with_their_arithmetic() {
    let office = Office::open();
    let create = |id, rate| {
        let args = [
            "tenants", "create", id, "--parent", "partner", "--rate", rate,
        ];
        office.run(&args)
    };
    assert_eq!(create("one", "2000/minute").code, Some(0));
    assert_eq!(create("two", "1000/minute").code, Some(0));
    let said = create("three", "3000/minute");
    assert_eq!(said.code, Some(0));
    assert_words(&said.err, &["tollward: warning: ", "overcommitted", "6000"]);
    let said = create("four", "100/second");
    assert_eq!((said.code, &*said.out), (Some(1), ""));
    let line = "  sum 12000, budget 5000 × 1.5, free 1500, all per minute";
    assert_words(&said.err, &["409 Conflict", line]);
    let budget = "budget      6000 of 5000 × 1.5 given to children, 1500 free, all per minute";
    assert_words(&office.ok(&["tenants", "show", "partner"]), &[budget]);

    // As the server answers, and nothing else.
    let args = [
        "tenants", "create", "four", "--parent", "partner", "--rate", "100/s", "--json",
    ];
    let said = office.run(&args);
    assert_eq!((said.code, &*said.err), (Some(1), ""));
    let problem: Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!(
        (&problem["reason"], &problem["sum"]),
        (&"budget_exceeded".into(), &12000.into())
    );
}

#[test]
fn limits_are_read_from_anywhere_and_their_faults_told() {
    let office = Office::open();
    let good = r#"{"sustained": {"rate": 7, "window": "hour"}, "sharing": "inherit", "budget": {"mode": "shared"}}"#;
    let file = office.folder.write("limit.json", good);
    let at = format!("@{}", arg(&file));
    for (id, text) in [("given", good), ("read", &at)] {
        let made = office.json(&["tenants", "create", id, "--rate-limit", text]);
        assert_eq!(made["rate_limit"]["sustained"]["rate"], 7);
        assert_eq!(made["rate_limit"]["budget"]["mode"], "shared");
    }
    let faulty = r#"{"sustained": {"rate": 0}, "brust": 1}"#;
    let create = ["tenants", "create", "x", "--rate-limit", faulty];
    office.refused(
        &create,
        1,
        &[
            "2 faults",
            "  rate_limit.sustained.rate: ",
            "  rate_limit.brust: ",
            "burst",
        ],
    );
    let create = ["tenants", "create", "x", "--rate", "5/fortnight"];
    office.refused(&create, 1, &["sustained.window", "fortnight", "minute"]);
    office.refused(
        &["tenants", "create", "x", "--plan", "gold"],
        1,
        &["\"gold\"", "free, pro"],
    );
    office.refused(
        &["tenants", "create", "x", "--parent", "y"],
        1,
        &["no tenant \"y\""],
    );
    office.refused(&["tenants", "create", "given"], 1, &["409", "already"]);
    // The file is changed with an editor.
    office.refused(
        &["tenants", "change", "partner", "--plan", "pro"],
        1,
        &["tollward.yaml", "tenants.partner"],
    );
    office.refused(&["tenants", "delete", "partner"], 1, &["tollward.yaml"]);
}

#[test]
fn long_lists_are_followed_to_their_end() {
    let office = Office::open();
    for index in 0..12 {
        office.ok(&[
            "tenants",
            "create",
            &format!("t{index:02}"),
            "--parent",
            "partner",
        ]);
    }
    let list = |limit| office.run(&["tenants", "list", "--parent", "partner", "--limit", limit]);
    let said = list("5");
    assert_eq!(said.code, Some(0));
    assert_eq!(said.out.lines().count(), 6);
    assert_words(&said.err, &["there are more", "--limit 0"]);
    for limit in ["0", "12", "2000"] {
        let said = list(limit);
        assert_eq!((said.code, &*said.err), (Some(0), ""), "{limit}");
        assert_eq!(said.out.lines().count(), 13, "{limit}");
    }
    let said = office.run(&[
        "tenants", "list", "--parent", "partner", "--limit", "5", "--json",
    ]);
    let answer: Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!(answer["items"].as_array().unwrap().len(), 5);
    assert_eq!(answer["next"], "t04");
    let answer = office.json(&["tenants", "list", "--parent", "partner"]);
    assert_eq!(answer["items"].as_array().unwrap().len(), 12);
    assert_eq!(answer["next"], Value::Null);
}

#[test]
fn names_arrive_as_they_are() {
    let office = Office::open();
    let odd = "a b/ü?&=%41#+";
    office.ok(&["tenants", "create", odd]);
    assert_eq!(office.json(&["tenants", "show", odd])["id"], odd);
    office.ok(&["tenants", "create", "child", "--parent", odd]);
    let listed = office.json(&["tenants", "list", "--parent", odd]);
    assert_eq!(listed["items"][0]["id"], "child");
    office.ok(&["tenants", "delete", odd, "--cascade"]);
    let said = office.run(&["tenants", "create", "a\u{1b}[2Jb"]);
    assert_eq!(said.code, Some(1));
    assert!(!said.err.contains('\u{1b}'), "{:?}", said.err);
}

#[test]
fn a_user_lives() {
    let office = Office::open();
    let args = [
        "users",
        "create",
        "alice",
        "--tenant",
        "partner",
        "--plan",
        "pro",
        "--email-verified",
    ];
    let made = office.ok(&args);
    assert_words(
        &made,
        &[
            "user      alice",
            "tenant    partner",
            "plan      pro",
            "verified  true",
        ],
    );
    let listed = office.ok(&["users", "list", "--tenant", "partner"]);
    assert_eq!(cells(&listed)[1][..4], ["alice", "partner", "pro", "true"]);
    let changed = office.json(&[
        "users",
        "change",
        "alice",
        "--no-plan",
        "--email-verified",
        "false",
    ]);
    assert_eq!(
        (&changed["plan"], &changed["email_verified"]),
        (&Value::Null, &false.into())
    );
    assert_eq!(changed["tenant"], "partner");
    assert_eq!(
        office.ok(&["users", "delete", "alice"]),
        "deleted user alice\n"
    );
    office.refused(&["users", "show", "alice"], 1, &["404", "\"alice\""]);
    assert_eq!(office.ok(&["users", "list"]), "no users\n");
}

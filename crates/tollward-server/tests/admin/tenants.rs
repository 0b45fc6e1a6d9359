//! Tenants: made, shown, changed, moved, deleted.

use serde_json::{Value, json};
use tollward_policy::DirectoryUrl;
use tollward_testkit::clock::ManualClock;

use crate::desk::{CONFIG, Desk, ok, per_minute, refused, served, served_from, tag, with};
use crate::served::Folder;

/// A moment as it is written: seconds of the day of the manual clock's start.
pub(crate) fn moment(unix_secs: u64) -> String {
    let second = unix_secs - ManualClock::START_SECS;
    assert!(second < 86_400);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("2025-12-11T{hour:02}:{minute:02}:{second:02}.000Z")
}

#[test]
fn a_tenant_from_making_to_deleting() {
    let served = served();
    let desk = Desk::of(&served);
    let body = json!({
        "id": "acme", "plan": "free", "rate_limit": per_minute(60), "attributes": { "tier": 1 },
    });
    let made = desk.post("tenants", &body);
    let etag = made.header("etag").map(str::to_owned);
    let made = ok(&made, 201);
    assert_eq!(etag, Some(tag(&made)));
    assert_eq!(made["parent"], "system");
    assert_eq!(made["source"], "directory");
    assert_eq!(made["created_at"], moment(ManualClock::START_SECS));
    assert_eq!(made["effective"]["rate"], 60);
    assert_eq!(made["effective"]["levels"][0]["tenant"], "acme");
    assert_eq!(made["budget"], Value::Null);
    assert_eq!(made["warnings"], Value::Null);
    assert_eq!(desk.shown("tenants/acme"), made);

    // It limits at once.
    let mut client = served.client();
    let (_, decision) = client.check(json!({ "tenant": "acme", "plan": "pro" }));
    let limits = decision["limits"].as_array().unwrap();
    assert!(
        limits.iter().any(|limit| limit["name"] == "tenant:acme"),
        "{decision}"
    );

    // A merge patch: what is left out stays, null removes, objects are merged.
    let patch = json!({
        "plan": null,
        "rate_limit": { "burst": { "capacity": 7 } },
        "attributes": { "tier": null, "region": "eu" },
    });
    let changed = ok(&desk.patch("tenants/acme", &tag(&made), &patch), 200);
    assert_eq!(changed["plan"], Value::Null);
    assert_eq!(changed["rate_limit"]["sustained"]["rate"], 60);
    assert_eq!(changed["effective"]["burst"], 7);
    assert_eq!(changed["attributes"], json!({ "region": "eu" }));
    assert_ne!(changed["version"], made["version"]);

    ok(&desk.delete("tenants/acme", &tag(&changed)), 200);
    refused(&desk.get("tenants/acme"), 404, "not_found");
    let (_, decision) = client.check(json!({ "tenant": "acme", "plan": "pro" }));
    let limits = decision["limits"].as_array().unwrap();
    assert!(
        limits.iter().all(|limit| limit["name"] != "tenant:acme"),
        "{decision}"
    );
}

#[test]
fn the_root_is_always_there() {
    let served = served();
    let desk = Desk::of(&served);
    let root = desk.get("tenants/system");
    assert_eq!(root.header("etag"), Some("\"0\""));
    let root = ok(&root, 200);
    assert_eq!(
        (&root["source"], &root["parent"]),
        (&json!("built_in"), &Value::Null)
    );
    let limit = json!({ "rate_limit": per_minute(10_000) });
    let root = ok(&desk.patch("tenants/system", "\"0\"", &limit), 200);
    assert_eq!(root["effective"]["rate"], 10_000);
    assert_ne!(root["version"], 0);
    refused(&desk.delete("tenants/system", "*"), 409, "root");
    let moved = desk.patch("tenants/system", "*", &json!({ "parent": "partner" }));
    refused(&moved, 422, "invalid");
    let gone = ok(
        &desk.patch("tenants/system", "*", &json!({ "rate_limit": null })),
        200,
    );
    assert_eq!(gone["effective"], Value::Null);
}

#[test]
fn the_file_is_read_only() {
    let served = served();
    let desk = Desk::of(&served);
    let partner = desk.get("tenants/partner");
    assert_eq!(partner.header("etag"), None);
    let partner = ok(&partner, 200);
    assert_eq!(partner["source"], "file");
    assert_eq!(partner["rate_limit"]["sustained"]["rate"], 5000);
    for answer in [
        desk.patch("tenants/partner", "*", &json!({ "plan": null })),
        desk.delete("tenants/partner", "*"),
        desk.post("tenants", &json!({ "id": "partner" })),
    ] {
        let problem = refused(&answer, 409, "read_only");
        assert!(
            problem["file"].as_str().unwrap().ends_with("tollward.yaml"),
            "{problem}"
        );
        assert_eq!(problem["place"], "tenants.partner");
    }
}

#[test]
fn a_limit_of_the_file_is_shown_whole() {
    let served = with(
        "
tenants:
  queued:
    rate_limit:
      algorithm: token_bucket
      sustained: { rate: 900, window: 90s }
      burst: { allowance: 1.5 }
      cost: 2
      strategy: queue
      queue: { max_wait: 1500ms, max_queue: 7 }
      when: authenticated
      on_failure: closed
      response_headers: false
  watched: { rate_limit: { sustained: { rate: 10, window: hour }, shadow: true, sharing: inherit } }
",
        |_| {},
    );
    let desk = Desk::of(&served);
    let limit = desk.shown("tenants/queued")["rate_limit"].clone();
    for (name, value) in [
        ("sustained", json!({ "rate": 900, "window": "90s" })),
        ("burst", json!({ "allowance": 1.5 })),
        ("cost", json!(2)),
        ("strategy", json!("queue")),
        ("queue", json!({ "max_wait": "1500ms", "max_queue": 7 })),
        ("when", json!("authenticated")),
        ("on_failure", json!("closed")),
        ("response_headers", json!(false)),
    ] {
        assert_eq!(limit[name], value, "{name}: {limit}");
    }
    let watched = desk.shown("tenants/watched")["rate_limit"].clone();
    assert_eq!(
        (&watched["shadow"], &watched["sharing"]),
        (&json!(true), &json!("inherit"))
    );
    // As it is shown it can be given to another tenant.
    for (id, limit) in [("a", limit), ("b", watched)] {
        let made = desk.made("tenants", &json!({ "id": id, "rate_limit": limit }));
        assert_eq!(made["rate_limit"], limit, "{id}");
    }
}

#[test]
fn what_does_not_fit_the_tree_is_refused() {
    let served = served();
    let desk = Desk::of(&served);
    for (id, parent) in [("a", "system"), ("b", "a"), ("c", "b")] {
        desk.made("tenants", &json!({ "id": id, "parent": parent }));
    }
    refused(&desk.post("tenants", &json!({ "id": "a" })), 409, "exists");
    let nowhere = json!({ "id": "x", "parent": "nobody" });
    refused(&desk.post("tenants", &nowhere), 422, "unknown_parent");
    let planless = json!({ "id": "x", "plan": "gold" });
    refused(&desk.post("tenants", &planless), 422, "unknown_plan");
    refused(
        &desk.post("tenants", &json!({ "id": "x", "parent": "x" })),
        422,
        "unknown_parent",
    );
    for parent in ["a", "b", "c"] {
        let circle = desk.patch("tenants/a", "*", &json!({ "parent": parent }));
        refused(&circle, 422, "cycle");
    }
    // Moved, it has other ancestors.
    desk.made(
        "tenants",
        &json!({ "id": "top", "rate_limit": {
        "sustained": { "rate": 30, "window": "minute" }, "sharing": "enforce",
    } }),
    );
    let moved = ok(
        &desk.patch("tenants/b", "*", &json!({ "parent": "top" })),
        200,
    );
    assert_eq!(moved["effective"]["rate"], 30);
    assert_eq!(
        desk.shown("tenants/c")["effective"]["levels"][0]["tenant"],
        "top"
    );
    let events = desk.shown("audit?event=tenant_moved");
    assert_eq!(events["items"][0]["before"]["parent"], "a");
    assert_eq!(events["items"][0]["after"]["parent"], "top");
}

#[test]
fn a_tree_has_a_bottom() {
    let served = served();
    let desk = Desk::of(&served);
    let mut parent = "system".to_owned();
    let mut refusal = None;
    for depth in 0..80 {
        let id = format!("d{depth}");
        let answer = desk.post("tenants", &json!({ "id": id, "parent": parent }));
        if answer.status != 201 {
            refusal = Some((depth, answer));
            break;
        }
        parent = id;
    }
    let (depth, answer) = refusal.unwrap();
    refused(&answer, 422, "too_deep");
    assert!(depth >= 32, "{depth}");
}

#[test]
fn children_are_deleted_only_on_request() {
    let served = served();
    let desk = Desk::of(&served);
    for (id, parent) in [("a", "system"), ("b", "a"), ("c", "b"), ("d", "system")] {
        desk.made("tenants", &json!({ "id": id, "parent": parent }));
    }
    let key = desk.made("keys", &json!({ "tenant": "c" }));
    desk.made("users", &json!({ "id": "carol", "tenant": "c" }));
    let check = json!({ "api_key": key["secret"] });
    assert_eq!(served.client().check(check.clone()).0, 200);
    let problem = refused(&desk.delete("tenants/a", "*"), 409, "has_children");
    assert_eq!(problem["below"], 2);
    assert_eq!(desk.get("tenants/c").status, 200);
    refused(
        &desk.delete("tenants/a?cascade=maybe", "*"),
        400,
        "bad_input",
    );
    ok(&desk.delete("tenants/a?cascade=true", "*"), 200);
    for id in ["a", "b", "c"] {
        assert_eq!(desk.get(&format!("tenants/{id}")).status, 404, "{id}");
    }
    assert_eq!(desk.get("tenants/d").status, 200);
    assert_eq!(desk.get("users/carol").status, 404);
    assert_eq!(served.client().check(check).0, 401);
    let events = desk.shown("audit?event=tenant_deleted");
    assert_eq!(events["items"].as_array().unwrap().len(), 3);
}

#[test]
fn a_file_keeps_what_was_changed() {
    let folder = Folder::new();
    let file = folder.0.join("directory.db");
    let secret = {
        let served = served_from(&file);
        let desk = Desk::of(&served);
        desk.made(
            "tenants",
            &json!({ "id": "acme", "rate_limit": per_minute(60) }),
        );
        let key = desk.made("keys", &json!({ "tenant": "acme" }));
        key["secret"].as_str().unwrap().to_owned()
    };
    let served = served_from(&file);
    let desk = Desk::of(&served);
    assert_eq!(desk.shown("tenants/acme")["effective"]["rate"], 60);
    let (status, decision) = served.client().check(json!({ "api_key": secret }));
    assert_eq!(status, 200, "{decision}");
    assert_eq!(decision["binding"], "tenant:acme");
}

/// The directory's own go; the file's stay, with what is theirs and whoever is below them.
#[test]
fn what_the_file_has_is_not_deleted_with_those_above_it() {
    let folder = Folder::new();
    let file = folder.0.join("directory.db");
    let keys = {
        let served = served_from(&file);
        let desk = Desk::of(&served);
        for (id, parent) in [("a", "system"), ("b", "a"), ("c", "b"), ("d", "a")] {
            desk.made("tenants", &json!({ "id": id, "parent": parent }));
        }
        ["b", "c", "d"].map(|id| desk.made("keys", &json!({ "tenant": id })))
    };
    let config = CONFIG.replace("\ntenants:\n", "\ntenants:\n  b: { plan: pro }\n");
    let served = with(&config, |options| {
        options.directory = Some(DirectoryUrl::Sqlite(file.clone()));
    });
    let desk = Desk::of(&served);
    let problem = refused(&desk.delete("tenants/a", "*"), 409, "has_children");
    assert_eq!(problem["below"], 1);
    ok(&desk.delete("tenants/a?cascade=true", "*"), 200);
    for (id, status) in [("a", 404), ("b", 200), ("c", 200), ("d", 404)] {
        assert_eq!(desk.get(&format!("tenants/{id}")).status, status, "{id}");
    }
    assert_eq!(desk.shown("tenants/b")["source"], "file");
    let check = |key: &Value| served.client().check(json!({ "api_key": key["secret"] })).0;
    assert_eq!(keys.each_ref().map(check), [200, 200, 401]);
    let events = desk.shown("audit?event=tenant_deleted");
    let mut gone: Vec<&str> = events["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|event| event["identifier"].as_str().unwrap())
        .collect();
    gone.sort_unstable();
    assert_eq!(gone, ["tenant:a", "tenant:d"]);
}

fn shared(rate: u32, sharing: &str) -> Value {
    let mut limit = per_minute(rate);
    limit["sharing"] = sharing.into();
    limit
}

/// So many tenants below each other and `parent`, each with such a limit.
fn chain(desk: &Desk<'_>, name: &str, parent: &str, length: usize, sharing: &str) {
    let mut parent = parent.to_owned();
    for depth in 0..length {
        let id = format!("{name}{depth}");
        let limit = shared(1000, sharing);
        let tenant = json!({ "id": id, "parent": parent, "rate_limit": limit });
        desk.made("tenants", &tenant);
        parent = id;
    }
}

#[test]
fn no_more_limits_bind_a_tenant_than_there_may_be() {
    let served = served();
    let desk = Desk::of(&served);
    desk.made("tenants", &json!({ "id": "top" }));
    chain(&desk, "t", "top", 32, "inherit");
    let put = |id: &str, sharing: &str| {
        let limit = json!({ "rate_limit": shared(9000, sharing) });
        desk.patch(&format!("tenants/{id}"), "*", &limit)
    };
    // One more on top, or at the root, would be paid by all of them.
    for above in ["top", "system"] {
        for sharing in ["inherit", "enforce"] {
            let problem = refused(&put(above, sharing), 422, "too_deep");
            assert_eq!(problem["errors"][0]["place"], "rate_limit");
        }
    }
    // One that nobody else has to keep is no concern of theirs, and keeps them free of what is not enforced.
    ok(&put("top", "private"), 200);
    refused(&put("system", "enforce"), 422, "too_deep");
    ok(&put("system", "inherit"), 200);
    let below = json!({ "id": "x", "parent": "t31", "rate_limit": shared(1, "inherit") });
    refused(&desk.post("tenants", &below), 422, "too_deep");
    let below = json!({ "id": "x", "parent": "t31", "rate_limit": shared(1, "private") });
    desk.made("tenants", &below);
    ok(
        &desk.patch("tenants/t31", "*", &json!({ "plan": "pro" })),
        200,
    );
}

#[test]
fn limits_that_bind_nobody_are_not_counted() {
    let served = served();
    let desk = Desk::of(&served);
    let top = json!({ "id": "top", "rate_limit": shared(1000, "enforce") });
    desk.made("tenants", &top);
    chain(&desk, "p", "system", 40, "private");
    ok(
        &desk.patch("tenants/p0", "*", &json!({ "parent": "top" })),
        200,
    );
}

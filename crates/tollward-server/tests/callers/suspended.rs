//! Tenants, users and keys that are suspended, and resumed.

use serde_json::{Value, json};

use crate::site::{Caller, Site, TRUSTING, refused, sha256};

const CONFIG: &str = "
limits: { each: { sustained: { rate: 1, window: 366d }, burst: { capacity: 100 }, scope: [user, tenant] } }
tenants: { written: {} }
";

fn site() -> Site {
    let keys = format!(
        "keys: [ {{ sha256: {}, tenant: written }} ]\n",
        sha256("of-file")
    );
    let site = Site::of(&format!("{TRUSTING}{CONFIG}{keys}"));
    let limit = json!({ "sustained": { "rate": 100, "window": "366d" }, "sharing": "enforce" });
    site.made("tenants", &json!({ "id": "acme", "rate_limit": limit }));
    site.made("tenants", &json!({ "id": "shop", "parent": "acme" }));
    site.made("tenants", &json!({ "id": "other" }));
    site
}

/// Suspends something, looks at who is refused and who is not, changes it by `patch`, and resumes it.
#[track_caller]
fn round_trip(site: &Site, target: &str, patch: &Value, out: &[Caller<'_>], others: &[Caller<'_>]) {
    let act =
        |action: &str, body: &Value| site.changed("POST", &format!("{target}/{action}"), body);
    for caller in out.iter().chain(others) {
        site.admits(caller);
    }
    let left =
        |callers: &[Caller<'_>]| -> Vec<_> { callers.iter().map(|it| site.left(it)).collect() };
    let (before, passed) = (left(out), site.upstream.count());
    assert!(before.iter().all(|left| !left.is_empty()), "{before:?}");

    let suspended = act("suspend", &json!({ "reason": "invoice 4711" }));
    assert!(suspended["suspended_at"].is_string(), "{suspended}");
    assert_eq!(suspended["suspended_reason"], "invoice 4711");
    assert_eq!(suspended, site.shown(target));
    for caller in out {
        site.refuses(caller, 403, "suspended");
    }
    // Neither a change of something else, nor the kill switch, nor the allow-list lifts it.
    let changed = site.changed("PATCH", target, patch);
    assert_eq!(changed["suspended_at"], suspended["suspended_at"]);
    assert_eq!(changed["suspended_reason"], "invoice 4711");
    let shown = site.shown(target);
    assert_eq!(shown["suspended_at"], suspended["suspended_at"]);
    for mode in [json!("off"), json!("shadow"), Value::Null] {
        site.changed("PUT", "enforcement", &json!({ "mode": mode }));
        for caller in out {
            site.refuses(caller, 403, "suspended");
        }
    }
    let office = site.made(
        "allow",
        &json!({ "cidr": "192.0.2.0/24", "reason": "office" }),
    );
    for caller in out {
        site.refuses(&caller.from("192.0.2.7"), 403, "suspended");
    }
    let office = format!("allow/{}", office["id"].as_str().unwrap());
    site.changed("DELETE", &office, &Value::Null);
    // Again, it is as it was.
    let again = act("suspend", &Value::Null);
    assert_eq!(again["version"], changed["version"], "{again}");
    assert_eq!(site.upstream.count(), passed);

    let resumed = act("resume", &Value::Null);
    assert_eq!(resumed["suspended_at"], Value::Null, "{resumed}");
    assert_eq!(resumed["suspended_reason"], Value::Null);
    assert_eq!(resumed, site.shown(target));
    assert_eq!(left(out), before, "what was refused was charged");
    for caller in out {
        site.admits(caller);
    }
    assert_eq!(act("resume", &Value::Null)["version"], resumed["version"]);

    // Nobody else is concerned.
    act("suspend", &Value::Null);
    for caller in others {
        site.admits(caller);
    }
    act("resume", &Value::Null);
}

/// What a round trip leaves in the audit trail of something that was made before.
fn events(kind: &str) -> [String; 6] {
    let all = [
        "created",
        "suspended",
        "changed",
        "resumed",
        "suspended",
        "resumed",
    ];
    all.map(|event| format!("{kind}_{event}"))
}

#[test]
fn a_tenant_and_all_below_it() {
    let site = site();
    let (_, acme) = site.key(&json!({ "tenant": "acme" }));
    let (_, shop) = site.key(&json!({ "tenant": "shop" }));
    let (_, other) = site.key(&json!({ "tenant": "other" }));
    site.made("users", &json!({ "id": "ann", "tenant": "shop" }));
    let out = [Caller::key(&acme), Caller::key(&shop), Caller::user("ann")];
    let others = [Caller::key("of-file")];
    let patch = json!({ "attributes": { "tier": 2 } });
    round_trip(&site, "tenants/acme", &patch, &out, &others);
    assert_eq!(site.events("tenant:acme"), events("tenant"));
    // One below, and not the one above it.
    let patch = json!({ "plan": null });
    round_trip(
        &site,
        "tenants/shop",
        &patch,
        &out[1..],
        &[out[0], Caller::key(&other)],
    );

    // Whoever is moved below a suspended tenant is suspended with it, until it is moved away.
    site.changed("POST", "tenants/acme/suspend", &Value::Null);
    site.changed("PATCH", "tenants/other", &json!({ "parent": "shop" }));
    site.refuses(&Caller::key(&other), 403, "suspended");
    site.changed("PATCH", "tenants/other", &json!({ "parent": "system" }));
    site.admits(&Caller::key(&other));
    let audit = site.shown("audit?event=tenant_suspended&limit=1");
    let event = &audit["items"][0];
    assert_eq!(
        event["before"],
        json!({ "suspended": false, "reason": null })
    );
    assert_eq!(event["after"], json!({ "suspended": true, "reason": null }));
}

#[test]
fn a_user_however_proven() {
    let site = site();
    site.made("users", &json!({ "id": "ann", "tenant": "acme" }));
    let (_, secret) = site.key(&json!({ "tenant": "acme", "user": "ann" }));
    let (_, of_tenant) = site.key(&json!({ "tenant": "acme" }));
    let out = [Caller::user("ann"), Caller::key(&secret)];
    let others = [Caller::user("bob"), Caller::key(&of_tenant)];
    round_trip(
        &site,
        "users/ann",
        &json!({ "email_verified": true }),
        &out,
        &others,
    );
    assert_eq!(site.events("user:ann"), events("user"));
}

#[test]
fn a_key_and_no_other() {
    let site = site();
    let (id, secret) = site.key(&json!({ "tenant": "acme" }));
    let (_, other) = site.key(&json!({ "tenant": "acme" }));
    let target = format!("keys/{id}");
    let patch = json!({ "name": "backend" });
    round_trip(
        &site,
        &target,
        &patch,
        &[Caller::key(&secret)],
        &[Caller::key(&other)],
    );
    assert_eq!(site.events(&format!("key:{id}")), events("key"));
    // One that was revoked stays so.
    site.changed("DELETE", &target, &Value::Null);
    for action in ["suspend", "resume"] {
        let answer = site.post(&format!("{target}/{action}"), &Value::Null);
        refused(&answer, 409, "revoked");
    }
    site.refuses(&Caller::key(&secret), 401, "unknown_key");
}

#[test]
fn a_suspension_outlives_a_restart() {
    let mut site = site();
    let (_, secret) = site.key(&json!({ "tenant": "shop" }));
    let (id, other) = site.key(&json!({ "tenant": "other" }));
    site.made("users", &json!({ "id": "ann" }));
    for target in ["tenants/acme", "users/ann", &format!("keys/{id}")] {
        site.changed("POST", &format!("{target}/suspend"), &Value::Null);
    }
    site.restart(&format!("{TRUSTING}{CONFIG}"));
    for caller in [
        Caller::key(&secret),
        Caller::key(&other),
        Caller::user("ann"),
    ] {
        site.refuses(&caller, 403, "suspended");
    }
}

/// An entry of the file that has the same name takes the place of the directory's, but not its suspension.
#[test]
fn a_reload_lifts_no_suspension() {
    let site = site();
    let (id, secret) = site.key(&json!({ "tenant": "other" }));
    let (_, of_acme) = site.key(&json!({ "tenant": "acme" }));
    let suspended = ["tenants/acme".to_owned(), format!("keys/{id}")];
    for target in &suspended {
        site.changed("POST", &format!("{target}/suspend"), &Value::Null);
    }
    let file = format!(
        "{TRUSTING}{}keys: [ {{ sha256: {}, tenant: other }} ]\n",
        CONFIG.replace("written: {}", "written: {}, acme: {}, other: {}"),
        sha256(&secret)
    );
    assert_eq!(site.reload(&file).status, 200);
    for caller in [Caller::key(&secret), Caller::key(&of_acme)] {
        site.refuses(&caller, 403, "suspended");
    }
    for target in &suspended {
        site.changed("POST", &format!("{target}/resume"), &Value::Null);
    }
    for caller in [Caller::key(&secret), Caller::key(&of_acme)] {
        site.admits(&caller);
    }
    // It would stay valid, so it is not said to be revoked.
    let revoked = site.post(&format!("keys/{id}/revoke"), &Value::Null);
    refused(&revoked, 409, "read_only");
    let rotated = site.post(&format!("keys/{id}/rotate"), &json!({}));
    refused(&rotated, 409, "read_only");
}

#[test]
fn what_the_file_has_is_denied_instead() {
    let site = site();
    let hash = sha256("of-file");
    for target in ["tenants/written", &format!("keys/sha256:{}", &hash[..12])] {
        for action in ["suspend", "resume"] {
            let answer = site.post(&format!("{target}/{action}"), &Value::Null);
            let problem = refused(&answer, 409, "read_only");
            let hint = problem["hint"].as_str().unwrap();
            assert!(hint.contains("/admin/v1/deny"), "{hint}");
        }
    }
    site.admits(&Caller::key("of-file"));
    refused(
        &site.post("tenants/system/suspend", &Value::Null),
        409,
        "root",
    );
    refused(
        &site.post("tenants/none/suspend", &Value::Null),
        404,
        "not_found",
    );
    refused(
        &site.post("users/none/suspend", &Value::Null),
        404,
        "not_found",
    );
    refused(
        &site.post("keys/none/suspend", &Value::Null),
        404,
        "not_found",
    );
    let long = json!({ "reason": "x".repeat(257) });
    assert_eq!(site.post("tenants/acme/suspend", &long).status, 422);
    assert_eq!(
        site.post("tenants/acme/suspend", &json!({ "why": "x" }))
            .status,
        400
    );
    assert_eq!(site.shown("tenants/acme")["suspended_at"], Value::Null);
}

//! Entries that name what does not exist: refused where they are written, and never served by mistake.

use serde_json::{Value, json};

use crate::site::{Caller, Site, TRUSTING, done, refused, sha256};

const PLANS: &str = "
plans:
  free: { rate_limit: { sustained: { rate: 1, window: 366d }, burst: { capacity: 100 } } }
";

fn config(rest: &str) -> String {
    format!("{TRUSTING}{PLANS}{rest}")
}

#[test]
fn a_reload_that_takes_away_a_tenant_in_use_is_refused() {
    let whole = config("tenants: { acme: {}, partner: {} }\n");
    let site = Site::of(&whole);
    let (_, secret) = site.key(&json!({ "tenant": "acme" }));
    site.made("users", &json!({ "id": "ann", "tenant": "partner" }));
    for (kept, lost) in [("partner", "acme"), ("acme", "partner")] {
        let without = config(&format!("tenants: {{ {kept}: {{}} }}\n"));
        let problem = refused(&site.reload(&without), 422, "bad_config");
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains(&format!("`{lost}`")), "{detail}");
        // The one before is in force.
        site.admits(&Caller::key(&secret));
        site.admits(&Caller::user("ann"));
    }
    // Where the directory has it, the file need not.
    site.changed("DELETE", "users/ann", &Value::Null);
    let without = config("tenants: { acme: {} }\n");
    done(&site.reload(&without), 200);
}

#[test]
fn a_mistyped_tenant_of_a_list_or_a_key_is_refused() {
    let site = Site::of(&config("tenants: { acme: {} }\n"));
    let hash = sha256("k");
    for (rest, place) in [
        (
            format!("keys: [ {{ sha256: {hash}, tenant: acmee }} ]\n"),
            "keys[0].tenant",
        ),
        (
            "allow: [ { tenant: acmee, reason: r } ]\n".to_owned(),
            "allow[0].tenant",
        ),
        (
            "deny: [ { tenant: acmee, reason: r } ]\n".to_owned(),
            "deny[0].tenant",
        ),
    ] {
        let wrong = config(&format!("tenants: {{ acme: {{}} }}\n{rest}"));
        let problem = refused(&site.reload(&wrong), 422, "bad_config");
        let detail = problem["detail"].as_str().unwrap();
        for words in [place, "`acmee`", "did you mean `acme`?"] {
            assert!(detail.contains(words), "{words}: {detail}");
        }
    }
    let allowed = site.post("allow", &json!({ "tenant": "acmee", "reason": "r" }));
    refused(&allowed, 422, "unknown_tenant");
}

/// Asserts that all doors answer that the operator made a mistake, and do not tell which.
#[track_caller]
fn is_misconfigured(site: &Site, caller: &Caller<'_>) {
    site.refuses(caller, 503, "misconfigured");
    let answer = site.get("/", &caller.headers());
    assert!(
        answer.header("retry-after").is_some(),
        "{:?}",
        answer.headers
    );
    for name in ["acme", "partner", "paid"] {
        assert!(!answer.text().contains(name), "{}", answer.text());
    }
    let answer = site.check(&caller.check("/"));
    assert!(
        answer.header("retry-after").is_some(),
        "{:?}",
        answer.headers
    );
}

#[test]
fn whoever_belongs_to_what_is_not_there_gets_503() {
    let paid = "  paid: { rate_limit: { sustained: { rate: 1, window: 366d } } }\n";
    let whole = config(&format!("{paid}tenants: {{ acme: {{}}, partner: {{}} }}\n"));
    let mut site = Site::of(&whole);
    site.made("tenants", &json!({ "id": "shop", "plan": "paid" }));
    site.made("tenants", &json!({ "id": "branch", "parent": "partner" }));
    site.made("tenants", &json!({ "id": "desk", "parent": "branch" }));
    site.made("tenants", &json!({ "id": "fine", "plan": "free" }));
    let key = |body: Value| site.key(&body).1;
    let lost = [
        key(json!({ "tenant": "acme" })),
        key(json!({ "tenant": "fine", "plan": "paid" })),
        key(json!({ "tenant": "shop" })),
        key(json!({ "tenant": "branch" })),
        key(json!({ "tenant": "desk" })),
    ];
    let kept = key(json!({ "tenant": "fine" }));
    site.made("users", &json!({ "id": "ann", "tenant": "acme" }));
    site.made("users", &json!({ "id": "bob", "plan": "paid" }));
    site.made("users", &json!({ "id": "carl", "tenant": "desk" }));
    let before = site.upstream.count();

    site.restart(&config(""));
    for secret in &lost {
        is_misconfigured(&site, &Caller::key(secret));
    }
    for user in ["ann", "bob", "carl"] {
        is_misconfigured(&site, &Caller::user(user));
    }
    assert_eq!(site.upstream.count(), before);
    site.admits(&Caller::key(&kept));
    // Neither the kill switch nor an allow-list says whom they belong to.
    site.made("allow", &json!({ "user": "ann", "reason": "r" }));
    site.changed("PUT", "enforcement", &json!({ "mode": "off" }));
    for secret in &lost {
        is_misconfigured(&site, &Caller::key(secret));
    }
    is_misconfigured(&site, &Caller::user("ann"));
    // A request that names a plan itself is wrong itself.
    let check = json!({ "api_key": kept, "plan": "paid" });
    refused(&site.check(&check), 400, "unknown_plan");
    let clashes = site.shown("config")["clashes"].to_string();
    for name in ["`acme`", "`paid`", "`partner`"] {
        assert!(clashes.contains(name), "{name}: {clashes}");
    }

    site.restart(&whole);
    site.changed("PUT", "enforcement", &json!({ "mode": null }));
    for secret in &lost {
        assert_ne!(site.get("/", &Caller::key(secret).headers()).status, 503);
    }
}

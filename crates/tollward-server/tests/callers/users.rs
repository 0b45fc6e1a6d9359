//! Users of the directory belong to their tenants, however they are proven.

use serde_json::{Value, json};

use crate::served::json as body;
use crate::site::{Caller, Site, TRUSTING};

const CONFIG: &str = "
plans:
  team: { rate_limit: { sustained: { rate: 1, window: 366d }, burst: { capacity: 5 }, scope: tenant } }
  solo: { rate_limit: { sustained: { rate: 1, window: 366d }, burst: { capacity: 2 }, scope: user } }
tenants:
  group: { rate_limit: { sustained: { rate: 1, window: 366d }, burst: { capacity: 8 }, sharing: enforce } }
";

fn site() -> Site {
    let site = Site::of(&format!("{TRUSTING}{CONFIG}"));
    let limit = json!({ "sustained": { "rate": 1, "window": "366d" }, "burst": { "capacity": 7 } });
    let acme = json!({ "id": "acme", "parent": "group", "plan": "team", "rate_limit": limit });
    site.made("tenants", &acme);
    site
}

fn left(entries: [(&str, u64); 3]) -> Vec<(String, u64)> {
    let named = |(name, left): (&str, u64)| (name.to_owned(), left);
    entries.map(named).to_vec()
}

#[test]
fn a_user_is_limited_as_the_key_of_its_tenant_is() {
    let site = site();
    site.made("users", &json!({ "id": "ann", "tenant": "acme" }));
    site.made("users", &json!({ "id": "bob", "tenant": "acme" }));
    let (_, secret) = site.key(&json!({ "tenant": "acme" }));
    let callers = [
        Caller::user("ann"),
        Caller::user("bob"),
        Caller::key(&secret),
    ];
    for caller in &callers {
        let all = [("plan:team", 5), ("tenant:acme", 7), ("tenant:group", 8)];
        assert_eq!(site.left(caller), left(all), "{caller:?}");
    }
    assert_eq!(site.get("/", &callers[0].headers()).status, 200);
    let seen = site.upstream.last();
    assert_eq!(seen.header("x-tollward-tenant"), Some("acme"));
    assert_eq!(seen.header("x-tollward-plan"), Some("team"));
    assert_eq!(seen.header("x-tollward-user"), Some("ann"));
    assert_eq!(site.auth("traefik", "/", &callers[1].headers()).status, 200);
    assert_eq!(site.check(&callers[0].check("/")).status, 200);
    assert_eq!(site.get("/", &callers[2].headers()).status, 200);
    // All of them were charged to the same buckets.
    for caller in &callers {
        let all = [("plan:team", 1), ("tenant:acme", 3), ("tenant:group", 4)];
        assert_eq!(site.left(caller), left(all), "{caller:?}");
    }
    assert_eq!(site.get("/", &callers[1].headers()).status, 200);
    for caller in &callers {
        let refused = site.check(&caller.check("/"));
        assert_eq!(refused.status, 429, "{caller:?}");
        assert_eq!(body(&refused)["binding"], "plan:team");
        assert_eq!(site.get("/", &caller.headers()).status, 429, "{caller:?}");
    }
    // Of somebody else, whom the directory does not know, nothing of this is true.
    assert_eq!(site.left(&Caller::user("stranger")), []);
}

#[test]
fn a_users_plan_takes_precedence_and_its_tenant_is_charged() {
    let site = site();
    let user = json!({ "id": "ann", "tenant": "acme", "plan": "solo" });
    site.made("users", &user);
    let ann = Caller::user("ann");
    let all = [("plan:solo", 2), ("tenant:acme", 7), ("tenant:group", 8)];
    assert_eq!(site.left(&ann), left(all));
    site.changed("PATCH", "users/ann", &json!({ "plan": null }));
    let all = [("plan:team", 5), ("tenant:acme", 7), ("tenant:group", 8)];
    assert_eq!(site.left(&ann), left(all));
    site.changed("PATCH", "users/ann", &json!({ "tenant": null }));
    assert_eq!(site.left(&ann), []);
    site.changed("PATCH", "users/ann", &json!({ "tenant": "group" }));
    assert_eq!(site.left(&ann), [("tenant:group".to_owned(), 8)]);
    site.changed("DELETE", "users/ann", &Value::Null);
    assert_eq!(site.left(&ann), []);
}

#[test]
fn a_user_of_a_key_brings_the_tenant_that_the_key_does_not_name() {
    let site = site();
    site.made("users", &json!({ "id": "ann", "tenant": "acme" }));
    let (_, secret) = site.key(&json!({ "user": "ann" }));
    assert_eq!(
        site.left(&Caller::key(&secret)),
        site.left(&Caller::user("ann"))
    );
    assert_eq!(site.get("/", &Caller::key(&secret).headers()).status, 200);
    assert_eq!(
        site.upstream.last().header("x-tollward-tenant"),
        Some("acme")
    );
    // A key that names one goes by that.
    let (_, other) = site.key(&json!({ "user": "ann", "tenant": "group" }));
    assert_eq!(
        site.left(&Caller::key(&other)),
        [("tenant:group".to_owned(), 7)]
    );
}

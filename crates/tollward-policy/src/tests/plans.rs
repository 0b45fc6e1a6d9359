//! Which plan applies, and who a key says the caller is.

use super::{charged, policy, sha256};
use crate::{Facts, Policy, Rejection};

fn shop() -> Policy {
    let plans = ["free", "pro", "gold", "base", "root"]
        .map(|name| {
            format!("{name}: {{ rate_limit: {{ sustained: {{ rate: 1 }}, scope: global }} }}")
        })
        .join(", ");
    policy(&format!(
        "
identity: {{ anonymous: {{ plan: free }} }}
plans: {{ {plans} }}
tenants:
  system: {{ plan: root }}
  partner: {{ plan: base }}
  acme: {{ parent: partner, plan: pro }}
  shop: {{ parent: partner }}
  desk: {{ parent: shop }}
  lone: {{}}
keys:
  - {{ sha256: {gold}, tenant: acme, plan: gold }}
  - {{ sha256: {acme}, tenant: acme }}
  - {{ sha256: {ann}, user: ann }}
  - {{ sha256: {both}, tenant: desk, user: bob }}
",
        gold = sha256("gold"),
        acme = sha256("acme"),
        ann = sha256("ann"),
        both = sha256("both"),
    ))
}

#[test]
fn the_first_of_request_key_tenant_ancestor_default() {
    let policy = shop();
    let none = Facts::default();
    let key = |secret| Facts {
        api_key: Some(secret),
        ..none
    };
    let tenant = |tenant| Facts {
        tenant: Some(tenant),
        ..none
    };
    let asked = |facts| Facts {
        plan: Some("free"),
        ..facts
    };
    let table = [
        (none, "free", "identity.anonymous.plan"),
        (asked(none), "free", "the request"),
        (asked(key("gold")), "free", "the request"),
        (key("gold"), "gold", "the API key"),
        (key("acme"), "pro", "tenant acme"),
        (key("ann"), "free", "identity.anonymous.plan"),
        (key("both"), "base", "tenant partner"),
        (tenant("acme"), "pro", "tenant acme"),
        (tenant("shop"), "base", "tenant partner"),
        (tenant("desk"), "base", "tenant partner"),
        (tenant("lone"), "root", "tenant system"),
        (tenant("system"), "root", "tenant system"),
        // A tenant that is not known is a child of the root.
        (tenant("nowhere"), "root", "tenant system"),
        (tenant("ACME"), "root", "tenant system"),
    ];
    for (facts, plan, from) in table {
        let explained = policy.request(&facts).unwrap().explain();
        let found = (explained.plan.as_deref(), explained.plan_from.as_deref());
        assert_eq!(found, (Some(plan), Some(from)), "{facts:?}");
        assert_eq!(charged(&policy, &facts), [format!("plan:{plan} plan 1")]);
    }
}

#[test]
fn no_plan_is_no_charge() {
    let policy = policy("tenants: { a: {}, b: { parent: a } }");
    for tenant in [None, Some("a"), Some("b"), Some("c"), Some("system")] {
        let facts = Facts {
            tenant,
            ..Facts::default()
        };
        let request = policy.request(&facts).unwrap();
        assert!(
            request.plan.is_none() && request.charges().is_empty(),
            "{tenant:?}"
        );
    }
}

#[test]
fn what_is_not_known() {
    let policy = shop();
    let none = Facts::default();
    let key = |secret| Facts {
        api_key: Some(secret),
        ..none
    };
    let unknown_plan = Rejection::UnknownPlan("silver".into());
    let table = [
        (
            Facts {
                plan: Some("silver"),
                ..none
            },
            unknown_plan.clone(),
        ),
        (
            Facts {
                plan: Some("silver"),
                ..key("gold")
            },
            unknown_plan,
        ),
        (
            Facts {
                plan: Some("Free"),
                ..none
            },
            Rejection::UnknownPlan("Free".into()),
        ),
        (key("nobody"), Rejection::UnknownKey),
        (key("gold "), Rejection::UnknownKey),
        (key("GOLD"), Rejection::UnknownKey),
        // A key is not its hash.
        (
            Facts {
                api_key: Some(Box::leak(sha256("gold").into_boxed_str())),
                ..none
            },
            Rejection::UnknownKey,
        ),
        (
            Facts {
                tenant: Some("lone"),
                ..key("gold")
            },
            Rejection::KeyMismatch("tenant"),
        ),
        (
            Facts {
                user: Some("eve"),
                ..key("ann")
            },
            Rejection::KeyMismatch("user"),
        ),
        (
            Facts {
                tenant: Some("acme"),
                ..key("both")
            },
            Rejection::KeyMismatch("tenant"),
        ),
        (
            Facts {
                user: Some("ann"),
                ..key("both")
            },
            Rejection::KeyMismatch("user"),
        ),
    ];
    for (facts, expected) in table {
        let found = policy.request(&facts).map(|request| request.treatment);
        assert_eq!(found, Err(expected), "{facts:?}");
    }
    let agreed = [
        Facts {
            tenant: Some("acme"),
            ..key("gold")
        },
        Facts {
            user: Some("carl"),
            ..key("gold")
        },
        Facts {
            tenant: Some("lone"),
            ..key("ann")
        },
        Facts {
            tenant: Some("desk"),
            user: Some("bob"),
            ..key("both")
        },
        Facts {
            tenant: Some(""),
            user: Some(""),
            ..key("both")
        },
    ];
    for facts in agreed {
        assert!(policy.request(&facts).is_ok(), "{facts:?}");
    }
}

#[test]
fn unknown_tenants_may_be_refused() {
    let policy = policy("{ identity: { unknown_tenant: reject }, tenants: { acme: {} } }");
    let of = |tenant| {
        let facts = Facts {
            tenant,
            ..Facts::default()
        };
        policy.request(&facts).map(|_| ())
    };
    assert_eq!(of(Some("acme")), Ok(()));
    assert_eq!(of(Some("system")), Ok(()));
    assert_eq!(of(None), Ok(()));
    assert_eq!(of(Some("")), Ok(()));
    assert_eq!(
        of(Some("acme ")),
        Err(Rejection::UnknownTenant("acme ".into()))
    );
}

#[test]
fn a_change_of_plan_keeps_the_bucket() {
    let policy = policy(
        "
plans:
  free: { rate_limit: { sustained: { rate: 1 }, scope: user } }
  pro: { rate_limit: { sustained: { rate: 9 }, scope: user } }
  day: { rate_limits: { per-day: { sustained: { rate: 1, window: day }, scope: user } } }
  max: { rate_limits: { per-day: { sustained: { rate: 9, window: day }, scope: user }, per-hour: { sustained: { rate: 9, window: hour }, scope: user } } }
",
    );
    let on = |plan| {
        let facts = Facts {
            plan: Some(plan),
            user: Some("u"),
            ..Facts::default()
        };
        charged(&policy, &facts)
    };
    assert_eq!(on("free"), ["plan:free plan|user=u 1"]);
    assert_eq!(on("pro"), ["plan:pro plan|user=u 1"]);
    assert_eq!(on("day"), ["plan:day/per-day plan/per-day|user=u 1"]);
    assert_eq!(
        on("max"),
        [
            "plan:max/per-day plan/per-day|user=u 1",
            "plan:max/per-hour plan/per-hour|user=u 1"
        ]
    );
}

/// A tree as deep as the file allows takes no longer than a flat one.
#[test]
fn a_deep_tree_is_walked_once() {
    let mut text = String::from(
        "plans: { p: { rate_limit: { sustained: { rate: 1 } } } }\ntenants:\n  t0: { plan: p }\n",
    );
    for depth in 1..20_000 {
        text.push_str(&format!("  t{depth}: {{ parent: t{} }}\n", depth - 1));
    }
    let policy = policy(&text);
    let facts = Facts {
        tenant: Some("t19999"),
        ..Facts::default()
    };
    let explained = policy.request(&facts).unwrap().explain();
    assert_eq!(explained.plan_from.as_deref(), Some("tenant t0"));
}

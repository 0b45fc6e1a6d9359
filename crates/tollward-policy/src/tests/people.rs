//! What a directory changes: one change at a time comes to the same as everything at once.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;

use super::{policy, sha256};
use crate::config::Enforcement;
use crate::policy::hash_of;
use crate::{
    ApiKey, Boost, Boostee, Bypass, Change, Clash, Facts, List, Listed, ListedCaller,
    Misconfigured, Policy, PolicyLimit, Rejection, TenantEntry, TenantLimit, Treatment, UserEntry,
};

fn limit(text: &str) -> Option<Arc<TenantLimit>> {
    Some(Arc::new(TenantLimit::parse(text).expect("a limit")))
}

fn tenant(id: &str, parent: &str, text: &str) -> Change {
    Change::Tenant {
        id: id.into(),
        entry: Some(TenantEntry {
            parent: Some(parent.into()),
            limit: (!text.is_empty()).then(|| limit(text)).flatten(),
            ..TenantEntry::default()
        }),
    }
}

fn of(tenant: &str) -> Facts<'_> {
    Facts {
        tenant: Some(tenant),
        ..Facts::default()
    }
}

/// The levels of a tenant, also of one whose requests are refused: whose bucket, rate, capacity.
fn levels(policy: &Policy, tenant: &str) -> Vec<(String, u32, u32)> {
    let row = |limit: &PolicyLimit| {
        let numbers = limit.limit;
        (limit.name.to_string(), numbers.rate(), numbers.capacity())
    };
    match policy.tenant(tenant) {
        Some(tenant) => tenant.levels().map(row).collect(),
        None => {
            let charges = policy.request(&of(tenant)).expect("a request").charges();
            charges.iter().map(|(_, limit, _)| row(limit)).collect()
        }
    }
}

/// Why a request of a tenant is none.
fn refused(policy: &Policy, tenant: &str) -> Option<Rejection> {
    policy.request(&of(tenant)).err()
}

const NAMES: [&str; 8] = ["system", "a", "b", "c", "d", "e", "f", "g"];
/// Two of them are the file's, whatever the directory says.
const FILE: &str = "
tenants:
  a: { rate_limit: { sustained: { rate: 50 }, sharing: inherit } }
  b: { parent: a, rate_limit: { sustained: { rate: 40 }, sharing: private } }
";

#[derive(Clone, Debug)]
struct Put {
    id: usize,
    parent: usize,
    /// None for a tenant that is gone; rate 0 for one without a limit.
    limit: Option<(u32, usize)>,
}

fn put() -> impl Strategy<Value = Put> {
    let limit = proptest::option::weighted(0.8, (0..60_u32, 0..3_usize));
    (0..NAMES.len(), 0..NAMES.len(), limit).prop_map(|(id, parent, limit)| Put {
        id,
        parent,
        limit,
    })
}

impl Put {
    fn change(&self) -> Change {
        let entry = self.limit.map(|(rate, sharing)| TenantEntry {
            parent: (self.id != 0).then(|| NAMES[self.parent].into()),
            plan: None,
            suspended: false,
            limit: (rate > 0)
                .then(|| {
                    let sharing = ["private", "inherit", "enforce"][sharing];
                    limit(&format!(
                        "{{ sustained: {{ rate: {rate} }}, sharing: {sharing} }}"
                    ))
                })
                .flatten(),
        });
        Change::Tenant {
            id: NAMES[self.id].into(),
            entry,
        }
    }
}

/// Whether the entries, with the file's, have a circle: where it is cut open is not promised.
fn has_circle(entries: &BTreeMap<usize, Put>) -> bool {
    let parent = |id: usize| match NAMES[id] {
        "system" | "a" => None,
        "b" => Some(1),
        _ => Some(entries.get(&id).filter(|it| it.limit.is_some())?.parent),
    };
    (0..NAMES.len()).any(|start| {
        let steps = std::iter::successors(Some(start), |id| parent(*id));
        steps.take(NAMES.len() + 1).count() > NAMES.len()
    })
}

proptest! {
    #[test]
    fn the_order_of_changes_does_not_matter(puts in proptest::collection::vec(put(), 1..40)) {
        let base = policy(FILE);
        let mut step_by_step = base.clone();
        let mut last = BTreeMap::new();
        for put in puts {
            step_by_step = step_by_step.with(vec![put.change()]);
            last.insert(put.id, put);
        }
        prop_assume!(!has_circle(&last));
        let at_once = base.with(last.values().map(Put::change).collect());
        let reloaded = policy(FILE).for_people_of(&step_by_step);
        let other_file = policy("").for_people_of(&step_by_step);
        let back = policy(FILE).for_people_of(&other_file);
        for name in NAMES.into_iter().chain(["stranger"]) {
            let expected = levels(&at_once, name);
            prop_assert_eq!(&levels(&step_by_step, name), &expected, "{}", name);
            prop_assert_eq!(&levels(&reloaded, name), &expected, "{}", name);
            prop_assert_eq!(&levels(&back, name), &expected, "{}", name);
            let expected = refused(&at_once, name);
            prop_assert_eq!(&refused(&step_by_step, name), &expected, "{}", name);
            prop_assert_eq!(&refused(&back, name), &expected, "{}", name);
        }
    }

    #[test]
    fn a_circle_ends(puts in proptest::collection::vec(put(), 1..40)) {
        let policy = policy("").with(puts.iter().map(Put::change).collect());
        for name in NAMES {
            levels(&policy, name);
        }
    }
}

#[test]
fn a_limit_above_all_binds_even_a_circle() {
    let policy = policy("").with(vec![
        tenant("system", "", "{ sustained: { rate: 9 }, sharing: enforce }"),
        tenant("x", "y", ""),
        tenant("y", "x", ""),
        tenant("below-x", "x", ""),
        tenant("below-y", "y", ""),
        tenant("lost", "nowhere", ""),
    ]);
    for name in ["x", "y", "lost"] {
        assert_eq!(levels(&policy, name), [("tenant:system".to_owned(), 9, 9)]);
        let refused = refused(&policy, name);
        let is_right = match &refused {
            Some(Rejection::Misconfigured(Misconfigured::Parent(parent))) => {
                name == "lost" && **parent == *"nowhere"
            }
            Some(Rejection::Misconfigured(Misconfigured::Circle(_))) => name != "lost",
            _ => false,
        };
        assert!(is_right, "{name}: {refused:?}");
    }
    let mut clashes = policy.clashes();
    clashes.sort();
    assert!(
        matches!(&clashes[..], [Clash::MissingParent { tenant, parent }, Clash::Circle(_)] if **tenant == *"lost" && **parent == *"nowhere"),
        "{clashes:?}"
    );
}

#[test]
fn a_change_of_an_ancestor_reaches_all_below_it() {
    let enforce = |rate: u32| format!("{{ sustained: {{ rate: {rate} }}, sharing: enforce }}");
    let first = policy("").with(vec![
        tenant("leaf", "middle", "{ sustained: { rate: 100 } }"),
        tenant("middle", "top", ""),
        tenant("top", "system", &enforce(80)),
        tenant("beside", "system", ""),
    ]);
    assert_eq!(levels(&first, "leaf")[0].1, 80);
    let second = first.with(vec![tenant("top", "system", &enforce(60))]);
    assert_eq!(levels(&second, "leaf")[0].1, 60);
    assert_eq!(levels(&first, "leaf")[0].1, 80);
    let moved = second.with(vec![tenant("middle", "beside", "")]);
    assert_eq!(
        levels(&moved, "leaf"),
        [("tenant:leaf".to_owned(), 100, 100)]
    );
    let gone = Change::Tenant {
        id: "middle".into(),
        entry: None,
    };
    let lost = second.with(vec![gone]);
    assert_eq!(levels(&lost, "leaf").len(), 1);
    assert_eq!(
        refused(&lost, "leaf"),
        Some(Rejection::Misconfigured(Misconfigured::Parent(
            "middle".into()
        )))
    );
    // Back in place, all is as it was.
    let found = lost.with(vec![tenant("middle", "top", "")]);
    assert_eq!(refused(&found, "leaf"), None);
    assert_eq!(levels(&found, "leaf"), levels(&second, "leaf"));
}

#[test]
fn the_file_wins_and_the_clash_is_told() {
    let text = format!(
        "plans: {{ p: {{ rate_limit: {{ sustained: {{ rate: 1 }} }} }} }}
tenants: {{ acme: {{ rate_limit: {{ sustained: {{ rate: 5 }} }} }} }}
keys: [ {{ sha256: {}, tenant: acme }} ]",
        sha256("both")
    );
    let key = |tenant: &str, plan: Option<&str>| ApiKey {
        tenant: Some(tenant.into()),
        plan: plan.map(Into::into),
        ..ApiKey::default()
    };
    let policy = policy(&text).with(vec![
        tenant("acme", "system", "{ sustained: { rate: 500 } }"),
        Change::Key {
            hash: hash_of("both"),
            key: Some(key("other", None)),
        },
        Change::Key {
            hash: hash_of("old"),
            key: Some(key("other", Some("retired"))),
        },
    ]);
    assert_eq!(levels(&policy, "acme")[0].1, 5);
    assert_eq!(policy.key("both").unwrap().tenant.as_deref(), Some("acme"));
    let told: Vec<String> = policy.clashes().iter().map(ToString::to_string).collect();
    assert_eq!(told.len(), 4, "{told:?}");
    assert!(told[0].contains("the tenant `acme` is in the file and in the directory"));
    assert!(told[1].contains(&sha256("both")[..12]));
    assert!(
        told[2].contains("the tenant `other` does not exist") && told[2].contains("(1 in all)")
    );
    assert!(
        told[3].contains("the plan `retired` is not in the file") && told[3].contains("(1 in all)")
    );
    // Nobody gets through because a tenant or a plan was taken away.
    let facts = Facts {
        api_key: Some("old"),
        ..Facts::default()
    };
    let misconfigured = |what| Some(Rejection::Misconfigured(what));
    assert_eq!(
        policy.request(&facts).err(),
        misconfigured(Misconfigured::Tenant("other".into()))
    );
    let with_tenant = policy.with(vec![tenant("other", "system", "")]);
    assert_eq!(
        with_tenant.request(&facts).err(),
        misconfigured(Misconfigured::Plan("retired".into()))
    );
    // Once the file has it no more, the directory's is there.
    let without = super::policy("").for_people_of(&policy);
    assert_eq!(levels(&without, "acme")[0].1, 500);
    assert!(
        without
            .clashes()
            .iter()
            .all(|it| matches!(it, Clash::MissingPlan { .. } | Clash::MissingTenant { .. }))
    );
}

#[test]
fn a_file_that_lowers_a_budget_below_children_of_the_directory_is_told() {
    let file = |total: u32| {
        policy(&format!(
            "tenants: {{ p: {{ rate_limit: {{ sustained: {{ rate: 5000, window: minute }}, budget: {{ mode: allocated, total: {total} }} }} }} }}"
        ))
    };
    let child = |id| tenant(id, "p", "{ sustained: { rate: 2000, window: minute } }");
    let before = file(5000).with(vec![child("a"), child("b")]);
    assert!(before.clashes().is_empty());
    let after = file(3999).for_people_of(&before);
    let told: Vec<String> = after.clashes().iter().map(ToString::to_string).collect();
    assert_eq!(told.len(), 1);
    assert!(
        told[0].contains("`p`") && told[0].contains("sum is 4000"),
        "{told:?}"
    );
    // What is new is what was better before.
    assert_eq!(file(3999).new_clashes(&before).len(), 1);
    assert_eq!(file(3999).new_clashes(&after).len(), 0);
    assert_eq!(file(4000).new_clashes(&after).len(), 0);
    assert_eq!(file(3998).new_clashes(&after).len(), 1);
    // A file without the parent would set the children free.
    let lost = policy("").new_clashes(&before);
    assert!(
        matches!(
            &lost[..],
            [Clash::MissingParent { .. }, Clash::MissingParent { .. }]
        ),
        "{lost:?}"
    );
    assert_eq!(
        policy("")
            .new_clashes(&policy("").for_people_of(&before))
            .len(),
        0
    );
}

#[test]
fn an_allow_list_makes_no_key_valid() {
    let text = format!(
        "
tenants: {{ acme: {{}} }}
keys: [ {{ sha256: {file}, tenant: acme, expires_at: 1970-01-01T00:00:50Z }} ]
allow: [ {{ api_key: {{ sha256: {file} }} }}, {{ api_key: {{ sha256: {listed} }} }} ]",
        file = sha256("file"),
        listed = sha256("listed"),
    );
    let allowed = |id: &str, secret| Change::Listed {
        id: id.into(),
        entry: Some((
            List::Allow,
            ListedCaller {
                who: Listed::Key(hash_of(secret)),
                reason: "friend".into(),
            },
        )),
    };
    let policy = policy(&text).with(vec![
        Change::Key {
            hash: hash_of("directory"),
            key: Some(ApiKey {
                tenant: Some("acme".into()),
                expires_at: Some(50),
                ..ApiKey::default()
            }),
        },
        allowed("1", "directory"),
        allowed("2", "only listed"),
    ]);
    let ask = |policy: &Policy, secret| {
        let facts = Facts {
            api_key: Some(secret),
            ..Facts::default()
        };
        policy.request(&facts).map(|_| ()).err()
    };
    for secret in ["file", "directory"] {
        assert_eq!(ask(&policy, secret), None, "{secret}");
        assert!(policy.key(secret).is_ok());
    }
    for secret in ["listed", "only listed"] {
        assert_eq!(
            ask(&policy, secret),
            Some(Rejection::UnknownKey),
            "{secret}"
        );
        assert!(policy.key(secret).is_err());
    }
    let later = policy.with(vec![Change::Time(50)]);
    for secret in ["file", "directory"] {
        assert_eq!(ask(&later, secret), Some(Rejection::UnknownKey), "{secret}");
        assert!(later.key(secret).is_err());
    }
    // Each list names a key of the other side, which then is gone.
    let revoked = policy.with(vec![
        Change::Key {
            hash: hash_of("directory"),
            key: None,
        },
        allowed("3", "file"),
    ]);
    assert_eq!(
        ask(&revoked, "directory"),
        Some(Rejection::UnknownKey),
        "the directory's list still names it"
    );
    let removed = super::policy("").for_people_of(&revoked);
    assert_eq!(ask(&removed, "file"), Some(Rejection::UnknownKey));
    // A clock that was wrong for a moment has done no harm.
    assert_eq!(ask(&later.with(vec![Change::Time(49)]), "file"), None);
    let closed = policy.with(vec![Change::Closed(true)]);
    for secret in ["directory", "listed", "only listed", "nobody's"] {
        assert_eq!(
            ask(&closed, secret),
            Some(Rejection::Unverifiable),
            "{secret}"
        );
    }
    assert_eq!(ask(&closed, "file"), None);
}

#[test]
fn plans_boosts_allowances_and_the_kill_switch() {
    let text = "
plans: { free: { rate_limit: { sustained: { rate: 10 }, burst: { capacity: 20 }, scope: tenant } } }
limits: { all: { sustained: { rate: 1000 }, scope: global } }
tenants: { acme: { plan: free, rate_limit: { sustained: { rate: 100 } } } }
";
    let base = policy(text);
    let rates = |policy: &Policy, facts: &Facts<'_>| {
        let charges = policy.request(facts).unwrap().charges();
        let rates = charges.iter().map(|(_, limit, charge)| {
            assert_eq!(limit.limit, *charge.limit);
            (charge.limit.rate(), charge.limit.capacity())
        });
        rates.collect::<Vec<_>>()
    };
    assert_eq!(
        rates(&base, &of("acme")),
        [(1000, 1000), (10, 20), (100, 100)]
    );
    let boost = |who, factor| Change::Boost {
        who,
        boost: Boost::new(factor),
    };
    let boosted = base.with(vec![boost(Boostee::Tenant("acme".into()), 3000)]);
    assert_eq!(
        rates(&boosted, &of("acme")),
        [(1000, 1000), (30, 60), (300, 300)]
    );
    assert_eq!(rates(&boosted, &of("other")), [(1000, 1000)]);
    let ann = Facts {
        user: Some("ann"),
        ..of("acme")
    };
    let both = boosted.with(vec![boost(Boostee::User("ann".into()), 5000)]);
    assert_eq!(rates(&both, &ann), [(1000, 1000), (50, 100), (300, 300)]);
    let explained = both.request(&ann).unwrap().explain();
    let from: Vec<_> = explained.charges.iter().map(|it| &*it.rate.from).collect();
    assert!(from[1].ends_with("plans.free.rate_limit.sustained.rate, times 5 by a boost"));
    assert!(!from[0].contains("boost"));
    // The file's reload keeps them, with its own numbers.
    let slower = policy(&text.replace("rate: 10 }", "rate: 7 }")).for_people_of(&both);
    assert_eq!(rates(&slower, &ann), [(1000, 1000), (35, 100), (300, 300)]);
    let over = both.with(vec![
        boost(Boostee::User("ann".into()), 0),
        boost(Boostee::Tenant("acme".into()), 0),
    ]);
    assert_eq!(rates(&over, &ann), rates(&base, &ann));

    let user = |plan: Option<&str>| Change::User {
        id: "ann".into(),
        entry: plan.map(|plan| UserEntry {
            plan: Some(plan.into()),
            ..UserEntry::default()
        }),
    };
    let lone = Facts {
        user: Some("ann"),
        ..Facts::default()
    };
    assert_eq!(base.request(&lone).unwrap().plan(), None);
    let with_plan = base.with(vec![user(Some("free"))]);
    let request = with_plan.request(&lone).unwrap();
    assert_eq!(request.plan(), Some("free"));
    assert_eq!(request.explain().plan_from.as_deref(), Some("the user"));

    let allowed = Change::Listed {
        id: "1".into(),
        entry: Some((
            List::Allow,
            ListedCaller {
                who: Listed::User("ann".into()),
                reason: "friend".into(),
            },
        )),
    };
    let open = base.with(vec![allowed]);
    assert_eq!(
        open.request(&ann).unwrap().treatment,
        Treatment::Bypassed(Bypass::AllowList("friend"))
    );
    let removed = Change::Listed {
        id: "1".into(),
        entry: None,
    };
    assert_eq!(
        open.with(vec![removed]).request(&ann).unwrap().treatment,
        Treatment::Limited
    );
    let off = base.with(vec![Change::Enforcement(Some(Enforcement::Off))]);
    assert_eq!(
        off.request(&ann).unwrap().treatment,
        Treatment::Bypassed(Bypass::EnforcementOff)
    );
    assert_eq!(off.file_enforcement(), Enforcement::On);
    assert_eq!(
        off.with(vec![Change::Enforcement(None)]).enforcement(),
        Enforcement::On
    );
}

#[test]
fn a_boost_is_never_above_an_ancestor_that_binds() {
    let policy = policy(
        "
tenants:
  top: { rate_limit: { sustained: { rate: 150 }, sharing: enforce } }
  acme: { parent: top, rate_limit: { sustained: { rate: 100 } } }
",
    );
    let boosted = policy.with(vec![Change::Boost {
        who: Boostee::Tenant("acme".into()),
        boost: Boost::new(2000),
    }]);
    assert_eq!(levels(&boosted, "acme")[0].1, 150);
    let explained = |policy: &Policy| policy.request(&of("acme")).unwrap().explain();
    assert_eq!(
        explained(&boosted).charges[0].levels.as_deref(),
        Some(
            "150/second, burst 150: the least of own 100/second, burst 100, times 2; top allows 150/second, burst 150"
        )
    );
    let less = policy.with(vec![Change::Boost {
        who: Boostee::Tenant("acme".into()),
        boost: Boost::new(1250),
    }]);
    assert_eq!(
        explained(&less).charges[0].levels.as_deref(),
        Some(
            "125/second, burst 125: own 100/second, burst 100, times 1.25; top allows 150/second, burst 150"
        )
    );
}

#[test]
fn keys_of_a_directory_that_is_too_old_are_not_believed() {
    let key = |expires_at| ApiKey {
        tenant: Some("acme".into()),
        expires_at,
        ..ApiKey::default()
    };
    let text = format!(
        "tenants: {{ acme: {{}} }}\nkeys: [ {{ sha256: {}, tenant: acme }} ]",
        sha256("file")
    );
    let policy = policy(&text).with(vec![
        Change::Key {
            hash: hash_of("directory"),
            key: Some(key(None)),
        },
        Change::Key {
            hash: hash_of("short"),
            key: Some(key(Some(50))),
        },
    ]);
    let ask = |policy: &Policy, secret| {
        let facts = Facts {
            api_key: Some(secret),
            ..Facts::default()
        };
        policy.request(&facts).map(|_| ()).err()
    };
    assert_eq!(policy.directory_key_count(), 2);
    for secret in ["file", "directory", "short"] {
        assert_eq!(ask(&policy, secret), None);
    }
    let later = policy.with(vec![Change::Time(50)]);
    assert_eq!(ask(&later, "short"), Some(Rejection::UnknownKey));
    assert_eq!(ask(&later, "directory"), None);
    let closed = policy.with(vec![Change::Closed(true)]);
    assert_eq!(ask(&closed, "file"), None);
    assert_eq!(ask(&closed, "directory"), Some(Rejection::Unverifiable));
    assert_eq!(ask(&closed, "nobody's"), Some(Rejection::Unverifiable));
    let revoked = policy.with(vec![Change::Key {
        hash: hash_of("directory"),
        key: None,
    }]);
    assert_eq!(ask(&revoked, "directory"), Some(Rejection::UnknownKey));
}

#[test]
fn a_stored_budget_above_the_rate_counts_as_the_rate() {
    let text = "{ sustained: { rate: 50 }, budget: { mode: allocated, total: 60, overcommit_ratio: 1.5 } }";
    let faults = TenantLimit::parse(text).expect_err("more than there is");
    assert_eq!(&*faults[0].place.path, "rate_limit.budget.total");
    let stored = TenantLimit::stored(text).expect("a limit");
    let budget = stored.budget();
    assert_eq!(
        (stored.limit().rate(), budget.total, budget.ratio),
        (50, 50, 1500)
    );
    // Whatever else is wrong is wrong.
    assert!(TenantLimit::stored("{ sustained: { rate: 0 } }").is_err());
}

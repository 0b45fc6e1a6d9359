//! Limits of tenants: what is given from above, what is charged where, and what a budget allows.

use super::{faults_of, policy};
use crate::{Facts, Policy};

/// The limits that a request of a tenant is charged by: whose, rate, window in seconds, capacity.
fn levels<'p>(policy: &'p Policy, tenant: &str) -> Vec<(&'p str, u32, u32, u32)> {
    let facts = Facts {
        tenant: Some(tenant),
        ..Facts::default()
    };
    let charges = policy.request(&facts).expect("a request").charges();
    let rows = charges.iter().map(|(_, limit, charge)| {
        let numbers = charge.limit;
        assert_eq!(&*limit.family, "tenant");
        (
            limit.owner(),
            numbers.rate(),
            numbers.window().as_secs(),
            numbers.capacity(),
        )
    });
    rows.collect()
}

/// A parent with this `sharing` at 100 and 10, and three children: one that says nothing, one that has
/// more, one that has less of the one and more of the other.
fn family(sharing: &str) -> Policy {
    policy(&format!(
        "
tenants:
  parent: {{ rate_limit: {{ sustained: {{ rate: 100 }}, burst: {{ capacity: 10 }}, sharing: {sharing} }} }}
  silent: {{ parent: parent }}
  larger: {{ parent: parent, rate_limit: {{ sustained: {{ rate: 500 }}, burst: {{ capacity: 50 }} }} }}
  mixed: {{ parent: parent, rate_limit: {{ sustained: {{ rate: 30 }}, burst: {{ capacity: 40 }} }} }}
"
    ))
}

#[test]
fn a_private_parent_gives_nothing() {
    let policy = family("private");
    assert_eq!(levels(&policy, "silent"), []);
    assert_eq!(levels(&policy, "larger"), [("larger", 500, 1, 50)]);
    assert_eq!(levels(&policy, "mixed"), [("mixed", 30, 1, 40)]);
    assert_eq!(levels(&policy, "parent"), [("parent", 100, 1, 10)]);
}

#[test]
fn a_child_that_says_nothing_inherits_the_parents_bucket() {
    for sharing in ["inherit", "enforce"] {
        let policy = family(sharing);
        assert_eq!(levels(&policy, "silent"), [("parent", 100, 1, 10)]);
    }
}

#[test]
fn a_child_with_its_own_limit_has_the_least_of_both_rate_and_burst_each() {
    for sharing in ["inherit", "enforce"] {
        let policy = family(sharing);
        let parent = ("parent", 100, 1, 10);
        assert_eq!(levels(&policy, "larger"), [("larger", 100, 1, 10), parent]);
        assert_eq!(levels(&policy, "mixed"), [("mixed", 30, 1, 10), parent]);
    }
}

/// Three levels, each at a rate of its own, and one below them that has none.
fn three(system: &str, partner: &str, tenant: &str) -> Vec<String> {
    let limit = |rate: u32, sharing: &str| match sharing {
        "" => "{}".to_owned(),
        "unsaid" => format!("{{ sustained: {{ rate: {rate} }} }}"),
        sharing => format!("{{ sustained: {{ rate: {rate} }}, sharing: {sharing} }}"),
    };
    let entry = |parent: &str, rate: u32, sharing: &str| match sharing {
        "" => format!("{{ {parent} }}"),
        sharing => format!("{{ {parent} rate_limit: {} }}", limit(rate, sharing)),
    };
    let policy = policy(&format!(
        "tenants:\n  system: {}\n  partner: {}\n  tenant: {}\n  leaf: {{ parent: tenant }}\n",
        entry("", 30, system),
        entry("parent: system,", 20, partner),
        entry("parent: partner,", 10, tenant),
    ));
    let owners = |tenant| levels(&policy, tenant).into_iter().map(|level| level.0);
    ["partner", "tenant", "leaf"]
        .map(|tenant| owners(tenant).collect::<Vec<_>>().join(" "))
        .to_vec()
}

#[test]
fn enforce_binds_all_below_whatever_lies_between() {
    assert_eq!(
        three("enforce", "private", "private"),
        ["partner system", "tenant system", "system"]
    );
    assert_eq!(
        three("enforce", "inherit", "private"),
        ["partner system", "tenant partner system", "system"]
    );
    assert_eq!(three("enforce", "", ""), ["system", "system", "system"]);
}

#[test]
fn inherit_binds_down_to_a_tenant_that_says_private() {
    assert_eq!(
        three("inherit", "private", "private"),
        ["partner system", "tenant", ""]
    );
    assert_eq!(
        three("inherit", "inherit", "private"),
        ["partner system", "tenant partner system", ""]
    );
    assert_eq!(
        three("inherit", "enforce", "private"),
        ["partner system", "tenant partner system", "partner"]
    );
    assert_eq!(
        three("inherit", "", "private"),
        ["system", "tenant system", ""]
    );
    assert_eq!(
        three("inherit", "", "inherit"),
        ["system", "tenant system", "tenant system"]
    );
}

/// A limit in the middle of the tree that says nothing of sharing frees nobody below it.
#[test]
fn a_limit_that_does_not_say_cuts_nothing() {
    assert_eq!(
        three("inherit", "unsaid", ""),
        ["partner system", "system", "system"]
    );
    assert_eq!(
        three("inherit", "unsaid", "unsaid"),
        ["partner system", "tenant system", "system"]
    );
    assert_eq!(
        three("enforce", "unsaid", "inherit"),
        ["partner system", "tenant system", "tenant system"]
    );
    assert_eq!(
        three("inherit", "unsaid", "private"),
        ["partner system", "tenant system", ""]
    );
    // Itself it binds nobody below.
    assert_eq!(
        three("unsaid", "unsaid", "unsaid"),
        ["partner", "tenant", ""]
    );
}

#[test]
fn private_binds_nobody_below() {
    assert_eq!(three("private", "", ""), ["", "", ""]);
    assert_eq!(
        three("private", "enforce", "inherit"),
        ["partner", "tenant partner", "tenant partner"]
    );
}

const REFERENCE: &str = "
tenants:
  system:
    rate_limit: { sharing: enforce, sustained: { rate: 10000, window: minute }, burst: { capacity: 1000 },
                  budget: { mode: allocated, total: 10000 } }
  partner:
    rate_limit: { sharing: enforce, sustained: { rate: 5000, window: minute }, burst: { capacity: 500 },
                  budget: { mode: allocated, total: 5000, overcommit_ratio: 1.2 } }
  tenant:
    parent: partner
    rate_limit: { sustained: { rate: 1000, window: minute }, burst: { capacity: 100 } }
";

#[test]
fn the_three_levels_of_the_reference() {
    let policy = policy(REFERENCE);
    assert_eq!(
        levels(&policy, "tenant"),
        [
            ("tenant", 1000, 60, 100),
            ("partner", 5000, 60, 500),
            ("system", 10_000, 60, 1000)
        ]
    );
    let facts = Facts {
        tenant: Some("tenant"),
        ..Facts::default()
    };
    let explanation = policy.request(&facts).unwrap().explain();
    let told: Vec<_> = explanation
        .charges
        .iter()
        .map(|it| it.levels.as_deref())
        .collect();
    assert_eq!(
        told[0],
        Some(
            "1000/minute, burst 100: own; partner allows 5000/minute, burst 500; system 10000/minute, burst 1000"
        )
    );
    assert_eq!(
        told[1],
        Some("5000/minute, burst 500: own; system allows 10000/minute, burst 1000")
    );
    assert_eq!(told[2], Some("10000/minute, burst 1000: own"));
    assert_eq!(explanation.charges[1].scope[0].value, "partner");
}

#[test]
fn what_was_cut_is_told_with_what_was_asked_for() {
    let policy = family("enforce");
    let facts = Facts {
        tenant: Some("larger"),
        ..Facts::default()
    };
    let explanation = policy.request(&facts).unwrap().explain();
    assert_eq!(
        explanation.charges[0].levels.as_deref(),
        Some(
            "100/second, burst 10: the least of own 500/second, burst 50; parent allows 100/second, burst 10"
        )
    );
}

#[test]
fn strangers_are_children_of_the_root() {
    for (sharing, expected) in [("enforce", 1), ("inherit", 1), ("private", 0)] {
        let policy = policy(&format!(
            "tenants: {{ system: {{ rate_limit: {{ sustained: {{ rate: 7 }}, sharing: {sharing} }} }} }}"
        ));
        assert_eq!(levels(&policy, "nobody-knows-me").len(), expected);
        // Who names no tenant gains nothing by it.
        let charges = policy.request(&Facts::default()).unwrap().charges();
        assert_eq!(charges.iter().len(), expected);
        assert_eq!(levels(&policy, "system"), [("system", 7, 1, 7)]);
    }
}

#[test]
fn rates_compare_as_fractions_and_other_algorithms_not_at_all() {
    let policy = policy(
        "
tenants:
  parent: { rate_limit: { sustained: { rate: 3, window: 7s }, burst: { capacity: 10 }, sharing: enforce } }
  slower: { parent: parent, rate_limit: { sustained: { rate: 2, window: 5s }, burst: { capacity: 20 } } }
  faster: { parent: parent, rate_limit: { sustained: { rate: 4, window: 9s }, burst: { capacity: 5 } } }
  window: { parent: parent, rate_limit: { algorithm: sliding_window, sustained: { rate: 900 } } }
  dear: { parent: parent, rate_limit: { sustained: { rate: 900 }, cost: 10 } }
  shadow: { parent: parent, rate_limit: { sustained: { rate: 900 }, shadow: true, sharing: enforce } }
  child-of-shadow: { parent: shadow, rate_limit: { sustained: { rate: 5, window: day }, burst: { capacity: 9999 } } }
",
    );
    // 2/5 < 3/7 < 4/9.
    assert_eq!(levels(&policy, "slower")[0], ("slower", 2, 5, 10));
    assert_eq!(levels(&policy, "faster")[0], ("faster", 3, 7, 5));
    assert_eq!(levels(&policy, "window")[0], ("window", 900, 1, 900));
    assert_eq!(levels(&policy, "dear")[0], ("dear", 900, 1, 900));
    // A limit that never refuses takes nothing from one that does.
    assert_eq!(
        levels(&policy, "child-of-shadow"),
        [
            ("child-of-shadow", 5, 86_400, 10),
            ("shadow", 3, 7, 10),
            ("parent", 3, 7, 10)
        ]
    );
}

/// A parent with a budget of 5000 a minute at this ratio, with children of 2000 and 1000, and one more.
fn budget(ratio: &str, more: &str) -> Vec<String> {
    faults_of(&format!(
        "
tenants:
  partner:
    rate_limit: {{ sustained: {{ rate: 5000, window: minute }}, budget: {{ mode: allocated, total: 5000{ratio} }} }}
  a: {{ parent: partner, rate_limit: {{ sustained: {{ rate: 2000, window: minute }} }} }}
  b: {{ parent: partner, rate_limit: {{ sustained: {{ rate: 1000, window: minute }} }} }}
  c: {{ parent: partner, rate_limit: {{ sustained: {{ {more} }} }} }}
  unlimited: {{ parent: partner }}
"
    ))
}

#[test]
fn children_in_any_window_fit_into_a_budget_or_not() {
    let one_minute = "rate: 3000, window: minute";
    let [fault] = &budget("", one_minute)[..] else {
        panic!("one fault");
    };
    assert!(
        fault.contains(
            "the children's sum is 6000 of a budget of 5000 times 1 = 5000 per minute, of which 2000 was free for `c`"
        ),
        "{fault}"
    );
    assert!(
        fault.contains("tenants.partner.rate_limit.budget"),
        "{fault}"
    );
    assert!(budget(", overcommit_ratio: 1.5", one_minute).is_empty());
    assert!(budget(", overcommit_ratio: 1.2", one_minute).is_empty());
    assert_eq!(budget(", overcommit_ratio: 1.199", one_minute).len(), 1);
    // 2000 a minute are left: 33 a second fit, 34 do not; 120 000 an hour do, one more does not.
    assert!(budget("", "rate: 33").is_empty());
    assert_eq!(budget("", "rate: 34").len(), 1);
    assert!(budget("", "rate: 120000, window: hour").is_empty());
    assert_eq!(budget("", "rate: 120001, window: hour").len(), 1);
}

#[test]
fn what_means_nothing_is_refused() {
    let refused = |text: &str, part: &str| {
        let faults = faults_of(text);
        assert_eq!(faults.len(), 1, "{faults:?} in {text}");
        assert!(faults[0].contains(part), "{faults:?} in {text}");
    };
    refused(
        "limits: { a: { sustained: { rate: 1 }, sharing: enforce } }",
        "`sharing` on a limit that is not a tenant's",
    );
    refused(
        "plans: { a: { rate_limit: { sustained: { rate: 1 }, budget: { mode: shared } } } }",
        "`budget` on a limit that is not a tenant's",
    );
    refused(
        "tenants: { a: { rate_limit: { sustained: { rate: 1 }, scope: user } } }",
        "counts for the whole tenant",
    );
    refused(
        "tenants: { a: { rate_limit: { sustained: { rate: 1 }, budget: { mode: shared } } } }",
        "a shared budget that nobody can draw from",
    );
    refused(
        "tenants: { a: { rate_limit: { sustained: { rate: 1 }, sharing: inherit, budget: { mode: shared, total: 2 } } } }",
        "a shared budget is the limit itself, which is 1",
    );
    refused(
        "
upstreams: { cheap: { url: 'http://127.0.0.1:1' } }
tenants: { a: { rate_limit: { sustained: { rate: 1 }, strategy: degrade, degrade: { upstream: cheap } } } }",
        "names no other upstream",
    );
}

#[test]
fn there_is_a_most_of_levels_that_bind() {
    let chain = |depth: usize| {
        let limit = "rate_limit: { sustained: { rate: 1 }, sharing: enforce }";
        let entry = |level: usize| match level {
            0 => format!("t0: {{ {limit} }}"),
            _ => format!("t{level}: {{ parent: t{}, {limit} }}", level - 1),
        };
        let entries: Vec<_> = (0..depth).map(entry).collect();
        format!("tenants:\n  {}\n", entries.join("\n  "))
    };
    assert_eq!(faults_of(&chain(32)), Vec::<String>::new());
    let faults = faults_of(&chain(33));
    assert_eq!(faults.len(), 1, "{faults:?}");
    assert!(
        faults[0].contains("more than 32 limits bind `t32`"),
        "{faults:?}"
    );
}

#[test]
fn an_expired_key_is_no_key() {
    let text = format!(
        "tenants: {{ a: {{}} }}\nkeys: [ {{ sha256: {}, tenant: a, expires_at: 1970-01-01T00:01:40Z }} ]",
        super::sha256("secret")
    );
    let policy = policy(&text);
    let facts = Facts {
        api_key: Some("secret"),
        ..Facts::default()
    };
    assert!(policy.file_has_expiring_keys());
    assert!(policy.request(&facts).is_ok());
    let later = |secs| policy.with(vec![crate::Change::Time(secs)]);
    assert!(later(99).request(&facts).is_ok());
    assert_eq!(
        later(100).request(&facts).err(),
        Some(crate::Rejection::UnknownKey)
    );
    assert!(later(100).key("secret").is_err());
}

//! A tree of tenants on the memory store, against an oracle of trees that walks up from each request.

// Clippy knows the test functions as tests, but not the functions they share.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Arc;
use std::time::Duration;

use tollward_core::Timestamp;
use tollward_engine::{Clock, Engine, Mode};
use tollward_policy::{Change, Facts, TenantEntry, TenantLimit, compile};
use tollward_store::MemoryStore;
use tollward_testkit::clock::ManualClock;
use tollward_testkit::conformance::{Dice, at_once};
use tollward_testkit::oracle::{Answer, Counting, Oracle, Rule};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sharing {
    Unsaid,
    Private,
    Inherit,
    Enforce,
}

/// A tenant as the oracle sees it. The first of a tree is its root.
#[derive(Clone, Debug)]
struct Node {
    parent: usize,
    limit: Option<(Rule, Sharing)>,
    spent: Oracle,
}

/// What is said of a tree in SPEC's words, walked anew for each request.
#[derive(Default)]
struct Tree(Vec<Node>);

impl Tree {
    fn path(&self, tenant: usize) -> Vec<usize> {
        let mut path = vec![tenant];
        while let Some(last @ 1..) = path.last().copied() {
            path.push(self.0[last].parent);
        }
        path
    }

    /// The ancestors that bind a tenant, nearest first.
    fn binding(&self, tenant: usize) -> Vec<usize> {
        let path = self.path(tenant);
        let binds = |(index, ancestor): (usize, &usize)| {
            let (_, sharing) = self.0[*ancestor].limit?;
            let between = &path[1..index];
            let says_private = |node: &usize| {
                let limit = self.0[*node].limit;
                limit.is_some_and(|(_, sharing)| sharing == Sharing::Private)
            };
            let binds = match sharing {
                Sharing::Unsaid | Sharing::Private => false,
                Sharing::Enforce => true,
                Sharing::Inherit => !between.iter().any(says_private),
            };
            binds.then_some(*ancestor)
        };
        let above = path.iter().enumerate().skip(1);
        above.filter_map(binds).collect()
    }

    /// What a tenant's own bucket may hold and refill.
    fn rule(&self, tenant: usize) -> Option<Rule> {
        let (own, _) = self.0[tenant].limit?;
        let above = self.binding(tenant).into_iter();
        let above = above.filter_map(|ancestor| self.rule(ancestor));
        Some(above.fold(own, |rule, other| {
            if rule.counting != other.counting || rule.counting == Counting::Windows {
                return rule;
            }
            let slower = u64::from(other.rate) * u64::from(rule.window_secs)
                < u64::from(rule.rate) * u64::from(other.window_secs);
            let (rate, window_secs) = match slower {
                true => (other.rate, other.window_secs),
                false => (rule.rate, rule.window_secs),
            };
            Rule {
                rate,
                window_secs,
                capacity: rule.capacity.min(other.capacity),
                ..rule
            }
        }))
    }

    /// Decides all or nothing, and says whose buckets were asked.
    fn decide(&mut self, tenant: usize, cost: u32, now: u64) -> (bool, Vec<usize>) {
        let mut asked = self.binding(tenant);
        if self.0[tenant].limit.is_some() {
            asked.insert(0, tenant);
        }
        let mut readings = Vec::new();
        for node in &asked {
            let rule = self.rule(*node).unwrap();
            readings.push((*node, self.0[*node].spent.read(&rule, now)));
        }
        let admits = |(_, reading): &(usize, _)| {
            let reading: &tollward_testkit::oracle::Reading = reading;
            reading.judge(cost.into()) == Answer::Admit
        };
        let admitted = readings.iter().all(admits);
        // What is free changes nothing.
        if admitted && cost > 0 {
            for (node, reading) in readings {
                let after = reading.charge(cost.into());
                let spent = if after.is_full() {
                    Oracle::default()
                } else {
                    after.keep()
                };
                self.0[node].spent = spent;
            }
        }
        (admitted, asked)
    }
}

/// What limits of a tree are like.
#[derive(Clone, Copy)]
enum Kind {
    /// Buckets of one window: what is spent is the same fraction whatever a limit becomes.
    Alike,
    /// Of all windows, and sliding ones among them.
    Mixed,
}

fn limit(kind: Kind, dice: &mut Dice) -> Option<(Rule, Sharing)> {
    if dice.one_in(4) {
        return None;
    }
    let small = |dice: &mut Dice, below: u64| 1 + u32::try_from(dice.below(below)).unwrap();
    let rate = small(dice, 40);
    let (counting, window_secs) = match kind {
        Kind::Alike => (Counting::Bucket, 60),
        Kind::Mixed if dice.one_in(8) => (Counting::Windows, 7),
        Kind::Mixed => (Counting::Bucket, *dice.pick(&[1, 5, 7, 60])),
    };
    let rule = Rule {
        counting,
        rate,
        window_secs,
        capacity: match counting {
            Counting::Bucket => small(dice, 30),
            Counting::Windows => rate,
        },
    };
    let sharing = [
        Sharing::Unsaid,
        Sharing::Private,
        Sharing::Inherit,
        Sharing::Enforce,
    ];
    let sharing = *dice.pick(&sharing);
    Some((rule, sharing))
}

fn name(tenant: usize) -> String {
    match tenant {
        0 => "system".to_owned(),
        other => format!("t{other}"),
    }
}

fn change(tree: &Tree, tenant: usize) -> Change {
    let node = &tree.0[tenant];
    let limit = node.limit.map(|(rule, sharing)| {
        let sharing = match sharing {
            Sharing::Unsaid => String::new(),
            said => format!(", sharing: {}", format!("{said:?}").to_lowercase()),
        };
        let sustained = format!("{{ rate: {}, window: {}s }}", rule.rate, rule.window_secs);
        let text = match rule.counting {
            Counting::Bucket => format!(
                "{{ sustained: {sustained}, burst: {{ capacity: {} }}{sharing} }}",
                rule.capacity
            ),
            Counting::Windows => {
                format!("{{ algorithm: sliding_window, sustained: {sustained}{sharing} }}")
            }
        };
        Arc::new(TenantLimit::parse(&text).expect("a limit"))
    });
    Change::Tenant {
        id: name(tenant).into(),
        entry: Some(TenantEntry {
            parent: (tenant > 0).then(|| name(node.parent).into()),
            plan: None,
            suspended: false,
            limit,
        }),
    }
}

fn engine() -> (Engine, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::new());
    let store = Arc::new(MemoryStore::new(10_000));
    let policy = compile(b"{}").unwrap().policy;
    (Engine::new(policy, store, clock.clone()), clock)
}

/// Whether a request is admitted, and the names of the limits that were asked.
fn ask(engine: &Engine, tenant: &str, cost: u32) -> (bool, Vec<String>) {
    let facts = Facts {
        tenant: Some(tenant),
        cost,
        ..Facts::default()
    };
    let active = engine.active();
    let decision = at_once(engine.check(&active, &facts, Mode::Charge)).expect("sound facts");
    let names = decision.limits.iter().map(|it| it.limit.name.to_string());
    (decision.allowed, names.collect())
}

/// Changes something of the tree: a limit, or where a tenant hangs.
fn disturb(tree: &mut Tree, dice: &mut Dice) -> usize {
    let tenant = usize::try_from(dice.below(tree.0.len() as u64)).unwrap();
    if tenant > 0 && dice.one_in(2) {
        let other = usize::try_from(dice.below(tree.0.len() as u64)).unwrap();
        if !tree.path(other).contains(&tenant) {
            tree.0[tenant].parent = other;
        }
    } else {
        tree.0[tenant].limit = limit(Kind::Alike, dice);
    }
    tenant
}

/// Random requests to a random tree, which is disturbed now and then.
fn compare(kind: Kind, disturbed: bool, seed: u64) {
    let mut dice = Dice::new(seed);
    let (engine, clock) = engine();
    let mut tree = Tree::default();
    for tenant in 0..2 + dice.below(10) {
        tree.0.push(Node {
            parent: usize::try_from(dice.below(tenant.max(1))).unwrap(),
            limit: limit(kind, &mut dice),
            spent: Oracle::default(),
        });
    }
    engine.change((0..tree.0.len()).map(|it| change(&tree, it)).collect());
    for step in 0..600 {
        if disturbed && dice.one_in(20) {
            let tenant = disturb(&mut tree, &mut dice);
            engine.change(vec![change(&tree, tenant)]);
        }
        clock.advance(Duration::from_micros(dice.below(300_000)));
        let tenant = usize::try_from(dice.below(tree.0.len() as u64)).unwrap();
        let cost = u32::try_from(dice.below(4)).unwrap();
        let (admitted, asked) = tree.decide(tenant, cost, clock.now().as_micros());
        let asked = asked.into_iter().map(|it| format!("tenant:{}", name(it)));
        assert_eq!(
            ask(&engine, &name(tenant), cost),
            (admitted, asked.collect()),
            "seed {seed}, step {step}, {}",
            name(tenant)
        );
    }
}

#[test]
fn decisions_are_those_of_the_oracle_of_trees() {
    (0..60).for_each(|seed| compare(Kind::Mixed, false, seed));
}

#[test]
fn so_they_are_while_limits_change_and_tenants_move() {
    (0..60).for_each(|seed| compare(Kind::Alike, true, seed));
}

#[test]
fn children_together_never_take_more_than_their_parent_whatever_was_overcommitted() {
    for seed in 0..20 {
        let mut dice = Dice::new(seed);
        let (engine, clock) = engine();
        let (rate, capacity) = (1 + dice.below(50), 1 + dice.below(100));
        let sharing = *dice.pick(&["inherit", "enforce"]);
        let put = |id: &str, parent: &str, text: String| Change::Tenant {
            id: id.into(),
            entry: Some(TenantEntry {
                parent: Some(parent.into()),
                plan: None,
                suspended: false,
                limit: Some(Arc::new(TenantLimit::parse(&text).unwrap())),
            }),
        };
        let budget = "budget: { mode: allocated, overcommit_ratio: 2.0 }";
        let parent = format!(
            "{{ sustained: {{ rate: {rate}, window: 10s }}, burst: {{ capacity: {capacity} }}, sharing: {sharing}, {budget} }}"
        );
        let mut changes = vec![put("parent", "system", parent)];
        for child in 0..5 {
            // Each of them alone may have twice what there is.
            let text = format!(
                "{{ sustained: {{ rate: {}, window: 10s }}, burst: {{ capacity: {} }} }}",
                rate * 2,
                capacity * 2
            );
            changes.push(put(&format!("c{child}"), "parent", text));
            changes.push(put(
                &format!("g{child}"),
                &format!("c{child}"),
                "{ sustained: { rate: 100000 } }".to_owned(),
            ));
        }
        engine.change(changes);
        let start = clock.now();
        let mut taken = 0;
        for _ in 0..3000 {
            clock.advance(Duration::from_micros(dice.below(20_000)));
            let kind = *dice.pick(&["c", "g"]);
            let cost = 1 + u32::try_from(dice.below(3)).unwrap();
            let tenant = format!("{kind}{}", dice.below(5));
            if ask(&engine, &tenant, cost).0 {
                taken += u64::from(cost);
            }
            let most = most(rate, capacity, start, clock.now());
            assert!(taken <= most, "{taken} of {most} after {:?}", clock.now());
        }
        assert!(taken >= capacity, "it was put to the test");
    }
}

/// What a bucket of this rate in ten seconds admits at most.
fn most(rate: u64, capacity: u64, start: Timestamp, now: Timestamp) -> u64 {
    let elapsed = now.micros_since(start);
    capacity + (rate * elapsed).div_ceil(10_000_000)
}

#[test]
fn a_moved_tenant_keeps_what_is_spent_and_new_ancestors_are_charged_from_then_on() {
    let (engine, _) = engine();
    let put = |id: &str, parent: &str, rate: u32| {
        let text = format!("{{ sustained: {{ rate: {rate}, window: day }}, sharing: enforce }}");
        Change::Tenant {
            id: id.into(),
            entry: Some(TenantEntry {
                parent: Some(parent.into()),
                plan: None,
                suspended: false,
                limit: Some(Arc::new(TenantLimit::parse(&text).unwrap())),
            }),
        }
    };
    let left = |tenant: &str| {
        let facts = Facts {
            tenant: Some(tenant),
            ..Facts::default()
        };
        let active = engine.active();
        let buckets = at_once(engine.inspect(&active, &facts)).unwrap();
        let remaining = buckets.iter().map(|it| {
            let level = it.level.as_ref().unwrap();
            (it.limit.name.to_string(), level.remaining)
        });
        remaining.collect::<Vec<_>>()
    };
    let level = |name: &str, remaining: u32| (format!("tenant:{name}"), remaining);
    engine.change(vec![
        put("one", "system", 50),
        put("two", "system", 40),
        put("acme", "one", 10),
    ]);
    assert!(ask(&engine, "acme", 4).0);
    assert_eq!(left("acme"), [level("acme", 6), level("one", 46)]);
    engine.change(vec![put("acme", "two", 10)]);
    assert_eq!(left("acme"), [level("acme", 6), level("two", 40)]);
    assert!(ask(&engine, "acme", 5).0);
    assert_eq!(left("acme"), [level("acme", 1), level("two", 35)]);
    assert_eq!(left("one"), [level("one", 46)]);
    assert!(!ask(&engine, "acme", 2).0);
    assert_eq!(left("two"), [level("two", 35)]);
}

#[test]
fn a_grant_gives_back_up_to_what_is_spent() {
    let (engine, _) = engine();
    let text = "{ sustained: { rate: 10, window: day } }";
    engine.change(vec![Change::Tenant {
        id: "acme".into(),
        entry: Some(TenantEntry {
            limit: Some(Arc::new(TenantLimit::parse(text).unwrap())),
            ..TenantEntry::default()
        }),
    }]);
    assert!(ask(&engine, "acme", 10).0);
    assert!(!ask(&engine, "acme", 1).0);
    let facts = Facts {
        tenant: Some("acme"),
        ..Facts::default()
    };
    let grant = |limit: Option<&str>, tokens| {
        let active = engine.active();
        at_once(engine.grant(&active, &facts, limit, tokens))
    };
    assert_eq!(grant(None, 3).unwrap(), ["tenant:acme"]);
    assert!(ask(&engine, "acme", 3).0);
    assert!(!ask(&engine, "acme", 1).0);
    assert_eq!(grant(Some("tenant:acme"), 1000).unwrap(), ["tenant:acme"]);
    assert!(ask(&engine, "acme", 10).0);
    assert!(!ask(&engine, "acme", 1).0);
    assert!(grant(Some("tenant:other"), 1).is_err());
}

#[test]
fn a_grant_reaches_back_into_the_window_before() {
    let (engine, clock) = engine();
    let text = "{ algorithm: sliding_window, sustained: { rate: 60, window: minute } }";
    engine.change(vec![Change::Tenant {
        id: "acme".into(),
        entry: Some(TenantEntry {
            limit: Some(Arc::new(TenantLimit::parse(text).unwrap())),
            ..TenantEntry::default()
        }),
    }]);
    let facts = Facts {
        tenant: Some("acme"),
        ..Facts::default()
    };
    let grant = |tokens| {
        let active = engine.active();
        at_once(engine.grant(&active, &facts, None, tokens)).unwrap()
    };
    let most = || (0..100).take_while(|_| ask(&engine, "acme", 1).0).count();
    assert_eq!(most(), 60);
    grant(10);
    assert_eq!(most(), 10);
    // A quarter of the next minute: three quarters of the last count, and none of this.
    clock.advance(Duration::from_secs(75));
    assert_eq!(most(), 15);
    grant(75);
    assert_eq!(most(), 60);
}

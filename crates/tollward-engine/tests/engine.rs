//! The engine on the memory store: what is decided while policies change and callers compete.

// Clippy knows the test functions as tests, but not the functions they share.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use tollward_core::{Charge, Timestamp};
use tollward_engine::{Action, Clock, Count, Decision, Engine, Mode, Reason, Source};
use tollward_policy::{Facts, Policy, compile};
use tollward_store::{MemoryStore, Outcome, Reply, Store, StoreError, Verdict};
use tollward_testkit::clock::ManualClock;
use tollward_testkit::conformance::{Dice, at_once};
use tollward_testkit::oracle::{Answer, Counting, Oracle, Rule};

fn policy(text: &str) -> Policy {
    compile(text.as_bytes())
        .expect("a valid configuration")
        .policy
}

/// One plan `p`, counted per user.
fn plan(rate: u32, window: &str, capacity: u32) -> Policy {
    policy(&format!(
        "plans: {{ p: {{ rate_limit: {{ sustained: {{ rate: {rate}, window: {window} }}, \
         burst: {{ capacity: {capacity} }}, scope: user }} }} }}"
    ))
}

fn engine(policy: Policy) -> (Engine, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::new());
    let store = Arc::new(MemoryStore::new(10_000));
    (Engine::new(policy, store, clock.clone()), clock)
}

fn by(user: &str, cost: u32) -> Facts<'_> {
    Facts {
        user: Some(user),
        plan: Some("p"),
        cost,
        ..Facts::default()
    }
}

/// Decides, and looks at the decision while the policy is at hand.
fn ask<T>(engine: &Engine, facts: &Facts<'_>, look: impl FnOnce(&Decision<'_>) -> T) -> T {
    let active = engine.active();
    let decision = at_once(engine.check(&active, facts, Mode::Charge)).expect("sound facts");
    look(&decision)
}

fn admits(engine: &Engine, user: &str, cost: u32) -> bool {
    ask(engine, &by(user, cost), |decision| decision.allowed)
}

/// What four callers that compete for one bucket are given while `change` is at work a hundred times.
fn admitted_under(engine: &Engine, mut change: impl FnMut(u32)) -> (u64, u64) {
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let callers: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let (mut admitted, mut asked) = (0, 0);
                    while !done.load(Relaxed) || asked < 1000 {
                        admitted += u64::from(admits(engine, "a", 1));
                        asked += 1;
                    }
                    (admitted, asked)
                })
            })
            .collect();
        for round in 0..100 {
            change(round);
            thread::yield_now();
        }
        done.store(true, Relaxed);
        let results = callers.into_iter().map(|caller| caller.join().unwrap());
        results.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    })
}

fn count(engine: &Engine, name: &str, count: Count) -> u64 {
    let active = engine.active();
    let found = active.tallies().find(|(policy, _)| *policy == name);
    found.unwrap().1.sum(count)
}

#[test]
fn a_reload_gives_nothing_and_forgets_nothing() {
    let (engine, _) = engine(plan(1, "366d", 2000));
    let (admitted, asked) = admitted_under(&engine, |_| engine.replace(plan(1, "366d", 2000)));
    assert_eq!(admitted, 2000);
    assert_eq!(count(&engine, "plan:p", Count::Allowed), admitted);
    assert_eq!(count(&engine, "plan:p", Count::Denied), asked - admitted);
}

#[test]
fn alternating_limits_give_what_the_largest_holds() {
    let (engine, _) = engine(plan(1, "day", 300));
    let (mut admitted, _) = admitted_under(&engine, |round| {
        let window = ["second", "minute", "7s", "day"][round as usize % 4];
        engine.replace(plan(round % 7 + 1, window, 300 + round * 13 % 700));
    });
    assert!(admitted <= 1000, "{admitted}");
    engine.replace(plan(1, "day", 1000));
    while admits(&engine, "a", 1) {
        admitted += 1;
    }
    assert_eq!(admitted, 1000);
    for capacity in [1, 999, 1, 1000] {
        engine.replace(plan(1, "day", capacity));
        assert!(!admits(&engine, "a", 1), "lowered and raised to {capacity}");
    }
    engine.replace(plan(1, "day", 1050));
    assert!(admits(&engine, "a", 50) && !admits(&engine, "a", 1));
}

#[test]
fn changing_limits_agree_with_the_oracle() {
    let (engine, clock) = engine(plan(1, "minute", 10));
    let mut dice = Dice::new(7);
    let mut oracle = Oracle::default();
    let mut rule = Rule {
        counting: Counting::Bucket,
        rate: 1,
        window_secs: 60,
        capacity: 10,
    };
    let small = |dice: &mut Dice, below: u64| u32::try_from(dice.below(below)).unwrap();
    for step in 0..20_000 {
        if dice.one_in(3) {
            rule.rate = 1 + small(&mut dice, 500);
            rule.capacity = 1 + small(&mut dice, 40);
            engine.replace(plan(rule.rate, "minute", rule.capacity));
        }
        clock.advance(Duration::from_micros(dice.below(2_000_000)));
        let cost = small(&mut dice, 12);
        let reading = oracle.read(&rule, clock.now().as_micros());
        let expected = reading.judge(cost.into());
        let after = match expected {
            Answer::Admit => reading.charge(cost.into()),
            _ => reading,
        };
        ask(&engine, &by("a", cost), |decision| {
            let what = format!("step {step}, {cost} of {rule:?}: {decision:?}");
            assert_eq!(decision.allowed, expected == Answer::Admit, "{what}");
            assert_eq!(
                u128::from(decision.limits[0].remaining),
                after.remaining(),
                "{what}"
            );
            let full = u128::from(decision.limits[0].full_after_us);
            assert_eq!(full, after.full_after_us(), "{what}");
            if let Answer::Refuse { wait_us } = expected {
                assert_eq!(decision.wait_us.map(u128::from), Some(wait_us), "{what}");
            }
        });
        // What is free takes nothing, so it touches nothing.
        if expected == Answer::Admit && cost > 0 {
            oracle = after.keep();
        }
    }
}

#[test]
fn a_refusal_by_one_limit_is_no_loss_to_another() {
    let (engine, _) = engine(policy(
        "
limits: { all: { sustained: { rate: 1, window: 366d }, burst: { capacity: 1000 }, scope: global } }
plans: { p: { rate_limit: { sustained: { rate: 1, window: 366d }, burst: { capacity: 300 }, scope: user } } }
",
    ));
    assert!(admits(&engine, "greedy", 300));
    let given: Vec<u32> = thread::scope(|scope| {
        let greedy = scope.spawn(|| {
            let given = (0..20_000).filter(|_| admits(&engine, "greedy", 300));
            u32::try_from(given.count()).unwrap() * 300
        });
        let others = ["b", "c", "d"].map(|user| {
            let engine = &engine;
            scope.spawn(move || {
                let given = (0..5000).filter(|_| admits(engine, user, 1));
                u32::try_from(given.count()).unwrap()
            })
        });
        let all = [greedy].into_iter().chain(others);
        all.map(|caller| caller.join().unwrap()).collect()
    });
    // Three times 300 is more than the 700 that are left.
    assert_eq!(given[0], 0);
    assert_eq!(given.iter().sum::<u32>(), 700, "{given:?}");
    assert!(given.iter().all(|given| *given <= 300), "{given:?}");
}

#[test]
fn the_limit_shown_is_the_one_that_binds_or_comes_nearest() {
    let (engine, _) = engine(policy(
        "
limits:
  wide: { sustained: { rate: 1, window: second }, burst: { capacity: 20 }, scope: user }
  dear: { sustained: { rate: 1, window: second }, burst: { capacity: 30 }, scope: user, cost: 3 }
  slow: { sustained: { rate: 1, window: minute }, burst: { capacity: 10 }, scope: user }
",
    ));
    let shown = |cost: u32| {
        ask(
            &engine,
            &Facts {
                user: Some("a"),
                cost,
                ..Facts::default()
            },
            |decision| {
                (
                    decision.allowed,
                    decision.reason,
                    decision.shown().unwrap().limit.name.to_string(),
                )
            },
        )
    };
    let dear = "limit:dear".to_owned();
    assert_eq!(shown(1), (true, None, dear.clone()));
    assert_eq!(
        shown(11),
        (false, Some(Reason::CostExceedsCapacity), dear.clone())
    );
    assert_eq!(shown(8), (true, None, dear));
    // Three of `dear` are missing and only one of `slow`, but that takes longer.
    assert_eq!(shown(2), (false, Some(Reason::Limit), "limit:slow".into()));
    assert!(matches!(shown(0), (true, None, _)));
    // Of equals, the first.
    engine.replace(policy(
        "
limits:
  one: { sustained: { rate: 5, window: day }, scope: user }
  two: { sustained: { rate: 5, window: day }, scope: user }
",
    ));
    assert_eq!(shown(1), (true, None, "limit:one".into()));
}

/// A store that is not there.
struct Down;

impl Store for Down {
    fn apply<'a>(
        &'a self,
        _: &'a [Charge<'a>],
        _: &'a mut [Outcome],
        _: Mode,
        _: Timestamp,
    ) -> Reply<'a, Verdict> {
        Reply::Now(Err(StoreError::Unavailable))
    }

    fn credit<'a>(&'a self, _: &'a [Charge<'a>], _: Timestamp, _: Timestamp) -> Reply<'a, ()> {
        Reply::Now(Err(StoreError::Unavailable))
    }

    fn reset<'a>(&'a self, _: &'a [Charge<'a>], _: Timestamp) -> Reply<'a, ()> {
        Reply::Now(Err(StoreError::Unavailable))
    }
}

#[test]
fn without_a_store_nothing_is_let_through_that_is_limited() {
    let policy = policy(
        "
plans: { p: { rate_limit: { sustained: { rate: 5 }, scope: user } } }
allow: [{ user: root }]
",
    );
    let engine = Engine::new(policy, Arc::new(Down), Arc::new(ManualClock::new()));
    ask(&engine, &by("a", 1), |decision| {
        assert_eq!((decision.allowed, decision.action), (false, Action::Deny));
        assert_eq!(decision.reason, Some(Reason::StoreUnavailable));
        assert_eq!(decision.source, Source::None);
        assert!(decision.wait_us == Some(1_000_000) && decision.limits.is_empty());
    });
    assert!(admits(&engine, "root", 1));
    assert_eq!(engine.unlimited().sum(Count::Denied), 1);
    assert_eq!(engine.unlimited().sum(Count::Allowed), 1);
}

//! Single buckets: seen and reset, by facts and by key.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::sync::Arc;
use std::time::Duration;

use tollward_engine::{Active, BucketError, BucketLevel, Engine, Mode, Source};
use tollward_policy::{Facts, OwnedKey, Rejection, compile};
use tollward_store::MemoryStore;
use tollward_testkit::clock::ManualClock;
use tollward_testkit::conformance::at_once;

const CONFIG: &str = "
limits: { all: { sustained: { rate: 1, window: minute }, burst: { capacity: 50 }, scope: global } }
plans:
  free: { rate_limit: { sustained: { rate: 1, window: minute }, burst: { capacity: 10 }, scope: user } }
  pro: { rate_limit: { sustained: { rate: 10, window: minute }, burst: { capacity: 100 }, scope: user } }
allow: [ { user: root } ]
";

fn engine() -> (Engine, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::new());
    let policy = compile(CONFIG.as_bytes()).unwrap().policy;
    let store = Arc::new(MemoryStore::new(1_000));
    (Engine::new(policy, store, clock.clone()), clock)
}

fn of(user: &str) -> Facts<'_> {
    Facts {
        user: Some(user),
        plan: Some("free"),
        ..Facts::default()
    }
}

fn spend(engine: &Engine, active: &Active, user: &str, cost: u32) -> bool {
    let facts = Facts { cost, ..of(user) };
    at_once(engine.check(active, &facts, Mode::Charge))
        .unwrap()
        .allowed
}

/// Name and tokens left, by facts.
fn left(engine: &Engine, active: &Active, user: &str) -> Vec<(String, u32)> {
    let buckets = at_once(engine.inspect(active, &of(user))).unwrap();
    let rows = buckets
        .iter()
        .map(|it| (it.limit.name.to_string(), it.level.unwrap().remaining));
    rows.collect()
}

fn named(all: u32, free: u32) -> Vec<(String, u32)> {
    vec![("limit:all".into(), all), ("plan:free".into(), free)]
}

#[test]
fn a_callers_buckets_are_seen_and_not_charged() {
    let (engine, clock) = engine();
    let active = engine.active();
    assert_eq!(left(&engine, &active, "alice"), named(50, 10));
    assert!(spend(&engine, &active, "alice", 4));
    for _ in 0..3 {
        assert_eq!(left(&engine, &active, "alice"), named(46, 6));
    }
    clock.advance(Duration::from_secs(90));
    let buckets = at_once(engine.inspect(&active, &of("alice"))).unwrap();
    let level = BucketLevel {
        remaining: 7,
        full_after_us: 150_000_000,
    };
    assert_eq!(buckets[1].level, Some(level));
    assert_eq!(buckets[1].source, Source::Memory);
    assert!(buckets[1].key.ends_with("}plan|user=alice"));
    // Looking at buckets is not a decision.
    assert_eq!(engine.sources(Source::Memory), 1);
    // Whoever is not limited has buckets all the same.
    assert_eq!(left(&engine, &active, "root"), named(47, 10));
}

#[test]
fn a_key_is_seen_as_every_plan_sees_it() {
    let (engine, _) = engine();
    let active = engine.active();
    spend(&engine, &active, "alice", 4);
    let text = at_once(engine.inspect(&active, &of("alice"))).unwrap()[1]
        .key
        .clone();
    let key: OwnedKey = text.parse().unwrap();
    let buckets = at_once(engine.inspect_keys(&active, &[key])).unwrap();
    let rows: Vec<_> = buckets
        .iter()
        .map(|it| (&*it.key, &*it.limit.name, it.level.unwrap().remaining))
        .collect();
    assert_eq!(rows, [(&*text, "plan:free", 6), (&*text, "plan:pro", 96)]);
}

#[test]
fn a_reset_by_facts_is_of_all_their_buckets() {
    let (engine, _) = engine();
    let active = engine.active();
    spend(&engine, &active, "alice", 10);
    spend(&engine, &active, "bob", 10);
    assert!(!spend(&engine, &active, "alice", 1));
    at_once(engine.reset(&active, &of("alice"))).unwrap();
    assert_eq!(left(&engine, &active, "alice"), named(50, 10));
    assert_eq!(left(&engine, &active, "bob"), named(50, 0));
    assert!(spend(&engine, &active, "alice", 10));
}

#[test]
fn a_reset_by_key_is_of_that_bucket() {
    let (engine, _) = engine();
    let active = engine.active();
    spend(&engine, &active, "alice", 10);
    let buckets = at_once(engine.inspect(&active, &of("alice"))).unwrap();
    let key: OwnedKey = buckets[1].key.parse().unwrap();
    let other = OwnedKey {
        family: "limit:none".into(),
        scope: Vec::new(),
    };
    // One that is not known: nothing is done.
    let both = [key.clone(), other];
    let no_limit = BucketError::NoLimit("limit:none".into());
    assert_eq!(
        at_once(engine.reset_keys(&active, &both)),
        Err(no_limit.clone())
    );
    assert_eq!(left(&engine, &active, "alice"), named(40, 0));
    let seen = at_once(engine.inspect_keys(&active, &both));
    assert_eq!(seen.unwrap_err(), no_limit);
    at_once(engine.reset_keys(&active, &[key])).unwrap();
    assert_eq!(left(&engine, &active, "alice"), named(40, 10));
}

#[test]
fn facts_that_make_no_request_are_rejected() {
    let (engine, _) = engine();
    let active = engine.active();
    let facts = Facts {
        plan: Some("gold"),
        ..Facts::default()
    };
    let rejected = BucketError::Rejected(Rejection::UnknownPlan("gold".into()));
    let seen = at_once(engine.inspect(&active, &facts)).unwrap_err();
    assert_eq!(seen, rejected);
    assert_eq!(at_once(engine.reset(&active, &facts)), Err(rejected));
}

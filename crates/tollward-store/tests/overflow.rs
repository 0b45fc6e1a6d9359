//! A table that is full of live buckets: newcomers are limited together, and nobody's debt is dropped.

#![cfg(not(feature = "model-check"))]
// Clippy knows the test functions as tests, but not the functions they share.
#![allow(clippy::unwrap_used, clippy::panic)]

use tollward_core::{Charge, Judgement, Key, Limit, OnFailure, Timestamp};
use tollward_store::{MemoryStore, Mode, Outcome, Store};
use tollward_testkit::conformance::{START, at_once, bucket};

const MINUTE_US: u64 = 60_000_000;
const HOUR_US: u64 = 60 * MINUTE_US;
/// The smallest table has sixteen slots and holds fourteen buckets.
const PLACES: u64 = 14;

struct Full {
    store: MemoryStore,
    limit: Limit,
    name: &'static str,
}

impl Full {
    /// A store of fourteen places, all taken by a crowd whose buckets are full again after `life` minutes.
    fn until(life: u32) -> Self {
        let full = Self {
            store: MemoryStore::with_shards(1, 1),
            limit: bucket(1, 60, 10),
            name: "plan:free",
        };
        let crowd = Self {
            store: MemoryStore::with_shards(1, 1),
            limit: bucket(1, 60, life),
            name: "crowd",
        };
        for key in 0..PLACES {
            let taken = full.pay(
                &crowd.limit,
                crowd.name,
                1 << 40 | key,
                u64::from(life),
                START,
            );
            assert_eq!(taken.judgement, Judgement::Admit);
        }
        assert_eq!(full.store.usage(START).overflowed, 0);
        full
    }

    fn pay(&self, limit: &Limit, name: &str, key: u64, cost: u64, now: Timestamp) -> Outcome {
        self.ask(limit, name, key, cost, Mode::Charge, now)
    }

    fn take(&self, key: u64, cost: u64, now: Timestamp) -> Judgement {
        self.pay(&self.limit, self.name, key, cost, now).judgement
    }

    fn left(&self, key: u64, now: Timestamp) -> u32 {
        let peek = self.ask(&self.limit, self.name, key, 0, Mode::Peek, now);
        peek.remaining
    }

    fn ask(
        &self,
        limit: &Limit,
        name: &str,
        key: u64,
        cost: u64,
        mode: Mode,
        now: Timestamp,
    ) -> Outcome {
        let scope = key.to_be_bytes();
        let charges = [charge(limit, name, &scope, cost)];
        let mut outcomes = [Outcome::default()];
        let reply = self.store.apply(&charges, &mut outcomes, mode, now);
        at_once(reply.wait()).unwrap();
        outcomes[0]
    }

    fn credit(&self, key: u64, cost: u64, charged_at: Timestamp, now: Timestamp) {
        let scope = key.to_be_bytes();
        let charges = [charge(&self.limit, self.name, &scope, cost)];
        at_once(self.store.credit(&charges, charged_at, now).wait()).unwrap();
    }

    fn reset(&self, key: u64, now: Timestamp) {
        let scope = key.to_be_bytes();
        let charges = [charge(&self.limit, self.name, &scope, 0)];
        at_once(self.store.reset(&charges, now).wait()).unwrap();
    }

    /// A key that shares the bucket of this one. Takes a token, which is there again a minute later.
    fn lane_mate(&self, key: u64, now: Timestamp) -> u64 {
        let left = |mate| self.left(mate, now);
        let before: Vec<u32> = (key + 1..key + 20_000).map(left).collect();
        assert_eq!(self.take(key, 1, now), Judgement::Admit);
        let mut mates = (key + 1..).zip(before);
        mates
            .find(|(mate, before)| left(*mate) < *before)
            .unwrap()
            .0
    }
}

fn charge<'a>(limit: &'a Limit, name: &'a str, scope: &'a [u8], cost: u64) -> Charge<'a> {
    Charge {
        name,
        limit,
        key: Key {
            family: "plan",
            scope,
        },
        cost,
        shadow: false,
        on_failure: OnFailure::Local,
    }
}

fn after(minutes: u64) -> Timestamp {
    START.saturating_add(minutes * MINUTE_US)
}

#[test]
fn newcomers_share_and_are_counted() {
    let full = Full::until(60);
    let mate = full.lane_mate(0, START);
    let counted = full.store.usage(after(1)).overflowed;
    assert_eq!(full.take(0, 6, after(1)), Judgement::Admit);
    assert_eq!(full.left(mate, after(1)), 4);
    assert_ne!(full.take(mate, 5, after(1)), Judgement::Admit);
    assert_eq!(full.take(mate, 4, after(1)), Judgement::Admit);
    assert_ne!(full.take(0, 1, after(1)), Judgement::Admit);
    assert_eq!(full.store.usage(after(1)).overflowed, counted + 5);
    // It refills as one bucket does.
    assert_eq!(full.take(0, 1, after(2)), Judgement::Admit);
    assert_ne!(full.take(mate, 1, after(2)), Judgement::Admit);
}

#[test]
fn all_newcomers_together_get_what_256_may_have() {
    let full = Full::until(60);
    let admitted = (0..20_000).filter(|key| full.take(*key, 1, START) == Judgement::Admit);
    assert_eq!(admitted.count(), 256 * 10);
    // Three minutes later, three tokens for every lane.
    let later = (0..20_000).filter(|key| full.take(*key, 1, after(3)) == Judgement::Admit);
    assert_eq!(later.count(), 256 * 3);
}

#[test]
fn a_debt_made_in_overflow_moves_to_the_bucket_that_follows() {
    let full = Full::until(5);
    assert_eq!(full.take(0, 10, START), Judgement::Admit);
    assert_ne!(full.take(0, 1, after(0)), Judgement::Admit);
    // The crowd has gone, the debt is there: half of it has refilled.
    assert_eq!(full.left(0, after(5)), 5);
    assert_eq!(full.take(0, 1, after(5)), Judgement::Admit);
    let usage = full.store.usage(after(5));
    assert_eq!(usage.buckets, 1, "a bucket of its own");
    assert_eq!(full.left(0, after(5)), 4);
    // The others of its lane inherit what the lane owes, each in a bucket of its own.
    let counted = usage.overflowed;
    let mate = (1..20_000)
        .find(|key| full.left(*key, after(5)) == 5)
        .unwrap();
    assert_eq!(full.take(mate, 5, after(5)), Judgement::Admit);
    assert_eq!(full.left(0, after(5)), 4, "no longer shared");
    assert_eq!(full.store.usage(after(5)).overflowed, counted);
}

#[test]
fn a_change_of_the_limit_keeps_what_a_lane_has_spent() {
    let mut full = Full::until(60);
    full.take(0, 8, START);
    full.limit = bucket(1, 60, 15);
    assert_eq!(full.left(0, START), 7);
    full.limit = bucket(1, 60, 5);
    assert_eq!(full.left(0, START), 0);
    full.limit = bucket(1, 60, 10);
    assert_eq!(full.left(0, START), 2);
}

#[test]
fn a_refusal_and_a_peek_leave_a_lane_as_it_was() {
    let full = Full::until(60);
    full.take(0, 9, START);
    for _ in 0..10 {
        assert_ne!(full.take(0, 2, START), Judgement::Admit);
        assert_eq!(full.left(0, START), 1);
    }
}

#[test]
fn a_lane_goes_on_after_a_step_back_of_the_clock() {
    let full = Full::until(60);
    full.take(0, 10, START);
    let earlier = Timestamp::from_micros(START.as_micros() - HOUR_US);
    assert_ne!(full.take(0, 1, earlier), Judgement::Admit);
    assert_eq!(full.left(0, earlier.saturating_add(MINUTE_US)), 1);
}

/// The buckets of the hour that is to come again are in nobody's way.
#[test]
fn room_returns_after_a_step_back_of_the_clock() {
    let full = Full::until(5);
    let earlier = Timestamp::from_micros(START.as_micros() - HOUR_US);
    // Six minutes on, every bucket would be full again.
    let now = earlier.saturating_add(6 * MINUTE_US);
    full.take(0, 1, earlier);
    let counted = full.store.usage(now).overflowed;
    full.take(0, 1, now);
    assert_eq!(full.store.usage(now).overflowed, counted);
}

/// With a bucket of its own a caller keeps its debt when its plan changes, because the key names the
/// family and not the plan.
#[test]
fn a_change_of_plan_keeps_what_a_lane_has_spent() {
    let mut full = Full::until(60);
    assert_eq!(full.take(0, 10, START), Judgement::Admit);
    full.name = "plan:pro";
    assert_ne!(full.take(0, 1, START), Judgement::Admit);
}

/// Two callers of one limit may have different rates (trust, load): in one lane the faster must not
/// refill the debt of the slower.
#[test]
fn a_faster_caller_does_not_refill_a_slower_ones_debt() {
    let full = Full::until(60);
    let mate = full.lane_mate(0, START);
    assert_eq!(full.take(0, 10, after(1)), Judgement::Admit);
    let fast = bucket(10, 60, 10);
    full.pay(&fast, full.name, mate, 1, after(2));
    assert!(full.left(0, after(2)) <= 1, "its own bucket would hold 1");
}

/// Tokens that were spent elsewhere are not given back to a lane.
#[test]
fn a_credit_for_a_bucket_that_is_gone_gives_a_lane_nothing() {
    let full = Full::until(5);
    // After the crowd, a bucket of its own, which is full again when a new crowd takes its place.
    assert_eq!(full.take(0, 1, after(5)), Judgement::Admit);
    for key in 0..PLACES {
        full.pay(&bucket(1, 60, 60), "crowd", 1 << 41 | key, 60, after(6));
    }
    let counted = full.store.usage(after(6)).overflowed;
    let mate = full.lane_mate(0, after(6));
    assert!(
        full.store.usage(after(6)).overflowed > counted,
        "0 is in overflow"
    );
    assert_eq!(full.take(mate, 10, after(7)), Judgement::Admit);
    full.credit(0, 1, after(5), after(7));
    assert_eq!(full.left(mate, after(7)), 0);
}

#[test]
fn a_reset_leaves_a_shared_bucket_alone() {
    let full = Full::until(60);
    let mate = full.lane_mate(1, START);
    assert_eq!(full.take(1, 6, START), Judgement::Admit);
    full.reset(1, START);
    assert_eq!((full.left(1, START), full.left(mate, START)), (3, 3));
}

#[test]
fn a_reset_moves_its_caller_out_of_a_shared_bucket_when_there_is_room() {
    let full = Full::until(2);
    let mate = full.lane_mate(1, START);
    assert_eq!(full.take(1, 9, START), Judgement::Admit);
    // The crowd is gone; of what the two share, three tokens have come back.
    let later = START.saturating_add(3 * MINUTE_US);
    assert_eq!((full.left(1, later), full.left(mate, later)), (3, 3));
    full.reset(1, later);
    assert_eq!((full.left(1, later), full.left(mate, later)), (10, 3));
    assert_eq!(full.take(1, 10, later), Judgement::Admit);
    assert_eq!((full.left(1, later), full.left(mate, later)), (0, 3));
}

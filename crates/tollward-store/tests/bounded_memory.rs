//! Five million keys through a store for half a million.
//!
//! The only test of its binary, so that nothing else moves the memory it measures.

#![cfg(all(target_os = "linux", not(feature = "model-check")))]
// Clippy knows the test functions as tests, but not the functions they share.
#![allow(clippy::unwrap_used, clippy::panic)]

use tollward_core::{Charge, Judgement, Key, Limit, OnFailure, Timestamp, Window};
use tollward_store::{MemoryStore, Mode, Outcome, Store, Usage};
use tollward_testkit::conformance::{START, at_once};

const KEYS: u64 = 5_000_000;
const MAX_BUCKETS: usize = 500_000;
/// Each shard may round its part of the bound up by a bucket (40 bytes), and that up to a whole slot (32);
/// there are at most 1024 shards.
const SLACK_BYTES: usize = 1_024 * (40 + 32);
/// What the allocator keeps for itself, in hundredths of the bound: tables that grew leave holes in its
/// heap, measured as 4 to 11 with glibc's defaults (2 when it is told to map and trim early).
const HEAP_PERCENT: usize = 10;
const CAPACITY: u64 = 10;
const LANES: u64 = 256;
const DAY_US: u64 = 86_400_000_000;

/// Keys that are not of the flood.
const HONEST: u64 = 1 << 40;
const DEBTOR: u64 = HONEST + 1;
const LATE_DEBTOR: u64 = HONEST + 2;
const NEWCOMER: u64 = HONEST + 1_000;

struct City {
    store: MemoryStore,
    /// Ten tokens, one a day: nothing that matters refills during the flood.
    limit: Limit,
}

impl City {
    fn new(max_buckets: usize) -> Self {
        let capacity = u32::try_from(CAPACITY).unwrap();
        Self {
            store: MemoryStore::new(max_buckets),
            limit: Limit::token_bucket(1, Window::DAY, capacity).unwrap(),
        }
    }

    fn ask(&self, key: u64, cost: u64, mode: Mode, now: Timestamp) -> Outcome {
        let scope = key.to_be_bytes();
        let charges = [Charge {
            name: "limit:flooded",
            limit: &self.limit,
            key: Key {
                family: "limit:flooded",
                scope: &scope,
            },
            cost,
            shadow: false,
            on_failure: OnFailure::Local,
        }];
        let mut outcomes = [Outcome::default()];
        let reply = self.store.apply(&charges, &mut outcomes, mode, now);
        at_once(reply.wait()).unwrap();
        outcomes[0]
    }

    fn admits(&self, key: u64, cost: u64, now: Timestamp) -> bool {
        self.ask(key, cost, Mode::Charge, now).judgement == Judgement::Admit
    }

    fn left(&self, key: u64, now: Timestamp) -> u32 {
        self.ask(key, 0, Mode::Peek, now).remaining
    }

    fn usage(&self, now: Timestamp) -> Usage {
        self.store.usage(now)
    }
}

fn resident_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let kilobytes = line.unwrap().split_whitespace().nth(1).unwrap();
    kilobytes.parse::<usize>().unwrap() * 1_024
}

#[test]
fn a_flood_of_keys_costs_neither_memory_nor_justice() {
    // Pages of the program itself count as resident when they are first run: run them before.
    let small = City::new(1_000);
    for key in 0..5_000 {
        small.admits(key, 1, START);
    }
    drop(small);
    let city = City::new(MAX_BUCKETS);
    assert!(city.admits(HONEST, 3, START));
    assert!(city.admits(DEBTOR, CAPACITY, START));
    let resident_before = resident_bytes();

    // The flood: everybody asks for one token.
    let (mut admitted, mut asked_late) = (0, 0);
    let mut now = START;
    for key in 0..KEYS {
        now = START.saturating_add(key * 10);
        admitted += u64::from(city.admits(key, 1, now));
        if key == KEYS / 2 {
            // Whatever its shared bucket still has is taken, until it is empty.
            while city.admits(LATE_DEBTOR, 1, now) {
                asked_late += 1;
            }
            asked_late += 1;
        }
        if key % 50_000 == 0 {
            assert_eq!(city.left(HONEST, now), 7);
            assert!(!city.admits(DEBTOR, 1, now));
        }
        if key % 50_000 == 0 && key > KEYS / 2 {
            asked_late += 1;
            assert!(!city.admits(LATE_DEBTOR, 1, now));
        }
    }
    let usage = city.usage(now);
    let bound = 40 * MAX_BUCKETS + SLACK_BYTES;
    assert!(usage.bytes <= bound, "{} bytes", usage.bytes);
    let grown = resident_bytes().saturating_sub(resident_before);
    assert!(
        grown <= bound + bound * HEAP_PERCENT / 100,
        "{grown} bytes resident"
    );
    // The table is as full as the spread of the hash over its shards allows.
    assert!(usage.buckets > MAX_BUCKETS * 9 / 10 && usage.buckets <= MAX_BUCKETS + 1_024);
    assert_eq!(usage.overflow_lanes, usize::try_from(LANES).unwrap());

    // The others were decided on a shared bucket, and counted, or refused because the bucket that they
    // would have had to themselves starts with what the shared one has spent. Together they got what 256
    // callers may have, not less and not more: no lane refilled a whole token in these 50 seconds.
    let own = usage.buckets as u64 - 2;
    assert!(usage.overflowed <= KEYS - own + asked_late);
    assert!(usage.overflowed > (KEYS - own) / 10);
    let shared = admitted - own;
    let most = LANES * CAPACITY;
    assert!((most - CAPACITY..=most).contains(&shared), "{shared}");

    // A day later nobody who spent a token is missing it, but the lanes still owe nine.
    let later = now.saturating_add(DAY_US);
    assert_eq!(city.left(HONEST, later), 8);
    assert_eq!(city.left(DEBTOR, later), 1);
    assert_eq!(city.left(LATE_DEBTOR, later), 1);
    // Those who started with a lane's spending owe some of it yet.
    let owing = city.usage(later).buckets;
    assert!((2..MAX_BUCKETS / 10).contains(&owing), "{owing}");
    // So newcomers get buckets of their own, each of which starts with its lane's nine.
    let overflowed = city.usage(later).overflowed;
    for key in NEWCOMER..NEWCOMER + 100_000 {
        assert!(city.admits(key, 1, later));
        assert!(!city.admits(key, 1, later));
    }
    assert!(city.admits(LATE_DEBTOR, 1, later));
    assert!(!city.admits(LATE_DEBTOR, 1, later), "the debt came along");
    let after = city.usage(later);
    assert_eq!(after.overflowed, overflowed);
    assert_eq!(after.buckets, owing + 100_001);
    assert!(after.bytes <= usage.bytes, "it grew");
    let grown = resident_bytes().saturating_sub(resident_before);
    assert!(
        grown <= bound + bound * HEAP_PERCENT / 100,
        "{grown} bytes resident"
    );

    // When the lanes are full again they are forgotten, and a newcomer is like any other.
    let much_later = later.saturating_add(10 * DAY_US);
    assert_eq!(city.left(NEWCOMER + 200_000, much_later), 10);
    assert!(city.admits(NEWCOMER + 200_000, CAPACITY, much_later));
    let end = city.usage(much_later);
    assert_eq!((end.overflow_lanes, end.buckets), (0, 1));
}

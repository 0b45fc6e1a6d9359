use std::collections::HashMap;

use tollward_core::{Spending, State, Timestamp, Window};
use tollward_testkit::conformance::Dice;

use crate::memory::table::Table;

const SECOND_US: u64 = 1_000_000;

fn moment(secs: u64) -> Timestamp {
    Timestamp::from_micros(secs * SECOND_US)
}

fn state(at: Timestamp, parts: u128) -> State {
    State {
        at,
        window: Window::SECOND,
        spending: Spending::Bucket { parts },
    }
}

/// Puts a bucket into the table, there or new, that is full `life` seconds after `now`.
fn put(table: &mut Table, print: u64, now: Timestamp, life: u64, parts: u128) -> bool {
    let at = table.find(print).or_else(|| table.insert(print, now));
    if let Some(at) = at {
        table
            .slot_mut(at)
            .write(Some(state(now, parts)), life * SECOND_US);
    }
    at.is_some()
}

fn parts_of(table: &Table, print: u64) -> Option<u128> {
    match table.slot(table.find(print)?).read()?.spending {
        Spending::Bucket { parts } => Some(parts),
        Spending::Windows { .. } => None,
    }
}

/// Fingerprints as a hash would give them.
fn print(n: u64) -> u64 {
    Dice::new(n).word().max(1)
}

#[test]
fn grows_to_its_bound_and_no_further() {
    for max in [1, 14, 15, 100, 1_000, 10_000] {
        let mut table = Table::new(max);
        assert_eq!(table.bytes(), 0, "memory is taken as buckets come");
        let mut held = 0;
        for n in 0..2 * max as u64 + 100 {
            held += usize::from(put(&mut table, print(n), moment(0), 1_000, u128::from(n)));
            assert!(table.live(moment(0)) == held);
        }
        // Exactly the bound, or what the smallest table of 16 slots holds.
        assert_eq!(held, max.max(14));
        assert!(table.bytes() <= (40 * max + 32).max(16 * 32));
        for n in 0..held as u64 {
            assert_eq!(parts_of(&table, print(n)), Some(u128::from(n)));
        }
    }
}

#[test]
fn grows_no_faster_than_it_fills() {
    let mut table = Table::new(1_000_000);
    for n in 0..20_000 {
        assert!(put(&mut table, print(n), moment(0), 1_000, 1));
        let most = ((usize::try_from(n).unwrap() + 1) * 5 / 4 * 3 / 2 + 64) * 32;
        assert!(table.bytes() <= most, "{} for {n}", table.bytes());
    }
}

#[test]
fn places_of_full_buckets_are_taken_over_without_growth() {
    let mut table = Table::new(10_000);
    for n in 0..1_000 {
        assert!(put(&mut table, print(n), moment(0), 10, 1));
    }
    let bytes = table.bytes();
    for round in 1..50 {
        let now = moment(round * 10);
        for n in 0..1_000 {
            assert!(put(&mut table, print(round * 1_000 + n), now, 10, 1));
        }
        assert_eq!(table.live(now), 1_000);
        assert!(table.bytes() <= bytes * 3 / 2, "one growth at most");
    }
}

#[test]
fn a_full_table_finds_room_again_within_a_second() {
    let mut table = Table::new(1_000);
    for n in 0..1_000 {
        // One in ten is full after five seconds.
        let life = if n % 10 == 0 { 5 } else { 1_000 };
        assert!(put(&mut table, print(n), moment(0), life, 1));
    }
    for n in 1_000..1_100 {
        assert!(!put(&mut table, print(n), moment(4), 1_000, 1));
    }
    for n in 1_000..1_100 {
        assert!(put(&mut table, print(n), moment(5), 1_000, 1));
    }
    assert!(!put(&mut table, print(2_000), moment(6), 1_000, 1));
    for n in 0..1_100 {
        let there = table.find(print(n)).is_some();
        assert!(there || n % 10 == 0, "a live bucket was lost");
    }
}

#[test]
fn a_step_back_of_the_clock_does_not_put_off_the_search_for_room() {
    let mut table = Table::new(1_000);
    let (late, early) = (moment(10_000), moment(5_000));
    for n in 0..500 {
        assert!(put(&mut table, print(n), moment(0), 10, 1));
    }
    for n in 500..1_000 {
        assert!(put(&mut table, print(n), late, 1_000, 1));
    }
    // This one sweeps, and takes what was free; the next look is due at 10 001 s.
    for n in 1_000..1_500 {
        assert!(put(&mut table, print(n), late, 10, 1));
    }
    assert!(!put(&mut table, print(9_999), late, 10, 1));
    for n in 1_000..1_500 {
        // Back in time these are touched, and soon full.
        assert!(put(&mut table, print(n), early, 10, 1));
    }
    let now = moment(5_020);
    let found = (2_000..2_500).filter(|n| put(&mut table, print(*n), now, 10, 1));
    assert_eq!(found.count(), 500);
}

#[test]
fn one_long_chain_of_collisions() {
    // All at home in the same slot, at the end of the table: the chain wraps round.
    let mut table = Table::new(500);
    let collide = |n: u64| n << 32 | 0xffff_ffff;
    for n in 1..=500 {
        assert!(put(&mut table, collide(n), moment(0), n, u128::from(n)));
    }
    for now in 1..=500 {
        assert!(put(&mut table, collide(1_000 + now), moment(now), 1_000, 7));
        for n in now + 1..=500 {
            assert_eq!(parts_of(&table, collide(n)), Some(u128::from(n)));
        }
    }
}

#[test]
fn never_loses_a_live_bucket() {
    for (seed, max) in [(1, 10), (2, 50), (3, 300), (4, 300), (5, 2_000)] {
        let mut dice = Dice::new(seed);
        let mut table = Table::new(max);
        let mut model: HashMap<u64, (u128, u64)> = HashMap::new();
        let mut now = 1;
        for step in 0..60_000 {
            now += u64::from(dice.one_in(20));
            // Twice as many keys as places; half of them crowd into one corner.
            let n = dice.below(2 * max as u64);
            let key = if n.is_multiple_of(2) {
                print(n)
            } else {
                (n << 32) | (n % 7)
            };
            let life = match dice.below(3) {
                0 => 1,
                1 => dice.below(100),
                _ => max as u64 / 4,
            };
            let parts = 1 + u128::from(dice.word());
            if let Some((expected, full_at)) = model.get(&key)
                && *full_at > now
            {
                assert_eq!(parts_of(&table, key), Some(*expected));
            }
            if put(&mut table, key, moment(now), life, parts) {
                model.insert(key, (parts, now + life));
            } else {
                model.remove(&key);
                assert!(table.bytes() >= 36 * max, "no room, though it may grow");
            }
            if step % 500 == 0 {
                model.retain(|_, (_, full_at)| *full_at > now);
                assert_eq!(table.live(moment(now)), model.len());
                for (key, (parts, _)) in &model {
                    assert_eq!(parts_of(&table, *key), Some(*parts));
                }
            }
        }
    }
}

//! Many threads on few buckets: no token is given twice, and none is lost.

#![cfg(not(feature = "model-check"))]
// Clippy knows the test functions as tests, but not the functions they share.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::channel;
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use tollward_core::Limit;
use tollward_store::MemoryStore;
use tollward_testkit::conformance::{Dice, Pay, START, Till, at_once, bucket};

const THREADS: usize = 64;
const ROUNDS: u64 = 1_000;
/// Only a deadlock takes this long.
const PATIENCE: Duration = Duration::from_secs(120);

/// Runs `work` on all threads at once and waits for them; a thread that hangs fails the test.
fn crew(threads: usize, work: impl Fn(usize) + Send + Sync + 'static) {
    let work = Arc::new(work);
    let (done, finished) = channel();
    for number in 0..threads {
        let (work, done) = (Arc::clone(&work), done.clone());
        thread::spawn(move || {
            work(number);
            done.send(()).unwrap();
        });
    }
    for _ in 0..threads {
        let in_time = finished.recv_timeout(PATIENCE);
        assert!(in_time.is_ok(), "the threads wait for each other");
    }
}

/// A bucket that does not refill while a test runs.
fn still(capacity: u32) -> Limit {
    bucket(1, 366 * 86_400, capacity)
}

/// A till that threads can hold: it lives as long as the process.
fn shared(store: MemoryStore) -> &'static Till<'static> {
    let store: &'static MemoryStore = Box::leak(Box::new(store));
    Box::leak(Box::new(Till::open(store)))
}

fn counters(count: u64) -> Arc<[AtomicU64]> {
    (0..count).map(|_| AtomicU64::new(0)).collect()
}

/// Every round, all threads ask three times for the same request; how often it was admitted.
fn rounds(till: &'static Till<'static>, pays: fn(u64) -> Vec<Pay>) -> Vec<u64> {
    let (start, admitted) = (Arc::new(Barrier::new(THREADS)), counters(ROUNDS));
    let counts = Arc::clone(&admitted);
    crew(THREADS, move |_| {
        for round in 0..ROUNDS {
            let pays = pays(round);
            start.wait();
            for _ in 0..3 {
                let answer = at_once(till.charge(&pays, START));
                let slot = usize::try_from(round).unwrap();
                counts[slot].fetch_add(u64::from(answer.admitted), Relaxed);
            }
        }
    });
    admitted.iter().map(|count| count.load(Relaxed)).collect()
}

#[test]
fn exactly_the_capacity_is_admitted() {
    let till = shared(MemoryStore::new(100_000));
    let admitted = rounds(till, |round| vec![Pay::new(still(100), round, 1)]);
    assert!(admitted.iter().all(|count| *count == 100), "{admitted:?}");
    for round in 0..ROUNDS {
        assert_eq!(at_once(till.left(still(100), round, START)), 0);
    }
}

#[test]
fn a_second_limit_that_refuses_leaves_the_first_alone() {
    let till = shared(MemoryStore::new(100_000));
    // The second limit is empty in even rounds; in odd ones it admits 50.
    let second = |round: u64| (still(50), ROUNDS + round);
    for round in (0..ROUNDS).step_by(2) {
        let (limit, key) = second(round);
        at_once(till.take(limit, key, 50, START));
    }
    let admitted = rounds(till, |round| {
        let mut pays = vec![
            Pay::new(still(100), round, 1),
            Pay::new(still(50), ROUNDS + round, 1),
        ];
        // Half of them in the other order, so that the refusal also comes first.
        if round % 4 < 2 {
            pays.reverse();
        }
        pays
    });
    for round in 0..ROUNDS {
        let expected = if round % 2 == 0 { 0 } else { 50 };
        assert_eq!(
            admitted[usize::try_from(round).unwrap()],
            u64::from(expected)
        );
        assert_eq!(at_once(till.left(still(100), round, START)), 100 - expected);
        let (limit, key) = second(round);
        assert_eq!(at_once(till.left(limit, key, START)), 0);
    }
}

/// Every thread charges `width` of `buckets` buckets at a time, in random order and with random costs;
/// what was admitted is what is missing.
fn overlapping(till: &'static Till<'static>, width: usize, buckets: u64, capacity: u32) {
    let taken = counters(buckets);
    let sums = Arc::clone(&taken);
    let start = Arc::new(Barrier::new(THREADS));
    crew(THREADS, move |number| {
        let mut dice = Dice::new(number as u64);
        start.wait();
        for _ in 0..2_000 {
            let mut keys: Vec<u64> = (0..buckets).collect();
            dice.shuffle(&mut keys);
            let pay = |key: &u64| Pay::new(still(capacity), *key, 1 + key % 3);
            let pays: Vec<Pay> = keys[..width].iter().map(pay).collect();
            if at_once(till.charge(&pays, START)).admitted {
                for pay in &pays {
                    sums[usize::try_from(pay.key).unwrap()].fetch_add(pay.cost, Relaxed);
                }
            }
        }
    });
    let mut refused = 0;
    for key in 0..buckets {
        let left = at_once(till.left(still(capacity), key, START));
        let sum = taken[usize::try_from(key).unwrap()].load(Relaxed);
        assert_eq!(u64::from(left) + sum, u64::from(capacity));
        refused += u64::from(left < 3);
    }
    assert!(refused > 0, "nobody was refused: a dull run");
}

#[test]
fn four_limits_in_any_order_neither_lock_up_nor_leak() {
    let till = shared(MemoryStore::new(100_000));
    overlapping(till, 4, 8, 50_000);
}

#[test]
fn ten_limits_in_any_order_neither_lock_up_nor_leak() {
    let till = shared(MemoryStore::new(100_000));
    overlapping(till, 10, 14, 50_000);
}

/// The same while the table has no room and every one of these buckets is a shared one.
#[test]
fn shared_buckets_are_exact_too() {
    let till = shared(MemoryStore::with_shards(1, 2));
    // Both tables are full long before the last of these.
    for key in 1_000..1_200 {
        at_once(till.take(bucket(1, 3_600, 10), key, 1, START));
    }
    // No two of these share a lane.
    let mut alone = Vec::new();
    for key in 0..200 {
        if at_once(till.left(still(50_000), key, START)) == 50_000 {
            at_once(till.take(still(50_000), key, 1, START));
            alone.push(key);
        }
    }
    let keys: Vec<u64> = alone[..8].to_vec();
    let (taken, start) = (counters(8), Arc::new(Barrier::new(THREADS)));
    let (sums, picked) = (Arc::clone(&taken), keys.clone());
    crew(THREADS, move |number| {
        let mut dice = Dice::new(number as u64);
        start.wait();
        for _ in 0..1_000 {
            let mut order: Vec<usize> = (0..8).collect();
            dice.shuffle(&mut order);
            let pays = [0, 1, 2].map(|i| Pay::new(still(50_000), picked[order[i]], 2));
            if at_once(till.charge(&pays, START)).admitted {
                for i in 0..3 {
                    sums[order[i]].fetch_add(2, Relaxed);
                }
            }
        }
    });
    for (key, sum) in keys.iter().zip(taken.iter()) {
        let left = at_once(till.left(still(50_000), *key, START));
        // One was taken to find it.
        assert_eq!(u64::from(left) + sum.load(Relaxed) + 1, 50_000);
    }
}

//! The ends of every range, in all combinations. Overflow checks are on in tests.

use tollward_core::{Judgement, Limit, Spending, State, Timestamp, Window};

use crate::pair::{Pair, at};

const NUMBERS: [u32; 4] = [1, 2, u32::MAX - 1, u32::MAX];
const WINDOWS: [Window; 3] = [Window::SECOND, Window::MINUTE, Window::MAX];

#[test]
fn every_extreme_agrees_with_the_oracle() {
    // Halves, so that two threads share them.
    let states = states();
    let (some, others) = states.split_at(states.len() / 2);
    std::thread::scope(|scope| {
        scope.spawn(|| agree(some));
        agree(others);
    });
}

#[test]
fn no_state_is_a_full_bucket_at_every_extreme() {
    for limit in limits() {
        for now in moments() {
            for cost in costs(&limit) {
                Pair::default().step(&limit, cost, now).unwrap();
            }
            let level = limit.level(None, at(now));
            assert_eq!(level.remaining(), limit.capacity());
            assert_eq!(level.full_after_us(), 0);
            assert_eq!(level.state(), None);
        }
    }
}

#[test]
fn what_cannot_be_held_saturates() {
    for limit in limits() {
        for state in states() {
            for now in moments() {
                let level = limit.level(Some(state), at(now));
                let charged = level.charge(u64::MAX).charge(u64::MAX);
                assert_eq!(charged.remaining(), 0);
                let kept = charged.state().expect("something is spent");
                // As much as the largest capacity holds, and no more: the next conversion relies on it.
                match kept.spending {
                    Spending::Bucket { parts } => assert_eq!(parts, most_parts(kept.window)),
                    Spending::Windows { current, .. } => assert_eq!(current, u32::MAX),
                }
                limit.level(Some(kept), at(u64::MAX)).judge(1);
                limit.level(Some(kept), at(0)).full_after_us();
                level
                    .credit(u64::MAX, at(now))
                    .credit(u64::MAX, at(0))
                    .remaining();
                charged.credit(u64::MAX, at(u64::MAX)).full_after_us();
            }
        }
    }
}

fn agree(states: &[State]) {
    for limit in limits() {
        for state in states {
            for now in moments() {
                for cost in costs(&limit) {
                    if let Err(what) = Pair::of(*state).step(&limit, cost, now) {
                        panic!("{what}");
                    }
                }
            }
        }
    }
}

fn limits() -> Vec<Limit> {
    let mut limits = Vec::new();
    for window in WINDOWS {
        for rate in NUMBERS {
            limits.push(Limit::sliding_window(rate, window).unwrap());
            for capacity in NUMBERS {
                limits.push(Limit::token_bucket(rate, window, capacity).unwrap());
            }
        }
    }
    limits
}

fn costs(limit: &Limit) -> [u64; 7] {
    let capacity = u64::from(limit.capacity());
    [
        0,
        1,
        capacity - 1,
        capacity,
        capacity + 1,
        u64::from(u32::MAX),
        u64::MAX,
    ]
}

fn moments() -> [u64; 6] {
    let second = 1_000_000;
    [
        0,
        second - 1,
        second,
        Window::MAX.as_micros(),
        u64::MAX - second,
        u64::MAX,
    ]
}

/// What can be held: at most the largest capacity.
fn states() -> Vec<State> {
    let mut states = Vec::new();
    for window in WINDOWS {
        let most = most_parts(window);
        let buckets = [1, most / 3, most].map(|parts| Spending::Bucket { parts });
        let windows = [
            (0, 1),
            (1, 0),
            (1, 1),
            (0, u32::MAX),
            (u32::MAX, 0),
            (1 << 31, 1 << 30),
        ]
        .map(|(current, previous)| Spending::Windows { current, previous });
        for at in moments().map(at) {
            states.extend(buckets.iter().chain(&windows).map(|spending| State {
                at,
                window,
                spending: *spending,
            }));
        }
    }
    states
}

fn most_parts(window: Window) -> u128 {
    u128::from(window.as_micros()) * u128::from(u32::MAX)
}

/// A state that no limit writes, but that a store may have read from somewhere.
#[test]
fn a_state_out_of_bounds_reads_as_spent() {
    for window in WINDOWS {
        let state = State {
            at: Timestamp::from_micros(0),
            window,
            spending: Spending::Bucket { parts: u128::MAX },
        };
        for limit in limits() {
            let level = limit.level(Some(state), Timestamp::from_micros(0));
            assert_eq!(level.remaining(), 0);
            assert_ne!(level.judge(1), Judgement::Admit);
            assert!(level.charge(u64::MAX).full_after_us() > 0);
        }
    }
}

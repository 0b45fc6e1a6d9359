//! The bucket in 64 bits says what the bucket in 128 says, or declines to say anything.

use tollward_core::{Algorithm, Judgement, Limit, Spending, State, Timestamp, Window};

use crate::dice::Dice;
use crate::runs::{check, regressions};

fn spent(state: Option<State>) -> u128 {
    match state.map(|state| state.spending) {
        Some(Spending::Bucket { parts }) => parts,
        None => 0,
        Some(Spending::Windows { .. }) => panic!("not a bucket"),
    }
}

/// Compares the two on one bucket; whether the narrow one spoke.
fn agree(limit: &Limit, parts: u64, elapsed: u64, cost: u64) -> Result<bool, String> {
    let at = Timestamp::from_micros(1 << 40);
    let state = State {
        at,
        window: limit.window(),
        spending: Spending::Bucket {
            parts: parts.into(),
        },
    };
    let Some(narrow) = limit.narrow_level(parts, elapsed) else {
        return Ok(false);
    };
    let wide = limit.level(Some(state), at.saturating_add(elapsed));
    let context = || format!("{limit:?}, {parts} parts, {elapsed} us later, cost {cost}");
    let same = |narrow: tollward_core::NarrowLevel, wide: tollward_core::Level| {
        u128::from(narrow.parts()) == spent(wide.state())
            && narrow.remaining() == wide.remaining()
            && narrow.full_after_us() == wide.full_after_us()
    };
    if !same(narrow, wide) || narrow.judge(cost) != wide.judge(cost) {
        return Err(format!("{}: {narrow:?} but {wide:?}", context()));
    }
    if narrow.judge(cost) == Judgement::Admit && !same(narrow.charge(cost), wide.charge(cost)) {
        return Err(format!("{}: charged otherwise", context()));
    }
    Ok(true)
}

#[test]
fn both_levels_of_a_bucket_agree() {
    let spoke = std::cell::Cell::new(0u64);
    check(10, regressions!("narrow.txt"), |words| {
        for word in words {
            let mut dice = Dice::new(*word);
            let limit = dice.limit(Algorithm::TokenBucket);
            let ceiling = u64::from(limit.capacity()).saturating_mul(limit.window().as_micros());
            let parts = match dice.below(4) {
                0 => dice.word() >> dice.below(64),
                1 => ceiling.saturating_sub(dice.log_uniform(limit.window().as_micros())),
                2 => ceiling.saturating_add(dice.below(3)).saturating_sub(1),
                _ => dice.below(ceiling.max(1)),
            };
            let elapsed = match dice.below(3) {
                0 => 0,
                1 => dice.log_uniform((parts / u64::from(limit.rate())).max(1)),
                _ => dice.word() >> dice.below(64),
            };
            let cost = dice.cost(&limit, None);
            spoke.set(spoke.get() + u64::from(agree(&limit, parts, elapsed, cost)?));
        }
        Ok(())
    });
    assert!(spoke.get() > 10_000, "only {} were narrow", spoke.get());
}

#[test]
fn extremes_agree_or_are_left_to_the_other() {
    let numbers = [1, 2, 1_000_000, u32::MAX - 1, u32::MAX];
    let windows = [Window::SECOND, Window::HOUR, Window::MAX];
    let words = [0, 1, (1 << 63) - 1, 1 << 63, u64::MAX - 1, u64::MAX];
    for rate in numbers {
        for capacity in numbers {
            for window in windows {
                let limit = Limit::token_bucket(rate, window, capacity).unwrap();
                for parts in words {
                    for elapsed in words {
                        for cost in [0, 1, capacity.into(), u64::from(capacity) + 1, u64::MAX] {
                            agree(&limit, parts, elapsed, cost).unwrap();
                        }
                    }
                }
            }
        }
    }
    let sliding = Limit::sliding_window(10, Window::MINUTE).unwrap();
    assert!(sliding.narrow_level(0, 0).is_none());
}

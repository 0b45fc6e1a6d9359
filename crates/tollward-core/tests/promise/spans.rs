//! What is admitted over any span of time, and who is never refused.

use tollward_core::{Algorithm, Judgement, Limit, State, Window};

use crate::dice::Dice;
use crate::pair::{Pair, at};
use crate::runs::{check, regressions};

#[test]
fn a_bucket_admits_at_most_its_capacity_and_what_refills() {
    check(2, regressions!("bucket_span.txt"), |words| {
        let (limit, admitted) = admissions(words, Algorithm::TokenBucket)?;
        let length = u128::from(limit.window().as_micros());
        // C + R·T, times the window: exact, without the token that the promise allows for rounding.
        spans_hold(&admitted, |cost, span_us| {
            cost * length
                <= u128::from(limit.capacity()) * length + u128::from(limit.rate()) * span_us
        })
        .map_err(|what| format!("{what}: {limit:?}"))
    });
}

#[test]
fn a_sliding_window_admits_at_most_its_rate_and_what_slides() {
    check(2, regressions!("sliding_window_span.txt"), |words| {
        let (limit, admitted) = admissions(words, Algorithm::SlidingWindow)?;
        let length = u128::from(limit.window().as_micros());
        // rate × (1 + T/window), times the window.
        spans_hold(&admitted, |cost, span_us| {
            cost * length <= u128::from(limit.rate()) * (length + span_us)
        })
        .map_err(|what| format!("{what}: {limit:?}"))
    });
}

#[test]
fn the_bounds_are_reached() {
    // All at the end of a window, what slid out by the end of the next, and all after an empty one.
    let limit = Limit::sliding_window(10, Window::MINUTE).unwrap();
    let requests = [(59_999_999, 10), (119_999_999, 9), (180_000_000, 10)];
    let mut state = None;
    let mut admitted = 0;
    for (now, cost) in requests {
        admitted += take(&limit, &mut state, cost, now);
    }
    // Over a span of two windows: 10 × (1 + 2), less the one that had not quite slid out.
    assert_eq!(admitted, 29);

    let limit = Limit::token_bucket(10, Window::SECOND, 100).unwrap();
    let mut state = None;
    let admitted = (0..=100).map(|i| {
        take(
            &limit,
            &mut state,
            if i == 0 { 100 } else { 1 },
            i * 100_000,
        )
    });
    assert_eq!(admitted.sum::<u64>(), 200);
}

#[test]
fn a_caller_that_keeps_to_the_rate_is_never_refused() {
    check(1, regressions!("keeps_to_the_rate.txt"), |words| {
        let mut dice = Dice::new(words[0]);
        let limit = dice.limit(Algorithm::TokenBucket);
        let length = u128::from(limit.window().as_micros());
        let (mut now, mut state) = (dice.below(1 << 51), None);
        // A caller may wait for what it will ask, or for what it has asked.
        let waits_before = dice.one_in(2);
        for word in words {
            let mut dice = Dice::new(*word);
            let cost = dice.log_uniform(limit.capacity().into());
            let pause = (u128::from(cost) * length).div_ceil(limit.rate().into());
            let pause = u64::try_from(pause).unwrap_or(u64::MAX);
            let late = if dice.one_in(4) {
                dice.log_uniform(1 << 40)
            } else {
                0
            };
            let Some(later) = pause.checked_add(late).and_then(|us| now.checked_add(us)) else {
                return Ok(());
            };
            let asked_at = if waits_before { later } else { now };
            if take(&limit, &mut state, cost, asked_at) != cost {
                return Err(format!(
                    "{cost} refused at {asked_at}: {limit:?}, {state:?}"
                ));
            }
            now = later;
        }
        Ok(())
    });
}

#[test]
fn polling_at_10_khz_admits_the_capacity_and_the_rate() {
    for capacity in [1, 5, 100] {
        let limit = Limit::token_bucket(1, Window::SECOND, capacity).unwrap();
        for start in [0, 1_766_000_000_123_457] {
            let mut state = None;
            let polls = (0..=600_000).map(|i| take(&limit, &mut state, 1, start + i * 100));
            assert_eq!(polls.sum::<u64>(), u64::from(capacity) + 60);
        }
    }
}

/// Applies `cost` as a store would; what was admitted of it.
pub(crate) fn take(limit: &Limit, state: &mut Option<State>, cost: u64, now: u64) -> u64 {
    let level = limit.level(*state, at(now));
    if level.judge(cost) == Judgement::Admit {
        *state = level.charge(cost).state();
        return cost;
    }
    if level.stepped_back() {
        *state = level.state();
    }
    0
}

/// What one limit admits of a random run in which time does not go back: when, and how much.
fn admissions(words: &[u64], algorithm: Algorithm) -> Result<(Limit, Vec<(u64, u64)>), String> {
    let mut dice = Dice::new(words[0]);
    let limit = dice.limit(algorithm);
    let (mut now, mut pair, mut last) = (dice.start(), Pair::default(), None);
    let mut admitted = Vec::new();
    for word in words {
        let mut dice = Dice::new(*word);
        now = dice.forward(&limit, now, last.as_ref());
        let cost = dice.cost(&limit, last.as_ref());
        let outcome = pair.step(&limit, cost, now)?;
        if outcome.judgement == Judgement::Admit {
            admitted.push((now, cost));
        }
        last = Some(outcome);
    }
    Ok((limit, admitted))
}

/// Does `holds(cost admitted, span in microseconds)` for every span that begins and ends with an
/// admission? Every other span has the cost of one of these, and is longer.
fn spans_hold(admitted: &[(u64, u64)], holds: impl Fn(u128, u128) -> bool) -> Result<(), String> {
    for (i, (from, _)) in admitted.iter().enumerate() {
        let mut cost = 0;
        for (to, more) in &admitted[i..] {
            cost += u128::from(*more);
            if !holds(cost, u128::from(to - from)) {
                return Err(format!("{cost} admitted from {from} to {to}"));
            }
        }
    }
    Ok(())
}

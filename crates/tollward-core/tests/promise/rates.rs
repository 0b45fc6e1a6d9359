//! What a change of the limit keeps.

use tollward_core::{Judgement, Limit, State, Window};

use crate::pair::{Pair, at, spent};
use crate::spans::take;

const NOW: u64 = 1_766_000_000_123_457;

fn bucket(rate: u32, secs: u32, capacity: u32) -> Limit {
    Limit::token_bucket(rate, Window::from_secs(secs).unwrap(), capacity).unwrap()
}

fn sliding(rate: u32, secs: u32) -> Limit {
    Limit::sliding_window(rate, Window::from_secs(secs).unwrap()).unwrap()
}

/// Changes between `limits` a thousand times at one moment, each time with what is free and what is
/// not; what is admitted on the way, and what is held at the end.
fn flap(limits: &[Limit], mut state: Option<State>) -> (u64, Option<State>) {
    let mut admitted = 0;
    let mut pair = Pair::of(state.unwrap());
    for limit in limits.iter().cycle().take(1_000 * limits.len()) {
        let before = state;
        // A cost of 0 is admitted, so that the state is rewritten in the terms of this limit.
        take(limit, &mut state, 0, NOW);
        assert!(
            spent(&state.unwrap()) >= spent(&before.unwrap()),
            "{limit:?} minted"
        );
        admitted += take(limit, &mut state, 1, NOW);
        pair.step(limit, 0, NOW).unwrap();
        pair.step(limit, 1, NOW).unwrap();
        assert_eq!(pair.state, state);
    }
    (admitted, state)
}

#[test]
fn lowering_and_raising_a_thousand_times_mints_nothing() {
    let whole = bucket(10, 1, 100);
    let mut drained = None;
    take(&whole, &mut drained, 100, NOW);
    for other in [
        bucket(10, 1, 1),
        bucket(10, 1, 99),
        bucket(1, 1, 100),
        bucket(u32::MAX, 1, 100),
        bucket(10, 7, 100),
        bucket(10, Window::MAX.as_secs(), 100),
        sliding(100, 1),
        sliding(10, 60),
        sliding(100, 86_400),
    ] {
        let (admitted, state) = flap(&[other, whole], drained);
        assert_eq!(admitted, 0, "{other:?}");
        assert_eq!(state, drained, "{other:?}");
    }
}

#[test]
fn a_thousand_changes_of_what_is_partly_spent_cost_less_than_a_token() {
    // A third of a token is spent: no window of these has an exact third.
    let limits = [bucket(1, 3, 100), bucket(1, 7, 100), bucket(1, 11, 100)];
    let mut state = None;
    take(&limits[0], &mut state, 1, NOW - 2_000_000);
    take(&limits[0], &mut state, 0, NOW);
    assert_eq!(limits[0].level(state, at(NOW)).remaining(), 99);
    let (admitted, _) = flap(&limits, state);
    assert_eq!(admitted, 99);

    // A sliding window counts in whole tokens: rounded once, it stays.
    let (admitted, _) = flap(&[limits[0], sliding(100, 7), sliding(100, 60)], state);
    assert_eq!(admitted, 99);
}

#[test]
fn raising_a_capacity_by_50_gives_exactly_50_more() {
    for taken in [0, 1, 60, 100] {
        let mut state = None;
        take(&bucket(10, 1, 100), &mut state, taken, NOW);
        let raised = bucket(10, 1, 150);
        let left = 150 - u32::try_from(taken).unwrap();
        assert_eq!(raised.level(state, at(NOW)).remaining(), left);
        let admitted = (0..200).map(|_| take(&raised, &mut state, 1, NOW));
        assert_eq!(admitted.sum::<u64>(), u64::from(left));

        let mut state = None;
        take(&sliding(100, 60), &mut state, taken, NOW);
        assert_eq!(sliding(150, 60).level(state, at(NOW)).remaining(), left);
    }
}

#[test]
fn lowering_below_what_is_spent_is_a_debt() {
    let mut state = None;
    take(&bucket(10, 1, 100), &mut state, 100, NOW);
    let lowered = bucket(10, 1, 20);
    let level = lowered.level(state, at(NOW));
    assert_eq!(level.remaining(), 0);
    // 81 tokens have to come back before one is left of 20.
    assert_eq!(level.judge(1), Judgement::Refuse { wait_us: 8_100_000 });
    assert_eq!(level.judge(21), Judgement::Never);
    assert_eq!(level.full_after_us(), 10_000_000);
    take(&lowered, &mut state, 0, NOW);
    assert_eq!(bucket(10, 1, 150).level(state, at(NOW)).remaining(), 50);
}

#[test]
fn time_refills_at_the_rate_in_force_when_it_is_touched() {
    let mut state = None;
    take(&bucket(1, 1, 100), &mut state, 100, NOW);
    let later = at(NOW + 2_000_000);
    assert_eq!(bucket(1, 1, 100).level(state, later).remaining(), 2);
    assert_eq!(bucket(10, 1, 100).level(state, later).remaining(), 20);
    assert_eq!(bucket(10, 2, 100).level(state, later).remaining(), 10);
}

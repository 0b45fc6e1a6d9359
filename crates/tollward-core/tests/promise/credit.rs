//! Giving back what was taken.

use tollward_core::{Algorithm, Judgement, Level, Limit, State, Window};
use tollward_testkit::oracle::Tokens;

use crate::dice::Dice;
use crate::pair::{Pair, at, spent};
use crate::runs::{check, regressions};

#[test]
fn a_credit_gives_back_at_most_what_is_spent() {
    random_levels(regressions!("credit.txt"), |dice, level, now| {
        let cost = dice.cost(level.limit(), None);
        let before = spent_of(level);
        let after = spent_of(&level.credit(cost, at(now)));
        let given = &before - &after;
        let zero = before.clone() - &before;
        if given < zero || given > Tokens::from_integer(cost.into()) {
            return Err(format!("a credit of {cost} gave {given} of {before}"));
        }
        if level.limit().algorithm() == Algorithm::TokenBucket {
            let expected = Tokens::from_integer(cost.into()).min(before);
            if given != expected {
                return Err(format!("a credit of {cost} gave {given}, not {expected}"));
            }
        }
        Ok(())
    });
}

#[test]
fn a_charge_and_its_credit_at_the_same_moment_are_nothing() {
    random_levels(regressions!("charge_and_credit.txt"), |dice, level, now| {
        let cost = dice.cost(level.limit(), None);
        if level.judge(cost) != Judgement::Admit {
            return Ok(());
        }
        let back = level.charge(cost).credit(cost, at(now));
        if back != *level {
            return Err(format!("{cost} charged and credited gives {back:?}"));
        }
        Ok(())
    });
}

#[test]
fn a_charge_within_the_slack_is_given_back_from_the_window_it_is_in() {
    let limit = Limit::sliding_window(10, Window::MINUTE).unwrap();
    // The bucket has been touched just after the edge; this clock is just before it.
    let state = limit.level(None, at(60_100_000)).charge(2).state();
    let level = limit.level(state, at(59_900_000));
    let back = level.charge(5).credit(5, at(59_900_000));
    assert_eq!(back.remaining(), 8);
    assert_eq!(back, level);
}

#[test]
fn a_late_credit_to_a_sliding_window_leaves_what_others_spent() {
    check(1, regressions!("late_credit.txt"), |words| {
        let mut dice = Dice::new(words[0]);
        let limit = dice.limit(Algorithm::SlidingWindow);
        let (charged_at, cost) = (dice.below(1 << 51), dice.log_uniform(limit.rate().into()));
        let mut with = limit.level(None, at(charged_at)).charge(cost).state();
        let mut without = None;
        let mut now = charged_at;
        for word in words {
            let mut dice = Dice::new(*word);
            now = dice.forward(&limit, now, None);
            let others = dice.log_uniform(limit.rate().into());
            // What is admitted beside the charge is admitted without it: both hold the same of others.
            let level = limit.level(with, at(now));
            if level.judge(others) == Judgement::Admit {
                with = level.charge(others).state();
                without = limit.level(without, at(now)).charge(others).state();
            }
            let credited = limit.level(with, at(now)).credit(cost, at(charged_at));
            never_looser(&limit, credited.state(), without, now)?;
        }
        Ok(())
    });
}

#[test]
fn a_credit_after_the_window_changed_leaves_what_others_spent() {
    let short = Limit::sliding_window(100, Window::from_secs(100).unwrap()).unwrap();
    let long = Limit::sliding_window(100, Window::from_secs(1_000).unwrap()).unwrap();
    // Charged in one short window, a tenth of it still counts in the next, and both are in one long one.
    let with = short.level(None, at(150_000_000)).charge(50).state();
    let with = short.level(with, at(290_000_000)).charge(60).state();
    let without = short.level(None, at(290_000_000)).charge(60).state();
    let credited = long
        .level(with, at(291_000_000))
        .credit(50, at(150_000_000));
    never_looser(&long, credited.state(), without, 291_000_000).unwrap();
}

#[test]
fn a_credit_after_the_clock_stepped_back_leaves_what_others_spent() {
    let limit = Limit::sliding_window(100, Window::from_secs(100).unwrap()).unwrap();
    let with = limit.level(None, at(150_000_000)).charge(50).state();
    let with = limit.level(with, at(290_000_000)).charge(60).state();
    let without = limit.level(None, at(290_000_000)).charge(60).state();
    // Back into the window of the charge, of which a tenth counts. Both see the step.
    let without = limit.level(without, at(160_000_000)).state();
    let credited = limit
        .level(with, at(160_000_000))
        .credit(50, at(150_000_000));
    never_looser(&limit, credited.state(), without, 160_000_000).unwrap();
}

/// Calls `test` with the levels that random runs come by, at moments that the clock has not passed.
fn random_levels(
    regressions: &'static str,
    test: impl Fn(&mut Dice, &Level, u64) -> Result<(), String>,
) {
    check(1, regressions, |words| {
        let mut dice = Dice::new(words[0]);
        let algorithm = dice.of(&[Algorithm::TokenBucket, Algorithm::SlidingWindow]);
        let limit = dice.limit(algorithm);
        let (mut now, mut pair, mut last) = (dice.start(), Pair::default(), None);
        for word in words {
            let mut dice = Dice::new(*word);
            now = dice.forward(&limit, now, last.as_ref());
            let cost = dice.cost(&limit, last.as_ref());
            last = Some(pair.step(&limit, cost, now)?);
            let level = limit.level(pair.state, at(now));
            test(&mut dice, &level, now).map_err(|what| format!("{what}: {level:?} at {now}"))?;
        }
        Ok(())
    });
}

/// Is no less spent of `credited` than of `without`, now and at the edges of the next windows?
fn never_looser(
    limit: &Limit,
    credited: Option<State>,
    without: Option<State>,
    now: u64,
) -> Result<(), String> {
    let length = limit.window().as_micros();
    for later in [0, 1, length - now % length, length] {
        let then = at(now.saturating_add(later));
        let (left, bound) = (limit.level(credited, then), limit.level(without, then));
        if spent_of(&left) < spent_of(&bound) {
            return Err(format!(
                "{later} us later {left:?} has spent less than {bound:?}"
            ));
        }
    }
    Ok(())
}

fn spent_of(level: &Level) -> Tokens {
    level.state().map_or_else(
        || Tokens::from_integer(0.into()),
        |state| spent(&state).reduced(),
    )
}

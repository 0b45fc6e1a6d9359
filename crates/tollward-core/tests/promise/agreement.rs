//! The core and the oracle agree, step by step.

use std::cell::RefCell;

use tollward_core::{Algorithm, CLOCK_SLACK_US, Judgement, Limit};
use tollward_testkit::oracle;

use crate::dice::Dice;
use crate::pair::{Outcome, Pair};
use crate::runs::{check, regressions};

#[test]
fn a_bucket_agrees_exactly_whatever_its_rate_capacity_and_clock() {
    let plan = Plan {
        algorithm: Some(Algorithm::TokenBucket),
        steps_back: true,
    };
    let seen = plan.check(35, regressions!("bucket.txt"));
    assert_eq!(seen.exact, seen.steps);
    assert!(seen.stepped_back > seen.steps / 200, "{seen:?}");
}

#[test]
fn a_sliding_window_agrees_exactly_whatever_its_rate() {
    let plan = Plan {
        algorithm: Some(Algorithm::SlidingWindow),
        steps_back: false,
    };
    let seen = plan.check(25, regressions!("sliding_window.txt"));
    assert_eq!(seen.exact, seen.steps);
    assert_eq!(seen.stepped_back, 0);
}

#[test]
fn a_clock_stepped_back_makes_a_sliding_window_no_looser() {
    let plan = Plan {
        algorithm: Some(Algorithm::SlidingWindow),
        steps_back: true,
    };
    let seen = plan.check(10, regressions!("sliding_window_clock.txt"));
    assert!(seen.exact > seen.steps / 10, "{seen:?}");
    assert!(seen.stepped_back > seen.steps / 200, "{seen:?}");
}

#[test]
fn no_change_of_window_or_algorithm_makes_it_looser() {
    let plan = Plan {
        algorithm: None,
        steps_back: true,
    };
    let seen = plan.check(25, regressions!("changes.txt"));
    assert!(seen.exact > seen.steps / 10, "{seen:?}");
    assert!(seen.exact < seen.steps / 10 * 9, "{seen:?}");
    assert!(seen.stepped_back > seen.steps / 200, "{seen:?}");
}

#[test]
fn the_slack_is_what_the_oracle_says() {
    assert_eq!(CLOCK_SLACK_US, oracle::SLACK_US);
}

/// What may happen in a run.
struct Plan {
    /// The algorithm of all its limits, which also share their window; `None` if both change as well.
    algorithm: Option<Algorithm>,
    /// The clock is sometimes stepped back by more than the slack.
    steps_back: bool,
}

impl Plan {
    fn check(&self, percent: u64, regressions: &'static str) -> Seen {
        let seen = RefCell::new(Seen::default());
        check(percent, regressions, |words| self.run(words, &seen));
        let seen = seen.into_inner();
        seen.assert_varied();
        seen
    }

    fn run(&self, words: &[u64], seen: &RefCell<Seen>) -> Result<(), String> {
        let mut dice = Dice::new(words[0]);
        let mut limit = self.first_limit(&mut dice);
        let mut now = dice.start();
        let mut pair = Pair::default();
        let mut last = None;
        for word in words {
            let mut dice = Dice::new(*word);
            if dice.one_in(12) {
                limit = self.next_limit(&mut dice, &limit);
            }
            now = self.next_moment(&mut dice, &limit, now, &pair, last.as_ref());
            let cost = dice.cost(&limit, last.as_ref());
            let outcome = pair.step(&limit, cost, now)?;
            seen.borrow_mut().count(&outcome);
            last = Some(outcome);
        }
        Ok(())
    }

    fn first_limit(&self, dice: &mut Dice) -> Limit {
        let either = dice.of(&[Algorithm::TokenBucket, Algorithm::SlidingWindow]);
        dice.limit(self.algorithm.unwrap_or(either))
    }

    fn next_limit(&self, dice: &mut Dice, limit: &Limit) -> Limit {
        match self.algorithm {
            Some(algorithm) => dice.limit_over(algorithm, limit.window()),
            None => self.first_limit(dice),
        }
    }

    fn next_moment(
        &self,
        dice: &mut Dice,
        limit: &Limit,
        now: u64,
        pair: &Pair,
        last: Option<&Outcome>,
    ) -> u64 {
        let next = if dice.one_in(16) {
            dice.backward(limit, now, pair.state)
        } else if dice.one_in(256) {
            dice.start()
        } else {
            dice.forward(limit, now, last)
        };
        match pair.state {
            Some(state) if !self.steps_back => {
                next.max(state.at.as_micros().saturating_sub(CLOCK_SLACK_US))
            }
            _ => next,
        }
    }
}

/// What a test has met, so that it cannot pass by meeting nothing.
#[derive(Debug, Default)]
struct Seen {
    steps: u64,
    admitted: u64,
    refused: u64,
    never: u64,
    stepped_back: u64,
    exact: u64,
}

impl Seen {
    fn count(&mut self, outcome: &Outcome) {
        self.steps += 1;
        match outcome.judgement {
            Judgement::Admit => self.admitted += 1,
            Judgement::Refuse { .. } => self.refused += 1,
            Judgement::Never => self.never += 1,
        }
        self.stepped_back += u64::from(outcome.stepped_back);
        self.exact += u64::from(outcome.exact);
    }

    fn assert_varied(&self) {
        assert!(self.admitted > self.steps / 5, "{self:?}");
        assert!(self.refused > self.steps / 5, "{self:?}");
        assert!(self.never > self.steps / 100, "{self:?}");
    }
}

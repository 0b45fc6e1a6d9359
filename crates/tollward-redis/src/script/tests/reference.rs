//! What the parts of a batch should do, said as simply as the core's functions allow.

use std::collections::HashMap;

use tollward_core::{
    Algorithm, Charge, Judgement, Key, Level, OnFailure, Spending, State, Timestamp,
};
use tollward_store::{Mode, Outcome};
use tollward_testkit::conformance::{Model, Pay};

use super::FAMILY;
use crate::part::{Op, Trace};

/// States by the number of a bucket; and the conformance suite's model beside it, which must agree, as long
/// as nothing is asked that it does not know.
#[derive(Default)]
pub(super) struct Reference {
    pub(super) states: HashMap<u64, State>,
    model: Option<Model>,
}

impl Reference {
    /// One that is held to the conformance suite's model, and can neither settle nor undo.
    pub(super) fn with_model() -> Self {
        Self {
            model: Some(Model::default()),
            ..Self::default()
        }
    }

    pub(super) fn decide(&mut self, op: Op, pays: &[Pay], now: Timestamp) -> (bool, Vec<Outcome>) {
        self.decide_with(op, pays, &[], now)
    }

    /// The same, with what there is to undo.
    pub(super) fn decide_with(
        &mut self,
        op: Op,
        pays: &[Pay],
        traces: &[Trace],
        now: Timestamp,
    ) -> (bool, Vec<Outcome>) {
        let decided = match op {
            Op::Charge => self.apply(pays, Mode::Charge, now),
            Op::Peek => self.apply(pays, Mode::Peek, now),
            Op::Credit { charged_at } => {
                let credit = |pay| self.credit(pay, charged_at, now);
                (true, pays.iter().map(credit).collect())
            }
            Op::Undo { charged_at } => {
                let undo = |(pay, trace)| self.undo(pay, trace, charged_at, now);
                (true, pays.iter().zip(traces).map(undo).collect())
            }
            Op::Settle => (true, pays.iter().map(|pay| self.settle(pay, now)).collect()),
        };
        if let Some(model) = &mut self.model {
            agree(model, op, pays, now, &decided);
            for pay in pays {
                let scope = pay.key.to_be_bytes();
                let theirs = model.state(key(&scope));
                assert_eq!(self.states.get(&pay.key), theirs.as_ref());
            }
        }
        decided
    }

    fn apply(&mut self, pays: &[Pay], mode: Mode, now: Timestamp) -> (bool, Vec<Outcome>) {
        let state_of = |pay: &Pay| (pay.key, self.states.get(&pay.key).copied());
        let before: Vec<_> = pays.iter().map(state_of).collect();
        let mut judgements = Vec::new();
        for pay in pays {
            let level = self.level(pay, now);
            judgements.push(level.judge(pay.cost));
            if level.judge(pay.cost) == Judgement::Admit {
                self.keep(pay.key, &level.charge(pay.cost));
            }
        }
        for (key, state) in before {
            match state {
                Some(state) => self.states.insert(key, state),
                None => self.states.remove(&key),
            };
        }
        let refused = |(pay, said): (&Pay, &Judgement)| !pay.shadow && *said != Judgement::Admit;
        let admitted = !pays.iter().zip(&judgements).any(refused);
        let mut outcomes = Vec::new();
        for (pay, said) in pays.iter().zip(judgements) {
            let level = self.level(pay, now);
            let takes = mode == Mode::Charge && admitted && said == Judgement::Admit;
            let after = if takes { level.charge(pay.cost) } else { level };
            if (takes && pay.cost > 0) || (mode == Mode::Charge && level.stepped_back()) {
                self.keep(pay.key, &after);
            }
            outcomes.push(Outcome::new(said, &after));
        }
        (admitted, outcomes)
    }

    fn credit(&mut self, pay: &Pay, charged_at: Timestamp, now: Timestamp) -> Outcome {
        let mut level = self.level(pay, now);
        if self.states.contains_key(&pay.key) {
            level = level.credit(pay.cost, charged_at);
            self.keep(pay.key, &level);
        }
        Outcome::new(Judgement::Admit, &level)
    }

    fn undo(&mut self, pay: &Pay, trace: &Trace, charged_at: Timestamp, now: Timestamp) -> Outcome {
        if self.states.get(&pay.key) != trace.after.as_ref() {
            return self.credit(pay, charged_at, now);
        }
        match trace.before {
            Some(state) => self.states.insert(pay.key, state),
            None => self.states.remove(&pay.key),
        };
        Outcome::new(Judgement::Admit, &self.level(pay, now))
    }

    fn settle(&mut self, pay: &Pay, now: Timestamp) -> Outcome {
        let level = self.level(pay, now);
        let said = level.judge(pay.cost);
        let after = match pay.limit.algorithm() {
            Algorithm::TokenBucket => emptied(&level, pay, now),
            Algorithm::SlidingWindow => level.charge(most_admitted(&level, pay.cost)),
        };
        if after.state() != level.state() || level.stepped_back() {
            self.keep(pay.key, &after);
        }
        Outcome::new(said, &after)
    }

    pub(super) fn level(&self, pay: &Pay, now: Timestamp) -> Level {
        pay.limit.level(self.states.get(&pay.key).copied(), now)
    }

    fn keep(&mut self, key: u64, level: &Level) {
        match level.state() {
            Some(state) => self.states.insert(key, state),
            None => self.states.remove(&key),
        };
    }
}

/// The largest cost up to this one that is admitted.
fn most_admitted(level: &Level, cost: u64) -> u64 {
    let (mut yes, mut no) = (0, cost.saturating_add(1));
    while no - yes > 1 {
        let middle = yes + (no - yes) / 2;
        if level.judge(middle) == Judgement::Admit {
            yes = middle;
        } else {
            no = middle;
        }
    }
    yes
}

/// A bucket with spent + cost spent, but no more than the capacity, unless it was more before.
fn emptied(level: &Level, pay: &Pay, now: Timestamp) -> Level {
    let length = u128::from(pay.limit.window().as_micros());
    let parts_of = |level: &Level| match level.state().map(|state| state.spending) {
        None => 0,
        Some(Spending::Bucket { parts }) => parts,
        Some(Spending::Windows { .. }) => panic!("not a bucket"),
    };
    let spent = parts_of(level);
    let wanted = spent.saturating_add(u128::from(pay.cost) * length);
    let parts = wanted
        .min(u128::from(pay.limit.capacity()) * length)
        .max(spent);
    if parts == spent {
        return *level;
    }
    let state = State {
        spending: Spending::Bucket { parts },
        // Spends something, so it has a state, which knows the moment.
        ..level.charge(1).state().unwrap()
    };
    pay.limit.level(Some(state), now)
}

/// Asks the model the same.
fn agree(model: &mut Model, op: Op, pays: &[Pay], now: Timestamp, said: &(bool, Vec<Outcome>)) {
    let scopes: Vec<[u8; 8]> = pays.iter().map(|pay| pay.key.to_be_bytes()).collect();
    let charges: Vec<Charge<'_>> = pays
        .iter()
        .zip(&scopes)
        .map(|(pay, scope)| Charge {
            name: FAMILY,
            limit: &pay.limit,
            key: key(scope),
            cost: pay.cost,
            shadow: pay.shadow,
            on_failure: OnFailure::Local,
        })
        .collect();
    match op {
        Op::Charge => assert_eq!(model.apply(&charges, Mode::Charge, now), *said),
        Op::Peek => assert_eq!(model.apply(&charges, Mode::Peek, now), *said),
        Op::Credit { charged_at } => model.credit(&charges, charged_at, now),
        Op::Settle | Op::Undo { .. } => panic!("the model knows no {op:?}"),
    }
}

fn key(scope: &[u8]) -> Key<'_> {
    Key {
        family: FAMILY,
        scope,
    }
}

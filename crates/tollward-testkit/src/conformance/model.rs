use std::collections::HashMap;

use tollward_core::{Charge, Judgement, Key, Level, State, Timestamp};
use tollward_store::{Mode, Outcome};

/// The simplest store: a map of states, one request after the other, and all or nothing.
///
/// It forgets nothing, not even a bucket that is full again, and it shares no code with a store but the
/// pure functions of the core.
#[derive(Clone, Debug, Default)]
pub struct Model {
    states: HashMap<(String, Vec<u8>), State>,
}

impl Model {
    /// What [`tollward_store::Store::apply`] should answer.
    pub fn apply(
        &mut self,
        charges: &[Charge<'_>],
        mode: Mode,
        now: Timestamp,
    ) -> (bool, Vec<Outcome>) {
        // First as if every charge counted that is admitted: this decides.
        let mut trial = self.clone_of(charges);
        let mut judgements = Vec::new();
        for charge in charges {
            let level = trial.level(charge, now);
            let judgement = level.judge(charge.cost);
            if judgement == Judgement::Admit {
                trial.keep(charge.key, &level.charge(charge.cost));
            }
            judgements.push(judgement);
        }
        let admitted = charges
            .iter()
            .zip(&judgements)
            .all(|(charge, judgement)| charge.shadow || *judgement == Judgement::Admit);
        // Then for good, in the same order.
        let taken = admitted && mode == Mode::Charge;
        let mut outcomes = Vec::new();
        for (charge, judgement) in charges.iter().zip(judgements) {
            let mut level = self.level(charge, now);
            let pays = taken && judgement == Judgement::Admit && charge.cost > 0;
            if pays {
                level = level.charge(charge.cost);
            }
            outcomes.push(Outcome::new(judgement, &level));
            if pays || (mode == Mode::Charge && level.stepped_back()) {
                self.keep(charge.key, &level);
            }
        }
        (admitted, outcomes)
    }

    /// What [`tollward_store::Store::credit`] should do.
    pub fn credit(&mut self, charges: &[Charge<'_>], charged_at: Timestamp, now: Timestamp) {
        for charge in charges {
            if self.state(charge.key).is_some() {
                let level = self.level(charge, now).credit(charge.cost, charged_at);
                self.keep(charge.key, &level);
            }
        }
    }

    /// What this bucket has spent; none if it was never touched or last seen full.
    pub fn state(&self, key: Key<'_>) -> Option<State> {
        self.states.get(&owned(key)).copied()
    }

    fn level(&self, charge: &Charge<'_>, now: Timestamp) -> Level {
        charge.limit.level(self.state(charge.key), now)
    }

    fn keep(&mut self, key: Key<'_>, level: &Level) {
        match level.state() {
            Some(state) => self.states.insert(owned(key), state),
            None => self.states.remove(&owned(key)),
        };
    }

    fn clone_of(&self, charges: &[Charge<'_>]) -> Self {
        let states = charges
            .iter()
            .filter_map(|charge| Some((owned(charge.key), self.state(charge.key)?)));
        Self {
            states: states.collect(),
        }
    }
}

fn owned(key: Key<'_>) -> (String, Vec<u8>) {
    (key.family.to_owned(), key.scope.to_vec())
}

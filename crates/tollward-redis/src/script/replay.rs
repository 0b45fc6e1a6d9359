use smallvec::SmallVec;
use tollward_core::{Algorithm, Judgement, Level, Spending, State, Timestamp};
use tollward_store::Outcome;

use super::has_twins;
use crate::part::{Answer, ChargeAnswer, Op, Part, PartCharge};

/// What the core makes of a batch, from the states that the script found.
pub(super) struct Replay {
    now: Timestamp,
    states: Vec<Option<State>>,
}

impl Replay {
    pub(super) fn new(now: Timestamp, states: Vec<Option<State>>) -> Self {
        Self { now, states }
    }

    /// Decides the next part, whose charges go to these places among the states.
    pub(super) fn decide(&mut self, part: &Part, places: &[u32]) -> Answer {
        let (admitted, charges) = match part.op {
            Op::Charge => self.apply(part, places, true),
            Op::Peek => self.apply(part, places, false),
            Op::Credit { charged_at } => (
                true,
                each(part, places, |charge, place| {
                    self.credit(charge, place, charged_at)
                }),
            ),
            Op::Undo { charged_at } => {
                let mut traces = part.traces.iter();
                let undo = |charge: &PartCharge, place: usize| {
                    let trace = traces.next();
                    match trace.filter(|trace| self.states[place] == trace.after) {
                        Some(trace) => self.put_back(charge, place, trace.before),
                        None => self.credit(charge, place, charged_at),
                    }
                };
                (true, each(part, places, undo))
            }
            Op::Settle => (
                true,
                each(part, places, |charge, place| self.settle(charge, place)),
            ),
        };
        Answer {
            admitted,
            at: self.now,
            charges,
        }
    }

    fn apply(
        &mut self,
        part: &Part,
        places: &[u32],
        charging: bool,
    ) -> (bool, SmallVec<[ChargeAnswer; 4]>) {
        let judgements = if has_twins(places) {
            self.judge_in_turn(part, places)
        } else {
            let judge = |(charge, &place): (&PartCharge, &u32)| {
                self.level(charge, place as usize).judge(charge.cost)
            };
            part.charges.iter().zip(places).map(judge).collect()
        };
        let admitted = part
            .charges
            .iter()
            .zip(&judgements)
            .all(|(charge, judgement)| charge.shadow || *judgement == Judgement::Admit);
        let mut judgements = judgements.into_iter();
        let charges = each(part, places, |charge, place| {
            let judgement = judgements.next().unwrap_or(Judgement::Never);
            let before = self.states[place];
            let mut level = self.level(charge, place);
            let pays = charging && admitted && judgement == Judgement::Admit && charge.cost > 0;
            if pays {
                level = level.charge(charge.cost);
            }
            if pays || (charging && level.stepped_back()) {
                self.states[place] = level.state();
            }
            self.answer(judgement, &level, place, before)
        });
        (admitted, charges)
    }

    /// What each charge is told when those before it that are admitted count already.
    fn judge_in_turn(&mut self, part: &Part, places: &[u32]) -> SmallVec<[Judgement; 4]> {
        let before: SmallVec<[Option<State>; 4]> = places
            .iter()
            .map(|&place| self.states[place as usize])
            .collect();
        let judgements = each(part, places, |charge, place| {
            let level = self.level(charge, place);
            let judgement = level.judge(charge.cost);
            if judgement == Judgement::Admit {
                self.states[place] = level.charge(charge.cost).state();
            }
            judgement
        });
        for (&place, state) in places.iter().zip(before) {
            self.states[place as usize] = state;
        }
        judgements
    }

    fn credit(&mut self, charge: &PartCharge, place: usize, charged_at: Timestamp) -> ChargeAnswer {
        let before = self.states[place];
        let mut level = self.level(charge, place);
        if before.is_some() {
            level = level.credit(charge.cost, charged_at);
            self.states[place] = level.state();
        }
        self.answer(Judgement::Admit, &level, place, before)
    }

    fn put_back(
        &mut self,
        charge: &PartCharge,
        place: usize,
        state: Option<State>,
    ) -> ChargeAnswer {
        let before = std::mem::replace(&mut self.states[place], state);
        let level = self.level(charge, place);
        self.answer(Judgement::Admit, &level, place, before)
    }

    fn settle(&mut self, charge: &PartCharge, place: usize) -> ChargeAnswer {
        let before = self.states[place];
        let mut level = self.level(charge, place);
        let judgement = level.judge(charge.cost);
        let settled = settled(&level, charge.cost, self.now);
        if settled.is_some() || level.stepped_back() {
            level = settled.unwrap_or(level);
            self.states[place] = level.state();
        }
        self.answer(judgement, &level, place, before)
    }

    fn answer(
        &self,
        judgement: Judgement,
        level: &Level,
        place: usize,
        before: Option<State>,
    ) -> ChargeAnswer {
        ChargeAnswer {
            outcome: Outcome::new(judgement, level),
            before,
            state: self.states[place],
        }
    }

    fn level(&self, charge: &PartCharge, place: usize) -> Level {
        charge.limit.level(self.states[place], self.now)
    }
}

/// The level after as much of `cost` was taken as is left. None if that is nothing.
fn settled(level: &Level, cost: u64, now: Timestamp) -> Option<Level> {
    let limit = level.limit();
    let left = u64::from(level.remaining());
    let taken = level.charge(cost.min(left));
    if cost <= left || limit.algorithm() == Algorithm::SlidingWindow {
        return (cost.min(left) > 0).then_some(taken);
    }
    // A bucket may have a part of a token left, which goes too.
    let ceiling = u128::from(limit.capacity()) * u128::from(limit.window().as_micros());
    match taken.state()? {
        State {
            at,
            window,
            spending: Spending::Bucket { parts },
        } if parts < ceiling => {
            let spending = Spending::Bucket { parts: ceiling };
            let emptied = State {
                at,
                window,
                spending,
            };
            Some(limit.level(Some(emptied), now))
        }
        _ => (left > 0).then_some(taken),
    }
}

fn each<T>(
    part: &Part,
    places: &[u32],
    mut one: impl FnMut(&PartCharge, usize) -> T,
) -> SmallVec<[T; 4]>
where
    [T; 4]: smallvec::Array<Item = T>,
{
    part.charges
        .iter()
        .zip(places)
        .map(|(charge, &place)| one(charge, place as usize))
        .collect()
}

//! What the outcomes of a store amount to.

use smallvec::SmallVec;
use tollward_core::{Charge, Judgement, Limit, Timestamp};
use tollward_policy::{Charges, LimitId, PolicyLimit, Strategy};
use tollward_store::{Mode, Outcome};

use crate::decision::{Action, Decision, LimitStatus, Reason, Source};

/// The limits of a request after the store has spoken, and which of them stand out. Each is an index of
/// `limits`, with what it stands out by.
#[derive(Default)]
pub(crate) struct Judged<'p> {
    limits: SmallVec<[LimitStatus<'p>; 4]>,
    /// Admits, with the fewest further requests of this cost left.
    nearest: Option<(usize, u64)>,
    /// Refuses, for the longest time in microseconds.
    longest: Option<(usize, u64)>,
    /// Holds less than the request costs.
    never: Option<usize>,
    /// Makes it wait the longest, in microseconds.
    queued: Option<(usize, u64)>,
    /// Is empty, and lets it through to be served more cheaply.
    degraded: Option<usize>,
    /// It was a peek: nothing was charged.
    untaken: bool,
}

impl<'p> Judged<'p> {
    /// `degrades` is whether limits that degrade do so: in shadow nothing does.
    pub(crate) fn new(
        charges: &Charges<'p>,
        outcomes: &[Outcome],
        mode: Mode,
        degrades: bool,
    ) -> Self {
        let mut judged = Self {
            untaken: mode == Mode::Peek,
            ..Self::default()
        };
        for ((id, limit, charge), outcome) in charges.iter().zip(outcomes) {
            if outcome.known {
                judged.add(id, limit, &charge, outcome, degrades);
            }
        }
        judged
    }

    fn add(
        &mut self,
        id: LimitId,
        limit: &'p PolicyLimit,
        charge: &Charge<'_>,
        outcome: &Outcome,
        degrades: bool,
    ) {
        let index = self.limits.len();
        let denied = outcome.judgement != Judgement::Admit;
        // A limit that degrades is charged as a shadow limit, yet it is enforced: it counts like any
        // other while it admits.
        let degrades = degrades && matches!(limit.strategy, Strategy::Degrade { .. });
        let shadow = charge.shadow && !degrades;
        let remaining = remaining(limit, charge, outcome);
        let queued_us = match overdraft(limit, charge) {
            0 => 0,
            _ if denied || charge.shadow => 0,
            _ => {
                let uncharged = if self.untaken { charge.cost } else { 0 };
                wait_us(&limit.limit, outcome, uncharged)
            }
        };
        self.limits.push(LimitStatus {
            limit,
            id,
            cost: charge.cost,
            remaining,
            full_after_us: outcome.full_after_us,
            denied,
            shadow,
            degrades: charge.shadow && degrades && denied,
            queued_us,
        });
        if shadow {
            return;
        }
        if charge.shadow && denied {
            self.degrade(index, limit);
            return;
        }
        match outcome.judgement {
            Judgement::Admit => {
                let more = u64::from(remaining) / charge.cost.max(1);
                if self.nearest.is_none_or(|(_, least)| more < least) {
                    self.nearest = Some((index, more));
                }
                if queued_us > 0 && self.queued.is_none_or(|(_, other)| queued_us > other) {
                    self.queued = Some((index, queued_us));
                }
            }
            Judgement::Refuse { wait_us } => {
                if self.longest.is_none_or(|(_, longest)| wait_us > longest) {
                    self.longest = Some((index, wait_us));
                }
            }
            Judgement::Never => self.never = self.never.or(Some(index)),
        }
    }

    /// The first such limit is the one, but one that knows a cheaper upstream comes before all others.
    fn degrade(&mut self, index: usize, limit: &PolicyLimit) {
        let knows_where = |limit: &PolicyLimit| matches!(limit.strategy, Strategy::Degrade { upstream } if upstream.is_some());
        let has_better = self
            .degraded
            .and_then(|index| self.limits.get(index))
            .is_some_and(|other| knows_where(other.limit) || !knows_where(limit));
        if !has_better {
            self.degraded = Some(index);
        }
    }

    /// `now` by the clock that decides, `at` by the calendar.
    pub(crate) fn decision(self, source: Source, now: Timestamp, at: Timestamp) -> Decision<'p> {
        let refused = self.never.is_some() || self.longest.is_some();
        let degraded = self.degraded.filter(|_| !refused);
        let (action, reason, binding, wait_us) = match self {
            Self {
                never: Some(index), ..
            } => (
                Action::Deny,
                Some(Reason::CostExceedsCapacity),
                Some(index),
                None,
            ),
            Self {
                longest: Some((index, wait)),
                ..
            } => (Action::Deny, Some(Reason::Limit), Some(index), Some(wait)),
            Self {
                queued: Some((index, wait)),
                ..
            } => (Action::Queue, None, Some(index), Some(wait)),
            Self {
                degraded: Some(index),
                ..
            } => (Action::Degrade, None, Some(index), None),
            Self { nearest, .. } => (Action::Allow, None, nearest.map(|(index, _)| index), None),
        };
        Decision {
            allowed: !refused,
            action,
            reason,
            binding,
            wait_us,
            degraded,
            source,
            now,
            at,
            limits: self.limits,
        }
    }
}

/// By how much a bucket may be overdrawn, which is what a queue is.
fn overdraft(limit: &PolicyLimit, charge: &Charge<'_>) -> u32 {
    let charged = charge.limit.capacity();
    charged.saturating_sub(limit.limit.capacity())
}

/// Whole tokens left: what may be overdrawn is not there to be seen.
pub(crate) fn remaining(limit: &PolicyLimit, charge: &Charge<'_>, outcome: &Outcome) -> u32 {
    outcome.remaining.saturating_sub(overdraft(limit, charge))
}

/// How long a bucket is overdrawn once `uncharged` is charged too: until no more than the limit holds is
/// spent of it.
fn wait_us(limit: &Limit, outcome: &Outcome, uncharged: u64) -> u64 {
    let empty_us = outcome
        .full_after_us
        .saturating_add(limit.refill_us(uncharged));
    empty_us.saturating_sub(limit.refill_us(limit.capacity().into()))
}

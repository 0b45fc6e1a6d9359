use smallvec::SmallVec;
use tollward_core::{Limit, State, Timestamp};
use tollward_store::Outcome;

use crate::key::KeyName;

/// What is asked of the buckets of one slot by one request, all or nothing.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub(crate) op: Op,
    pub(crate) charges: SmallVec<[PartCharge; 4]>,
    /// For [`Op::Undo`], one for each charge.
    pub(crate) traces: Vec<Trace>,
}

/// What a charge that is to be undone did to its bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Trace {
    pub(crate) before: Option<State>,
    pub(crate) after: Option<State>,
}

/// What is to be done with the charges of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    /// Decide, and take the tokens if all of them are admitted.
    Charge,
    /// Decide only.
    Peek,
    /// Give back what was taken at this moment of the same clock, as [`tollward_core::Level::credit`].
    Credit { charged_at: Timestamp },
    /// Put buckets back as they were before a charge, if they are as it left them; else give back what
    /// was taken at this moment.
    Undo { charged_at: Timestamp },
    /// Take, whether or not it is admitted, but never more than leaves the bucket empty: what was spent
    /// elsewhere is made good.
    Settle,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct PartCharge {
    pub(crate) key: KeyName,
    pub(crate) limit: Limit,
    pub(crate) cost: u64,
    pub(crate) shadow: bool,
}

/// What was decided of a part.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    /// Whether every charge that counts was admitted. If not, none was taken.
    pub(crate) admitted: bool,
    /// When, by the clock that decided.
    pub(crate) at: Timestamp,
    /// One for each charge.
    pub(crate) charges: SmallVec<[ChargeAnswer; 4]>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct ChargeAnswer {
    pub(crate) outcome: Outcome,
    /// The bucket before the part was decided.
    pub(crate) before: Option<State>,
    /// The bucket after the decision.
    pub(crate) state: Option<State>,
}

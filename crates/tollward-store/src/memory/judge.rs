//! One bucket, in its slot: first judged, then, when all of its request are, charged.
//!
//! Almost every bucket fits 64-bit arithmetic, which is inlined; the rest is called.

use tollward_core::{Charge, Judgement, NarrowLevel, Timestamp};

use super::slot::Slot;
use crate::store::{Mode, Outcome};

/// What a bucket says to a charge, and its level if it is a narrow one.
#[inline(always)]
pub(super) fn judge(
    slot: &Slot,
    charge: &Charge<'_>,
    now: Timestamp,
) -> (Judgement, Option<NarrowLevel>) {
    match slot.narrow_level(charge.limit, now) {
        Some(level) => (level.judge(charge.cost), Some(level)),
        None => (judge_wide(slot, charge, now), None),
    }
}

/// Charges a bucket that was judged so, if that is to be done, and says where it stands.
#[inline(always)]
pub(super) fn settle(
    slot: &mut Slot,
    (judgement, level): (Judgement, Option<NarrowLevel>),
    charge: &Charge<'_>,
    admitted: bool,
    mode: Mode,
    now: Timestamp,
) -> Outcome {
    let takes = takes(judgement, charge, admitted, mode);
    let Some(mut level) = level else {
        return settle_wide(slot, judgement, charge, takes, mode, now);
    };
    if takes {
        level = level.charge(charge.cost);
    }
    let outcome = Outcome {
        judgement,
        remaining: level.remaining(),
        full_after_us: level.full_after_us(),
        known: true,
    };
    if takes {
        slot.write_narrow(charge.limit, now, level.parts(), outcome.full_after_us);
    }
    outcome
}

/// Whether a charge is taken from its bucket.
#[inline(always)]
pub(super) fn takes(judgement: Judgement, charge: &Charge<'_>, admitted: bool, mode: Mode) -> bool {
    mode == Mode::Charge && admitted && judgement == Judgement::Admit && charge.cost > 0
}

#[cold]
fn judge_wide(slot: &Slot, charge: &Charge<'_>, now: Timestamp) -> Judgement {
    charge.limit.level(slot.read(), now).judge(charge.cost)
}

#[cold]
fn settle_wide(
    slot: &mut Slot,
    judgement: Judgement,
    charge: &Charge<'_>,
    takes: bool,
    mode: Mode,
    now: Timestamp,
) -> Outcome {
    let level = charge.limit.level(slot.read(), now);
    let after = if takes {
        level.charge(charge.cost)
    } else {
        level
    };
    let outcome = Outcome::new(judgement, &after);
    if takes || (mode == Mode::Charge && level.stepped_back()) {
        slot.write(after.state(), outcome.full_after_us);
    }
    outcome
}

use crate::{Judgement, Limit};

/// A [`Level`](crate::Level) of a token bucket whose numbers fit in 64 bits, which are almost all.
///
/// It exists for speed alone and says the same as a `Level`, which the tests see to. What it is for is
/// the bucket that was written under the same window at a moment that is not later than now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NarrowLevel {
    rate: u32,
    length: u64,
    ceiling: u64,
    parts: u64,
}

impl NarrowLevel {
    #[inline(always)]
    pub(crate) fn new(limit: &Limit, ceiling: u64, parts: u64, elapsed_us: u64) -> Option<Self> {
        // Parts beyond the ceiling (a limit was lowered) are left to the other one, so that no sum of parts
        // and a cost overflows.
        if ceiling == 0 || parts > ceiling {
            return None;
        }
        // A product that overflows is more than any parts.
        let refilled = elapsed_us.saturating_mul(u64::from(limit.rate()));
        Some(Self {
            rate: limit.rate(),
            length: limit.window().as_micros(),
            ceiling,
            parts: parts.saturating_sub(refilled),
        })
    }

    /// Whether `cost` is admitted, and if not, when. A cost of 0 always is.
    #[inline(always)]
    pub fn judge(&self, cost: u64) -> Judgement {
        // At most 63 bits, or more than the ceiling.
        let asked = cost.saturating_mul(self.length);
        if asked > self.ceiling {
            return Judgement::Never;
        }
        let room = self.ceiling - asked;
        if self.parts <= room {
            return Judgement::Admit;
        }
        Judgement::Refuse {
            wait_us: (self.parts - room).div_ceil(u64::from(self.rate)),
        }
    }

    /// The level after `cost` was taken, which must have been admitted.
    #[inline(always)]
    #[must_use]
    pub fn charge(&self, cost: u64) -> Self {
        let parts = self.parts.saturating_add(cost.saturating_mul(self.length));
        Self {
            parts: parts.min(self.ceiling),
            ..*self
        }
    }

    /// Whole tokens left.
    #[inline(always)]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "at most the capacity, a u32"
    )]
    pub fn remaining(&self) -> u32 {
        ((self.ceiling - self.parts) / self.length) as u32
    }

    /// Microseconds until the bucket is full again, rounded up; 0 if it is.
    #[inline(always)]
    pub fn full_after_us(&self) -> u64 {
        self.parts.div_ceil(u64::from(self.rate))
    }

    /// What is spent, in parts of 1/window of a token.
    #[inline(always)]
    pub fn parts(&self) -> u64 {
        self.parts
    }
}

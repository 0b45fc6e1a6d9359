use crate::{Timestamp, Window};

/// What one key has spent, as of a moment. Plain data: stores keep it in whatever form they like.
///
/// A bucket that is full again has no state at all, so stores hold `Option<State>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    /// The moment this was true.
    pub at: Timestamp,
    /// The window of the limit that wrote it; fractions are counted over it.
    pub window: Window,
    /// What was spent.
    pub spending: Spending,
}

/// The spending of a [`State`], in the terms of the algorithm that wrote it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spending {
    /// Tokens missing from the bucket, in units of 1/`window.as_micros()` of a token. Less than 2^77.
    Bucket {
        /// The number of those units.
        parts: u128,
    },
    /// Whole tokens taken in the fixed window that holds `at`, and in the one before it.
    Windows {
        /// Taken in the window that holds `at`.
        current: u32,
        /// Taken in the window before.
        previous: u32,
    },
}

/// The most that a bucket's spending can be: what the largest capacity holds.
pub(crate) const fn most_parts(window: Window) -> u128 {
    u32::MAX as u128 * window.as_micros() as u128
}

impl State {
    /// The same spending at an earlier moment: the clock was stepped back to it, and nothing refills. What
    /// counts of a sliding window counts whole from then on.
    #[must_use]
    pub fn stepped_back_to(self, earlier: Timestamp) -> Self {
        let spending = match self.spending {
            Spending::Bucket { .. } => self.spending,
            Spending::Windows { .. } => Spending::Windows {
                current: self.tokens(),
                previous: 0,
            },
        };
        Self {
            at: earlier,
            spending,
            ..self
        }
    }

    /// The tokens spent at the moment `at`, in parts of 1/`window`.
    fn parts(&self) -> u128 {
        match self.spending {
            Spending::Bucket { parts } => parts,
            Spending::Windows { current, previous } => {
                estimate(current, previous, self.window, self.at)
            }
        }
    }

    /// The same spending in parts of 1/`window` of a token.
    #[inline]
    pub(crate) fn parts_over(&self, window: Window) -> u128 {
        match self.spending {
            Spending::Bucket { parts } if self.window == window => parts,
            _ => self.converted(window),
        }
    }

    /// Converts, rounding up so that nothing is minted.
    #[inline(never)]
    fn converted(&self, window: Window) -> u128 {
        // Below 2^77 · 2^45: no overflow, whatever the state says.
        let parts = self.parts().min(most_parts(self.window)) * u128::from(window.as_micros());
        let parts = parts.div_ceil(u128::from(self.window.as_micros()));
        parts.min(most_parts(window))
    }

    /// The tokens spent at the moment `at`, rounded up.
    pub(crate) fn tokens(&self) -> u32 {
        let tokens = self.parts().div_ceil(self.window.as_micros() as u128);
        u32::try_from(tokens).unwrap_or(u32::MAX)
    }
}

/// The sliding estimate at `at`: all of the current window and the rest of the previous one.
#[inline(never)]
pub(crate) fn estimate(current: u32, previous: u32, window: Window, at: Timestamp) -> u128 {
    let length = window.as_micros();
    let rest = length - at.as_micros() % length;
    u128::from(previous) * u128::from(rest) + u128::from(current) * u128::from(length)
}

use crate::state::{estimate, most_parts};
use crate::{Algorithm, CLOCK_SLACK_US, Limit, Spending, State, Timestamp, Window};

/// Whether a cost is admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// There is enough left.
    Admit,
    /// Not now: left alone, the bucket would admit it `wait_us` microseconds later, and not before.
    Refuse {
        /// Microseconds until the cost is admitted; at least 1.
        wait_us: u64,
    },
    /// The cost is more than the capacity: never.
    Never,
}

/// A bucket at a moment: the spending of a [`State`] with all that has refilled since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level {
    limit: Limit,
    at: Timestamp,
    spending: Spending,
    /// How far `at` lies ahead of the clock: not 0 only within the slack.
    ahead_us: u64,
    stepped_back: bool,
    /// What was spent came from another window, algorithm or time, so it is not known when.
    carried: bool,
}

impl Level {
    // The token bucket's part of everything here is short and inlined, the sliding window's is called.
    #[inline]
    pub(crate) fn new(limit: Limit, state: Option<State>, now: Timestamp) -> Self {
        let mut level = Self {
            limit,
            at: now,
            spending: nothing(limit.algorithm()),
            ahead_us: 0,
            stepped_back: false,
            carried: false,
        };
        if let Some(state) = state {
            level.carry(&state);
        }
        level
    }

    /// Brings a state up to the level's moment.
    #[inline]
    fn carry(&mut self, state: &State) {
        let behind = state.at.micros_since(self.at);
        if behind > CLOCK_SLACK_US {
            self.stepped_back = true;
        } else {
            // Within the slack no time has passed.
            self.ahead_us = behind;
            self.at = self.at.saturating_add(behind);
        }
        match self.limit.algorithm() {
            Algorithm::TokenBucket => self.spending = refill(&self.limit, state, self.at),
            Algorithm::SlidingWindow => self.slide(state),
        }
    }

    #[inline(never)]
    fn slide(&mut self, state: &State) {
        let state = if self.stepped_back {
            state.stepped_back_to(self.at)
        } else {
            *state
        };
        let window = self.limit.window();
        let (current, previous) = match state.spending {
            Spending::Windows { current, previous } if state.window == window => {
                self.carried = self.stepped_back;
                (current, previous)
            }
            // It is not known when it was spent: what counts of it now counts whole.
            _ => {
                self.carried = true;
                (state.tokens(), 0)
            }
        };
        // Not negative: the state's moment is this one or earlier.
        let windows = window_index(window, self.at) - window_index(window, state.at);
        self.spending = match windows {
            0 => Spending::Windows { current, previous },
            1 => Spending::Windows {
                current: 0,
                previous: current,
            },
            _ => nothing(Algorithm::SlidingWindow),
        };
    }

    /// Whether `cost` is admitted, and if not, when. A cost of 0 always is.
    #[inline]
    pub fn judge(&self, cost: u64) -> Judgement {
        if cost == 0 {
            return Judgement::Admit;
        }
        if cost > u64::from(self.limit.capacity()) {
            return Judgement::Never;
        }
        let length = u128::from(self.limit.window().as_micros());
        // At most capacity · length, so nothing below overflows.
        let room = u128::from(u64::from(self.limit.capacity()) - cost) * length;
        let spent = self.parts();
        if spent <= room {
            return Judgement::Admit;
        }
        let wait_us = match self.spending {
            Spending::Bucket { .. } => div_ceil(spent - room, self.limit.rate()),
            Spending::Windows { current, previous } => {
                slide_wait(self.limit.window(), self.at, current, previous, room)
            }
        };
        Judgement::Refuse {
            wait_us: wait_us.saturating_add(self.ahead_us),
        }
    }

    /// The level after `cost` was taken, whether or not it is admitted. What cannot be held saturates.
    #[inline]
    #[must_use]
    pub fn charge(&self, cost: u64) -> Self {
        let window = self.limit.window();
        let spending = match self.spending {
            Spending::Bucket { parts } => {
                let taken = u128::from(cost) * u128::from(window.as_micros());
                Spending::Bucket {
                    parts: parts.saturating_add(taken).min(most_parts(window)),
                }
            }
            Spending::Windows { current, previous } => Spending::Windows {
                current: u32::try_from(u64::from(current).saturating_add(cost)).unwrap_or(u32::MAX),
                previous,
            },
        };
        Self { spending, ..*self }
    }

    /// The level after `cost`, taken at `charged_at`, is given back.
    ///
    /// A bucket takes back up to what is spent: exactly undone if it has not been full since the charge,
    /// and up to `cost` too much otherwise, so credit soon. A sliding window takes it back from the
    /// window of the charge, so that an old one gives back no more than still counts of it; and nothing
    /// where this moment's limit or clock no longer tells when things were spent.
    #[must_use]
    pub fn credit(&self, cost: u64, charged_at: Timestamp) -> Self {
        let window = self.limit.window();
        let spending = match self.spending {
            Spending::Bucket { parts } => {
                let given = u128::from(cost) * u128::from(window.as_micros());
                Spending::Bucket {
                    parts: parts.saturating_sub(given),
                }
            }
            Spending::Windows { .. } if self.carried => self.spending,
            Spending::Windows { current, previous } => {
                let cost = u32::try_from(cost).unwrap_or(u32::MAX);
                let (current, previous) = match self.windows_since(charged_at) {
                    0 => (current.saturating_sub(cost), previous),
                    1 => (current, previous.saturating_sub(cost)),
                    _ => (current, previous),
                };
                Spending::Windows { current, previous }
            }
        };
        Self { spending, ..*self }
    }

    /// Windows from a moment of the clock to this one. Within the slack, now is this moment.
    fn windows_since(&self, moment: Timestamp) -> u64 {
        let window = self.limit.window();
        let moment = if moment.saturating_add(self.ahead_us) >= self.at {
            self.at
        } else {
            moment
        };
        window_index(window, self.at) - window_index(window, moment)
    }

    /// Whole tokens left; 0 when more is spent than the limit now holds.
    #[inline]
    pub fn remaining(&self) -> u32 {
        let length = self.limit.window().as_micros();
        let ceiling = u128::from(self.limit.capacity()) * u128::from(length);
        let left = div_floor(ceiling.saturating_sub(self.parts()), length);
        u32::try_from(left).unwrap_or(u32::MAX)
    }

    /// Microseconds until the bucket is full again, rounded up; 0 if it is.
    #[inline]
    pub fn full_after_us(&self) -> u64 {
        let after_us = match self.spending {
            Spending::Bucket { parts } => div_ceil(parts, self.limit.rate()),
            Spending::Windows { current, previous } => {
                let length = self.limit.window().as_micros();
                let rest = length - self.at.as_micros() % length;
                match (current, previous) {
                    (0, 0) => 0,
                    (0, _) => rest,
                    _ => rest + length,
                }
            }
        };
        if after_us == 0 {
            0
        } else {
            after_us.saturating_add(self.ahead_us)
        }
    }

    /// What to keep of it: nothing when the bucket is full.
    #[inline]
    pub fn state(&self) -> Option<State> {
        if self.spending == nothing(self.limit.algorithm()) {
            return None;
        }
        Some(State {
            at: self.at,
            window: self.limit.window(),
            spending: self.spending,
        })
    }

    /// The clock was stepped back by more than [`CLOCK_SLACK_US`]. The state should be kept even if
    /// the request is refused, or time would stand still until the clock has caught up.
    #[inline]
    pub fn stepped_back(&self) -> bool {
        self.stepped_back
    }

    /// The limit this is a level of.
    pub fn limit(&self) -> &Limit {
        &self.limit
    }

    #[inline]
    fn parts(&self) -> u128 {
        match self.spending {
            Spending::Bucket { parts } => parts,
            Spending::Windows { current, previous } => {
                estimate(current, previous, self.limit.window(), self.at)
            }
        }
    }
}

fn nothing(algorithm: Algorithm) -> Spending {
    match algorithm {
        Algorithm::TokenBucket => Spending::Bucket { parts: 0 },
        Algorithm::SlidingWindow => Spending::Windows {
            current: 0,
            previous: 0,
        },
    }
}

#[inline]
fn refill(limit: &Limit, state: &State, at: Timestamp) -> Spending {
    let spent = state.parts_over(limit.window());
    // One microsecond gives back `rate` parts of 1/window. Below 2^64 · 2^32: no overflow.
    let refilled = u128::from(at.micros_since(state.at)) * u128::from(limit.rate());
    Spending::Bucket {
        parts: spent.saturating_sub(refilled),
    }
}

/// When the estimate falls to `room`, which it exceeds at `at`.
#[inline(never)]
fn slide_wait(window: Window, at: Timestamp, current: u32, previous: u32, room: u128) -> u64 {
    let length = window.as_micros();
    let elapsed = at.as_micros() % length;
    let whole = u128::from(current) * u128::from(length);
    // Within a window only the older count decays: at `phase` into it, it weighs `length - phase`.
    let (older, room, before) = if whole <= room {
        (previous, room - whole, 0)
    } else {
        (current, room, length)
    };
    // `older` is not 0: the estimate would not exceed the room. The quotient is at most `length`.
    let weight = u64::try_from(room / u128::from(older.max(1))).unwrap_or(length);
    before + (length - weight.min(length)) - elapsed
}

fn window_index(window: Window, at: Timestamp) -> u64 {
    at.as_micros() / window.as_micros()
}

/// 128-bit division is a call; almost always both sides fit in 64 bits.
#[inline]
fn div_floor(parts: u128, by: u64) -> u64 {
    match u64::try_from(parts) {
        Ok(parts) => parts / by,
        Err(_) => u64::try_from(parts / u128::from(by)).unwrap_or(u64::MAX),
    }
}

#[inline]
fn div_ceil(parts: u128, by: u32) -> u64 {
    match u64::try_from(parts) {
        Ok(parts) => parts.div_ceil(u64::from(by)),
        Err(_) => u64::try_from(parts.div_ceil(u128::from(by))).unwrap_or(u64::MAX),
    }
}

use tollward_core::{CLOCK_SLACK_US, Limit, NarrowLevel, Spending, State, Timestamp, Window};

/// One bucket in 32 bytes, two to a cache line.
///
/// The words `low` and `high` hold, from the lowest bit: 77 bits of spending, 25 of window (seconds), 1 of algorithm and
/// 25 of life, the seconds after `at` at which the bucket is full again and its place may be reused.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(32))]
pub(super) struct Slot {
    /// The key's hash; 0 marks a slot that was never used.
    pub(super) fingerprint: u64,
    at: u64,
    // Two words, not one of 128 bits: read as they were written, they come straight from the store buffer.
    low: u64,
    high: u64,
}

const SPENDING_BITS: u32 = 77;
const WINDOW_BITS: u32 = 25;
const ALGORITHM_SHIFT: u32 = SPENDING_BITS + WINDOW_BITS;
const LIFE_SHIFT: u32 = ALGORITHM_SHIFT + 1;
const MAX_LIFE: u64 = (1 << (128 - LIFE_SHIFT)) - 1;
const LIFE_MASK: u64 = MAX_LIFE << (LIFE_SHIFT - 64);

/// The high word, but for its life, of a token bucket of this limit whose spending fits the low word.
#[inline(always)]
fn narrow_tag(limit: &Limit) -> u64 {
    u64::from(limit.window().as_secs()) << (SPENDING_BITS - 64)
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "fields are cut out of the packed word"
)]
impl Slot {
    /// A slot taken for a bucket that has spent nothing yet.
    pub(super) fn taken(fingerprint: u64) -> Self {
        Self {
            fingerprint,
            ..Self::default()
        }
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.fingerprint == 0
    }

    /// The bucket is full again, so that nothing is lost with it. A life too long to be written down
    /// (more than 388 days) does not end.
    #[inline]
    pub(super) fn is_spare(&self, now: Timestamp) -> bool {
        let life = self.high >> (LIFE_SHIFT - 64);
        let full_at = self.at.checked_add(life * 1_000_000);
        life != MAX_LIFE && full_at.is_some_and(|full_at| full_at <= now.as_micros())
    }

    /// The bucket in 64-bit arithmetic, if it was written under this limit's window, at a moment that is
    /// not later than now, and fits. Otherwise it takes [`Slot::read`].
    #[inline(always)]
    pub(super) fn narrow_level(&self, limit: &Limit, now: Timestamp) -> Option<NarrowLevel> {
        let same_window = self.high & !LIFE_MASK == narrow_tag(limit);
        let elapsed_us = now.as_micros().checked_sub(self.at)?;
        if !same_window {
            return None;
        }
        limit.narrow_level(self.low, elapsed_us)
    }

    /// Writes a bucket that is not full, as of now.
    #[inline(always)]
    pub(super) fn write_narrow(
        &mut self,
        limit: &Limit,
        now: Timestamp,
        parts: u64,
        full_after_us: u64,
    ) {
        let life = full_after_us.div_ceil(1_000_000).min(MAX_LIFE);
        self.at = now.as_micros();
        self.low = parts;
        self.high = narrow_tag(limit) | life << (LIFE_SHIFT - 64);
    }

    /// If the clock was stepped back behind the bucket's moment, lets it go on from now, so that its life
    /// ends again. Life is reckoned long: a sliding window may take two windows from any moment.
    pub(super) fn follow_clock(&mut self, now: Timestamp) {
        let Some(state) = self.read() else { return };
        if state.at.micros_since(now) <= CLOCK_SLACK_US {
            return;
        }
        let life_us = match state.spending {
            Spending::Bucket { .. } => (self.high >> (LIFE_SHIFT - 64)) * 1_000_000,
            Spending::Windows { .. } => state.window.as_micros() * 2,
        };
        self.write(Some(state.stepped_back_to(now)), life_us);
    }

    /// Writes the bucket's state, which is full again `full_after_us` after its moment. No state leaves
    /// a slot that is spare.
    pub(super) fn write(&mut self, state: Option<State>, full_after_us: u64) {
        let Some(state) = state else {
            (self.at, self.low, self.high) = (0, 0, 0);
            return;
        };
        let (algorithm, spending) = match state.spending {
            Spending::Bucket { parts } => (0, parts),
            Spending::Windows { current, previous } => {
                (1, u128::from(current) | u128::from(previous) << 32)
            }
        };
        let life = u128::from(full_after_us.div_ceil(1_000_000).min(MAX_LIFE));
        self.at = state.at.as_micros();
        let packed = spending
            | u128::from(state.window.as_secs()) << SPENDING_BITS
            | algorithm << ALGORITHM_SHIFT
            | life << LIFE_SHIFT;
        (self.low, self.high) = (packed as u64, (packed >> 64) as u64);
    }

    /// The bucket's state; none if it was last seen full.
    pub(super) fn read(&self) -> Option<State> {
        let packed = u128::from(self.low) | u128::from(self.high) << 64;
        let window = (packed >> SPENDING_BITS) as u32 & ((1 << WINDOW_BITS) - 1);
        let spending = if (packed >> ALGORITHM_SHIFT) & 1 == 0 {
            Spending::Bucket {
                parts: packed & ((1 << SPENDING_BITS) - 1),
            }
        } else {
            Spending::Windows {
                current: packed as u32,
                previous: (packed >> 32) as u32,
            }
        };
        Some(State {
            at: Timestamp::from_micros(self.at),
            window: Window::from_secs(window)?,
            spending,
        })
    }
}

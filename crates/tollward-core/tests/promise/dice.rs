//! Random limits, costs and moments, from one random word each.
//!
//! A run is a list of words. Each is stretched into as many random numbers as its step needs, so that
//! dropping a step, which is how a failing run is shrunk, leaves the choices of the others alone.

use tollward_core::{Algorithm, CLOCK_SLACK_US, Limit, State, Window};

use crate::pair::Outcome;

pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(word: u64) -> Self {
        Self(word)
    }

    /// SplitMix64.
    pub(crate) fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Less than `n`, which is not 0.
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.word() % n
    }

    pub(crate) fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    pub(crate) fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.index(choices.len())]
    }

    fn index(&mut self, len: usize) -> usize {
        usize::try_from(self.below(len as u64)).expect("it is less than a usize")
    }

    /// 1 to `most`, every length in bits as likely as every other.
    pub(crate) fn log_uniform(&mut self, most: u64) -> u64 {
        let bits = u64::from(most.ilog2()) + 1;
        let shift = 64 - 1 - self.below(bits);
        ((self.word() | 1 << 63) >> shift).clamp(1, most)
    }

    pub(crate) fn number(&mut self) -> u32 {
        let n = match self.below(4) {
            0 => 1 + self.below(10),
            1 => self.of(&[1, 7, 60, 100, 1_000, 1 << 31, (1 << 32) - 2, (1 << 32) - 1]),
            _ => self.log_uniform(u64::from(u32::MAX)),
        };
        u32::try_from(n).expect("every choice fits")
    }

    pub(crate) fn window(&mut self) -> Window {
        let secs = match self.below(3) {
            0 => self.of(&[1, 2, 3, 7, 10, 60]),
            1 => self.of(&[60, 3_600, 86_400, 2_592_000, Window::MAX.as_secs()]),
            _ => u32::try_from(self.log_uniform(u64::from(Window::MAX.as_secs())))
                .expect("it is at most the longest window"),
        };
        Window::from_secs(secs).expect("it is within 366 days")
    }

    pub(crate) fn limit(&mut self, algorithm: Algorithm) -> Limit {
        let window = self.window();
        self.limit_over(algorithm, window)
    }

    pub(crate) fn limit_over(&mut self, algorithm: Algorithm, window: Window) -> Limit {
        let rate = self.number();
        match algorithm {
            Algorithm::TokenBucket => {
                let capacity = if self.one_in(3) { rate } else { self.number() };
                Limit::token_bucket(rate, window, capacity)
            }
            Algorithm::SlidingWindow => Limit::sliding_window(rate, window),
        }
        .expect("no number is 0")
    }

    pub(crate) fn start(&mut self) -> u64 {
        match self.below(8) {
            0 => 0,
            1 => self.log_uniform(u64::MAX),
            2 => u64::MAX - self.below(1 << 45),
            _ => 1_766_000_000_000_000 + self.below(1 << 50),
        }
    }

    /// A cost that is likely to be close to what matters.
    pub(crate) fn cost(&mut self, limit: &Limit, last: Option<&Outcome>) -> u64 {
        let capacity = u64::from(limit.capacity());
        let remaining = last.map_or(capacity, |last| u64::from(last.remaining));
        match self.below(16) {
            0 => 0,
            1 | 2 => 1,
            3 => self.below(10),
            4 | 5 => remaining,
            6 => remaining + 1,
            7 => remaining.saturating_sub(1),
            8 => capacity,
            9 => capacity - self.below(capacity.min(3)),
            10 => self.of(&[capacity + 1, u64::from(u32::MAX), u64::MAX]),
            11 => self.log_uniform(u64::MAX),
            12 | 13 => 1 + self.below(capacity),
            _ => self.log_uniform(capacity),
        }
    }

    /// A moment no earlier than `now`, likely to be close to one that matters.
    pub(crate) fn forward(&mut self, limit: &Limit, now: u64, last: Option<&Outcome>) -> u64 {
        let length = limit.window().as_micros();
        let token_us = (length / u64::from(limit.rate())).max(1);
        let to_edge = length - now % length;
        let wait_us = last.map_or(token_us, |last| match last.judgement {
            tollward_core::Judgement::Refuse { wait_us } => wait_us,
            _ => token_us,
        });
        let full_us = last.map_or(0, |last| last.full_after_us);
        let about = self.below(3);
        let step = match self.below(16) {
            0..=2 => 0,
            3 => 1,
            4 => self.below(1_000),
            5 => self.log_uniform(token_us.saturating_mul(4)),
            6 => token_us,
            7 | 8 => (wait_us - 1).saturating_add(about),
            9 => full_us.saturating_sub(1).saturating_add(about),
            10 => to_edge - 1 + about,
            11 => to_edge + length - 1 + about,
            12 => self.below(length),
            13 => self.below(full_us.saturating_add(1).max(1)),
            14 => self.log_uniform(4 * length),
            _ => self.log_uniform(u64::MAX),
        };
        now.saturating_add(step)
    }

    /// A moment before `now`: as often within the slack of the state as beyond it.
    pub(crate) fn backward(&mut self, limit: &Limit, now: u64, state: Option<State>) -> u64 {
        let touched = state.map_or(now, |state| state.at.as_micros());
        match self.below(8) {
            0 => now.saturating_sub(1),
            1 => now.saturating_sub(self.below(CLOCK_SLACK_US)),
            2 => touched.saturating_sub(self.below(CLOCK_SLACK_US)),
            3 => touched.saturating_sub(CLOCK_SLACK_US),
            4 => touched.saturating_sub(CLOCK_SLACK_US + 1),
            5 => now.saturating_sub(self.log_uniform(1 << 45)),
            6 => now.saturating_sub(limit.window().as_micros()),
            _ => now.saturating_sub(self.log_uniform(u64::MAX)),
        }
    }
}

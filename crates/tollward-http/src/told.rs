use std::cell::Cell;
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use tollward_engine::{Decision, LimitStatus};
use tollward_policy::ResponseOptions;

/// A decision as it is told to a client: with one wait for all headers and bodies of one answer.
#[derive(Clone, Copy, Debug)]
pub struct Told<'a, 'p> {
    /// The decision.
    pub decision: &'a Decision<'p>,
    /// What answers look like.
    pub options: &'a ResponseOptions,
    /// When to come again, in microseconds: never before the decision says so.
    wait_us: Option<u64>,
}

impl<'a, 'p> Told<'a, 'p> {
    /// What is told of a decision. To the wait of a refusal up to `jitter` is added, so that those who
    /// were refused together do not come back together.
    pub fn new(decision: &'a Decision<'p>, options: &'a ResponseOptions) -> Self {
        let late = |wait: u64| wait.saturating_add(up_to(options.jitter));
        let wait_us = match decision.allowed {
            true => decision.wait_us,
            false => decision.wait_us.map(late),
        };
        Self {
            decision,
            options,
            wait_us,
        }
    }

    /// Whole seconds to wait, rounded up, at least 1; none if there is nothing to wait for, or no
    /// waiting helps. For a request that is let wait in a queue this is that wait, without jitter.
    pub fn retry_after_secs(&self) -> Option<u64> {
        self.wait_us.map(|wait| wait.div_ceil(1_000_000).max(1))
    }

    /// Milliseconds to wait, rounded up, at least 1.
    pub fn retry_after_ms(&self) -> Option<u64> {
        self.wait_us.map(|wait| wait.div_ceil(1000).max(1))
    }

    /// When to come again, for a limit that refused; else when the limit is full. In seconds.
    pub(crate) fn effective_secs(&self, status: &LimitStatus<'_>) -> u64 {
        match self.retry_after_secs() {
            Some(secs) if status.refuses() => secs,
            _ => status.full_after_us.div_ceil(1_000_000),
        }
    }
}

/// Microseconds from 0 to `most`.
fn up_to(most: Duration) -> u64 {
    let most = u64::try_from(most.as_micros()).unwrap_or(u64::MAX);
    match most.checked_add(1) {
        Some(1) => 0,
        Some(choices) => random() % choices,
        None => random(),
    }
}

/// A number that nobody needs to be unable to guess: SplitMix64, seeded once in each thread.
fn random() -> u64 {
    thread_local! {
        static STATE: Cell<u64> = Cell::new(RandomState::new().hash_one(0));
    }
    let state = STATE.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
    STATE.set(state);
    let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jitter_reaches_all_of_its_range_and_no_more() {
        assert_eq!(up_to(Duration::ZERO), 0);
        let mut seen = [0_u32; 4];
        for _ in 0..4000 {
            seen[usize::try_from(up_to(Duration::from_micros(3))).unwrap()] += 1;
        }
        // 1000 each, give or take: 700 is eleven standard deviations away.
        assert!(seen.iter().all(|count| *count > 700), "{seen:?}");
        let _ = up_to(Duration::MAX);
    }
}

//! Targets that do not answer are left alone for a while.

use std::time::Duration;

use crate::ticks::ticks;

/// Failures in a row after which a target rests.
const PATIENCE: u32 = 3;
const FIRST_REST: Duration = Duration::from_secs(1);
const LONGEST_REST: Duration = Duration::from_secs(30);

/// What recent requests say about a target: nothing is sent to find out.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Health {
    /// Connections refused or reset, and answers bad or overdue, since the last good answer.
    failures: u32,
    /// Rests since the last answer; each is twice as long as the one before.
    rests: u32,
    until: u64,
    /// A request is under way to see whether the target is back.
    trial: bool,
}

impl Health {
    /// Whether a request should not go there now.
    pub(super) fn is_resting(&self, now: u64) -> bool {
        self.rests > 0 && (self.trial || now < self.until)
    }

    /// When the rest ends.
    pub(super) fn back_at(&self) -> u64 {
        self.until
    }

    /// A request goes there. Whether it is the one that tries.
    pub(super) fn sent(&mut self, now: u64) -> bool {
        let is_trial = self.rests > 0 && !self.trial && now >= self.until;
        self.trial |= is_trial;
        is_trial
    }

    /// The request that tried is over, whatever came of it.
    pub(super) fn tried(&mut self) {
        self.trial = false;
    }

    /// An answer came. Whether the target had been resting.
    pub(super) fn answered(&mut self) -> bool {
        let was_resting = self.rests > 0;
        *self = Self::default();
        was_resting
    }

    /// There was no connection, or it broke, or no answer came over it. The rest that begins, if one does.
    pub(super) fn failed(&mut self, now: u64) -> Option<Duration> {
        self.failures = self.failures.saturating_add(1);
        if self.failures < PATIENCE || now < self.until {
            return None;
        }
        let doubled = FIRST_REST.saturating_mul(1 << self.rests.min(8));
        let rest = doubled.min(LONGEST_REST);
        self.rests = self.rests.saturating_add(1);
        self.until = now.saturating_add(ticks(rest));
        Some(rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_third_failure_in_a_row_makes_it_rest() {
        let mut health = Health::default();
        assert_eq!(health.failed(0), None);
        assert_eq!(health.failed(0), None);
        assert!(!health.answered());
        assert_eq!(health.failed(0), None);
        assert_eq!(health.failed(0), None);
        assert!(!health.is_resting(0));
        assert_eq!(health.failed(0), Some(FIRST_REST));
        assert!(health.is_resting(0));
    }

    #[test]
    fn after_the_rest_one_request_tries() {
        let mut health = Health::default();
        for _ in 0..PATIENCE {
            health.failed(0);
        }
        let back = health.back_at();
        assert!(health.is_resting(back - 1) && !health.is_resting(back));
        assert!(health.sent(back));
        assert!(health.is_resting(back), "while one tries, others stay away");
        assert!(!health.sent(back));
        health.tried();
        assert!(!health.is_resting(back));
    }

    #[test]
    fn rests_grow_to_a_bound_and_an_answer_ends_them() {
        let mut health = Health::default();
        let mut now = 0;
        let mut rests = Vec::new();
        for _ in 0..10 {
            rests.extend(health.failed(now));
            now = now.max(health.back_at());
        }
        let seconds: Vec<u64> = rests.iter().map(Duration::as_secs).collect();
        assert_eq!(seconds, [1, 2, 4, 8, 16, 30, 30, 30]);
        assert!(health.answered());
        assert!(!health.is_resting(now));
        assert_eq!(health.failed(now), None);
    }

    #[test]
    fn failures_of_requests_that_were_under_way_do_not_lengthen_a_rest() {
        let mut health = Health::default();
        for _ in 0..PATIENCE {
            health.failed(0);
        }
        let back = health.back_at();
        assert_eq!(health.failed(back - 1), None);
        assert_eq!(health.back_at(), back);
    }
}

//! Time that passes when a test says so.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use tollward_core::Timestamp;
use tollward_engine::Clock;

/// A clock that stands still until it is moved, from whichever thread.
#[derive(Debug)]
pub struct ManualClock(AtomicU64);

impl ManualClock {
    /// Where a clock starts: a whole second, and the start of a day.
    pub const START_SECS: u64 = 1_765_411_200;

    /// A clock at [`ManualClock::START_SECS`].
    pub fn new() -> Self {
        Self(AtomicU64::new(Self::START_SECS * 1_000_000))
    }

    /// Lets time pass.
    pub fn advance(&self, by: Duration) {
        let micros = u64::try_from(by.as_micros()).unwrap_or(u64::MAX);
        self.0.fetch_add(micros, SeqCst);
    }

    /// Whole seconds since the epoch, rounded down.
    pub fn unix_secs(&self) -> u64 {
        self.0.load(SeqCst) / 1_000_000
    }
}

impl Default for ManualClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.0.load(SeqCst))
    }
}

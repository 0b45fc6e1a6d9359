//! The only place that reads a clock.

use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::time::{SystemTime, UNIX_EPOCH};

use tollward_core::Timestamp;

/// Tells the time.
pub trait Clock: Send + Sync {
    /// The moment decisions are made at. It should not go back.
    fn now(&self) -> Timestamp;

    /// What a calendar clock shows at a moment of [`Clock::now`], for times that are told to callers.
    fn calendar(&self, moment: Timestamp) -> Timestamp {
        moment
    }
}

/// This machine's time.
///
/// Decisions are made by a monotonic clock that starts at the calendar's time: a calendar that is set
/// forward or back refills nothing and locks nobody out. Only what is told to callers follows the
/// calendar, as of the last [`SystemClock::follow_calendar`].
#[derive(Debug)]
pub struct SystemClock {
    clock: quanta::Clock,
    /// The counter at the start.
    start: u64,
    start_us: u64,
    calendar_ahead_us: AtomicI64,
}

#[expect(clippy::disallowed_methods, reason = "this is the clock")]
impl SystemClock {
    /// Starts the clock. The first in a process takes a moment to measure the processor's counter.
    pub fn new() -> Self {
        let clock = quanta::Clock::new();
        Self {
            start: clock.raw(),
            clock,
            start_us: calendar_us(),
            calendar_ahead_us: AtomicI64::new(0),
        }
    }

    /// Looks at the calendar: to be called every second or so.
    pub fn follow_calendar(&self) {
        let ahead = i128::from(calendar_us()) - i128::from(self.now().as_micros());
        let ahead = i64::try_from(ahead).unwrap_or_default();
        self.calendar_ahead_us.store(ahead, Relaxed);
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

#[expect(clippy::disallowed_methods, reason = "this is the clock")]
impl Clock for SystemClock {
    #[inline]
    fn now(&self) -> Timestamp {
        let nanos = self.clock.delta_as_nanos(self.start, self.clock.raw());
        Timestamp::from_micros(self.start_us.saturating_add(nanos / 1000))
    }

    #[inline]
    fn calendar(&self, moment: Timestamp) -> Timestamp {
        let ahead = self.calendar_ahead_us.load(Relaxed);
        Timestamp::from_micros(moment.as_micros().saturating_add_signed(ahead))
    }
}

#[expect(clippy::disallowed_methods, reason = "this is the clock")]
fn calendar_us() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
    })
}

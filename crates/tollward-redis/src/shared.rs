use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::time::Duration;

use tokio::sync::Notify;
use tollward_core::Timestamp;
use tollward_policy::config::StoreClock;

use crate::connect::Dialer;
use crate::stats::Stats;
use crate::store::Now;

/// What all lanes of a store share.
pub(crate) struct Shared {
    pub(crate) dialer: Dialer,
    pub(crate) deadline: Duration,
    pub(crate) clock: StoreClock,
    pub(crate) stats: Stats,
    /// The map of the cluster no longer holds.
    pub(crate) map_is_stale: Notify,
    /// A server came back.
    pub(crate) recovered: Notify,
    /// How far the servers' clock is ahead of this node's, as last measured.
    clock_ahead_us: AtomicI64,
    /// This node's time.
    pub(crate) now: Now,
    /// Whether it is set by the servers' clock.
    pub(crate) follows_clock: bool,
}

/// A round trip longer than this says too little about the server's clock.
const CLOCK_ROUND_TRIP_US: u64 = 50_000;

impl Shared {
    pub(crate) fn new(
        dialer: Dialer,
        deadline: Duration,
        clock: StoreClock,
        now: Now,
        follows_clock: bool,
    ) -> Self {
        Self {
            dialer,
            deadline,
            clock,
            stats: Stats::default(),
            map_is_stale: Notify::new(),
            recovered: Notify::new(),
            clock_ahead_us: AtomicI64::new(0),
            now,
            follows_clock,
        }
    }

    /// The servers' clock showed `theirs` between `asked` and now.
    pub(crate) fn note_clock(&self, asked: Timestamp, theirs: Timestamp) {
        let round_trip = (self.now)().micros_since(asked);
        if round_trip <= CLOCK_ROUND_TRIP_US {
            let ours = asked.saturating_add(round_trip / 2);
            let ahead = i128::from(theirs.as_micros()) - i128::from(ours.as_micros());
            let ahead = i64::try_from(ahead).unwrap_or_default();
            self.clock_ahead_us.store(ahead, Relaxed);
        }
    }

    /// What the servers' clock shows at a moment of this node's.
    pub(crate) fn by_script_clock(&self, moment: Timestamp) -> Timestamp {
        let ahead = self.clock_ahead_us.load(Relaxed);
        Timestamp::from_micros(moment.as_micros().saturating_add_signed(ahead))
    }
}

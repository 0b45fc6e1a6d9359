use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::time::Duration;

use tokio::sync::Notify;
use tollgate_core::Timestamp;

use crate::connect::Dialer;
use crate::stats::Stats;

/// What all lanes of a store share.
pub(crate) struct Shared {
    pub(crate) dialer: Dialer,
    pub(crate) deadline: Duration,
    pub(crate) clock: ScriptClock,
    pub(crate) stats: Stats,
    /// The map of the cluster no longer holds.
    pub(crate) map_is_stale: Notify,
    /// A server came back.
    pub(crate) recovered: Notify,
    /// How far the servers' clock is ahead of this node's, as last measured.
    clock_ahead_us: AtomicI64,
}

impl Shared {
    pub(crate) fn new(dialer: Dialer, deadline: Duration, clock: ScriptClock) -> Self {
        Self {
            dialer,
            deadline,
            clock,
            stats: Stats::default(),
            map_is_stale: Notify::new(),
            recovered: Notify::new(),
            clock_ahead_us: AtomicI64::new(0),
        }
    }

    pub(crate) fn set_clock_ahead(&self, micros: i64) {
        self.clock_ahead_us.store(micros, Relaxed);
    }

    /// What the servers' clock shows at a moment of this node's.
    pub(crate) fn by_script_clock(&self, moment: Timestamp) -> Timestamp {
        let ahead = self.clock_ahead_us.load(Relaxed);
        Timestamp::from_micros(moment.as_micros().saturating_add_signed(ahead))
    }
}

/// Whose time the script goes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScriptClock {
    Server,
    Client,
}

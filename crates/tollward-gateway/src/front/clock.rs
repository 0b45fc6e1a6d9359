//! A coarse clock: enough for timeouts, and reading it costs nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::time::interval;

use crate::ticks::TICK;

/// Ticks since a worker began. The first is 1, so that 0 can stand for "not at all".
#[derive(Clone, Debug)]
pub(super) struct Clock(Arc<AtomicU64>);

impl Clock {
    pub(super) fn new() -> Self {
        Self(Arc::new(AtomicU64::new(1)))
    }

    pub(super) fn now(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Keeps the clock going, for ever. Ticks that a busy worker missed are made up for.
    pub(super) async fn run(self) {
        let mut ticks = interval(TICK);
        ticks.tick().await;
        loop {
            ticks.tick().await;
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
}

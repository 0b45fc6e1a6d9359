//! Coarse time, for timeouts: reading it costs nothing, and nothing sets a timer.

use std::time::Duration;

/// One tick of a worker's clocks. A time limit is kept to within two of them, and never comes early.
pub(crate) const TICK: Duration = Duration::from_millis(100);

/// Ticks that last at least so long: the one that has begun does not count.
pub(crate) fn ticks(time: Duration) -> u64 {
    let whole = time.as_millis().div_ceil(TICK.as_millis());
    u64::try_from(whole).unwrap_or(u64::MAX).saturating_add(1)
}

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// A random duration from half of `around` to one and a half of it, so that many nodes do not do the
/// same thing at the same moment.
pub(crate) fn jittered(around: Duration) -> Duration {
    // Each `RandomState` has other keys.
    let random = RandomState::new().hash_one(0_u8);
    let share = u32::try_from(random % 1000).unwrap_or_default();
    around / 2 + around * share / 1000
}

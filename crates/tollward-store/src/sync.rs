//! The locks of the memory store: the standard library's, or the model checker's.

#[cfg(not(feature = "model-check"))]
pub(crate) use std::sync::{Mutex, MutexGuard};

#[cfg(feature = "model-check")]
pub(crate) use shuttle::sync::{Mutex, MutexGuard};

/// The seeds of a store's hashes: unpredictable, so that nobody can choose keys that collide.
#[cfg(not(feature = "model-check"))]
pub(crate) fn seeds() -> [u64; 2] {
    use std::hash::{BuildHasher, RandomState};
    let entropy = RandomState::new();
    [entropy.hash_one(0u8), entropy.hash_one(1u8)]
}

/// The model checker runs the same program again and again: the same keys must take the same locks.
#[cfg(feature = "model-check")]
pub(crate) fn seeds() -> [u64; 2] {
    [0x243f_6a88_85a3_08d3, 0x1319_8a2e_0370_7344]
}

/// Locks, also after a panic elsewhere: a table is consistent between any two of its statements.
#[inline]
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // To the model checker waiting is waiting, and trying again and again only more to explore.
    #[cfg(not(feature = "model-check"))]
    if let Some(guard) = try_for_a_while(mutex) {
        return guard;
    }
    mutex
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// But for growth and a count of what is there, a shard is held for some ten nanoseconds, and a system
/// call takes a thousand: so wait a little before going to sleep, each time a little longer.
#[cfg(not(feature = "model-check"))]
#[inline]
fn try_for_a_while<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(_) => try_again(mutex),
    }
}

#[cfg(not(feature = "model-check"))]
#[cold]
fn try_again<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    const TRIES: u32 = 7;
    for patience in 0..TRIES {
        for _ in 0..1 << patience {
            std::hint::spin_loop();
        }
        if let Ok(guard) = mutex.try_lock() {
            return Some(guard);
        }
    }
    None
}

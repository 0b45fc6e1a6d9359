//! The locks of the memory store: the standard library's, or the model checker's.

#[cfg(not(feature = "model-check"))]
pub(crate) use std::sync::{Mutex, MutexGuard};

#[cfg(feature = "model-check")]
pub(crate) use shuttle::sync::{Mutex, MutexGuard};

/// Locks, also after a panic elsewhere: a table is consistent between any two of its statements.
#[inline]
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

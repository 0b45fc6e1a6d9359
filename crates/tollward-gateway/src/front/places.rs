//! The bound on connections, over all workers.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};

/// Told 1 when a connection is accepted and -1 when it is closed.
pub type OpenHook = Arc<dyn Fn(i64) + Send + Sync>;

/// The places for connections of one worker.
#[derive(Clone)]
pub(super) struct Places {
    free: Arc<Semaphore>,
    open: OpenHook,
    /// Connections of each worker.
    loads: Arc<[AtomicUsize]>,
    worker: usize,
}

impl Places {
    /// One for each worker; they share the number.
    pub(super) fn new(connections: usize, workers: usize, open: OpenHook) -> Vec<Self> {
        let free = Arc::new(Semaphore::new(connections.min(Semaphore::MAX_PERMITS)));
        let loads: Arc<[_]> = (0..workers).map(|_| AtomicUsize::new(0)).collect();
        let of_worker = |worker| Self {
            free: free.clone(),
            open: open.clone(),
            loads: loads.clone(),
            worker,
        };
        (0..workers).map(of_worker).collect()
    }

    /// Waits for a place.
    pub(super) async fn free(&self) -> Result<OwnedSemaphorePermit, AcquireError> {
        self.free.clone().acquire_owned().await
    }

    /// Takes a free place for a connection.
    pub(super) fn take(&self, permit: OwnedSemaphorePermit) -> Place {
        self.load().fetch_add(1, Ordering::Relaxed);
        (self.open)(1);
        Place {
            places: self.clone(),
            _permit: permit,
        }
    }

    /// Whether this worker has so many connections that it should leave the next to another.
    pub(super) fn is_ahead(&self) -> bool {
        let mine = self.load().load(Ordering::Relaxed);
        let loads = self.loads.iter();
        let least = loads.map(|load| load.load(Ordering::Relaxed)).min();
        mine > least.unwrap_or(0) + 1
    }

    fn load(&self) -> &AtomicUsize {
        &self.loads[self.worker]
    }
}

/// The place of one connection, given back when it is dropped.
pub(super) struct Place {
    places: Places,
    _permit: OwnedSemaphorePermit,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.load().fetch_sub(1, Ordering::Relaxed);
        (self.places.open)(-1);
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Place")
            .field("worker", &self.places.worker)
            .finish()
    }
}

//! Coarse time, and the waking of what waits.
//!
//! A request through the gateway has several time limits, and almost none is ever reached. So none of
//! them is a timer: the time is a number that one task counts up, a limit is the number at which it is
//! over, and the task looks ten times a second whose limit has come.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Wake, Waker};

const NEVER: u64 = u64::MAX;

/// The ticks since a forwarder began to work.
#[derive(Debug, Default)]
pub(super) struct Clock {
    ticks: AtomicU64,
    /// Those who may have a time limit; as many as there are connections and HTTP/2 exchanges.
    pulses: Mutex<Vec<Weak<Pulse>>>,
}

impl Clock {
    pub(super) fn now(&self) -> u64 {
        self.ticks.load(Ordering::Relaxed)
    }

    /// Something that this clock will wake.
    pub(super) fn pulse(&self) -> Arc<Pulse> {
        let pulse = Arc::new(Pulse {
            state: AtomicU8::new(WOKEN),
            limit: AtomicU64::new(NEVER),
            task: Mutex::new(None),
        });
        locked(&self.pulses).push(Arc::downgrade(&pulse));
        pulse
    }

    /// One tick: wakes those whose limit has come.
    pub(super) fn advance(&self) {
        let now = self.ticks.fetch_add(1, Ordering::Relaxed) + 1;
        locked(&self.pulses).retain(|pulse| match pulse.upgrade() {
            Some(pulse) => {
                if pulse.limit.load(Ordering::Relaxed) <= now {
                    pulse.wake_task();
                }
                true
            }
            None => false,
        });
    }
}

const WOKEN: u8 = 1;
const WORKING: u8 = 2;

/// What wakes a connection that works inside the task of its request.
///
/// To the connection this is the waker of a task of its own, whichever request it serves. A wake while
/// the connection is being worked on is only remembered: who works on it looks again anyway. One that
/// comes while nobody works on it wakes the request's task, if there is a request.
#[derive(Debug)]
pub(super) struct Pulse {
    state: AtomicU8,
    limit: AtomicU64,
    task: Mutex<Option<Waker>>,
}

impl Pulse {
    /// From now on wakes are remembered; afterwards they go to this task.
    pub(super) fn begin(&self, task: &Context<'_>) {
        self.watch(task);
        self.state.fetch_or(WORKING, Ordering::AcqRel);
    }

    /// Wakes go to this task.
    pub(super) fn watch(&self, task: &Context<'_>) {
        let mut known = locked(&self.task);
        match &mut *known {
            Some(waker) => waker.clone_from(task.waker()),
            None => *known = Some(task.waker().clone()),
        }
    }

    /// Whether there was a wake since the last question.
    pub(super) fn take_woken(&self) -> bool {
        self.state.fetch_and(!WOKEN, Ordering::AcqRel) & WOKEN != 0
    }

    /// Sees to it that the connection is worked on next.
    pub(super) fn rouse(&self) {
        self.state.fetch_or(WOKEN, Ordering::AcqRel);
    }

    /// Wakes are passed on again. Whether there was one that was not taken.
    pub(super) fn end(&self) -> bool {
        self.state.fetch_and(!WORKING, Ordering::AcqRel) & WOKEN != 0
    }

    /// Nobody waits: wakes are remembered, and there is no limit.
    pub(super) fn rest(&self) {
        self.state.fetch_and(!WORKING, Ordering::AcqRel);
        self.limit.store(NEVER, Ordering::Relaxed);
        *locked(&self.task) = None;
    }

    /// The task is woken at this tick.
    pub(super) fn arm(&self, limit: u64) {
        self.limit.store(limit, Ordering::Relaxed);
    }

    pub(super) fn limit(&self) -> u64 {
        self.limit.load(Ordering::Relaxed)
    }

    fn wake_task(&self) {
        let task = locked(&self.task).clone();
        if let Some(task) = task {
            task.wake();
        }
    }
}

impl Wake for Pulse {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.state.fetch_or(WOKEN, Ordering::AcqRel) & WORKING == 0 {
            self.wake_task();
        }
    }
}

/// A lock, also after a panic: everything kept behind one here is whole at every moment.
pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

//! Waiting in line for tokens that are taken already.
//!
//! The store knows how long a request has to wait, and has charged it. Here it spends that time, and if
//! it leaves before its turn, whoever stands behind it moves up.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tollgate_core::Key;

/// All lines of a gate, by the hash of the bucket that is waited for. Two buckets of one hash would share
/// a line; nobody would wait longer for it.
///
/// There are never more places than requests under way, and a limit's `max_queue` and `max_wait` bound
/// those of each line.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    lines: Mutex<HashMap<u64, Vec<Arc<Waiter>>>>,
    hasher: RandomState,
    tickets: AtomicU64,
}

#[derive(Debug)]
struct Waiter {
    /// In the order of arrival.
    ticket: u64,
    /// How much earlier its turn has become since it last looked, in microseconds.
    sooner_us: AtomicU64,
    /// Its turn has come nearer, or those before it have gone.
    changed: Notify,
}

/// A place in a line, to be waited in. Dropped before its turn, those behind it move up.
#[derive(Debug)]
pub(crate) struct Place<'a> {
    lines: &'a Lines,
    line: u64,
    waiter: Arc<Waiter>,
    wait: Duration,
    /// How long its tokens take to come.
    length_us: u64,
    served: bool,
}

impl Lines {
    /// A place at the end of the line for a bucket. Its turn comes after `wait`; its own tokens take
    /// `length_us` of that.
    pub(crate) fn join(&self, key: Key<'_>, wait: Duration, length_us: u64) -> Place<'_> {
        let line = self.hasher.hash_one(key);
        let mut lines = self.lock();
        let waiter = Arc::new(Waiter {
            ticket: self.tickets.fetch_add(1, Relaxed),
            sooner_us: AtomicU64::new(0),
            changed: Notify::new(),
        });
        lines.entry(line).or_default().push(waiter.clone());
        drop(lines);
        Place {
            lines: self,
            line,
            waiter,
            wait,
            length_us,
            served: false,
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Vec<Arc<Waiter>>>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place<'_> {
    /// Waits for its turn.
    pub(crate) async fn turn(mut self) {
        let mut sleep = std::pin::pin!(tokio::time::sleep(self.wait));
        loop {
            tokio::select! {
                () = sleep.as_mut() => break,
                () = self.waiter.changed.notified() => {
                    let sooner = self.waiter.sooner_us.swap(0, Relaxed);
                    let deadline = sleep.deadline();
                    let sooner = deadline.checked_sub(Duration::from_micros(sooner));
                    sleep.as_mut().reset(sooner.unwrap_or(deadline));
                }
            }
        }
        // Timers are not that fine: those whose turn came in the same moment go first.
        while !self.is_first() {
            self.waiter.changed.notified().await;
        }
        self.served = true;
    }

    fn is_first(&self) -> bool {
        let lines = self.lines.lock();
        let first = lines.get(&self.line).and_then(|line| line.first());
        first.is_none_or(|first| first.ticket == self.waiter.ticket)
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut lines = self.lines.lock();
        let Some(line) = lines.get_mut(&self.line) else {
            return;
        };
        line.retain(|waiter| waiter.ticket != self.waiter.ticket);
        for waiter in line.iter() {
            if !self.served && waiter.ticket > self.waiter.ticket {
                waiter.sooner_us.fetch_add(self.length_us, Relaxed);
            }
            waiter.changed.notify_one();
        }
        if line.is_empty() {
            lines.remove(&self.line);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: Key<'static> = Key {
        family: "plan",
        scope: b"someone",
    };
    const SECOND_US: u64 = 1_000_000;

    fn join(lines: &Lines, secs: u64) -> Place<'_> {
        lines.join(KEY, Duration::from_secs(secs), SECOND_US)
    }

    fn elapsed_secs(start: tokio::time::Instant) -> u64 {
        start.elapsed().as_secs()
    }

    #[tokio::test(start_paused = true)]
    #[expect(clippy::disallowed_methods, reason = "the paused clock of the test")]
    async fn whoever_stands_behind_one_that_leaves_moves_up() {
        let (lines, start) = (Lines::default(), tokio::time::Instant::now());
        let (first, leaves, third, fourth) = (
            join(&lines, 1),
            join(&lines, 2),
            join(&lines, 3),
            join(&lines, 4),
        );
        drop(leaves);
        let (one, two, three) = tokio::join!(
            async {
                first.turn().await;
                elapsed_secs(start)
            },
            async {
                third.turn().await;
                elapsed_secs(start)
            },
            async {
                fourth.turn().await;
                elapsed_secs(start)
            },
        );
        assert_eq!([one, two, three], [1, 2, 3]);
        assert!(lines.lock().is_empty());
    }

    #[tokio::test(start_paused = true)]
    #[expect(clippy::disallowed_methods, reason = "the paused clock of the test")]
    async fn one_that_was_served_makes_nobody_sooner() {
        let (lines, start) = (Lines::default(), tokio::time::Instant::now());
        let (first, second) = (join(&lines, 1), join(&lines, 5));
        tokio::join!(first.turn(), second.turn());
        assert_eq!(elapsed_secs(start), 5);
        assert!(lines.lock().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn turns_of_the_same_moment_come_in_the_order_of_arrival() {
        let lines = Lines::default();
        let order = Mutex::new(Vec::new());
        let places: Vec<_> = (0..20).map(|_| join(&lines, 1)).collect();
        let turns = places.into_iter().enumerate().map(|(index, place)| {
            let order = &order;
            async move {
                place.turn().await;
                order.lock().unwrap().push(index);
            }
        });
        // Polled from the last to the first.
        let turns: Vec<_> = turns.collect();
        futures_util::future::join_all(turns.into_iter().rev()).await;
        assert_eq!(*order.lock().unwrap(), (0..20).collect::<Vec<_>>());
    }
}

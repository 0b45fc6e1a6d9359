//! Waiting in line for tokens that are taken already.
//!
//! The store knows how long a request has to wait, and has charged it. Here it spends that time, and if
//! it leaves before its turn, whoever stands behind it moves up.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tollward_core::Key;

/// All lines of a gate, by the hash of the bucket that is waited for. Two buckets of one hash would share
/// a line; nobody would wait longer for it.
///
/// There are never more places than requests under way, and a limit's `max_queue` and `max_wait` bound
/// those of each line.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    lines: Mutex<HashMap<u64, Line>>,
    hasher: RandomState,
    tickets: AtomicU64,
}

/// Those who wait, by when their turn comes. They may get here in another order than they were decided
/// about in.
type Line = VecDeque<Turn>;

#[derive(Debug)]
struct Turn {
    /// When, in microseconds of the clock that decides, and which of those who come at the same moment.
    due: (u64, u64),
    waiter: Arc<Waiter>,
}

#[derive(Debug, Default)]
struct Waiter {
    /// How much earlier its turn has become since it last looked, in microseconds.
    sooner_us: AtomicU64,
    /// Its turn has come nearer, or it has become the first.
    changed: Notify,
}

/// What is waited for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Errand<'a> {
    /// The bucket.
    pub(crate) key: Key<'a>,
    /// When the turn comes, in microseconds of the clock that decides.
    pub(crate) due_us: u64,
    /// How long that is from now.
    pub(crate) wait: Duration,
    /// How long something else takes that is waited for too: it does not get sooner than that.
    pub(crate) at_least: Duration,
    /// How long its own tokens take to come, in microseconds.
    pub(crate) length_us: u64,
}

/// A place in a line, to be waited in. Dropped before its turn, those behind it move up.
#[derive(Debug)]
pub(crate) struct Place<'a> {
    lines: &'a Lines,
    line: u64,
    ticket: u64,
    waiter: Arc<Waiter>,
    wait: Duration,
    at_least: Duration,
    length_us: u64,
    served: bool,
}

impl Lines {
    /// A place in the line for a bucket.
    pub(crate) fn join(&self, errand: Errand<'_>) -> Place<'_> {
        let line = self.hasher.hash_one(errand.key);
        let ticket = self.tickets.fetch_add(1, Relaxed);
        let due = (errand.due_us, ticket);
        let waiter = Arc::new(Waiter::default());
        let mut lines = self.lock();
        let places = lines.entry(line).or_default();
        let index = places.partition_point(|turn| turn.due < due);
        let turn = Turn {
            due,
            waiter: waiter.clone(),
        };
        places.insert(index, turn);
        drop(lines);
        Place {
            lines: self,
            line,
            ticket,
            waiter,
            wait: errand.wait,
            at_least: errand.at_least,
            length_us: errand.length_us,
            served: false,
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Line>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place<'_> {
    /// Waits for its turn.
    pub(crate) async fn turn(mut self) {
        let mut sleep = std::pin::pin!(tokio::time::sleep(self.wait));
        let mut slack = self.wait.saturating_sub(self.at_least);
        loop {
            tokio::select! {
                () = sleep.as_mut() => break,
                () = self.waiter.changed.notified() => {
                    let sooner = self.waiter.sooner_us.swap(0, Relaxed);
                    let sooner = Duration::from_micros(sooner).min(slack);
                    slack -= sooner;
                    let deadline = sleep.deadline();
                    let sooner = deadline.checked_sub(sooner);
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
        let first = lines.get(&self.line).and_then(VecDeque::front);
        first.is_none_or(|first| first.due.1 == self.ticket)
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut lines = self.lines.lock();
        let Some(line) = lines.get_mut(&self.line) else {
            return;
        };
        let index = line.iter().position(|turn| turn.due.1 == self.ticket);
        let Some(index) = index else {
            return;
        };
        line.remove(index);
        if !self.served {
            for turn in line.iter_mut().skip(index) {
                turn.due.0 = turn.due.0.saturating_sub(self.length_us);
                turn.waiter.sooner_us.fetch_add(self.length_us, Relaxed);
                turn.waiter.changed.notify_one();
            }
        }
        match line.front() {
            Some(first) => first.waiter.changed.notify_one(),
            None => {
                lines.remove(&self.line);
            }
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
        with_other(lines, secs, 0)
    }

    /// A place of a request that waits for something else too.
    fn with_other(lines: &Lines, secs: u64, other: u64) -> Place<'_> {
        lines.join(Errand {
            key: KEY,
            due_us: secs * SECOND_US,
            wait: Duration::from_secs(secs),
            at_least: Duration::from_secs(other),
            length_us: SECOND_US,
        })
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

    #[tokio::test(start_paused = true)]
    #[expect(clippy::disallowed_methods, reason = "the paused clock of the test")]
    async fn who_comes_late_to_the_line_stands_where_its_turn_is() {
        let (lines, start) = (Lines::default(), tokio::time::Instant::now());
        let (third, first, second) = (join(&lines, 3), join(&lines, 1), join(&lines, 2));
        let (third, first, second) = tokio::join!(
            async {
                third.turn().await;
                elapsed_secs(start)
            },
            async {
                first.turn().await;
                elapsed_secs(start)
            },
            async {
                second.turn().await;
                elapsed_secs(start)
            },
        );
        assert_eq!([first, second, third], [1, 2, 3]);
    }

    #[tokio::test(start_paused = true)]
    #[expect(clippy::disallowed_methods, reason = "the paused clock of the test")]
    async fn nobody_moves_up_past_what_else_it_waits_for() {
        let (lines, start) = (Lines::default(), tokio::time::Instant::now());
        let (one, two) = (join(&lines, 1), join(&lines, 2));
        let (held, free) = (with_other(&lines, 3, 2), join(&lines, 9));
        drop((one, two));
        tokio::join!(
            async {
                held.turn().await;
                assert_eq!(elapsed_secs(start), 2);
            },
            async {
                free.turn().await;
                assert_eq!(elapsed_secs(start), 7);
            },
        );
    }
}

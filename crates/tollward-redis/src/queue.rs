//! Parts that wait for the next call.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, oneshot};
use tollward_core::Timestamp;

use crate::connect::Address;
use crate::part::{Answer, Part};

/// One part, and who waits for its answer.
pub(crate) struct Job {
    pub(crate) part: Part,
    pub(crate) slot: u16,
    /// Its slot is on the move, and it would hold up others.
    pub(crate) alone: bool,
    /// The slot is on its way here: the server has to be told that we know.
    pub(crate) asking: bool,
    /// When it was asked, by this node's clock.
    pub(crate) now: Timestamp,
    /// Where the answer goes, until it is given.
    pub(crate) reply: Option<oneshot::Sender<Result<Answer, Failure>>>,
}

impl Job {
    /// Answers whoever waits; they may have run out of time and gone.
    pub(crate) fn answer(&mut self, answer: Result<Answer, Failure>) {
        if let Some(reply) = self.reply.take() {
            let _ = reply.send(answer);
        }
    }
}

/// Why a part has no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// It was not executed, and nothing was charged.
    NotSent,
    /// It may have been executed: it must not be sent again.
    Unknown,
    /// Its slot is elsewhere now.
    Moved { to: Address },
    /// Its slot is on the way there, and the bucket is there already.
    Ask { to: Address },
    /// Its slot is on the way, some of its buckets have gone: try again.
    Again,
}

/// A part that was put in a queue.
pub(crate) struct Ticket {
    number: u64,
    pub(crate) answer: oneshot::Receiver<Result<Answer, Failure>>,
}

#[derive(Default)]
pub(crate) struct Queue {
    inner: Mutex<Inner>,
    wake: Notify,
}

#[derive(Default)]
struct Inner {
    /// Numbered without gaps, but for those taken back.
    jobs: VecDeque<(u64, Job)>,
    next: u64,
    /// Whether anybody sends what is put here.
    open: bool,
    /// Calls that have not come back.
    under_way: usize,
}

/// More are not let wait: they would not be answered in time.
const MAX_WAITING: usize = 4096;
/// The most parts of one call: enough to share its cost, few enough not to hold up the server.
const MAX_PARTS: usize = 64;
/// The most charges of one call.
const MAX_CHARGES: usize = 256;
/// While a call is under way, another is made only for so many.
const WORTH_ANOTHER: usize = 16;

/// Why a part was not taken into the queue.
pub(crate) enum Refused {
    /// The server is not asked at present.
    Closed,
    /// Too many wait already.
    Full,
}

impl Queue {
    /// Puts a part into the queue; `make` is given the sender for the answer.
    pub(crate) fn push(
        &self,
        make: impl FnOnce(oneshot::Sender<Result<Answer, Failure>>) -> Job,
    ) -> Result<Ticket, Refused> {
        let (reply, answer) = oneshot::channel();
        let mut inner = self.lock();
        if !inner.open {
            return Err(Refused::Closed);
        }
        if inner.jobs.len() >= MAX_WAITING {
            return Err(Refused::Full);
        }
        let number = inner.next;
        inner.next += 1;
        inner.jobs.push_back((number, make(reply)));
        drop(inner);
        self.wake.notify_one();
        Ok(Ticket { number, answer })
    }

    /// Takes a part back, if it has not been sent.
    pub(crate) fn take_back(&self, ticket: &Ticket) -> bool {
        let mut inner = self.lock();
        let found = inner
            .jobs
            .binary_search_by_key(&ticket.number, |(number, _)| *number);
        found.is_ok_and(|index| inner.jobs.remove(index).is_some())
    }

    /// What goes into the next call, as soon as it is worth one; false when the queue was closed. To be
    /// followed by [`Queue::came_back`].
    pub(crate) async fn next_batch(&self, batch: &mut Vec<Job>) -> bool {
        loop {
            // Made before the look, so that what happens behind it is not missed.
            let woken = self.wake.notified();
            {
                let mut inner = self.lock();
                if !inner.open {
                    return false;
                }
                let worth = inner.under_way == 0 || inner.jobs.len() >= WORTH_ANOTHER;
                let mut charges = 0;
                while worth
                    && batch.len() < MAX_PARTS
                    && let Some((_, job)) = inner.jobs.front()
                    && (batch.is_empty() || charges + job.part.charges.len() <= MAX_CHARGES)
                    && let Some((_, job)) = inner.jobs.pop_front()
                {
                    charges += job.part.charges.len();
                    batch.push(job);
                }
                if !batch.is_empty() {
                    inner.under_way += 1;
                }
                let more = inner.jobs.len() >= WORTH_ANOTHER;
                drop(inner);
                if more {
                    self.wake.notify_one();
                }
            }
            if !batch.is_empty() {
                return true;
            }
            woken.await;
        }
    }

    /// A call has come back.
    pub(crate) fn came_back(&self) {
        let mut inner = self.lock();
        inner.under_way = inner.under_way.saturating_sub(1);
    }

    pub(crate) fn open(&self) {
        let mut inner = self.lock();
        inner.open = true;
        inner.under_way = 0;
    }

    /// Lets nobody in any more, and sends those who wait away.
    pub(crate) fn close(&self) {
        let waiting = {
            let mut inner = self.lock();
            inner.open = false;
            std::mem::take(&mut inner.jobs)
        };
        self.wake.notify_waiters();
        for (_, mut job) in waiting {
            job.answer(Err(Failure::NotSent));
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        self.lock().open
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

//! What is counted of all workers together.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};

use http::StatusCode;

use crate::forward::ForwardError;

/// Counters of a gateway.
#[derive(Debug, Default)]
pub struct Stats {
    /// By the first digit of the status, from 1 on.
    answers: [AtomicU64; 5],
    failures: [AtomicU64; ForwardError::ALL.len()],
    open: AtomicI64,
    unlogged: Arc<AtomicU64>,
}

impl Stats {
    /// The classes of statuses that are told apart.
    pub const CLASSES: [&'static str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

    pub(crate) fn answered(&self, status: StatusCode) {
        let class = usize::from(status.as_u16() / 100).saturating_sub(1);
        if let Some(count) = self.answers.get(class) {
            count.fetch_add(1, Relaxed);
        }
    }

    pub(crate) fn failed(&self, error: ForwardError) {
        self.failures[error as usize].fetch_add(1, Relaxed);
    }

    /// Adds to the number of open connections.
    pub fn opened(&self, connections: i64) {
        self.open.fetch_add(connections, Relaxed);
    }

    /// Where lines of the access log that are left out are counted.
    pub(crate) fn lost_lines(&self) -> Arc<AtomicU64> {
        self.unlogged.clone()
    }

    /// Answers of each of [`Stats::CLASSES`].
    pub fn answers(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let counts = self.answers.iter().map(|count| count.load(Relaxed));
        Self::CLASSES.into_iter().zip(counts)
    }

    /// Requests that have no answer of an upstream, by the reason.
    pub fn failures(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let words = ForwardError::ALL.iter().map(|error| error.word());
        words.zip(self.failures.iter().map(|count| count.load(Relaxed)))
    }

    /// Connections that are open.
    pub fn open(&self) -> i64 {
        self.open.load(Relaxed)
    }

    /// Lines of the access log that were left out because it could not be written fast enough.
    pub fn unlogged(&self) -> u64 {
        self.unlogged.load(Relaxed)
    }
}

//! Where events go: to a log of lines, and to the directory.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tollward_directory::AuditEvent;
use tollward_gateway::{LineLog, Written};
use tollward_policy::AccessLog as Destination;

use super::event::Line;

/// Events that may wait for the directory.
const MAX_WAITING: usize = 20_000;
/// Of those, refusals: a flood of them leaves room for what people do.
const MAX_REFUSALS: usize = 15_000;
/// Lines that may wait for the log: more than the refusals of an interval.
const MAX_LINES: usize = 16_384;
/// Events that are written at once.
const BATCH: usize = 500;

/// Both places. A place that cannot take an event costs that event there, and is no concern of who tells it.
pub(super) struct Audit {
    /// There until it is closed.
    lines: Mutex<Option<LineLog<Line>>>,
    lines_lost: Arc<AtomicU64>,
    waiting: Mutex<VecDeque<AuditEvent>>,
    dropped: AtomicU64,
}

impl Audit {
    /// With the end of its log, if it has one.
    ///
    /// # Errors
    ///
    /// The file of the log cannot be opened.
    pub(super) fn open(log: &Destination) -> io::Result<(Self, Option<Written>)> {
        let lines_lost = Arc::new(AtomicU64::new(0));
        let opened = LineLog::open(log, "audit-log", MAX_LINES, lines_lost.clone())?;
        let (lines, written) = opened.unzip();
        let audit = Self {
            lines: Mutex::new(lines),
            lines_lost,
            waiting: Mutex::default(),
            dropped: AtomicU64::new(0),
        };
        Ok((audit, written))
    }

    /// Tells an event to both.
    pub(super) fn record(&self, event: AuditEvent) {
        self.line(&event);
        self.wait(event, MAX_WAITING);
    }

    /// Tells refusals to both.
    pub(super) fn refusals(&self, events: Vec<AuditEvent>) {
        for event in events {
            self.line(&event);
            self.wait(event, MAX_REFUSALS);
        }
    }

    /// Tells an event to the log alone.
    pub(super) fn line(&self, event: &AuditEvent) {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(lines) = &*lines {
            lines.write(Line(event.clone()));
        }
    }

    /// The log takes no more: it ends when all is written.
    pub(super) fn close(&self) {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        *lines = None;
    }

    fn wait(&self, event: AuditEvent, max: usize) {
        let mut waiting = self.waiting();
        if waiting.len() < max {
            waiting.push_back(event);
        } else {
            self.dropped.fetch_add(1, Relaxed);
        }
    }

    /// What the directory is to be told next; nothing if it knows all.
    pub(super) fn batch(&self) -> Vec<AuditEvent> {
        self.waiting().iter().take(BATCH).cloned().collect()
    }

    /// The batch is written.
    pub(super) fn written(&self, batch: &[AuditEvent]) {
        // Others are added behind it, and nobody else takes any away.
        let mut waiting = self.waiting();
        let length = waiting.len().min(batch.len());
        waiting.drain(..length);
    }

    /// The batch is given up.
    pub(super) fn give_up(&self, batch: &[AuditEvent]) {
        self.written(batch);
        self.dropped.fetch_add(batch.len() as u64, Relaxed);
    }

    /// Events that wait for the directory.
    pub(super) fn len(&self) -> usize {
        self.waiting().len()
    }

    /// Events that are missing in the log.
    pub(super) fn lines_lost(&self) -> u64 {
        self.lines_lost.load(Relaxed)
    }

    /// Events that are missing in the directory.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped.load(Relaxed)
    }

    fn waiting(&self) -> MutexGuard<'_, VecDeque<AuditEvent>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

//! The task that takes what was summed up, and writes it.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Sleep, sleep, timeout};
use tollward_directory::{AuditEvent, Batch, Directory, DirectoryError, Retention};
use tollward_engine::Clock;
use tollward_gateway::Written;
use tollward_policy::{AuditSettings, UsageSettings};
use tracing::{info, warn};

use super::touches::Untold;
use super::usage::Unwritten;
use super::{Records, calendar};

/// How long the last records may take.
const LAST_RECORDS: Duration = Duration::from_secs(5);
/// How often what is too old is removed.
const PRUNE_EVERY: Duration = Duration::from_secs(3600);
/// How long the directory remembers answers and changes.
const REMEMBERED: Duration = Duration::from_secs(86_400);

/// Writes what [`Records`] are told.
pub(crate) struct Recorder {
    records: Records,
    directory: Directory,
    clock: Arc<dyn Clock>,
    audit: AuditSettings,
    usage: UsageSettings,
    unwritten: Unwritten,
    untold: Untold,
    /// The events that are being written, until it is known that they are.
    events: Vec<AuditEvent>,
    batches: Batches,
    /// The end of the audit log.
    written: Option<Written>,
    /// The directory took what it was last given.
    is_well: bool,
}

impl Recorder {
    pub(super) fn new(
        records: Records,
        directory: Directory,
        clock: Arc<dyn Clock>,
        audit: &AuditSettings,
        usage: &UsageSettings,
        written: Option<Written>,
    ) -> Self {
        Self {
            records,
            directory,
            clock,
            audit: audit.clone(),
            usage: *usage,
            unwritten: Unwritten::new(),
            untold: Untold::new(),
            events: Vec::new(),
            batches: Batches::new(),
            written,
            is_well: true,
        }
    }

    /// Writes now and then until it is told to stop, which should be when nothing more is decided. Then it
    /// writes what is left, if that takes no more than a few seconds.
    pub(crate) async fn run(mut self, mut stopping: watch::Receiver<bool>) {
        let mut write = every(self.usage.interval);
        let mut collect = every(self.audit.interval);
        let mut prune = every(PRUNE_EVERY);
        // Apart: while very much is removed, what happens is taken and written all the same.
        let mut pruning = JoinSet::new();
        loop {
            tokio::select! {
                // Also when nobody is left to stop it.
                _ = stopping.changed() => break,
                _ = write.tick() => self.gather(),
                _ = collect.tick() => self.collect_refusals(),
                _ = prune.tick(), if pruning.is_empty() => {
                    pruning.spawn(self.prune());
                }
                _ = pruning.join_next(), if !pruning.is_empty() => {}
            }
            while !has_to_stop(&stopping) && self.write().await {}
        }
        // What is left of it is removed the next time.
        pruning.shutdown().await;
        self.finish().await;
    }

    /// Makes events of what was refused since the last time.
    pub(super) fn collect_refusals(&self) {
        let records = &self.records;
        let events = records.0.refusals.take().into_iter();
        let events = events.map(|event| records.signed(event)).collect();
        records.0.audit.refusals(events);
    }

    /// Takes over what was summed up since the last time.
    pub(super) fn gather(&mut self) {
        let records = &self.records.0;
        let misplaced = self.unwritten.add(records.usage.take());
        records.usage_dropped.fetch_add(misplaced, Relaxed);
        let dropped = self.untold.add(records.touches.take());
        records.touches_dropped.fetch_add(dropped, Relaxed);
    }

    /// Writes a batch of everything to the directory, and says whether there may be more to write now. What
    /// the directory does not take is kept for the next time.
    pub(super) async fn write(&mut self) -> bool {
        match self.write_batches().await {
            Ok(more) => {
                if !std::mem::replace(&mut self.is_well, true) {
                    info!("records are written to the directory again");
                }
                more
            }
            Err(error) => {
                if std::mem::replace(&mut self.is_well, false) {
                    warn!("records wait to be written: {error}");
                }
                false
            }
        }
    }

    async fn write_batches(&mut self) -> Result<bool, DirectoryError> {
        let more_events = self.write_audit().await?;
        let more_usage = self.write_usage().await?;
        let more_touches = self.write_touches().await?;
        Ok(more_events || more_usage || more_touches)
    }

    async fn write_audit(&mut self) -> Result<bool, DirectoryError> {
        let records = self.records.clone();
        let audit = &records.0.audit;
        // What is tried again has to be the same.
        if self.events.is_empty() {
            self.events = audit.batch();
            self.batches.audit += 1;
        }
        if self.events.is_empty() {
            return Ok(false);
        }
        let id = self.batches.id("audit", self.batches.audit);
        let batch = self.batch(&id);
        match self.directory.add_audit_once(&batch, &self.events).await {
            Ok(()) => audit.written(&self.events),
            Err(error) if is_lasting(&error) => {
                warn!("events are lost: {error}");
                audit.give_up(&self.events);
            }
            Err(error) => return Err(error),
        }
        self.events.clear();
        Ok(true)
    }

    async fn write_usage(&mut self) -> Result<bool, DirectoryError> {
        let id = self.batches.id("usage", self.batches.usage);
        let batch = self.batch(&id);
        let rows = self.unwritten.batch();
        if rows.is_empty() {
            return Ok(false);
        }
        match self.directory.add_usage_once(&batch, rows).await {
            Ok(()) => {
                self.unwritten.written();
            }
            Err(error) if is_lasting(&error) => {
                warn!("usage is lost: {error}");
                let lost = self.unwritten.written();
                self.records.0.usage_dropped.fetch_add(lost, Relaxed);
            }
            Err(error) => return Err(error),
        }
        self.batches.usage += 1;
        Ok(true)
    }

    /// A batch that is written once, however often it is tried.
    fn batch<'a>(&self, id: &'a str) -> Batch<'a> {
        let now_ms = calendar(&*self.clock).as_micros() / 1000;
        Batch {
            id,
            now_ms: now_ms.cast_signed(),
        }
    }

    async fn write_touches(&mut self) -> Result<bool, DirectoryError> {
        let batch = self.untold.batch();
        if batch.is_empty() {
            return Ok(false);
        }
        match self.directory.touch_keys(&batch).await {
            Ok(()) => {}
            Err(error) if is_lasting(&error) => {
                let lost = batch.len() as u64;
                self.records.0.touches_dropped.fetch_add(lost, Relaxed);
            }
            Err(error) => return Err(error),
        }
        self.untold.written();
        Ok(true)
    }

    /// Has the directory forget what is too old.
    fn prune(&self) -> impl Future<Output = ()> + use<> {
        let now_ms = calendar(&*self.clock).as_micros() / 1000;
        let before = |age: Duration| {
            let age = u64::try_from(age.as_millis()).unwrap_or(u64::MAX);
            now_ms.saturating_sub(age).cast_signed()
        };
        let retention = Retention {
            audit_before: before(self.audit.retention),
            minute_before: before(self.usage.minute) / 1000,
            hour_before: before(self.usage.hour) / 1000,
            day_before: before(self.usage.day) / 1000,
            idempotency_before: before(REMEMBERED),
            changes_before: before(REMEMBERED),
        };
        let directory = self.directory.clone();
        async move {
            if let Err(error) = directory.prune(&retention).await {
                warn!("old records cannot be removed: {error}");
            }
        }
    }

    /// Writes what is left, and says what cannot be written.
    async fn finish(mut self) {
        self.collect_refusals();
        let records = self.records.clone();
        records.0.audit.close();
        let written = self.written.take();
        let lines = async {
            if let Some(written) = written {
                written.wait().await;
            }
        };
        self.gather();
        let rest = async { while self.write().await {} };
        let (in_time, _) = tokio::join!(timeout(LAST_RECORDS, lines), timeout(LAST_RECORDS, rest));
        if in_time.is_err() {
            warn!("the audit log cannot be written: some lines are lost");
        }
        let (events, requests) = (records.0.audit.len(), self.unwritten.requests());
        if events > 0 || requests > 0 {
            warn!(
                events,
                requests, "records are lost: the directory did not take them"
            );
        }
    }
}

/// The names of batches, which no other process has.
struct Batches {
    process: String,
    audit: u64,
    usage: u64,
}

impl Batches {
    fn new() -> Self {
        let mut bytes = [0; 12];
        // Without chance, there is still what this process and no other one is.
        if getrandom::getrandom(&mut bytes).is_err() {
            bytes[..4].copy_from_slice(&std::process::id().to_le_bytes());
        }
        Self {
            process: bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
            audit: 0,
            usage: 0,
        }
    }

    fn id(&self, what: &str, number: u64) -> String {
        format!("{what}:{}:{number}", self.process)
    }
}

fn has_to_stop(stopping: &watch::Receiver<bool>) -> bool {
    stopping.has_changed().unwrap_or(true)
}

/// Whether asking again does not help.
fn is_lasting(error: &DirectoryError) -> bool {
    match error {
        DirectoryError::Unavailable(_) | DirectoryError::Full(_) => false,
        DirectoryError::Conflict(_) | DirectoryError::Invalid(_) | DirectoryError::Newer { .. } => {
            true
        }
    }
}

/// Ticks at once, and then with at least so much time between.
struct Ticks {
    period: Duration,
    next: Pin<Box<Sleep>>,
}

impl Ticks {
    /// Waits for the next. Given up, it is waited for again.
    async fn tick(&mut self) {
        self.next.as_mut().await;
        self.next.set(sleep(self.period));
    }
}

fn every(period: Duration) -> Ticks {
    Ticks {
        period: period.max(Duration::from_millis(1)),
        next: Box::pin(sleep(Duration::ZERO)),
    }
}

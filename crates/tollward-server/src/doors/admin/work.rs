//! A change: one transaction with its audit record, live on this node before it is answered.

use std::time::Duration;

use http::StatusCode;
use serde_json::Value;
use tollward_directory::{AuditEvent, Edit};

use super::answer::Answer;
use super::failure::Failure;
use super::guard::Caller;
use super::once::Once;
use super::{Shared, to_the_end};

/// How long an answer waits for this node to hold what was changed. It is stored by then, whatever comes.
const CATCH_UP: Duration = Duration::from_secs(2);

/// What is said of something that was made in a directory that is in memory.
const NOT_KEPT: &str = "The directory is in the memory of this node: this is gone when the server stops, and other \
    nodes do not know it. Set `directory.url`, or start the server with --directory, to keep it.";

/// A change that is under way. Dropped, nothing of it has happened.
pub(super) struct Work {
    pub(super) shared: Shared,
    pub(super) edit: Edit,
    pub(super) caller: Caller,
    once: Option<Once>,
    events: Vec<AuditEvent>,
}

/// What becomes of a request that is to be done once.
pub(super) enum Begun {
    /// It was not done before.
    New(Work),
    /// It was, and this was the answer.
    Again(Answer),
}

/// What the audit trail says of a change. No secret and no hash is ever in it.
pub(super) struct Changed<'a> {
    pub(super) event: &'a str,
    /// Whom or what it concerns: `tenant:acme`.
    pub(super) identifier: String,
    pub(super) before: Option<Value>,
    pub(super) after: Option<Value>,
}

impl Work {
    /// Begins a change.
    pub(super) async fn begin(shared: &Shared, caller: Caller) -> Result<Self, Failure> {
        Ok(Self {
            shared: shared.clone(),
            edit: shared.directory.edit(shared.now_ms()).await?,
            caller,
            once: None,
            events: Vec::new(),
        })
    }

    /// Begins a change that is to be done once.
    pub(super) async fn begin_once(
        shared: &Shared,
        caller: Caller,
        once: Once,
    ) -> Result<Begun, Failure> {
        let mut work = Self::begin(shared, caller).await?;
        if let Some(key) = &once.key
            // Nobody else writes while this edit is open, so nobody does it in between.
            && let Some(remembered) = work.edit.recall(key, &work.caller.id).await?
        {
            return once.again(remembered).map(Begun::Again);
        }
        work.once = Some(once);
        Ok(Begun::New(work))
    }

    /// Notes what was changed. It is written with the change.
    pub(super) fn record(&mut self, changed: Changed<'_>) {
        let event = self.shared.event(&self.caller, changed);
        self.events.push(event);
    }

    /// Makes it so. The answer is given when this node decides by it, if that is soon.
    pub(super) async fn commit(mut self, mut answer: Answer) -> Result<Answer, Failure> {
        if answer.status == StatusCode::CREATED && self.shared.directory.is_in_memory() {
            answer.warning = Some(NOT_KEPT);
        }
        let now_ms = self.edit.now_ms();
        let caller = &self.caller.id;
        let once = self.once.as_ref();
        let remembered = once.and_then(|once| once.remembered(caller, &answer, now_ms));
        if let Some(remembered) = remembered {
            self.edit.remember(&remembered).await?;
        }
        // Last: whoever else has something to record waits from here on.
        self.edit.record_all(&self.events).await?;
        to_the_end(async move {
            let revision = self.edit.commit().await?;
            for event in &self.events {
                self.shared.records.line(event);
            }
            let caught_up = self.shared.mirror.caught_up(revision);
            let _ = tokio::time::timeout(CATCH_UP, caught_up).await;
            Ok(answer)
        })
        .await
    }
}

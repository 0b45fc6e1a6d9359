//! The configuration in force, as others may see it and ask for it to be read again.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sha2::{Digest, Sha256};
use tokio::sync::{mpsc, oneshot};
use tollward_policy::{Settings, Warning};

/// Which configuration is in force. Cheap to clone.
#[derive(Clone)]
pub(crate) struct ConfigState {
    applied: Arc<Mutex<Applied>>,
    asks: mpsc::Sender<Ask>,
    settings: Arc<Settings>,
}

/// The configuration in force.
#[derive(Clone, Debug)]
pub(crate) struct Applied {
    /// Its text.
    pub(crate) text: Arc<[u8]>,
    /// The text's SHA-256, in hexadecimal digits.
    pub(crate) hash: String,
    /// The name of the file.
    pub(crate) source: Arc<str>,
    /// When it was put in force, in Unix milliseconds.
    pub(crate) at_ms: i64,
    /// What is legal in it but surely not meant.
    pub(crate) warnings: Arc<[Warning]>,
    /// Why the last attempt to put another in force failed, and when; none if it did not.
    pub(crate) last_error: Option<(i64, String)>,
}

/// Somebody asks for the configuration to be read again.
pub(crate) struct Ask {
    pub(crate) asker: Asker,
    /// Told what became of it.
    pub(crate) answer: oneshot::Sender<Result<(), String>>,
}

/// Who asks, and from where.
#[derive(Clone, Debug)]
pub(crate) struct Asker {
    pub(crate) actor: String,
    pub(crate) address: String,
}

/// Requests to read it again that may wait.
const MAX_ASKS: usize = 16;

impl ConfigState {
    /// With this text in force; and whom to tell that it is to be read again.
    pub(crate) fn new(
        source: &str,
        text: Vec<u8>,
        warnings: Vec<Warning>,
        settings: Settings,
        now_ms: i64,
    ) -> (Self, mpsc::Receiver<Ask>) {
        let (asks, asked) = mpsc::channel(MAX_ASKS);
        let applied = Applied {
            hash: hash(&text),
            text: text.into(),
            source: source.into(),
            at_ms: now_ms,
            warnings: warnings.into(),
            last_error: None,
        };
        let state = Self {
            applied: Arc::new(Mutex::new(applied)),
            asks,
            settings: Arc::new(settings),
        };
        (state, asked)
    }

    /// What is in force.
    pub(crate) fn applied(&self) -> Applied {
        self.lock().clone()
    }

    /// The name of the file.
    pub(crate) fn source(&self) -> Arc<str> {
        self.lock().source.clone()
    }

    /// The settings that this process was started with, which only a restart changes.
    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Another text is in force.
    pub(crate) fn apply(&self, text: Vec<u8>, warnings: Vec<Warning>, now_ms: i64) {
        let hash = hash(&text);
        let mut applied = self.lock();
        applied.hash = hash;
        applied.text = text.into();
        applied.at_ms = now_ms;
        applied.warnings = warnings.into();
        applied.last_error = None;
    }

    /// Another text was not put in force.
    pub(crate) fn refuse(&self, why: &str, now_ms: i64) {
        self.lock().last_error = Some((now_ms, why.to_owned()));
    }

    /// Has the configuration read again, and waits for what becomes of it. None if nobody can say: it is
    /// being read too often, or the server stops.
    pub(crate) async fn reload(&self, asker: Asker) -> Option<Result<(), String>> {
        let (answer, answered) = oneshot::channel();
        self.asks.try_send(Ask { asker, answer }).ok()?;
        answered.await.ok()
    }

    fn lock(&self) -> MutexGuard<'_, Applied> {
        self.applied.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn hash(text: &[u8]) -> String {
    let digest = Sha256::digest(text);
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

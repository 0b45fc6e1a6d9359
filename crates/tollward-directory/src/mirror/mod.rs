//! What a node holds of the directory: loaded, followed, and told to the engine.

mod boosts;
mod held;
mod odd;
mod run;
mod shown;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwap;
use tokio::sync::watch;
use tollward_engine::Engine;
use tollward_policy::DirectorySettings;

use crate::directory::Directory;
use crate::people::Setting;
use held::Held;
use shown::Shown;

/// A node's copy of the directory. Decisions are made by it; they never wait for the database.
///
/// A change is in force within a second after its commit, wherever it was made. While the database is
/// away, what was last known holds. Cheap to clone; all clones are one, and when the last of them is
/// dropped it ends to follow.
#[derive(Clone)]
pub struct Mirror {
    state: Arc<State>,
    _running: Arc<watch::Sender<()>>,
}

/// Who has a token of the admin API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenHolder {
    /// The token's id.
    pub id: String,
    /// What the audit trail calls its bearer.
    pub name: String,
    /// What its bearer may do: `read`, `operate` or `admin`.
    pub role: String,
}

/// How a mirror is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// Whether everything was loaded once.
    pub loaded: bool,
    /// The last edit that decisions are made by.
    pub revision: i64,
    /// Whether the database answered when it was last asked.
    pub connected: bool,
    /// When it last answered, in Unix milliseconds.
    pub last_ok_unix_ms: Option<i64>,
    /// Why it did not, if it did not.
    pub error: Option<String>,
    /// Whether it has not answered for longer than what was last known holds.
    pub stale: bool,
    /// Rows that made no sense, ever.
    pub odd_rows: u64,
}

struct State {
    directory: Directory,
    engine: Arc<Engine>,
    /// Locked while it is put in force, which may take long: for those who change it, never for those who ask.
    held: Mutex<Held>,
    shown: ArcSwap<Shown>,
    settings: Mutex<DirectorySettings>,
    health: Mutex<Health>,
    /// The last edit that is in force; none before everything was loaded.
    applied: watch::Sender<Option<i64>>,
    started_ms: i64,
}

impl fmt::Debug for Mirror {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Mirror")
            .field(&self.state.directory)
            .finish()
    }
}

impl Mirror {
    /// Begins to load and to follow, in a task of the runtime that it is called in.
    pub fn start(directory: Directory, engine: Arc<Engine>, settings: &DirectorySettings) -> Self {
        let mut state = State {
            directory,
            engine,
            held: Mutex::default(),
            shown: ArcSwap::default(),
            settings: Mutex::new(settings.clone()),
            health: Mutex::default(),
            applied: watch::Sender::new(None),
            started_ms: 0,
        };
        state.started_ms = state.now_ms();
        let state = Arc::new(state);
        let (running, stop) = watch::channel(());
        tokio::spawn(run::run(Arc::clone(&state), stop));
        Self {
            state,
            _running: Arc::new(running),
        }
    }

    /// Goes by other settings from now on: how long what is known holds, and what becomes of keys then.
    pub fn configure(&self, settings: &DirectorySettings) {
        *lock(&self.state.settings) = settings.clone();
    }

    /// Waits until this node decides by an edit; by 0, until everything was loaded. It may wait for ever.
    pub async fn caught_up(&self, revision: i64) {
        let mut applied = self.state.applied.subscribe();
        // The sender lives as long as this.
        let _ = applied
            .wait_for(|applied| applied.is_some_and(|it| it >= revision))
            .await;
    }

    /// Who has the admin token with this SHA-256, if it is valid at that time, in Unix milliseconds.
    pub fn token(&self, hash: &[u8; 32], now_ms: i64) -> Option<TokenHolder> {
        self.state.shown.load().token(hash, now_ms)
    }

    /// A setting.
    pub fn setting(&self, name: &str) -> Option<Setting> {
        self.state.shown.load().setting(name).cloned()
    }

    /// How it is.
    pub fn health(&self) -> Health {
        let mut health = lock(&self.state.health).clone();
        health.stale = self.state.is_stale(health.last_ok_unix_ms);
        health.odd_rows = self.state.shown.load().odd.count();
        health
    }

    /// Rows that make no sense, or a part of which makes none, and that is left out: each a sentence that
    /// says which and why. The first hundred.
    pub fn oddities(&self) -> Vec<String> {
        self.state.shown.load().odd.list()
    }
}

impl State {
    /// What a calendar shows, in Unix milliseconds.
    fn now_ms(&self) -> i64 {
        let clock = self.engine.clock();
        let micros = clock.calendar(clock.now()).as_micros();
        i64::try_from(micros / 1000).unwrap_or(i64::MAX)
    }

    fn is_stale(&self, last_ok_ms: Option<i64>) -> bool {
        let max = lock(&self.settings).max_stale.as_millis();
        let max = i64::try_from(max).unwrap_or(i64::MAX);
        let last = last_ok_ms.unwrap_or(self.started_ms);
        self.now_ms().saturating_sub(last) > max
    }
}

/// Nothing is left half done by whoever died with it.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

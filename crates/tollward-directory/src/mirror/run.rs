//! The task of a mirror.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio::time::sleep;
use tollward_policy::{Change, Policy};
use tracing::{info, warn};

use super::held::{Held, digest};
use super::{State, lock};
use crate::entity::Entity;
use crate::error::DirectoryError;
use crate::follow::{Changes, Position, Row};
use crate::people::{Key, ListEntry, Tenant, User};

/// So many changes are put in force at once while everything is loaded: each time, parts of what is there
/// are copied.
const BATCH: usize = 100_000;
/// So many changed rows are asked for at once, or as many as one edit has.
const ROWS: u32 = 2000;
/// Boosts and keys end within twice this.
const TICK: Duration = Duration::from_millis(500);

/// Follows until nobody has the mirror any more.
pub(super) async fn run(state: Arc<State>, mut stop: watch::Receiver<()>) {
    let stopped = stop.clone();
    tokio::select! {
        () = follow(&state, stopped) => {}
        // Apart from it: what ends by itself does so while the database does not answer.
        () = tick(&state) => {}
        _ = stop.changed() => {}
    }
}

async fn follow(state: &Arc<State>, stop: watch::Receiver<()>) {
    let mut watch = state.directory.watch();
    let mut position = None;
    loop {
        match look(state, position.as_ref(), &stop).await {
            // There may be more.
            Ok(next) if position.as_ref() != Some(&next) => {
                position = Some(next);
                continue;
            }
            Ok(_) => {}
            // A listener that hears nothing may be one of a server that is gone.
            Err(error) => {
                failed(state, &error);
                watch = state.directory.watch();
            }
        }
        watch.changed().await;
    }
}

/// Puts in force what has changed. Up to where that is.
async fn look(
    state: &Arc<State>,
    before: Option<&Position>,
    stop: &watch::Receiver<()>,
) -> Result<Position, DirectoryError> {
    let asked_ms = state.now_ms();
    let Some(before) = before else {
        return load(state, stop).await;
    };
    match state.directory.changes(before, ROWS).await? {
        Changes::TooOld => {
            info!("the directory is loaded anew");
            load(state, stop).await
        }
        Changes::Rows { upto, rows } => {
            if !rows.is_empty() {
                let state = Arc::clone(state);
                // Copying parts of what a million have takes a while that no request should wait for.
                blocking(move || apply(&state, rows)).await?;
            }
            succeeded(state, upto.revision(), asked_ms);
            Ok(upto)
        }
    }
}

fn apply(state: &State, rows: Vec<Row>) {
    let now_ms = state.now_ms();
    let mut changes = Vec::with_capacity(rows.len());
    let mut held = lock(&state.held);
    for row in rows {
        held.take(row, &state.engine, now_ms, &mut changes);
    }
    put_in_force(state, &held, changes);
}

/// What is held is still locked meanwhile: it and what is in force are of one moment.
fn put_in_force(state: &State, held: &Held, changes: Vec<Change>) {
    state.shown.store(Arc::clone(&held.shown));
    if !changes.is_empty() {
        state.engine.change(changes);
    }
}

/// Loads everything, and forgets what is not there any more.
async fn load(state: &Arc<State>, stop: &watch::Receiver<()>) -> Result<Position, DirectoryError> {
    let asked_ms = state.now_ms();
    let (worker, mut stop) = (Arc::clone(state), stop.clone());
    let runtime = Handle::current();
    let loaded = blocking(move || {
        runtime.block_on(async {
            tokio::select! {
                loaded = load_here(&worker) => loaded,
                _ = stop.changed() => Err(interrupted()),
            }
        })
    });
    let upto = loaded.await??;
    succeeded(state, upto.revision(), asked_ms);
    Ok(upto)
}

async fn load_here(state: &State) -> Result<Position, DirectoryError> {
    let is_first = state.applied.borrow().is_none();
    let now_ms = state.now_ms();
    let mut held = Held::default();
    let mut loaded = Loaded::default();
    let mut changes = Vec::new();
    // A key that has expired is never valid, not for a moment.
    state.engine.change(vec![time(now_ms)]);
    let each = |row: Row| {
        if !is_first {
            loaded.note(&row);
        }
        held.take(row, &state.engine, now_ms, &mut changes);
        if changes.len() >= BATCH {
            state.engine.change(std::mem::take(&mut changes));
        }
    };
    let upto = state.directory.load(each).await?;
    if !is_first {
        loaded.missing(state.engine.active().policy(), &mut changes);
    }
    let mut old = lock(&state.held);
    old.renew(held, &mut changes);
    put_in_force(state, &old, changes);
    Ok(upto)
}

/// What was loaded, by name.
#[derive(Default)]
struct Loaded {
    tenants: HashSet<String>,
    users: HashSet<String>,
    keys: HashSet<[u8; 32]>,
    listed: HashSet<String>,
}

impl Loaded {
    fn note(&mut self, row: &Row) {
        match row {
            Row::Tenant(id, _) => _ = self.tenants.insert(id.clone()),
            Row::User(id, _) => _ = self.users.insert(id.clone()),
            Row::Key(hash, _) => self.keys.extend(digest(hash)),
            Row::Listed(id, _) => _ = self.listed.insert(id.clone()),
            Row::Odd { kind, id, .. } => self.note_odd(kind, id),
            Row::Boost(..) | Row::Token(..) | Row::Setting(..) => {}
        }
    }

    /// It is there, and what was known of it holds.
    fn note_odd(&mut self, kind: &str, id: &str) {
        match kind {
            Tenant::KIND => _ = self.tenants.insert(id.to_owned()),
            User::KIND => _ = self.users.insert(id.to_owned()),
            Key::KIND => self.keys.extend(digest(id)),
            ListEntry::KIND => _ = self.listed.insert(id.to_owned()),
            _ => {}
        }
    }

    /// What the policy has, and the directory has not.
    fn missing(&self, policy: &Policy, changes: &mut Vec<Change>) {
        let tenants = policy.directory_tenants();
        let tenants = tenants.filter(|id| !self.tenants.contains(*id));
        changes.extend(tenants.map(|id| Change::Tenant {
            id: id.into(),
            entry: None,
        }));
        let users = policy.directory_users();
        let users = users.filter(|id| !self.users.contains(*id));
        changes.extend(users.map(|id| Change::User {
            id: id.into(),
            entry: None,
        }));
        let keys = policy.directory_keys();
        let keys = keys.filter(|hash| !self.keys.contains(*hash));
        changes.extend(keys.map(|hash| Change::Key {
            hash: *hash,
            key: None,
        }));
        let listed = policy.directory_listed();
        let listed = listed.filter(|id| !self.listed.contains(*id));
        changes.extend(listed.map(|id| Change::Listed {
            id: id.into(),
            entry: None,
        }));
    }
}

/// The database has answered: what is in force is of that edit, and as new as the question.
fn succeeded(state: &State, revision: i64, asked_ms: i64) {
    let mut health = lock(&state.health);
    if health.error.take().is_some() {
        info!("the directory is there again");
    }
    health.loaded = true;
    health.revision = revision;
    health.connected = true;
    health.last_ok_unix_ms = Some(asked_ms);
    drop(health);
    state
        .applied
        .send_if_modified(|applied| applied.replace(revision) != Some(revision));
}

fn failed(state: &State, error: &DirectoryError) {
    let error = error.to_string();
    let mut health = lock(&state.health);
    health.connected = false;
    if health.error.as_ref() != Some(&error) {
        warn!("what is known of the directory holds, but {error}");
        health.error = Some(error);
    }
}

/// What comes about by time alone.
async fn tick(state: &Arc<State>) {
    let mut was_closed = false;
    loop {
        sleep(TICK).await;
        let state = Arc::clone(state);
        // The boost of a tenant with very many below it may end.
        if let Ok(is_closed) = blocking(move || go_on(&state, was_closed)).await {
            was_closed = is_closed;
        }
    }
}

/// Puts in force what the time says. Whether the directory's keys are refused now, which they were or not.
fn go_on(state: &State, was_closed: bool) -> bool {
    let mut held = lock(&state.held);
    let now_ms = state.now_ms();
    let mut changes = Vec::new();
    let is_closed = is_closed(state);
    if is_closed != was_closed {
        tell(is_closed);
        changes.push(Change::Closed(is_closed));
    }
    held.boosts.end(now_ms, &mut changes);
    let of_file = || state.engine.active().policy().file_has_expiring_keys();
    if held.has_expiring_keys || of_file() {
        changes.push(time(now_ms));
    }
    put_in_force(state, &held, changes);
    is_closed
}

/// Whether what is known of keys is too old to go by, and not to be gone by.
fn is_closed(state: &State) -> bool {
    let last_ok = lock(&state.health).last_ok_unix_ms;
    lock(&state.settings).refuse_stale && state.is_stale(last_ok)
}

fn tell(is_closed: bool) {
    match is_closed {
        true => warn!("the directory has been away too long: its API keys are refused"),
        false => info!("the API keys of the directory are accepted again"),
    }
}

fn time(now_ms: i64) -> Change {
    Change::Time(u64::try_from(now_ms / 1000).unwrap_or(0))
}

/// Runs work that takes a while where it holds nobody up.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, DirectoryError> {
    spawn_blocking(work).await.map_err(|_| interrupted())
}

fn interrupted() -> DirectoryError {
    DirectoryError::Unavailable("the work was interrupted".to_owned())
}

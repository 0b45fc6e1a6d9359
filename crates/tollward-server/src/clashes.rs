//! What the file and the directory say that does not go together, kept for whoever asks.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tollward_engine::{Active, Engine};
use tollward_policy::Clash;
use tracing::{info, warn};

/// The clashes that were found last. Cheap to clone; all clones are one.
///
/// Finding them looks at everybody whom the directory has, so it is done beside the requests, and what was
/// found is shown: by `/readyz`, `/metrics` and the log.
#[derive(Clone, Debug, Default)]
pub(crate) struct Clashes(Arc<Mutex<Arc<Vec<Clash>>>>);

/// How often the directory is looked at after changes.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How much longer than a look the rest after it takes at least.
const REST: u64 = 20;
/// The most clashes that are told at once.
const MAX_TOLD: usize = 10;

impl Clashes {
    /// What was found last.
    pub(crate) fn found(&self) -> Arc<Vec<Clash>> {
        let found = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&found)
    }

    /// Looks at everybody, and tells every clash in the log.
    pub(crate) fn look(&self, engine: &Engine) {
        let found = engine.active().policy().clashes();
        tell(&found.iter().collect::<Vec<_>>());
        self.put(found);
    }

    /// Looks at everybody, and tells the clashes in the log that are new.
    fn look_again(&self, engine: &Engine) {
        let found = engine.active().policy().clashes();
        let before = self.found();
        let known: BTreeSet<&Clash> = before.iter().collect();
        let new: Vec<&Clash> = found.iter().filter(|it| !known.contains(it)).collect();
        tell(&new);
        if found.is_empty() && !before.is_empty() {
            info!("the configuration file and the directory agree again");
        }
        self.put(found);
    }

    fn put(&self, found: Vec<Clash>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(found);
    }

    /// Looks again for ever, whenever anything has changed.
    pub(crate) async fn watch(self, engine: Arc<Engine>) {
        let mut seen: Option<Arc<Active>> = None;
        let mut rest = LOOK_EVERY;
        loop {
            tokio::time::sleep(rest).await;
            let active = Arc::clone(&engine.active());
            if seen.as_ref().is_some_and(|seen| Arc::ptr_eq(seen, &active)) {
                continue;
            }
            seen = Some(active);
            let (clashes, engine) = (self.clone(), Arc::clone(&engine));
            let looked = tokio::task::spawn_blocking(move || {
                let start = engine.clock().now();
                clashes.look_again(&engine);
                engine.clock().now().micros_since(start)
            });
            let took = looked.await.unwrap_or_default();
            rest = LOOK_EVERY.max(Duration::from_micros(took.saturating_mul(REST)));
        }
    }
}

fn tell(clashes: &[&Clash]) {
    for clash in clashes.iter().take(MAX_TOLD) {
        warn!("{clash}");
    }
    if let Some(more @ 1..) = clashes.len().checked_sub(MAX_TOLD) {
        warn!("and {more} more: see /admin/v1/config");
    }
}

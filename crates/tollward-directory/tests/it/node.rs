//! A node: an engine and its mirror.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{sleep, timeout};
use tollward_directory::{Directory, Edit, Key, Mirror, Tenant};
use tollward_engine::{Engine, Mode};
use tollward_policy::{DirectorySettings, Facts, Rejection, compile};
use tollward_store::MemoryStore;
use tollward_testkit::clock::ManualClock;

use crate::places::{NOW, key, tenant};

const FILE: &[u8] = br#"
plans:
  free: { rate_limit: { sustained: { rate: 10, window: day }, scope: user } }
  pro: { rate_limit: { sustained: { rate: 100, window: day }, scope: user } }
tenants:
  of-file: { plan: free }
keys:
  - { sha256: "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b", tenant: of-file }
"#;
/// What the file's key is the hash of.
pub(crate) const OF_FILE: &str = "secret";
/// A bound for machines under load.
pub(crate) const SOON: Duration = Duration::from_secs(30);

/// An engine that decides by a file and a directory.
pub(crate) struct Node {
    pub(crate) engine: Arc<Engine>,
    clock: Arc<ManualClock>,
    pub(crate) mirror: Mirror,
}

pub(crate) fn settings(refuse_stale: bool) -> DirectorySettings {
    DirectorySettings {
        url: None,
        max_stale: Duration::from_secs(600),
        refuse_stale,
    }
}

impl Node {
    pub(crate) async fn start(directory: &Directory) -> Self {
        let node = Self::start_with(directory, &settings(false));
        timeout(SOON, node.mirror.caught_up(0)).await.unwrap();
        node
    }

    pub(crate) fn start_with(directory: &Directory, settings: &DirectorySettings) -> Self {
        let policy = compile(FILE).unwrap().policy;
        let clock = Arc::new(ManualClock::new());
        let store = Arc::new(MemoryStore::new(1000));
        let engine = Arc::new(Engine::new(policy, store, clock.clone()));
        let mirror = Mirror::start(directory.clone(), engine.clone(), settings);
        Self {
            engine,
            clock,
            mirror,
        }
    }

    /// What a caller with an API key is admitted by: the capacity of the limit shown.
    pub(crate) async fn limit(&self, secret: &str) -> Result<Option<u32>, Rejection> {
        let facts = Facts {
            api_key: Some(secret),
            ..Facts::default()
        };
        self.shown(&facts).await
    }

    pub(crate) async fn shown(&self, facts: &Facts<'_>) -> Result<Option<u32>, Rejection> {
        let active = self.engine.active();
        let decision = self.engine.check(&active, facts, Mode::Peek).await?;
        assert!(decision.allowed);
        Ok(decision.shown().map(|status| status.limit.limit.capacity()))
    }

    pub(crate) fn advance(&self, by: Duration) {
        self.clock.advance(by);
    }

    /// Asks again and again.
    pub(crate) async fn until<T: PartialEq>(&self, ask: impl AsyncFn(&Self) -> T, expected: T) {
        let asked = async {
            while ask(self).await != expected {
                sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(SOON, asked).await.unwrap();
    }
}

/// The keys of these tests are the hashes of texts.
pub(crate) fn key_of(id: &str, secret: &str, tenant: &str) -> Key {
    Key {
        hash: sha256(secret),
        ..key(id, tenant)
    }
}

fn sha256(text: &str) -> String {
    use sha2::Digest;
    let digest = sha2::Sha256::digest(text.as_bytes());
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(crate) fn pro(id: &str) -> Tenant {
    Tenant {
        plan: Some("pro".into()),
        ..tenant(id, None)
    }
}

pub(crate) async fn change(directory: &Directory, work: impl AsyncFnOnce(&mut Edit)) -> i64 {
    let mut edit = directory.edit(NOW).await.unwrap();
    work(&mut edit).await;
    edit.commit().await.unwrap()
}

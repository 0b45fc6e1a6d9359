//! Where this process keeps its counters.

use std::sync::Arc;

use anyhow::Context;
use tollward_engine::Clock;
use tollward_policy::config::RedisUrl;
use tollward_policy::{RedisOptions, Settings};
use tollward_redis::RedisStore;
use tollward_store::{MemoryStore, Store};

/// The store of this process.
#[derive(Clone)]
pub(crate) enum Counters {
    Memory(Arc<MemoryStore>),
    Redis(Arc<RedisStore>),
}

impl Counters {
    /// The store that the settings name, or Redis at `url`.
    pub(crate) fn start(
        settings: &Settings,
        url: Option<RedisUrl>,
        clock: &Arc<dyn Clock>,
    ) -> anyhow::Result<Self> {
        match url.or_else(|| settings.redis_url.clone()) {
            None => Ok(Self::Memory(Arc::new(MemoryStore::new(
                settings.max_buckets,
            )))),
            Some(url) => {
                let options = options(url, settings, clock.clone());
                let store = RedisStore::start(options).context("the store in Redis")?;
                Ok(Self::Redis(Arc::new(store)))
            }
        }
    }

    /// As it is called in answers: where the counters are.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Memory(_) => "memory",
            Self::Redis(_) => "redis",
        }
    }

    pub(crate) fn store(&self) -> Arc<dyn Store> {
        match self {
            Self::Memory(store) => store.clone(),
            Self::Redis(store) => store.clone(),
        }
    }

    /// The buckets in this process: all of them, or those of an outage.
    pub(crate) fn memory(&self) -> &MemoryStore {
        match self {
            Self::Memory(store) => store,
            Self::Redis(store) => store.memory(),
        }
    }

    pub(crate) fn redis(&self) -> Option<&RedisStore> {
        match self {
            Self::Memory(_) => None,
            Self::Redis(store) => Some(store),
        }
    }

    /// Whether a decision has to be made to its end once it was begun.
    pub(crate) fn finishes(&self) -> bool {
        self.redis().is_some_and(RedisStore::is_cluster)
    }

    /// Waits until the store was tried, with whatever result.
    pub(crate) async fn tried(&self) {
        if let Self::Redis(store) = self {
            store.tried().await;
        }
    }
}

fn options(url: RedisUrl, settings: &Settings, clock: Arc<dyn Clock>) -> tollward_redis::Options {
    let RedisOptions {
        prefix,
        deadline,
        clock: store_clock,
        tls,
    } = settings.redis_options.clone();
    tollward_redis::Options {
        prefix,
        deadline,
        clock: store_clock,
        tls,
        max_buckets: settings.max_buckets,
        ..tollward_redis::Options::new(url, Arc::new(move || clock.now()))
    }
}

//! Requests as tests ask them.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Barrier;
use tollward_core::{Charge, Judgement, Key, Limit, OnFailure, Timestamp};
use tollward_policy::KeyText;
use tollward_redis::RedisStore;
use tollward_store::{Mode, Outcome, Source, Store, StoreError};
use tollward_testkit::conformance::bucket;

use crate::started::real_now;

/// A year, the longest window: whatever a test takes, nothing comes back while it runs.
pub(crate) const YEAR_SECS: u32 = 366 * 86_400;

/// So many tokens, and no more.
pub(crate) fn only(capacity: u32) -> Limit {
    bucket(1, YEAR_SECS, capacity)
}

/// One charge, with everything that it says.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    pub(crate) family: String,
    pub(crate) scope: Vec<u8>,
    pub(crate) limit: Limit,
    pub(crate) cost: u64,
    pub(crate) shadow: bool,
    pub(crate) on_failure: OnFailure,
}

impl Ask {
    /// One token of a bucket.
    pub(crate) fn one(limit: Limit, whose: impl AsRef<[u8]>) -> Self {
        Self {
            family: "it".to_owned(),
            scope: whose.as_ref().to_vec(),
            limit,
            cost: 1,
            shadow: false,
            on_failure: OnFailure::Local,
        }
    }

    pub(crate) fn cost(self, cost: u64) -> Self {
        Self { cost, ..self }
    }

    pub(crate) fn in_shadow(self) -> Self {
        Self {
            shadow: true,
            ..self
        }
    }

    pub(crate) fn on_failure(self, on_failure: OnFailure) -> Self {
        Self { on_failure, ..self }
    }

    pub(crate) fn of_family(self, family: &str) -> Self {
        Self {
            family: family.to_owned(),
            ..self
        }
    }

    /// What the bucket is called in Redis.
    pub(crate) fn name(&self) -> String {
        format!("tollward:{}", KeyText(self.charge().key))
    }

    fn charge(&self) -> Charge<'_> {
        Charge {
            name: &self.family,
            limit: &self.limit,
            key: Key {
                family: &self.family,
                scope: &self.scope,
            },
            cost: self.cost,
            shadow: self.shadow,
            on_failure: self.on_failure,
        }
    }
}

/// What a store said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Said {
    pub(crate) admitted: bool,
    pub(crate) source: Source,
    pub(crate) outcomes: Vec<Outcome>,
}

impl Said {
    /// What a request of one charge was told to wait.
    pub(crate) fn wait_us(&self) -> u64 {
        match self.outcomes[0].judgement {
            Judgement::Refuse { wait_us } => wait_us,
            other => panic!("not refused: {other:?}"),
        }
    }
}

/// Asks, at the time it is.
pub(crate) async fn ask(store: &RedisStore, asks: &[Ask], mode: Mode) -> Result<Said, StoreError> {
    ask_at(store, asks, mode, real_now()).await
}

/// Asks, at the time that this node holds it to be.
pub(crate) async fn ask_at(
    store: &RedisStore,
    asks: &[Ask],
    mode: Mode,
    now: Timestamp,
) -> Result<Said, StoreError> {
    let charges: Vec<_> = asks.iter().map(Ask::charge).collect();
    let mut outcomes = vec![Outcome::default(); asks.len()];
    let reply = store.apply(&charges, &mut outcomes, mode, now);
    let verdict = reply.wait().await?;
    Ok(Said {
        admitted: verdict.admitted,
        source: verdict.source,
        outcomes,
    })
}

/// Asks and takes; there has to be a decision.
pub(crate) async fn take(store: &RedisStore, asks: &[Ask]) -> Said {
    ask(store, asks, Mode::Charge).await.unwrap()
}

/// Takes of one bucket.
pub(crate) async fn take_one(store: &RedisStore, one: &Ask) -> Said {
    take(store, std::slice::from_ref(one)).await
}

/// Gives back what was taken at a time that this node held it to be.
pub(crate) async fn give_back_of(
    store: &RedisStore,
    asks: &[Ask],
    charged_at: Timestamp,
) -> Result<(), StoreError> {
    let charges: Vec<_> = asks.iter().map(Ask::charge).collect();
    let reply = store.credit(&charges, charged_at, real_now());
    reply.wait().await
}

/// What is left of a bucket in Redis.
pub(crate) async fn left(store: &RedisStore, one: &Ask) -> u32 {
    let said = peek(store, one).await;
    assert_eq!(said.source, Source::Redis);
    said.outcomes[0].remaining
}

/// Asks for a cost of 0, and takes nothing.
pub(crate) async fn peek(store: &RedisStore, one: &Ask) -> Said {
    let nothing = one.clone().cost(0);
    ask(store, &[nothing], Mode::Peek).await.unwrap()
}

/// Gives back what was taken a moment ago.
pub(crate) async fn give_back(store: &RedisStore, asks: &[Ask]) {
    let charges: Vec<_> = asks.iter().map(Ask::charge).collect();
    let now = real_now();
    store.credit(&charges, now, now).wait().await.unwrap();
}

/// Every store asks the same `times` at once; what all of them were told.
pub(crate) async fn all_at_once(
    stores: &[Arc<RedisStore>],
    times: usize,
    asks: &[Ask],
) -> Vec<Said> {
    let start = Arc::new(Barrier::new(stores.len() * times));
    let mut tasks = Vec::new();
    for store in stores {
        for _ in 0..times {
            let (store, start, asks) = (store.clone(), start.clone(), asks.to_vec());
            tasks.push(tokio::spawn(async move {
                start.wait().await;
                take(&store, &asks).await
            }));
        }
    }
    let mut said = Vec::new();
    for task in tasks {
        said.push(task.await.unwrap());
    }
    said
}

pub(crate) fn admitted(said: &[Said]) -> usize {
    said.iter().filter(|one| one.admitted).count()
}

/// Asks again and again, for up to half a minute: what others do in their own time.
pub(crate) async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    for _ in 0..1500 {
        if is_so().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("gave up waiting until {what}");
}

/// Waits until no server is asked any more.
pub(crate) async fn until_down(store: &RedisStore) {
    until("no server is asked", async || {
        store.shards().iter().all(|shard| !shard.up)
    })
    .await;
}

//! Buckets that are reset: on the node that is told, while Redis is away, and while slots move.

// Clippy knows the test functions as tests, but not the functions they share.
#![allow(clippy::unwrap_used, clippy::panic)]

use tollward_core::{Charge, Judgement, Key, Limit, OnFailure};
use tollward_policy::config::StoreClock;
use tollward_redis::{Options, RedisStore};
use tollward_store::{Mode, Outcome, Source, Store, StoreError};
use tollward_testkit::conformance::{START, bucket};
use tollward_testkit::fault::FaultProxy;
use tollward_testkit::redis::{RedisCluster, RedisServer};

use crate::started::{block_on, options, store, wait_until_up};

const FAMILY: &str = "plan";

/// A store for which time stands still, so that whatever it remembers it remembers for ever.
async fn timeless(url: &str) -> RedisStore {
    let options = Options {
        clock: StoreClock::Client,
        heartbeat: false,
        ..options(url)
    };
    store(options).await
}

fn ten() -> Limit {
    bucket(1, 60, 10)
}

fn charge<'a>(limit: &'a Limit, cost: u64) -> Charge<'a> {
    Charge {
        name: FAMILY,
        limit,
        key: Key {
            family: FAMILY,
            scope: b"\x02\x05\0\0\0alice",
        },
        cost,
        shadow: false,
        on_failure: OnFailure::Local,
    }
}

async fn ask(store: &RedisStore, cost: u64, mode: Mode) -> (Outcome, Source) {
    let limit = ten();
    let mut outcomes = [Outcome::default()];
    let charges = [charge(&limit, cost)];
    let asked = store.apply(&charges, &mut outcomes, mode, START);
    let source = asked.wait().await.unwrap().source;
    (outcomes[0], source)
}

async fn takes(store: &RedisStore, cost: u64) -> bool {
    let (outcome, _) = ask(store, cost, Mode::Charge).await;
    outcome.judgement == Judgement::Admit
}

async fn left(store: &RedisStore) -> (u32, Source) {
    let (outcome, source) = ask(store, 0, Mode::Peek).await;
    (outcome.remaining, source)
}

async fn reset(store: &RedisStore) -> Result<(), StoreError> {
    let limit = ten();
    store.reset(&[charge(&limit, 0)], START).wait().await
}

#[test]
fn a_refusal_is_not_remembered_after_a_reset() {
    let server = RedisServer::start();
    block_on(async {
        let store = timeless(&server.url()).await;
        assert!(takes(&store, 10).await);
        assert!(!takes(&store, 1).await);
        assert_eq!(ask(&store, 1, Mode::Charge).await.1, Source::Remembered);
        assert_eq!(reset(&store).await, Ok(()));
        assert!(takes(&store, 10).await);
        assert_eq!(left(&store).await, (0, Source::Redis));
    });
}

#[test]
fn what_was_spent_without_redis_is_forgotten_too() {
    let server = RedisServer::start();
    let proxy = FaultProxy::start(server.addr());
    block_on(async {
        let store = timeless(&format!("redis://{}", proxy.addr())).await;
        assert!(takes(&store, 3).await);
        proxy.refuse(true);
        proxy.cut();
        while store.shards().iter().any(|shard| shard.up) {
            tokio::task::yield_now().await;
        }
        assert!(takes(&store, 6).await);
        assert_eq!((left(&store).await, store.debts()), ((4, Source::Local), 1));
        // Redis cannot be told; this node knows, and owes nothing.
        assert_eq!(reset(&store).await, Err(StoreError::Unavailable));
        assert_eq!(
            (left(&store).await, store.debts()),
            ((10, Source::Local), 0)
        );
        proxy.refuse(false);
        wait_until_up(&store).await;
        assert_eq!(left(&store).await, (7, Source::Redis));
        assert_eq!(reset(&store).await, Ok(()));
        assert_eq!(left(&store).await, (10, Source::Redis));
    });
}

#[test]
fn a_slot_that_moves_is_followed() {
    let cluster = RedisCluster::start();
    block_on(async {
        let store = timeless(&cluster.url()).await;
        assert!(takes(&store, 4).await);
        let slot = slot_of_the_bucket(&cluster);
        let others = cluster.primaries().into_iter();
        let to = others
            .clone()
            .find(|it| *it != cluster.primary_of(slot))
            .unwrap();
        // The bucket is there already, the slot is not: ASK.
        cluster.begin_move(slot, to);
        cluster.move_keys(slot, to);
        assert_eq!(reset(&store).await, Ok(()));
        assert_eq!(left(&store).await, (10, Source::Redis));
        // Everything is there: MOVED.
        assert!(takes(&store, 4).await);
        cluster.finish_move(slot, to);
        assert_eq!(reset(&store).await, Ok(()));
        assert_eq!(left(&store).await, (10, Source::Redis));
        assert!(takes(&store, 10).await);
    });
}

fn slot_of_the_bucket(cluster: &RedisCluster) -> u16 {
    for primary in cluster.primaries() {
        let server = &cluster.servers()[primary];
        let names = server.command(&["KEYS", "*user=alice"]);
        if let Some(name) = names.as_array().first().and_then(|name| name.as_text()) {
            let slot = server.command(&["CLUSTER", "KEYSLOT", name]).as_int();
            return slot.unwrap().try_into().unwrap();
        }
    }
    panic!("the bucket is nowhere");
}

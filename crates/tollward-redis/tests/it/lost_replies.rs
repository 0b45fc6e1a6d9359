//! A reply that is lost behind the commit: charged once, decided here, never sent again.

use std::sync::Arc;
use std::time::Duration;

use tollward_redis::{Options, RedisStore};
use tollward_store::Source;
use tollward_testkit::fault::FaultProxy;
use tollward_testkit::redis::RedisServer;

use crate::asked::{Ask, admitted, all_at_once, left, only, peek, take_one, until};
use crate::started::{block_on, in_real_time, store, valkey, wait_until_up};

#[test]
fn a_lost_reply_is_charged_once() {
    one_by_one(&RedisServer::start());
}

#[test]
fn a_lost_reply_is_charged_once_by_valkey() {
    if let Some(server) = valkey() {
        one_by_one(&server);
    }
}

/// Some requests are sent before it is known that no answers come: these may have been charged, and are. The rest
/// is not sent, and is made good later. So when all is over, each was charged exactly once.
fn one_by_one(server: &RedisServer) {
    const REQUESTS: u32 = 8;
    block_on(async {
        let proxy = FaultProxy::start(server.addr());
        let store = store(impatient(&proxy)).await;
        let witness = witness(server).await;
        let one = Ask::one(only(100), "one by one");
        let calls = || server.calls("evalsha") + server.calls("eval");

        proxy.drop_replies(true);
        let before = calls();
        for _ in 0..REQUESTS {
            let said = take_one(&store, &one).await;
            assert!(said.admitted);
            assert_eq!(said.source, Source::Local);
        }
        // Nothing is under way any more, and nothing connects.
        let called = u32::try_from(calls() - before).unwrap();
        let committed = 100 - left(&witness, &one).await;
        assert!((1..REQUESTS).contains(&committed), "{committed}");
        assert_eq!(committed, called);

        proxy.drop_replies(false);
        settled(&store, &witness, &one, REQUESTS).await;
        let pushed = u64::from(REQUESTS - committed);
        assert_eq!(store.stats().settled.get(), pushed);
        until("Redis decides again", async || {
            let said = peek(&store, &one).await;
            said.source == Source::Redis && said.outcomes[0].remaining == 100 - REQUESTS
        })
        .await;
    });
}

/// The same for many at once, which travel in batches.
#[test]
fn lost_replies_of_batches_are_charged_once() {
    const REQUESTS: usize = 200;
    let server = RedisServer::start();
    block_on(async {
        let proxy = FaultProxy::start(server.addr());
        let store = Arc::new(store(impatient(&proxy)).await);
        let witness = witness(&server).await;
        let one = Ask::one(only(1000), "at once");
        let before = server.calls("evalsha");

        proxy.drop_replies(true);
        let said = all_at_once(
            std::slice::from_ref(&store),
            REQUESTS,
            std::slice::from_ref(&one),
        )
        .await;
        assert_eq!(admitted(&said), REQUESTS);
        assert!(said.iter().all(|one| one.source == Source::Local));
        // In whole batches of at most 64, over two ways.
        let calls = server.calls("evalsha") - before;
        let committed = 1000 - left(&witness, &one).await;
        assert!(committed >= 1 && u64::from(committed) <= calls * 64);

        proxy.drop_replies(false);
        settled(&store, &witness, &one, 200).await;
        assert_eq!(store.stats().settled.get(), u64::from(200 - committed));
    });
}

fn impatient(proxy: &FaultProxy) -> Options {
    Options {
        // Short, but a machine that runs other tests is to keep it when nothing is wrong.
        deadline: Duration::from_millis(200),
        heartbeat: false,
        ..in_real_time(&format!("redis://{}", proxy.addr()))
    }
}

/// A store that goes straight to the server.
async fn witness(server: &RedisServer) -> RedisStore {
    store(Options {
        heartbeat: false,
        ..in_real_time(&server.url())
    })
    .await
}

/// Waits until so many are spent of the bucket, and nothing more comes.
async fn settled(store: &RedisStore, witness: &RedisStore, one: &Ask, spent: u32) {
    wait_until_up(store).await;
    let capacity = one.limit.capacity();
    until("all is charged", async || {
        store.debts() == 0 && capacity - left(witness, one).await >= spent
    })
    .await;
    // Debts are looked at five times a second.
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(capacity - left(witness, one).await, spent);
}

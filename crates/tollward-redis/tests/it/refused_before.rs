//! Refusals that are remembered: they cost Redis nothing, and keep nobody out who may come in.

use std::sync::Arc;
use std::time::Duration;

use tollward_core::Judgement;
use tollward_redis::{Options, RedisStore};
use tollward_store::{Mode, Source};
use tollward_testkit::conformance::bucket;
use tollward_testkit::redis::RedisServer;

use crate::asked::{Ask, ask, give_back, left, only, peek, take, take_one, until};
use crate::started::{block_on, in_real_time, store};

#[test]
fn a_caller_that_hammers_on_costs_little() {
    const TASKS: usize = 16;
    const REFUSALS: usize = 100_000;
    let server = RedisServer::start();
    block_on(async {
        let store = Arc::new(quiet(&server).await);
        let one = Ask::one(only(1), "hammer");
        assert!(take_one(&store, &one).await.admitted);
        let calls = || server.calls("evalsha") + server.calls("eval");
        let before = calls();
        let mut tasks = Vec::new();
        for _ in 0..TASKS {
            let (store, one) = (store.clone(), one.clone());
            tasks.push(tokio::spawn(async move {
                for _ in 0..REFUSALS / TASKS {
                    let said = take_one(&store, &one).await;
                    assert!(!said.admitted);
                    assert!(matches!(said.source, Source::Redis | Source::Remembered));
                    assert!(said.wait_us() > 0);
                }
            }));
        }
        for task in tasks {
            task.await.unwrap();
        }
        let calls = calls() - before;
        assert!((1..1000).contains(&calls), "{calls} calls");
        assert_eq!(left(&store, &one).await, 0);
    });
}

#[test]
fn whoever_waits_as_long_as_told_is_admitted() {
    let server = RedisServer::start();
    block_on(async {
        let store = quiet(&server).await;
        // One in 125 ms.
        let one = Ask::one(bucket(8, 1, 1), "patient");
        assert!(take_one(&store, &one).await.admitted);
        let mut remembered = 0;
        for _ in 0..10 {
            let mut last = None;
            for _ in 0..5 {
                let said = take_one(&store, &one).await;
                remembered += u32::from(said.source == Source::Remembered);
                if said.admitted {
                    // This machine was busy for longer than the wait.
                    last = None;
                    break;
                }
                last = Some(said.wait_us());
            }
            let Some(wait_us) = last else { continue };
            assert!(wait_us <= 125_000);
            tokio::time::sleep(Duration::from_micros(wait_us)).await;
            let said = take_one(&store, &one).await;
            assert!(said.admitted, "{said:?} after {wait_us} µs");
        }
        assert!(remembered > 0);
    });
}

#[test]
fn a_raised_limit_holds_at_once() {
    let server = RedisServer::start();
    block_on(async {
        let store = quiet(&server).await;
        for round in 0..5 {
            let one = Ask::one(only(3), format!("raised {round}"));
            until_remembered(&store, &one).await;
            let raised = Ask::one(only(4), format!("raised {round}"));
            let said = take_one(&store, &raised).await;
            assert_eq!((said.source, said.admitted), (Source::Redis, true));
        }
    });
}

#[test]
fn what_is_given_back_can_be_taken_at_once() {
    let server = RedisServer::start();
    block_on(async {
        let store = quiet(&server).await;
        for round in 0..5 {
            let one = Ask::one(only(3), format!("given back {round}"));
            until_remembered(&store, &one).await;
            give_back(&store, std::slice::from_ref(&one)).await;
            let said = take_one(&store, &one).await;
            assert_eq!((said.source, said.admitted), (Source::Redis, true));
        }
    });
}

/// On other nodes it is noticed soon: a refusal is remembered for a quarter of a second.
#[test]
fn what_another_node_gives_back_is_seen_by_a_peek_at_once() {
    let server = RedisServer::start();
    block_on(async {
        let (store, other) = (quiet(&server).await, quiet(&server).await);
        let one = Ask::one(only(3), "elsewhere");
        until_remembered(&store, &one).await;
        give_back(&other, std::slice::from_ref(&one)).await;
        assert_eq!(left(&store, &one).await, 1);
        let said = ask(&store, std::slice::from_ref(&one), Mode::Peek)
            .await
            .unwrap();
        assert_eq!((said.source, said.admitted), (Source::Redis, true));
        until("the refusal is asked for again", async || {
            take_one(&store, &one).await.admitted
        })
        .await;
    });
}

#[test]
fn a_shadow_does_not_refuse_from_memory() {
    let server = RedisServer::start();
    block_on(async {
        let store = quiet(&server).await;
        let drained = Ask::one(only(3), "drained");
        let roomy = Ask::one(only(100), "roomy");
        for taken in 1..=10 {
            until_remembered(&store, &drained).await;
            let said = take(&store, &[drained.clone().in_shadow(), roomy.clone()]).await;
            assert_eq!((said.source, said.admitted), (Source::Redis, true));
            assert!(matches!(
                said.outcomes[0].judgement,
                Judgement::Refuse { .. }
            ));
            assert_eq!(said.outcomes[1].remaining, 100 - taken);
        }
        assert_eq!(peek(&store, &drained).await.outcomes[0].remaining, 0);
    });
}

async fn quiet(server: &RedisServer) -> RedisStore {
    store(Options {
        heartbeat: false,
        ..in_real_time(&server.url())
    })
    .await
}

/// Takes until there is nothing more, and until that is remembered.
async fn until_remembered(store: &RedisStore, one: &Ask) {
    until("a refusal is remembered", async || {
        take_one(store, one).await.source == Source::Remembered
    })
    .await;
}

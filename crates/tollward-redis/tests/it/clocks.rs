//! Whose time it is.

use std::sync::Arc;

use tollward_core::Timestamp;
use tollward_policy::config::StoreClock;
use tollward_redis::{Options, RedisStore};
use tollward_store::{Mode, Source};
use tollward_testkit::conformance::bucket;
use tollward_testkit::redis::RedisServer;

use crate::asked::{Ask, admitted, all_at_once, ask_at, left, only, take_one, until};
use crate::started::{block_on, in_real_time, real_now, store};

#[test]
fn without_time_in_scripts() {
    let server = RedisServer::start();
    let user = [
        "ACL", "SETUSER", "timeless", "on", ">sesame", "~*", "+@all", "-time",
    ];
    assert!(server.command(&user).is_ok());
    let url = format!("redis://timeless:sesame@{}", server.addr());
    block_on(async {
        let mut nodes = Vec::new();
        for _ in 0..4 {
            let options = Options {
                clock: StoreClock::Client,
                ..in_real_time(&url)
            };
            nodes.push(Arc::new(store(options).await));
        }
        for round in 0..5 {
            let one = Ask::one(only(100), format!("timeless {round}"));
            let said = all_at_once(&nodes, 64, std::slice::from_ref(&one)).await;
            assert_eq!(admitted(&said), 100);
            assert!(said.iter().all(|one| one.source != Source::Local));
            assert_eq!(left(&nodes[0], &one).await, 0);
        }

        // By the server's clock it does not work there, and that is noticed before anybody waits.
        let by_server = RedisStore::start(in_real_time(&url)).unwrap();
        by_server.tried().await;
        let said = take_one(&by_server, &Ask::one(only(5), "timeless")).await;
        assert_eq!(said.source, Source::Local);
        assert!(!by_server.shards()[0].up);
    });
}

/// If each went by its own clock, every change of nodes would refill for ten seconds.
#[test]
fn nodes_whose_clocks_differ() {
    const SKEW_US: u64 = 10_000_000;
    let server = RedisServer::start();
    block_on(async {
        let right = node(&server, real_now).await;
        let ahead = node(&server, || real_now().saturating_add(SKEW_US)).await;
        for node in [&right, &ahead] {
            until("the nodes know of each other", async || node.nodes() == 2).await;
        }
        // One in five seconds: the one ahead would see two more, had it not set its clock.
        let limit = bucket(12, 60, 100);
        let mut tries = 0;
        until("the clocks are set", async || {
            tries += 1;
            let tried = Ask::one(limit, format!("tried {tries}")).cost(100);
            take_at(&right, &tried, real_now()).await;
            let there = real_now().saturating_add(SKEW_US);
            let seen = ask_at(&ahead, &[tried.cost(0)], Mode::Peek, there).await;
            seen.unwrap().outcomes[0].remaining == 0
        })
        .await;

        let one = Ask::one(limit, "skewed");
        let start = real_now();
        let mut admitted = 0;
        for _ in 0..60 {
            let by_right = take_at(&right, &one, real_now()).await;
            let by_ahead = take_at(&ahead, &one, real_now().saturating_add(SKEW_US)).await;
            admitted += by_right + by_ahead;
        }
        let refilled = real_now().micros_since(start) / 5_000_000 + 1;
        assert!(admitted >= 100 && admitted <= 100 + refilled, "{admitted}");
    });
}

async fn node(
    server: &RedisServer,
    now: impl Fn() -> Timestamp + Send + Sync + 'static,
) -> RedisStore {
    store(Options {
        clock: StoreClock::Client,
        remember_refusals: false,
        now: Arc::new(now),
        ..in_real_time(&server.url())
    })
    .await
}

async fn take_at(store: &RedisStore, one: &Ask, now: Timestamp) -> u64 {
    let said = ask_at(store, std::slice::from_ref(one), Mode::Charge, now).await;
    let said = said.unwrap();
    assert_eq!(said.source, Source::Redis);
    u64::from(said.admitted)
}

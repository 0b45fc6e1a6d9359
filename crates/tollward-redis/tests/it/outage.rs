//! Redis goes and comes back: what is decided meanwhile, and what is made good.

use std::slice::from_ref;

use tollward_core::OnFailure;
use tollward_redis::{Options, RedisStore};
use tollward_store::{Mode, Outcome, Source, StoreError};
use tollward_testkit::fault::FaultProxy;
use tollward_testkit::redis::RedisServer;

use crate::asked::{
    Ask, ask, ask_at, give_back_of, left, only, peek, take, take_one, until, until_down,
};
use crate::started::{block_on, in_real_time, real_now, store, wait_until_up};

#[test]
fn nodes_share_the_limit_while_redis_is_away() {
    let server = RedisServer::start();
    block_on(async {
        let nodes = three_nodes(&server).await;
        let wide = Ask::one(only(30), "wide");
        let narrow = Ask::one(only(2), "narrow");
        let looked_at = Ask::one(only(30), "looked at");
        server.kill();
        for node in &nodes {
            until_down(node).await;
            assert_eq!(admitted_locally(node, &wide, 40).await, 10);
            // A third of two tokens is one.
            assert_eq!(admitted_locally(node, &narrow, 5).await, 1);
            let said = peek(node, &looked_at).await;
            assert_eq!(
                (said.source, said.outcomes[0].remaining),
                (Source::Local, 10)
            );
            // Refused by the one, so the other is not owed.
            let said = take(node, &[looked_at.clone(), narrow.clone()]).await;
            assert_eq!((said.source, said.admitted), (Source::Local, false));
            assert_eq!(node.debts(), 2);
            assert_eq!(node.nodes(), 3, "as many as were last seen");
        }

        server.restart();
        for node in &nodes {
            wait_until_up(node).await;
        }
        let witness = alone(&server.url()).await;
        for (one, remaining) in [(&wide, 0), (&narrow, 0), (&looked_at, 30)] {
            until("what was spent is in Redis", async || {
                left(&witness, one).await == remaining
            })
            .await;
        }
        // Never more than a capacity: of two tokens three were spent.
        let roomy = Ask::one(only(100), "narrow");
        for node in &nodes {
            until("nothing is owed", async || node.debts() == 0).await;
            assert_eq!(left(node, &roomy).await, 98);
            let said = take_one(node, &looked_at).await;
            assert_eq!((said.source, said.admitted), (Source::Redis, true));
        }
        assert_eq!(left(&witness, &looked_at).await, 27);
        assert_eq!(left(&witness, &wide).await, 0);
    });
}

#[test]
fn what_was_spent_without_redis_is_added_to_what_it_has() {
    let server = RedisServer::start();
    let proxy = FaultProxy::start(server.addr());
    block_on(async {
        let store = alone(&format!("redis://{}", proxy.addr())).await;
        let witness = alone(&server.url()).await;
        let some = Ask::one(only(30), "some");
        let much = Ask::one(only(30), "much");
        let costly = Ask::one(only(30), "costly").cost(7);
        assert!(take_one(&store, &some.clone().cost(10)).await.admitted);
        assert!(take_one(&store, &much.clone().cost(25)).await.admitted);

        proxy.refuse(true);
        proxy.cut();
        until_down(&store).await;
        assert_eq!(admitted_locally(&store, &some, 7).await, 7);
        assert_eq!(admitted_locally(&store, &much, 40).await, 30);
        assert_eq!(admitted_locally(&store, &costly, 5).await, 4);
        assert_eq!(store.debts(), 3);
        // Nothing has come to Redis yet.
        assert_eq!(left(&witness, &some).await, 20);

        proxy.refuse(false);
        wait_until_up(&store).await;
        for (one, remaining) in [(&some, 13), (&much, 0), (&costly, 2)] {
            until("what was spent is in Redis", async || {
                left(&witness, one).await == remaining
            })
            .await;
        }
        // 55 were spent of 30: of these, no more than 30 are held against the caller.
        let roomy = Ask::one(only(100), "much");
        until("nothing is owed", async || store.debts() == 0).await;
        assert_eq!(left(&witness, &roomy).await, 70);
        assert_eq!(left(&witness, &some).await, 13);
        assert_eq!(store.stats().settled.get(), 7 + 30 + 28);
        assert_eq!(store.stats().debts_dropped.get(), 0);
        assert_eq!(take_one(&store, &some).await.source, Source::Redis);
    });
}

#[test]
fn what_is_given_back_without_redis_is_neither_spent_nor_owed() {
    let server = RedisServer::start();
    let proxy = FaultProxy::start(server.addr());
    block_on(async {
        let store = alone(&format!("redis://{}", proxy.addr())).await;
        let witness = alone(&server.url()).await;
        let before = Ask::one(only(30), "before").cost(4);
        let some = Ask::one(only(30), "some").cost(5);
        let all = Ask::one(only(30), "all").cost(7);
        let taken = async |asks: &[Ask], source| {
            let at = real_now();
            let said = ask_at(&store, asks, Mode::Charge, at).await.unwrap();
            assert_eq!((said.source, said.admitted), (source, true));
            at
        };
        let early = taken(from_ref(&before), Source::Redis).await;

        proxy.refuse(true);
        proxy.cut();
        until_down(&store).await;
        let first = taken(&[some.clone(), all.clone()], Source::Local).await;
        let second = taken(from_ref(&some), Source::Local).await;
        // Taken in Redis, so it is not given back here, though somebody else has spent of the share since.
        let spent_later = taken(from_ref(&before), Source::Local).await;
        let refused = give_back_of(&store, from_ref(&before), early).await;
        assert_eq!(refused, Err(StoreError::Unavailable));
        let locally_left = async |one: &Ask| {
            let said = peek(&store, one).await;
            assert_eq!(said.source, Source::Local);
            said.outcomes[0].remaining
        };
        assert_eq!(locally_left(&before).await, 26);

        let both = [some.clone(), all.clone()];
        assert_eq!(give_back_of(&store, &both, first).await, Ok(()));
        assert_eq!(locally_left(&some).await, 25);
        assert_eq!(locally_left(&all).await, 30);
        // More than is owed makes a debt of nothing.
        let too_much = [all.clone().cost(100)];
        assert_eq!(give_back_of(&store, &too_much, first).await, Ok(()));
        assert_eq!(locally_left(&all).await, 30);
        assert_eq!(
            give_back_of(&store, from_ref(&before), spent_later).await,
            Ok(())
        );
        assert_eq!(locally_left(&before).await, 30);

        proxy.refuse(false);
        wait_until_up(&store).await;
        until("nothing is owed", async || store.debts() == 0).await;
        assert_eq!(store.stats().settled.get(), 5);
        for (one, remaining) in [(&before, 26), (&some, 25), (&all, 30)] {
            assert_eq!(left(&witness, one).await, remaining);
        }
        // By now it has been charged in Redis, so it is given back there.
        assert_eq!(give_back_of(&store, from_ref(&some), second).await, Ok(()));
        assert_eq!(left(&witness, &some).await, 30);
        assert_eq!(give_back_of(&store, from_ref(&before), early).await, Ok(()));
        assert_eq!(left(&witness, &before).await, 30);
    });
}

#[test]
fn each_limit_says_what_holds_without_redis() {
    use OnFailure::{Closed, Local, Open};
    let server = RedisServer::start();
    block_on(async {
        let store = alone(&server.url()).await;
        server.kill();
        until_down(&store).await;
        let limit = only(2);
        let open = Ask::one(limit, "open").on_failure(Open);
        let local = Ask::one(limit, "local").on_failure(Local);
        let closed = Ask::one(limit, "closed").on_failure(Closed);

        for _ in 0..5 {
            let said = take_one(&store, &open).await;
            assert_eq!((said.source, said.admitted), (Source::Open, true));
            assert_eq!(said.outcomes, [Outcome::UNKNOWN]);
        }
        assert_eq!(store.debts(), 0, "what nobody counted is not owed");
        for asks in [
            vec![closed.clone()],
            vec![local.clone(), closed.clone()],
            vec![open.clone(), local.clone(), closed.clone()],
            vec![closed.clone(), open.clone()],
        ] {
            let said = ask(&store, &asks, Mode::Charge).await;
            assert_eq!(said, Err(StoreError::Unavailable));
        }
        assert_eq!(peek(&store, &local).await.outcomes[0].remaining, 2);
        assert_eq!(store.debts(), 0);

        for admitted in [true, true, false] {
            let said = take(&store, &[open.clone(), local.clone()]).await;
            assert_eq!((said.source, said.admitted), (Source::Local, admitted));
            assert!(!said.outcomes[0].known);
            assert!(said.outcomes[1].known);
        }
        assert_eq!(store.debts(), 1);
    });
}

#[test]
fn a_store_starts_without_redis() {
    let server = RedisServer::start();
    server.kill();
    block_on(async {
        let store = RedisStore::start(in_real_time(&server.url())).unwrap();
        store.tried().await;
        let one = Ask::one(only(30), "early");
        assert_eq!(admitted_locally(&store, &one, 5).await, 5);
        assert_eq!(store.nodes(), 1);

        server.restart();
        wait_until_up(&store).await;
        until("what was spent is in Redis", async || {
            left(&store, &one).await == 25
        })
        .await;
        let said = take_one(&store, &one).await;
        assert_eq!(
            (said.source, said.outcomes[0].remaining),
            (Source::Redis, 24)
        );
    });
}

async fn alone(url: &str) -> RedisStore {
    store(Options {
        heartbeat: false,
        ..in_real_time(url)
    })
    .await
}

async fn three_nodes(server: &RedisServer) -> Vec<RedisStore> {
    let mut nodes = Vec::new();
    for _ in 0..3 {
        nodes.push(store(in_real_time(&server.url())).await);
    }
    for node in &nodes {
        until("all nodes are counted", async || node.nodes() == 3).await;
    }
    nodes
}

/// How many of some requests this node admits by itself.
async fn admitted_locally(store: &RedisStore, one: &Ask, requests: u32) -> u32 {
    let mut admitted = 0;
    for _ in 0..requests {
        let said = take_one(store, one).await;
        assert_eq!(said.source, Source::Local);
        admitted += u32::from(said.admitted);
    }
    admitted
}

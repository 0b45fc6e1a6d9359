//! A node goes on when its database is away, and ends when it is told to.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{sleep, timeout};
use tollward_directory::Directory;
use tollward_policy::Rejection;
use tollward_testkit::postgres::PostgresServer;

use crate::node::{Node, OF_FILE, SOON, change, key_of, pro, settings};
use crate::places::{Place, boost};

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_goes_away_changes_no_decision() {
    let server = PostgresServer::start();
    let directory = Directory::open(&server.database().parse().unwrap())
        .await
        .unwrap();
    change(&directory, async |edit| {
        edit.put_tenant(pro("acme")).await.unwrap();
        edit.put_key(key_of("k1", "one", "acme")).await.unwrap();
    })
    .await;
    let serving = Node::start(&directory).await;
    let refusing = Node::start_with(&directory, &settings(true));
    timeout(SOON, refusing.mirror.caught_up(1)).await.unwrap();
    server.kill();
    for node in [&serving, &refusing] {
        node.until(async |node| node.mirror.health().connected, false)
            .await;
        let health = node.mirror.health();
        assert!(health.error.is_some() && health.loaded && !health.stale);
        assert_eq!(node.limit("one").await, Ok(Some(100)));
        // Longer than it may be.
        node.advance(Duration::from_secs(700));
        assert!(node.mirror.health().stale);
    }
    let refused = Err(Rejection::Unverifiable);
    refusing
        .until(async |node| node.limit("one").await, refused)
        .await;
    assert_eq!(refusing.limit(OF_FILE).await, Ok(Some(10)));
    assert_eq!(serving.limit("one").await, Ok(Some(100)));
    // Told otherwise, it goes by that.
    refusing.mirror.configure(&settings(false));
    refusing
        .until(async |node| node.limit("one").await, Ok(Some(100)))
        .await;
    refusing.mirror.configure(&settings(true));

    server.restart();
    for node in [&serving, &refusing] {
        node.until(async |node| node.mirror.health().connected, true)
            .await;
        let health = node.mirror.health();
        assert!(health.error.is_none() && !health.stale, "{health:?}");
        node.until(async |node| node.limit("one").await, Ok(Some(100)))
            .await;
    }
    let revision = change(&directory, async |edit| {
        edit.delete_key("k1").await.unwrap();
    })
    .await;
    for node in [&serving, &refusing] {
        timeout(SOON, node.mirror.caught_up(revision))
            .await
            .unwrap();
        assert_eq!(node.limit("one").await, Err(Rejection::UnknownKey));
    }
}

/// The database is stopped, and what ends by time ends all the same.
#[tokio::test(flavor = "multi_thread")]
async fn boosts_end_while_the_database_does_not_answer() {
    let server = PostgresServer::start();
    let directory = Directory::open(&server.database().parse().unwrap())
        .await
        .unwrap();
    change(&directory, async |edit| {
        edit.put_boost(boost("b1", "tenant", "of-file"))
            .await
            .unwrap();
    })
    .await;
    let node = Node::start(&directory).await;
    assert_eq!(node.limit(OF_FILE).await, Ok(Some(20)));
    server.stop();
    node.advance(Duration::from_secs(60));
    node.until(async |node| node.limit(OF_FILE).await, Ok(Some(10)))
        .await;
    server.cont();
}

#[tokio::test(flavor = "multi_thread")]
async fn it_ends_when_nobody_has_it() {
    let directory = Place::memory().open().await;
    let node = Node::start(&directory).await;
    let engine = Arc::downgrade(&node.engine);
    let other = node.mirror.clone();
    drop(node);
    sleep(Duration::from_millis(20)).await;
    assert!(engine.upgrade().is_some());
    drop(other);
    let gone = async {
        while engine.upgrade().is_some() {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(SOON, gone).await.unwrap();
}

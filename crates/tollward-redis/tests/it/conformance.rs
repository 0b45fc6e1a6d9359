//! The store keeps every promise of a store, on every kind of deployment.
//!
//! Time is what the tests say it is, and refusals are not remembered: a remembered one tells less.

use tollward_policy::config::StoreClock;
use tollward_redis::Options;
use tollward_store::Store;
use tollward_testkit::redis::{RedisCluster, RedisServer, SentinelTrio};

use crate::started::{block_on, options, store, valkey};

fn on(url: &str, case: impl AsyncFnOnce(&dyn Store)) {
    block_on(async {
        let store = store(Options {
            clock: StoreClock::Client,
            remember_refusals: false,
            heartbeat: false,
            ..options(url)
        })
        .await;
        case(&store).await;
        assert_eq!(store.stats().bad_replies.get(), 0);
    });
}

fn on_server(server: &RedisServer, case: impl AsyncFnOnce(&dyn Store)) {
    on(&server.url(), case);
}

fn on_trio(trio: &SentinelTrio, case: impl AsyncFnOnce(&dyn Store)) {
    on(&trio.url(), case);
}

fn on_cluster(cluster: &RedisCluster, case: impl AsyncFnOnce(&dyn Store)) {
    on(&cluster.url(), case);
}

fn on_valkey(server: &Option<RedisServer>, case: impl AsyncFnOnce(&dyn Store)) {
    if let Some(server) = server {
        on(&server.url(), case);
    }
}

tollward_testkit::store_conformance!(standalone: RedisServer::start() => on_server);
tollward_testkit::store_conformance!(unix_socket: RedisServer::builder().unix_socket().start() => on_server);
tollward_testkit::store_conformance!(sentinel: SentinelTrio::start() => on_trio);
tollward_testkit::store_conformance!(cluster: RedisCluster::start() => on_cluster);
tollward_testkit::store_conformance!(valkey_standalone: valkey() => on_valkey);

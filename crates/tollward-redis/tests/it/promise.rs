//! Nothing is admitted beyond the limit, whoever asks at once.

use std::sync::Arc;

use tollward_redis::RedisStore;
use tollward_store::Source;
use tollward_testkit::redis::RedisServer;

use crate::asked::{Ask, Said, admitted, all_at_once, left, only};
use crate::started::{block_on, in_real_time, store, valkey};

const NODES: usize = 4;
const TASKS: usize = 64;

#[test]
fn exactly_the_limit_is_admitted() {
    exact(&RedisServer::start());
}

#[test]
fn exactly_the_limit_is_admitted_by_valkey() {
    if let Some(server) = valkey() {
        exact(&server);
    }
}

fn exact(server: &RedisServer) {
    block_on(async {
        let stores = nodes(&server.url()).await;
        for round in 0..20 {
            let one = Ask::one(only(100), format!("round {round}"));
            let said = all_at_once(&stores, TASKS, std::slice::from_ref(&one)).await;
            assert_eq!(admitted(&said), 100, "round {round}");
            by_redis(&said);
            assert_eq!(left(&stores[0], &one).await, 0, "round {round}");
        }
        well(&stores);
    });
}

#[test]
fn the_first_limit_is_untouched_where_the_second_refuses() {
    both(&RedisServer::start());
}

#[test]
fn the_first_limit_is_untouched_where_the_second_refuses_on_valkey() {
    if let Some(server) = valkey() {
        both(&server);
    }
}

fn both(server: &RedisServer) {
    block_on(async {
        let stores = nodes(&server.url()).await;
        for round in 0..5 {
            let wide = Ask::one(only(1000), format!("wide {round}"));
            let narrow = Ask::one(only(100), format!("narrow {round}"));
            let said = all_at_once(&stores, TASKS, &[wide.clone(), narrow.clone()]).await;
            assert_eq!(admitted(&said), 100, "round {round}");
            by_redis(&said);
            assert_eq!(left(&stores[0], &wide).await, 900, "round {round}");
            assert_eq!(left(&stores[0], &narrow).await, 0, "round {round}");
        }
        well(&stores);
    });
}

async fn nodes(url: &str) -> Vec<Arc<RedisStore>> {
    let mut stores = Vec::new();
    for _ in 0..NODES {
        stores.push(Arc::new(store(in_real_time(url)).await));
    }
    stores
}

fn by_redis(said: &[Said]) {
    for one in said {
        let fine = match one.source {
            Source::Redis => true,
            Source::Remembered => !one.admitted,
            _ => false,
        };
        assert!(fine, "{one:?}");
    }
}

fn well(stores: &[Arc<RedisStore>]) {
    for store in stores {
        assert_eq!(store.stats().bad_replies.get(), 0);
        assert_eq!(store.stats().trips.get(), 0);
        assert_eq!(store.debts(), 0);
    }
}

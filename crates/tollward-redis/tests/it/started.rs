use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tollward_core::Timestamp;
use tollward_redis::{Options, RedisStore};
use tollward_testkit::conformance::START;
use tollward_testkit::redis::{RedisServer, valkey_server};

/// Runs a test's future on a runtime like the server's.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
        .block_on(future)
}

/// Options for a test that says itself what time it is.
pub(crate) fn options(url: &str) -> Options {
    Options {
        // A machine that runs other tests may be slow at times.
        deadline: Duration::from_secs(2),
        ..Options::new(url.parse().unwrap(), Arc::new(|| START))
    }
}

/// A store whose servers all answer.
pub(crate) async fn store(options: Options) -> RedisStore {
    let store = RedisStore::start(options).unwrap();
    store.tried().await;
    wait_until_up(&store).await;
    store
}

/// Waits until every server is asked.
pub(crate) async fn wait_until_up(store: &RedisStore) {
    for _ in 0..1000 {
        let shards = store.shards();
        if !shards.is_empty() && shards.iter().all(|shard| shard.up) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("not up within 10 s: {:?}", store.shards());
}

/// Options for a test in real time.
pub(crate) fn in_real_time(url: &str) -> Options {
    Options {
        now: Arc::new(real_now),
        ..options(url)
    }
}

/// The time that it is.
#[expect(clippy::disallowed_methods, reason = "Redis has a clock of its own")]
pub(crate) fn real_now() -> Timestamp {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let micros = since.unwrap().as_micros();
    Timestamp::from_micros(micros.try_into().unwrap())
}

/// A Valkey, if there is one on this machine.
pub(crate) fn valkey() -> Option<RedisServer> {
    let binary = valkey_server();
    if binary.is_none() {
        println!("left out: there is no valkey-server");
    }
    binary.map(|binary| RedisServer::builder().binary(binary).start())
}

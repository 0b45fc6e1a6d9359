//! A primary under sentinels, and its successor.

use tollward_redis::Options;
use tollward_store::Source;
use tollward_testkit::redis::{RedisServer, SentinelTrio};

use crate::asked::{Ask, left, only, take_one, until, until_down};
use crate::started::{block_on, in_real_time, store, wait_until_up};

#[test]
fn a_failover() {
    const CAPACITY: u32 = 100;
    let trio = SentinelTrio::start();
    block_on(async {
        let store = store(in_real_time(&trio.url())).await;
        let first = trio.primary();
        assert_eq!(store.shards()[0].name, first.to_string());
        let one = Ask::one(only(CAPACITY), "failover");
        let mut admitted = 0;
        for _ in 0..40 {
            let said = take_one(&store, &one).await;
            assert_eq!((said.source, said.admitted), (Source::Redis, true));
            admitted += 1;
        }

        trio.kill_primary();
        // From the first request on, and long before anybody is elected.
        for _ in 0..30 {
            let said = take_one(&store, &one).await;
            assert_eq!((said.source, said.admitted), (Source::Local, true));
            admitted += 1;
        }
        until_down(&store).await;
        assert_eq!(
            trio.primary(),
            first,
            "the test was slower than the sentinels"
        );

        let second = tokio::task::block_in_place(|| trio.wait_for_failover(first));
        until("the new primary is used", async || {
            store.shards()[0].name == second.to_string()
        })
        .await;
        wait_until_up(&store).await;
        until("nothing is owed", async || store.debts() == 0).await;
        let mut refused = 0;
        while refused < 10 {
            let said = take_one(&store, &one).await;
            assert!(matches!(said.source, Source::Redis | Source::Remembered));
            admitted += u32::from(said.admitted);
            refused += u32::from(!said.admitted);
        }
        // Lost are at most what the replica had not heard of, and one request that was under way.
        assert!((CAPACITY..=2 * CAPACITY).contains(&admitted), "{admitted}");
        assert_eq!(left(&store, &one).await, 0);
    });
}

/// Servers often have a password where the sentinels have none.
#[test]
fn sentinels_without_a_password() {
    const PASSWORD: &str = "sesame";
    let trio = SentinelTrio::start_with(|builder| builder.password(PASSWORD));
    for sentinel in trio.sentinels() {
        let open = sentinel.command(&["ACL", "SETUSER", "default", "nopass"]);
        assert!(open.is_ok(), "{open:?}");
    }
    let rest = trio.url();
    let rest = rest.strip_prefix("redis-sentinel://").unwrap();
    decides(
        &format!("redis-sentinel://:{PASSWORD}@{rest}"),
        &trio.servers()[0],
    );
}

fn decides(url: &str, primary: &RedisServer) {
    block_on(async {
        let store = store(Options {
            heartbeat: false,
            ..in_real_time(url)
        })
        .await;
        assert_eq!(store.shards()[0].name, primary.addr().to_string());
        let said = take_one(&store, &Ask::one(only(9), "password")).await;
        assert_eq!((said.source, said.admitted), (Source::Redis, true));
    });
}

//! Servers that answer, but do not let us: no memory, wrong passwords.

use std::time::Duration;

use tollward_redis::{Options, RedisStore};
use tollward_store::Source;
use tollward_testkit::redis::{Client, RedisServer, Value};

use crate::asked::{Ask, left, only, take_one, until, until_down};
use crate::logged::{Log, logged};
use crate::started::{block_on, in_real_time, store, wait_until_up};

const PATIENCE: Duration = Duration::from_secs(10);

#[test]
fn a_server_without_memory() {
    let server = RedisServer::builder()
        .arg("--maxmemory-policy", "noeviction")
        .start();
    block_on(async {
        let store = quiet(&server.url()).await;
        let one = Ask::one(only(1000), "memory");
        assert_eq!(take_one(&store, &one).await.source, Source::Redis);

        let filler = vec![b'x'; 8 << 20];
        assert!(
            server
                .command(&[b"SET", b"filler".as_slice(), &filler])
                .is_ok()
        );
        assert!(
            server
                .command(&["CONFIG", "SET", "maxmemory", "5mb"])
                .is_ok()
        );
        let mut asked = 0;
        until("the server is not asked any more", async || {
            let said = take_one(&store, &one).await;
            assert_eq!((said.source, said.admitted), (Source::Local, true));
            asked += 1;
            !store.shards()[0].up
        })
        .await;
        assert!(store.stats().refusals.get() >= 3);
        assert_eq!(store.stats().trips.get(), 1);

        assert_eq!(server.command(&["DEL", "filler"]), Value::Int(1));
        wait_until_up(&store).await;
        // What the server refused was not charged there, and is owed.
        until("what was spent is in Redis", async || {
            left(&store, &one).await == 1000 - 1 - asked
        })
        .await;
        assert_eq!(take_one(&store, &one).await.source, Source::Redis);
    });
}

#[test]
fn a_password_that_changes() {
    let server = RedisServer::builder().password("first").start();
    block_on(async {
        let store = quiet(&server.url()).await;
        let one = Ask::one(only(1000), "password");
        assert_eq!(take_one(&store, &one).await.source, Source::Redis);

        // This connection stays.
        let mut admin = Client::connect_unix(&server.socket(), PATIENCE).unwrap();
        let mut must = |command: &[&str]| admin.call(command).unwrap();
        assert!(must(&["AUTH", "first"]).is_ok());
        assert!(must(&["CONFIG", "SET", "requirepass", "second"]).is_ok());
        must(&["CLIENT", "KILL", "TYPE", "normal"]);
        until_down(&store).await;
        for _ in 0..10 {
            let said = take_one(&store, &one).await;
            assert_eq!((said.source, said.admitted), (Source::Local, true));
        }

        assert!(must(&["CONFIG", "SET", "requirepass", "first"]).is_ok());
        wait_until_up(&store).await;
        until("what was spent is in Redis", async || {
            left(&store, &one).await == 1000 - 11
        })
        .await;
        assert_eq!(take_one(&store, &one).await.source, Source::Redis);
    });
}

#[test]
fn a_wrong_password_is_told_and_not_shown() {
    const WRONG: &str = "hunter2-is-wrong";
    let server = RedisServer::builder().password("right").start();
    let user_only = RedisServer::start();
    for url in [
        format!("redis://:{WRONG}@{}", server.addr()),
        format!("redis://default:{WRONG}@{}", server.addr()),
        format!("redis://nobody:{WRONG}@{}", user_only.addr()),
    ] {
        let log = logged(async |log: Log| {
            let store = RedisStore::start(in_real_time(&url)).unwrap();
            store.tried().await;
            let said = take_one(&store, &Ask::one(only(5), "wrong")).await;
            assert_eq!((said.source, said.admitted), (Source::Local, true));
            assert!(!store.shards()[0].up);
            until("it is told", async || log.has("WARN")).await;
            // A few more attempts.
            let connects = || store.stats().connects.get();
            until("it is tried again", async || connects() >= 3).await;
            assert!(!format!("{:?}", store.shards()).contains(WRONG));
        });
        assert!(log.has("WARN") && log.has("uthentication"), "{log:?}");
        assert!(!log.has(WRONG) && !log.has("hunter2"), "{log:?}");
    }
}

async fn quiet(url: &str) -> RedisStore {
    store(Options {
        heartbeat: false,
        ..in_real_time(url)
    })
    .await
}

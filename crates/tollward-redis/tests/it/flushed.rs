//! A server that forgets scripts, or everything.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use tollward_redis::Options;
use tollward_store::Source;
use tollward_testkit::redis::{RedisServer, Value};

use crate::asked::{Ask, left, only, take_one, until};
use crate::started::{block_on, in_real_time, store, valkey};

#[test]
fn scripts_are_flushed_under_load() {
    flush_scripts(&RedisServer::start());
}

#[test]
fn scripts_are_flushed_under_load_on_valkey() {
    if let Some(server) = valkey() {
        flush_scripts(&server);
    }
}

fn flush_scripts(server: &RedisServer) {
    const TASKS: usize = 32;
    const EACH: usize = 100;
    const CAPACITY: u32 = 1000;
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _over = SetOnDrop(&over);
        scope.spawn(|| {
            while !over.load(SeqCst) {
                assert!(server.command(&["SCRIPT", "FLUSH"]).is_ok());
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        block_on(async {
            let store = Arc::new(
                store(Options {
                    remember_refusals: false,
                    ..in_real_time(&server.url())
                })
                .await,
            );
            let loads = store.stats().script_loads.get();
            let one = Ask::one(only(CAPACITY), "flushed");
            let mut tasks = Vec::new();
            for _ in 0..TASKS {
                let (store, one) = (store.clone(), one.clone());
                tasks.push(tokio::spawn(async move {
                    let mut admitted = 0;
                    for _ in 0..EACH {
                        let said = take_one(&store, &one).await;
                        assert_eq!(said.source, Source::Redis);
                        admitted += u32::from(said.admitted);
                    }
                    admitted
                }));
            }
            let mut admitted = 0;
            for task in tasks {
                admitted += task.await.unwrap();
            }
            assert_eq!(admitted, CAPACITY);
            assert_eq!(left(&store, &one).await, 0);
            assert!(store.stats().script_loads.get() > loads);
            assert_eq!(store.stats().refusals.get(), 0);
            assert_eq!(store.stats().bad_replies.get(), 0);
            assert_eq!(store.stats().trips.get(), 0);
        });
    });
}

/// Also when the test fails: the other thread is waited for.
struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

#[test]
fn a_flush_of_everything_is_noticed() {
    flush_all(&RedisServer::start());
}

#[test]
fn a_flush_of_everything_is_noticed_on_valkey() {
    if let Some(server) = valkey() {
        flush_all(&server);
    }
}

fn flush_all(server: &RedisServer) {
    block_on(async {
        let store = store(in_real_time(&server.url())).await;
        let one = Ask::one(only(5), "flushed");
        let lost = || store.stats().data_losses.get();
        for losses in 1..=2 {
            assert!(take_one(&store, &one.clone().cost(5)).await.admitted);
            assert!(!take_one(&store, &one).await.admitted);
            until("the mark is set", async || {
                server.command(&["EXISTS", "tollward:{mark}"]) == Value::Int(1)
            })
            .await;
            // Seen, not only set: the node has counted itself after it.
            tokio::time::sleep(Duration::from_millis(100)).await;
            assert_eq!(lost(), losses - 1);

            assert!(server.command(&["FLUSHALL"]).is_ok());
            until("the loss is noticed", async || lost() == losses).await;
            assert_eq!(left(&store, &one).await, 5);
        }
        assert!(take_one(&store, &one).await.admitted);
        assert_eq!(store.stats().trips.get(), 0);
        assert_eq!(store.nodes(), 1);
    });
}

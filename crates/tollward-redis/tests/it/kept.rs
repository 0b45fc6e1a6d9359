//! How long Redis keeps a bucket: until it is full again, and not much longer.

use tollward_core::{Algorithm, Limit};
use tollward_policy::config::StoreClock;
use tollward_redis::Options;
use tollward_testkit::conformance::{Dice, bucket, sliding};
use tollward_testkit::redis::{RedisServer, Value};

use crate::asked::{Ask, YEAR_SECS, give_back, peek, take};
use crate::started::{block_on, in_real_time, store};

/// A minute, and a moment for what is rounded.
const LONGER_MS: i64 = 60_100;

#[test]
fn every_key_ends_when_it_is_of_no_use() {
    every_key_ends(StoreClock::Server);
}

#[test]
fn every_key_ends_when_the_nodes_tell_the_time() {
    every_key_ends(StoreClock::Client);
}

fn limits() -> [Limit; 8] {
    [
        bucket(1, 1, 5),
        bucket(10, 60, 20),
        bucket(7, 13, 1000),
        bucket(1, 3600, 3),
        bucket(1, YEAR_SECS, 100),
        sliding(5, 1),
        sliding(100, 60),
        sliding(10, 86_400),
    ]
}

fn every_key_ends(clock: StoreClock) {
    let server = RedisServer::start();
    block_on(async {
        let store = store(Options {
            clock,
            ..in_real_time(&server.url())
        })
        .await;
        let mut dice = Dice::new(11);
        let limits = limits();
        let pick = |dice: &mut Dice| {
            let place = usize::try_from(dice.below(limits.len() as u64)).unwrap();
            let whose = format!("{place}-{}", dice.below(20));
            Ask::one(limits[place], whose)
        };
        for _ in 0..3000 {
            let asks: Vec<Ask> = (0..=dice.below(3)).map(|_| pick(&mut dice)).collect();
            let said = take(&store, &asks).await;
            if said.admitted && dice.one_in(10) {
                give_back(&store, &asks[..1]).await;
            }
        }
        let mut seen = 0;
        for (place, limit) in limits.into_iter().enumerate() {
            for number in 0..20 {
                let one = Ask::one(limit, format!("{place}-{number}"));
                let ttl_ms = || server.command(&["PTTL", &one.name()]).as_int().unwrap();
                let before = ttl_ms();
                assert_ne!(before, -1, "{limit:?}");
                let full_us = peek(&store, &one).await.outcomes[0].full_after_us;
                let full_ms = i64::try_from(full_us.div_ceil(1000)).unwrap();
                // A bucket that is gone is full.
                assert!(
                    before.max(0) >= full_ms,
                    "{limit:?}: {before} ms, {full_ms} ms"
                );
                let fill_secs = match limit.algorithm() {
                    Algorithm::TokenBucket => limit.fill_secs(),
                    // The window that is, and the one that it counts for.
                    Algorithm::SlidingWindow => 2 * limit.fill_secs(),
                };
                let most_ms = i64::try_from(fill_secs * 1000).unwrap() + LONGER_MS;
                assert!(before <= most_ms, "{limit:?}: {before} ms");
                seen += u32::from(before > 0);
            }
        }
        assert!(seen > 80, "{seen}: a dull run");
        let Value::Array(keys) = server.command(&["KEYS", "*"]) else {
            panic!("no keys");
        };
        for key in keys {
            let Value::Bulk(key) = key else { panic!() };
            let ttl = server.command(&[b"PTTL", key.as_slice()]);
            assert_ne!(ttl, Value::Int(-1), "{key:?}");
        }
    });
}

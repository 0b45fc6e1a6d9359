//! Buckets spread over a cluster: slots, all or nothing across them, nodes that die, slots that move.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use tollward_core::{Limit, OnFailure};
use tollward_redis::{MAX_KEY, Options, RedisStore};
use tollward_store::{Mode, Source, StoreError};
use tollward_testkit::conformance::{Dice, bucket, sliding};
use tollward_testkit::redis::{Client, RedisCluster, RedisServer, Value};

use crate::asked::{Ask, admitted, all_at_once, ask, left, only, take, take_one, until};
use crate::secured::{denied, give_rights};
use crate::started::{block_on, in_real_time, store};

const PRIMARIES: usize = 3;
const PATIENCE: Duration = Duration::from_secs(10);

#[test]
fn many_requests_of_all_sorts() {
    let cluster = RedisCluster::start();
    for server in cluster.servers() {
        give_rights(server, "+cluster|slots +asking");
    }
    let url = cluster.url().replace("://", "://tollward:sesame@");
    block_on(async {
        let store = Arc::new(store(in_real_time(&url)).await);
        random_requests(&store).await;
        refused_by_one_slot(&store).await;
        assert_eq!(store.stats().trips.get(), 0);
    });
    look_at_keys(&cluster.servers()[..PRIMARIES]);
    for server in cluster.servers() {
        assert_eq!(denied(server), [""; 0]);
    }
}

/// Ids that try to be something else than an id.
fn id(dice: &mut Dice) -> Vec<u8> {
    const BITS: [&[u8]; 12] = [
        b"{", b"}", b"{}", b"}{", b"{a}", b"\0", b"{12345}", b"user", b"\xff", b" ", b"\r\n", b":",
    ];
    if dice.one_in(3) {
        // Asked so often that it is refused.
        return format!("{{hot}}{}", dice.below(20)).into_bytes();
    }
    let mut id = dice.below(2000).to_string().into_bytes();
    for _ in 0..dice.below(5) {
        let at = usize::try_from(dice.below(id.len() as u64 + 1)).unwrap();
        let bit = dice.pick(&BITS);
        id.splice(at..at, bit.iter().copied());
    }
    id
}

fn limits() -> [Limit; 5] {
    [
        bucket(1000, 1, 1_000_000),
        bucket(10, 60, 20),
        bucket(1, 3600, 3),
        sliding(100, 60),
        sliding(5, 1),
    ]
}

async fn random_requests(store: &Arc<RedisStore>) {
    const TASKS: u64 = 200;
    const EACH: u64 = 500;
    let mut tasks = Vec::new();
    for task in 0..TASKS {
        let store = store.clone();
        tasks.push(tokio::spawn(async move {
            let mut dice = Dice::new(task);
            let mut admitted = 0;
            for _ in 0..EACH {
                let mut asks = Vec::new();
                for _ in 0..=dice.below(5) {
                    let one = Ask::one(*dice.pick(&limits()), id(&mut dice));
                    let family =
                        dice.pick(&["f", "{f}", "plan/{x}", "a rather long name of a limit"]);
                    asks.push(one.of_family(family).cost(dice.below(3)));
                }
                let said = take(&store, &asks).await;
                assert!(
                    matches!(said.source, Source::Redis | Source::Remembered),
                    "{said:?}"
                );
                admitted += u64::from(said.admitted);
            }
            admitted
        }));
    }
    let mut admitted = 0;
    for task in tasks {
        admitted += task.await.unwrap();
    }
    let share = admitted * 100 / (TASKS * EACH);
    assert!((10..=95).contains(&share), "{share} % admitted: a dull run");
    let stats = store.stats();
    // CROSSSLOT would be among these.
    assert_eq!(stats.refusals.get(), 0);
    assert_eq!(stats.bad_replies.get(), 0);
    assert_eq!(stats.redirects.get(), 0);
    assert!(stats.compensations.get() > 0);
    assert_eq!(stats.compensations_lost.get(), 0);
}

/// Of 100 requests over many slots ten are admitted: the others leave no trace.
async fn refused_by_one_slot(store: &Arc<RedisStore>) {
    for round in 0..5 {
        let wide = |number| Ask::one(only(1000), format!("wide {round} {number}"));
        let mut asks: Vec<Ask> = (0..8).map(wide).collect();
        asks.push(Ask::one(only(10), format!("narrow {round}")));
        let said = all_at_once(std::slice::from_ref(store), 100, &asks).await;
        assert_eq!(admitted(&said), 10);
        for wide in &asks[..8] {
            assert_eq!(left(store, wide).await, 990);
        }
        assert_eq!(left(store, &asks[8]).await, 0);
    }
    assert_eq!(store.stats().compensations_lost.get(), 0);
}

/// Whatever ids say, a key is short, ends by itself, and lies in the slot of our tag.
fn look_at_keys(primaries: &[RedisServer]) {
    let mut counts = Vec::new();
    let mut slots = HashSet::new();
    for server in primaries {
        let mut tags = HashSet::new();
        let mut client = Client::connect_unix(&server.socket(), PATIENCE).unwrap();
        let Value::Array(keys) = client.call(&["KEYS", "*"]).unwrap() else {
            panic!("no keys");
        };
        for key in &keys {
            let Value::Bulk(key) = key else { panic!() };
            assert!(key.len() <= MAX_KEY, "{key:?}");
            let ttl = client.call(&[b"PTTL", key.as_slice()]).unwrap();
            assert_ne!(ttl, Value::Int(-1), "{key:?}");
            let text = std::str::from_utf8(key).unwrap();
            let rest = text.strip_prefix("tollward:{").unwrap();
            let (tag, rest) = rest.split_once('}').unwrap();
            assert!(!rest.contains(['{', '}']), "{text}");
            if matches!(tag, "nodes" | "mark") {
                continue;
            }
            let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
            assert!(tag.len() == 5 && tag.bytes().all(is_hex), "{text}");
            let slot = client.call(&["CLUSTER", "KEYSLOT", text]).unwrap();
            assert_eq!(slot, client.call(&["CLUSTER", "KEYSLOT", tag]).unwrap());
            slots.insert(slot.as_int());
            tags.insert(tag.to_owned());
        }
        counts.push(tags.len());
    }
    // Ids and tags are the same in every run.
    let total: usize = counts.iter().sum();
    assert!(
        total > 2000 && slots.len() > 1000,
        "{counts:?} {}",
        slots.len()
    );
    #[expect(clippy::cast_precision_loss, reason = "they are few")]
    let chi_square: f64 = counts
        .iter()
        .map(|count| {
            let expected = total as f64 / 3.0;
            (*count as f64 - expected).powi(2) / expected
        })
        .sum();
    // Two degrees of freedom, p = 0.01.
    assert!(chi_square < 9.21, "{counts:?}: {chi_square}");
}

/// A server that does not answer in time closes the request; what another took for it is given back all the
/// same, though nobody waits for that any more.
#[test]
fn a_late_server_does_not_keep_what_others_took() {
    let cluster = RedisCluster::start();
    block_on(async {
        let options = Options {
            deadline: Duration::from_millis(200),
            ..in_real_time(&cluster.url())
        };
        let store = store(options).await;
        let owned = one_of_each(&cluster);
        let late = owned[0].clone().on_failure(OnFailure::Closed);
        cluster.servers()[0].stop();
        let said = ask(&store, &[late, owned[1].clone()], Mode::Charge).await;
        cluster.servers()[0].cont();
        assert_eq!(said, Err(StoreError::Unavailable));
        until("it was given back", async || {
            left(&store, &owned[1]).await == 1_000_000
        })
        .await;
        assert_eq!(store.stats().compensations.get(), 1);
        assert_eq!(store.stats().compensations_lost.get(), 0);
    });
}

#[test]
fn a_killed_primary() {
    let cluster = RedisCluster::start();
    block_on(async {
        let store = quiet(&cluster).await;
        let owned = one_of_each(&cluster);
        for one in &owned {
            let said = take_one(&store, &one.clone().cost(10)).await;
            assert_eq!((said.source, said.admitted), (Source::Redis, true));
        }
        let old = cluster.servers()[0].addr().to_string();
        cluster.kill(0);
        let is_up = |name: &str| {
            let shards = store.shards();
            shards.iter().any(|shard| shard.name == name && shard.up)
        };
        until("the dead one is not asked", async || !is_up(&old)).await;

        let (mut local, mut others) = (0, 0);
        let mut back = false;
        until("its replica has taken over", async || {
            for one in &owned[1..] {
                let said = take_one(&store, one).await;
                assert_eq!((said.source, said.admitted), (Source::Redis, true));
            }
            others += 1;
            if local < 20 {
                // With another that is well: this node decides the one, Redis the other.
                let said = take(&store, &[owned[0].clone(), owned[1].clone()]).await;
                assert!(said.admitted);
                local += u32::from(said.source == Source::Local);
                back = said.source == Source::Redis;
            } else {
                back = take_one(&store, &owned[0]).await.source == Source::Redis;
            }
            back
        })
        .await;
        assert!(local > 0, "the test was slower than the cluster");
        assert!(!is_up(&old));
        until("nothing is owed", async || store.debts() == 0).await;
        let said = take_one(&store, &owned[0]).await;
        assert_eq!(said.source, Source::Redis);
        // Some of the first may not have reached the replica.
        let spent = 1_000_000 - left(&store, &owned[0]).await;
        assert!(spent > local, "{spent} of {local}");
        assert_eq!(1_000_000 - left(&store, &owned[2]).await, 10 + others);
        assert_eq!(store.stats().compensations_lost.get(), 0);
    });
}

#[test]
fn a_slot_that_moves() {
    let cluster = RedisCluster::start();
    block_on(async {
        let store = Arc::new(quiet(&cluster).await);
        // Of one scope, so of one slot.
        let hot = Ask::one(only(1_000_000), "moves").of_family("hot");
        let slot = slot(&cluster, &hot);
        let from = cluster.primary_of(slot);
        let to = (from + 1) % PRIMARIES;
        let load = Arc::new(Load::default());
        let mut tasks = Vec::new();
        for task in 0..16 {
            let (store, load, hot) = (store.clone(), load.clone(), hot.clone());
            tasks.push(tokio::spawn(
                async move { load.run(task, &store, &hot).await },
            ));
        }
        let redirects = || store.stats().redirects.get();

        load.some_more().await;
        assert_eq!(redirects(), 0);
        tokio::task::block_in_place(|| cluster.begin_move(slot, to));
        load.some_more().await;
        tokio::task::block_in_place(|| cluster.move_keys(slot, to));
        load.some_more().await;
        tokio::task::block_in_place(|| cluster.finish_move(slot, to));
        until("the new primary is known", async || {
            let before = redirects();
            load.some_more().await;
            redirects() == before
        })
        .await;
        load.over.store(true, SeqCst);
        for task in tasks {
            task.await.unwrap();
        }
        until("nothing is owed", async || store.debts() == 0).await;

        assert!(redirects() > 0);
        for error in ["errorstat_ASK", "errorstat_MOVED"] {
            let seen = cluster.servers()[from].info("errorstats", error);
            assert!(seen.is_some(), "no {error}");
        }
        let stats = store.stats();
        assert_eq!(stats.timeouts.get() + stats.disconnects.get(), 0);
        assert_eq!(stats.bad_replies.get(), 0);
        assert_eq!(stats.trips.get(), 0);
        // Whatever was decided where, each request is charged once.
        let spent = 1_000_000 - left(&store, &hot).await;
        let local = load.local.load(SeqCst);
        let made_good = stats.settled.get();
        let told = format!(
            "{local} decided here, {made_good} made good, {} redirects",
            redirects()
        );
        println!("{told}");
        assert_eq!(u64::from(spent), load.hot.load(SeqCst), "{told}");
        assert_eq!(cluster.primary_of(slot), to);
    });
}

#[derive(Default)]
struct Load {
    over: AtomicBool,
    /// Requests so far, of all sorts.
    all: AtomicU64,
    /// Those admitted by the bucket that all ask.
    hot: AtomicU64,
    /// Those of them that this node decided.
    local: AtomicU64,
}

impl Load {
    /// Asks for a bucket that is there, for new ones, and for both at once.
    async fn run(&self, task: u64, store: &RedisStore, hot: &Ask) {
        let mut number = 0;
        while !self.over.load(SeqCst) {
            number += 1;
            let fresh = hot.clone().of_family(&format!("f{task}:{number}"));
            let asks = match number % 8 {
                0 => vec![fresh],
                1 => vec![hot.clone(), fresh],
                _ => vec![hot.clone()],
            };
            let said = take(store, &asks).await;
            assert!(said.admitted);
            assert!(matches!(said.source, Source::Redis | Source::Local));
            if number % 8 != 0 {
                self.hot.fetch_add(1, SeqCst);
                self.local
                    .fetch_add(u64::from(said.source == Source::Local), SeqCst);
            }
            self.all.fetch_add(1, SeqCst);
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    /// Waits until some more requests were decided.
    async fn some_more(&self) {
        let before = self.all.load(SeqCst);
        until("requests are decided", async || {
            self.all.load(SeqCst) > before + 500
        })
        .await;
    }
}

async fn quiet(cluster: &RedisCluster) -> RedisStore {
    store(Options {
        heartbeat: false,
        ..in_real_time(&cluster.url())
    })
    .await
}

/// A bucket of each of the three primaries.
fn one_of_each(cluster: &RedisCluster) -> Vec<Ask> {
    let of = |primary: usize| {
        let mut candidates = (0..).map(|number| Ask::one(only(1_000_000), format!("id {number}")));
        let of_it = |one: &Ask| cluster.primary_of(slot(cluster, one)) == primary;
        candidates.find(of_it).unwrap()
    };
    (0..PRIMARIES).map(of).collect()
}

fn slot(cluster: &RedisCluster, one: &Ask) -> u16 {
    let slot = cluster.servers()[1].command(&["CLUSTER", "KEYSLOT", &one.name()]);
    slot.as_int().unwrap().try_into().unwrap()
}

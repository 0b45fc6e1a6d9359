//! What nodes write to Redis, and what they share.

use std::collections::BTreeSet;

use serde_json::json;
use tollward_testkit::redis::RedisServer;

use crate::nodes::{Node, plan};

const LONGEST_PREFIX: &str = "a-prefix-of-24-bytes---:";

fn with_prefix(prefix: &str) -> String {
    plan(10).replace("deadline: 2s", &format!("deadline: 2s, prefix: '{prefix}'"))
}

/// The names of all keys.
fn keys(redis: &RedisServer) -> BTreeSet<String> {
    let keys = redis.command(&["KEYS", "*"]);
    let keys = keys.as_array().iter();
    keys.map(|key| key.as_text().unwrap().to_owned()).collect()
}

#[test]
fn nodes_of_one_prefix_share_their_buckets_and_others_do_not() {
    let redis = RedisServer::start();
    let serve = |prefix: &str| Node::start(&with_prefix(prefix), &redis.url());
    let (one, other, stranger) = (serve("fleet:"), serve("fleet:"), serve("fleet2:"));
    assert_eq!(one.ask("alice", 4).1["remaining"], 6);
    assert_eq!(other.ask("alice", 4).1["remaining"], 2);
    assert_eq!(stranger.ask("alice", 4).1["remaining"], 6);
    assert_eq!(one.ask("alice", 3).0, 429);
    assert_eq!(other.ask("alice", 2).0, 200);
    assert_eq!(one.remaining("alice"), 0);
    assert_eq!(stranger.remaining("alice"), 6);
}

#[test]
fn keys_look_as_documented_and_all_of_them_expire() {
    let redis = RedisServer::start();
    let config = with_prefix(LONGEST_PREFIX)
        + "limits:
  daily: { sustained: { rate: 100, window: day }, scope: user }
  per-address: { sustained: { rate: 5, window: hour }, scope: ip }
  window: { algorithm: sliding_window, sustained: { rate: 50, window: hour }, scope: [user, route] }
  all: { sustained: { rate: 500, window: hour }, scope: global }
";
    assert_eq!(LONGEST_PREFIX.len(), 24);
    let node = Node::start(&config, &redis.url());
    let mut client = node.client();
    let long = "somebody-with-a-long-name".repeat(10);
    for user in ["alice", &*long, "braces{x}", "späße und mehr", "a\r\nb\0c"] {
        let check = json!({ "user": user, "plan": "p", "ip": "192.0.2.7", "path": "/a/b" });
        let (status, answer) = client.check(check);
        assert_eq!(
            (status, &answer["source"]),
            (200, &"redis".into()),
            "{user}"
        );
    }

    let keys = keys(&redis);
    // Five users with three buckets each, an address, one for all; besides them our own.
    let buckets = keys.iter().filter(|key| {
        let tag = key.strip_prefix(LONGEST_PREFIX).and_then(|it| it.get(..7));
        tag.is_some_and(|tag| {
            let digits = tag.strip_prefix('{').and_then(|it| it.strip_suffix('}'));
            digits.is_some_and(|it| it.bytes().all(|b| b"0123456789abcdef".contains(&b)))
        })
    });
    let buckets: Vec<&String> = buckets.collect();
    assert_eq!(buckets.len(), 17, "{keys:#?}");
    let text = |key: &&String| key[LONGEST_PREFIX.len() + 7..].to_owned();
    let texts: Vec<String> = buckets.iter().map(text).collect();
    for readable in [
        "plan|user=alice",
        "limit:daily|user=alice",
        "limit:per-address|ip=192.0.2.7",
        "limit:all",
    ] {
        assert!(
            texts.iter().any(|it| it == readable),
            "{readable}: {texts:#?}"
        );
    }
    for key in &keys {
        assert!(key.starts_with(LONGEST_PREFIX), "{key}");
        assert!(key.len() <= 64, "{key}");
        assert!(key.bytes().all(|byte| byte.is_ascii_graphic()), "{key}");
        let ttl = redis.command(&["PTTL", key]).as_int().unwrap();
        assert!(ttl > 0, "{key} has no TTL: {ttl}");
    }
    // The buckets of a user are in one slot of a cluster.
    let tag = |key: &&&String| key[LONGEST_PREFIX.len()..][..7].to_owned();
    let of_alice = || buckets.iter().filter(|key| key.ends_with("|user=alice"));
    let tags: BTreeSet<String> = of_alice().map(|key| tag(&key)).collect();
    assert_eq!((of_alice().count(), tags.len()), (2, 1), "{buckets:#?}");
}

#[test]
fn refusals_and_peeks_write_nothing() {
    let redis = RedisServer::start();
    let node = Node::start(&plan(10), &redis.url());
    node.ask("alice", 11);
    assert_eq!(node.remaining("bob"), 10);
    let is_bucket = |key: &String| key.contains("user=");
    assert_eq!(keys(&redis).iter().filter(|key| is_bucket(key)).count(), 0);
    assert_eq!(node.ask("alice", 10).0, 200);
    assert_eq!(keys(&redis).iter().filter(|key| is_bucket(key)).count(), 1);
}

//! A new configuration while Redis keeps the counters.

use tollward_testkit::redis::RedisServer;

use crate::nodes::{Node, plan};
use crate::served::until;

#[test]
fn a_raised_limit_holds_at_once_for_whoever_was_refused() {
    let redis = RedisServer::start();
    let node = Node::start(&plan(3), &redis.url());
    assert_eq!(node.ask("alice", 3).0, 200);
    for capacity in [5, 8, 20] {
        until("a refusal that is remembered", || {
            let (status, answer) = node.ask("alice", 1);
            assert_eq!(status, 429, "{answer}");
            answer["source"] == "remembered"
        });
        node.reload(&plan(capacity));
        let (status, answer) = node.ask("alice", 1);
        assert_eq!(
            (status, &answer["source"]),
            (200, &"redis".into()),
            "{answer}"
        );
        assert_eq!(answer["limit"], capacity);
        let left = node.remaining("alice");
        assert_eq!(answer["remaining"], left);
        assert_eq!(node.ask("alice", u32::try_from(left).unwrap()).0, 200);
    }
    // And a lowered one too; what is spent stays spent.
    node.reload(&plan(4));
    assert_eq!(node.ask("alice", 1).0, 429);
    assert_eq!(node.ask("bob", 4).0, 200);
    node.reload(&plan(21));
    assert_eq!(node.remaining("alice"), 1);
}

#[test]
fn a_changed_store_is_told_and_not_followed() {
    let redis = RedisServer::start();
    let other = RedisServer::start();
    let stored = |capacity: u32, url: &str, more: &str| {
        let store = format!("deadline: 2s, backend: redis, url: '{url}'{more}");
        plan(capacity).replace("deadline: 2s", &store)
    };
    let node = Node::begin(&stored(10, &redis.url(), ""), &[], &[]);
    node.until_up();
    assert_eq!(node.ask("alice", 4).1["source"], "redis");
    let restart = || node.process.stderr().matches("restart").count();
    assert_eq!(restart(), 0, "{}", node.process.stderr());

    let changes = [
        stored(20, &other.url(), ""),
        stored(30, &redis.url(), ", prefix: 'x:'"),
        plan(40),
    ];
    for (index, changed) in changes.iter().enumerate() {
        let before = restart();
        node.reload(changed);
        until("a word about it", || restart() > before);
        // The rest of the file is in force, and the counters are where they were.
        let (status, answer) = node.ask("alice", 0);
        assert_eq!(
            (status, &answer["source"]),
            (200, &"redis".into()),
            "{answer}"
        );
        assert_eq!(answer["limit"], 20 + 10 * index, "{answer}");
        assert_eq!(answer["remaining"], 16 + 10 * index, "{answer}");
    }
    assert_eq!(other.command(&["DBSIZE"]).as_int(), Some(0));
    assert_eq!(redis.command(&["KEYS", "x:*"]).as_array(), []);
    let stderr = node.process.stderr();
    assert!(stderr.contains("`store`"), "{stderr}");
}

#[test]
fn what_holds_in_an_outage_follows_a_reload() {
    let redis = RedisServer::start();
    let of_store = |word: &str| {
        let store = format!("deadline: 2s, on_failure: {word}");
        plan(10).replace("deadline: 2s", &store)
    };
    let of_limit =
        |word: &str| plan(10).replace("scope: user", &format!("scope: user, on_failure: {word}"));
    let node = Node::start(&plan(10), &redis.url());
    assert_eq!(node.ask("alice", 0).1["source"], "redis");
    redis.kill();
    node.until_down();
    let source = || {
        let (status, answer) = node.ask("alice", 1);
        assert_eq!(status == 503, answer["source"] == "none", "{answer}");
        answer["source"].as_str().unwrap().to_owned()
    };
    assert_eq!(source(), "local");
    for (config, expected) in [
        (of_store("closed"), "none"),
        (of_store("open"), "open"),
        (of_limit("closed"), "none"),
        (of_limit("open"), "open"),
        (of_store("local"), "local"),
        (
            of_limit("closed").replace("deadline: 2s", "deadline: 2s, on_failure: open"),
            "none",
        ),
        (plan(10), "local"),
    ] {
        node.reload(&config);
        assert_eq!(source(), expected, "{config}");
    }
    // Nothing of this needs a restart.
    let stderr = node.process.stderr();
    assert!(!stderr.contains("restart"), "{stderr}");
}

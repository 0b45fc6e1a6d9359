//! What a node says about its Redis.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use tollward_testkit::redis::RedisServer;

use crate::nodes::{Node, check, plan};
use crate::served::until;

/// The lines that are about Redis.
fn about_redis(node: &Node) -> Vec<String> {
    let stderr = node.process.stderr();
    let lines = stderr.lines().filter(|line| {
        let line = line.to_ascii_lowercase();
        line.contains("redis") || line.contains("on_failure")
    });
    lines.map(str::to_owned).collect()
}

fn count(lines: &[String], words: &str) -> usize {
    lines.iter().filter(|line| line.contains(words)).count()
}

#[test]
fn a_loss_and_a_return_are_told_once() {
    let redis = RedisServer::start();
    let node = Node::start(&plan(1_000_000), &redis.url());
    assert_eq!(about_redis(&node), [""; 0]);
    let over = AtomicBool::new(false);
    let answered = AtomicU64::new(0);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut client = node.client();
            while !over.load(Relaxed) {
                let response = client.ask(check("alice", 1));
                assert_eq!(response.status, 200, "{}", response.text());
                answered.fetch_add(1, Relaxed);
                thread::sleep(Duration::from_millis(2));
            }
        });
        let some_more = |count: u64| {
            let before = answered.load(Relaxed);
            until("requests", || answered.load(Relaxed) > before + count);
        };
        some_more(50);
        Node::until_marked(&redis);
        redis.kill();
        node.until_down();
        some_more(200);
        // Longer than it takes to find that it stays away.
        let connects = || node.metric("tollward_redis_connects_total");
        let before = connects();
        until("some attempts", || connects() > before + 4.0);
        redis.restart();
        node.until_up();
        some_more(50);
        let told = |words: &str| node.process.stderr().contains(words);
        until("a word about the data", || told("lost its data"));
        until("a word about the return", || told("decides again"));
        some_more(50);
        over.store(true, Relaxed);
    });
    let lines = about_redis(&node);
    assert!(lines.len() <= 4, "{lines:#?}");
    // Why it was lost, and perhaps why it stays away.
    let losses = count(&lines, "not asked");
    assert!((1..=2).contains(&losses), "{lines:#?}");
    assert_eq!(count(&lines, "decides again"), 1, "{lines:#?}");
    assert_eq!(count(&lines, "lost its data"), 1, "{lines:#?}");
    let server = format!("127.0.0.1:{}", redis.port());
    assert!(count(&lines, &server) >= 2, "which one: {lines:#?}");
}

#[test]
fn a_server_that_drops_counters_is_warned_of() {
    for (policy, warnings) in [("allkeys-lru", 1), ("volatile-lru", 1), ("noeviction", 0)] {
        let redis = RedisServer::builder()
            .arg("--maxmemory-policy", policy)
            .start();
        let node = Node::start(&plan(10), &redis.url());
        until("a warning", || about_redis(&node).len() >= warnings);
        let lines = about_redis(&node);
        assert_eq!(count(&lines, policy), warnings, "{lines:#?}");
        assert_eq!(lines.len(), warnings, "{lines:#?}");
        if warnings > 0 {
            assert_eq!(count(&lines, "`noeviction`"), 1, "{lines:#?}");
        }
    }
}

/// Every attempt finds the same, and it is said once if at all.
#[test]
fn a_server_that_cannot_decide_is_not_told_of_again_and_again() {
    let redis = RedisServer::builder()
        .arg("--maxmemory-policy", "allkeys-lru")
        .args(&["--rename-command", "EVALSHA", "NOT-EVALSHA"])
        .start();
    let node = Node::begin(&plan(10), &["--redis", &redis.url()], &[]);
    until("some attempts", || {
        node.metric("tollward_redis_connects_total") >= 6.0
    });
    assert_eq!(node.ask("alice", 1).1["source"], "local");
    let lines = about_redis(&node);
    assert!(count(&lines, "allkeys-lru") <= 1, "{lines:#?}");
    assert_eq!(count(&lines, "not asked"), 1, "{lines:#?}");
}

//! The end of a node that waits for Redis.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use tollward_testkit::fault::FaultProxy;
use tollward_testkit::http::{Connection, head};
use tollward_testkit::redis::RedisServer;

use crate::nodes::{Node, check, plan};
use crate::process::Process;
use crate::served::{json as body, until};

const CONNECTIONS: usize = 32;

/// What was charged was answered: no request ended between the two.
#[test]
fn no_request_under_load_is_cut_off() {
    const CAPACITY: u32 = 1_000_000;
    let redis = RedisServer::start();
    let mut node = Node::start(&plan(CAPACITY), &redis.url());
    let witness = Node::start(&plan(CAPACITY), &redis.url());
    let answered = AtomicU64::new(0);
    let question = check("alice", 1).to_string();
    thread::scope(|scope| {
        for _ in 0..CONNECTIONS {
            let mut client = node.client();
            let (answered, question) = (&answered, &question);
            scope.spawn(move || {
                // An error is a connection that was closed before its request was read.
                while let Ok(answer) =
                    client
                        .0
                        .request("POST", "/v1/check", &[], question.as_bytes())
                {
                    let text = answer.text();
                    assert_eq!(answer.status, 200, "{text}");
                    assert!(text.contains("\"source\":\"redis\""), "{text}");
                    answered.fetch_add(1, Relaxed);
                }
            });
        }
        until("some load", || answered.load(Relaxed) > 2000);
        node.process.signal("TERM");
    });
    assert_eq!(node.process.wait(), Some(0), "{}", node.process.stderr());
    let charged = u64::from(CAPACITY) - witness.remaining("alice");
    assert_eq!(answered.load(Relaxed), charged);
}

/// All requests are between the node and Redis when the node is told to stop.
#[test]
fn whoever_waits_for_redis_is_answered() {
    let redis = RedisServer::start();
    let proxy = FaultProxy::start(redis.addr());
    let url = format!("redis://{}", proxy.addr());
    let mut node = Node::start(&plan(100), &url);
    let question = check("alice", 1).to_string();
    let expect = [("expect", "100-continue")];
    let mut waiting: Vec<Connection> = (0..CONNECTIONS)
        .map(|_| {
            let mut connection = Connection::open(node.process.api).unwrap();
            let head = head("POST", "/v1/check", &expect, question.len());
            connection.send(head.as_bytes()).unwrap();
            // The server asks for the body only when it reads it.
            assert_eq!(connection.read_head().unwrap().status, 100);
            connection
        })
        .collect();
    proxy.delay(Duration::from_millis(200), Duration::from_millis(300));
    for connection in &mut waiting {
        connection.send(question.as_bytes()).unwrap();
    }
    node.process.signal("TERM");
    Process::until_closed(node.process.api);
    let mut left = Vec::new();
    for mut connection in waiting {
        let answer = connection.read(false).unwrap();
        assert_eq!(answer.status, 200, "{}", answer.text());
        let answer = body(&answer);
        assert_eq!(answer["source"], "redis", "{answer}");
        left.push(answer["remaining"].as_u64().unwrap());
    }
    left.sort_unstable();
    let expected: Vec<u64> = (100 - CONNECTIONS as u64..100).collect();
    assert_eq!(left, expected);
    assert_eq!(node.process.wait(), Some(0), "{}", node.process.stderr());
}

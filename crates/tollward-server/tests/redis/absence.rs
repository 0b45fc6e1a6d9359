//! Nodes that start before Redis does.

use std::net::TcpListener;

use tollward_testkit::redis::RedisServer;

use crate::nodes::{Node, PATIENT, plan};
use crate::served::{get, until};

#[test]
fn a_node_starts_without_redis_and_finds_it_later() {
    let redis = RedisServer::start();
    // Its port stays its own.
    redis.kill();
    let node = Node::begin(&plan(10), &["--redis", &redis.url()], &[]);
    let ready = || get(node.process.admin, "/readyz").status == 200;
    until("a node that has tried its store", ready);
    let (status, answer) = node.ask("alice", 3);
    assert_eq!((status, &answer["source"]), (200, &"local".into()));
    assert_eq!(answer["remaining"], 7);
    assert_eq!(node.ups(), [0.0]);

    redis.restart();
    until("an answer of Redis", || {
        let (status, answer) = node.ask("bob", 0);
        assert_eq!(status, 200, "{answer}");
        answer["source"] == "redis"
    });
    assert_eq!(node.ups(), [1.0]);
    // What was spent without Redis is charged to it.
    until("the debts of the outage", || node.remaining("alice") == 7);
    assert_eq!(node.metric("tollward_redis_settled_total"), 3.0);
    assert!(ready());
}

#[test]
fn a_node_is_not_ready_before_it_has_tried_its_store() {
    // Somebody who takes connections and says nothing.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("redis://{}", silent.local_addr().unwrap());
    // So patient that it is still connecting when it is asked.
    let config = format!("{PATIENT}limits: {{ a: {{ sustained: {{ rate: 5 }}, scope: user }} }}");
    let node = Node::begin(&config, &["--redis", &url], &[]);
    let ready = || get(node.process.admin, "/readyz");
    let not_yet = ready();
    assert_eq!(
        (not_yet.status, &*not_yet.text()),
        (503, "the store has not been tried yet\n")
    );
    assert_eq!(get(node.process.admin, "/healthz").status, 200);
    // Whoever asks all the same is answered.
    let (status, answer) = node.ask("alice", 0);
    assert_eq!(status, 400, "there is no plan: {answer}");
    let (status, answer) = node.client().check(serde_json::json!({ "user": "alice" }));
    assert_eq!((status, &answer["source"]), (200, &"local".into()));

    drop(silent.accept().unwrap());
    drop(silent);
    until("a node that has tried its store", || ready().status == 200);
    assert_eq!(ready().text(), "ready\n");
}

/// It is there and says nothing: worse than one that is gone.
#[test]
fn a_server_that_hangs_is_waited_for_no_longer_than_told() {
    let redis = RedisServer::start();
    let config = plan(1000).replace("2s", "100ms");
    let node = Node::start(&config, &redis.url());
    redis.stop();
    let source = || {
        let (status, answer) = node.ask("alice", 1);
        assert_eq!(status, 200, "{answer}");
        answer["source"].as_str().unwrap().to_owned()
    };
    assert_eq!(source(), "local");
    node.until_down();
    assert_eq!(source(), "local");
    redis.cont();
    until("an answer of Redis", || source() == "redis");
}

#[test]
fn a_node_is_ready_at_once_where_redis_is_there() {
    let redis = RedisServer::start();
    let node = Node::begin(&plan(10), &["--redis", &redis.url()], &[]);
    let ready = || get(node.process.admin, "/readyz").status == 200;
    until("a node that has tried its store", ready);
    // Ready means that it asks Redis, not that it is about to.
    assert_eq!(node.ask("alice", 1).1["source"], "redis");
}

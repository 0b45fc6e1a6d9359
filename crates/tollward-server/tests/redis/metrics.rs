//! What `/metrics` says of Redis.

use std::collections::BTreeSet;

use serde_json::json;
use tollward_testkit::redis::RedisServer;

use crate::nodes::{Node, check, plan};
use crate::served::{get, until};

const SOURCES: [&str; 6] = ["memory", "redis", "local", "open", "remembered", "none"];

/// Decisions by source, in the order of [`SOURCES`].
fn by_source(node: &Node) -> [f64; 6] {
    let metrics = node.metrics();
    let family = "tollward_decision_sources_total";
    let series = metrics.keys().filter(|series| series.starts_with(family));
    assert_eq!(series.count(), SOURCES.len());
    SOURCES.map(|source| metrics[&format!("{family}{{source=\"{source}\"}}")])
}

#[test]
fn sources_add_up_to_the_decisions() {
    let config = plan(3)
        + "limits: { shut: { sustained: { rate: 1, window: 366d }, burst: { capacity: 1000 }, \
           scope: client, on_failure: closed, when: authenticated } }
routes: [ { match: /open, allow: true } ]
";
    let redis = RedisServer::start();
    let node = Node::start(&config, &redis.url());
    let mut client = node.client();
    let mut asked = 0.0;
    let mut ask = |check| {
        asked += 1.0;
        client.check(check)
    };
    let alice = || check("alice", 1);
    for _ in 0..20 {
        ask(alice());
    }
    ask(json!({ "path": "/open" }));
    ask(json!({ "plan": "p" }));
    redis.kill();
    node.until_down();
    // Not alice: that she was refused is remembered for a moment, also without Redis.
    let bob = || check("bob", 1);
    for _ in 0..5 {
        assert_eq!(ask(bob()).0, 503);
        ask(json!({ "plan": "p" }));
    }
    let batch = json!({ "checks": [bob(), { "plan": "p" }, { "cost": -1 }, { "plan": "?" }] });
    client.post("/v1/check/batch", batch.to_string());
    asked += 2.0;
    // Neither of these is a decision that counts.
    client.check(json!({ "user": "alice", "plan": "p", "peek": true }));
    client.post("/v1/check", "rubbish");

    let sources = by_source(&node);
    assert_eq!(sources.iter().sum::<f64>(), asked, "{sources:?}");
    let [memory, redis, local, open, remembered, none] = sources;
    assert_eq!((memory, open), (0.0, 0.0));
    // Alice's and one of nobody; the open route and those that were closed.
    assert_eq!(redis + remembered, 21.0, "{sources:?}");
    assert!(redis >= 5.0 && remembered >= 1.0, "{sources:?}");
    assert_eq!((local, none), (6.0, 7.0), "{sources:?}");
    // Each was counted as admitted or refused as well.
    let metrics = node.metrics();
    let outcomes = metrics.iter().filter(|(series, _)| {
        series.starts_with("tollward_decisions_total")
            && (series.contains("\"allowed\"") || series.contains("\"denied\""))
    });
    assert_eq!(outcomes.map(|(_, count)| count).sum::<f64>(), asked);
}

#[test]
fn counters_of_redis_are_sane() {
    let redis = RedisServer::start();
    let node = Node::start(&plan(100), &redis.url());
    let metric = |name: &str| node.metric(&format!("tollward_redis_{name}"));
    let up = format!("up{{server=\"{}\"}}", redis.addr());
    assert_eq!(metric(&up), 1.0);
    let mut client = node.client();
    for _ in 0..50 {
        assert_eq!(client.check(check("alice", 1)).0, 200);
    }
    assert_eq!(metric("parts_total"), 50.0);
    // Besides requests there are only the proofs that it works.
    assert!((50.0..60.0).contains(&metric("calls_total")));
    assert!(redis.calls("evalsha") >= 50);
    for nothing in [
        "timeouts",
        "disconnects",
        "refusals",
        "bad_replies",
        "redirects",
        "shed",
        "compensations",
        "compensations_lost",
        "trips",
        "settled",
        "debts_dropped",
        "data_losses",
        "evictions",
    ] {
        assert_eq!(metric(&format!("{nothing}_total")), 0.0, "{nothing}");
    }
    assert_eq!(metric("connects_total"), 1.0);
    assert_eq!(metric("script_loads_total"), 1.0);
    assert_eq!((metric("nodes"), metric("debts")), (1.0, 0.0));

    // A script that was forgotten is loaded again, and nobody notices.
    redis.command(&["SCRIPT", "FLUSH"]);
    assert_eq!(client.check(check("alice", 1)).1["remaining"], 49);
    assert_eq!(metric("script_loads_total"), 2.0);

    Node::until_marked(&redis);
    redis.kill();
    node.until_down();
    assert_eq!(metric(&up), 0.0);
    assert_eq!(metric("trips_total"), 1.0);
    assert_eq!(client.check(check("alice", 5)).1["source"], "local");
    assert_eq!(metric("debts"), 1.0);
    redis.restart();
    until("a server that is asked", || metric(&up) == 1.0);
    until("debts that are settled", || metric("settled_total") == 5.0);
    until("a loss that is noticed", || {
        metric("data_losses_total") == 1.0
    });
    assert_eq!((metric("debts"), metric("debts_dropped_total")), (0.0, 0.0));
    assert_eq!(
        (metric("trips_total"), metric("bad_replies_total")),
        (1.0, 0.0)
    );
}

#[test]
fn nodes_are_counted() {
    let redis = RedisServer::start();
    let serve = || Node::start(&plan(100), &redis.url());
    let nodes = [serve(), serve(), serve()];
    for node in &nodes {
        let all = || node.metric("tollward_redis_nodes") == 3.0;
        until("three nodes", all);
    }
}

#[test]
fn no_series_names_a_caller_or_grows_with_them() {
    let redis = RedisServer::start();
    let node = Node::start(&plan(1), &redis.url());
    let mut client = node.client();
    client.check(check("somebody", 1));
    let series = || -> BTreeSet<String> { node.metrics().into_keys().collect() };
    let before = series();
    let ask_all = |client: &mut crate::served::Client| {
        let callers = (0..300).map(|index| {
            json!({
                "user": format!("caller-{index}"),
                "tenant": format!("caller-{index}"),
                "ip": format!("198.51.100.{}", index % 250),
                "path": format!("/caller-{index}"),
                "plan": "p",
                "cost": index % 3,
            })
        });
        let batch = json!({ "checks": callers.collect::<Vec<_>>() });
        assert_eq!(
            client.post("/v1/check/batch", batch.to_string()).status,
            200
        );
    };
    ask_all(&mut client);
    ask_all(&mut client);
    assert_eq!(series(), before);
    redis.kill();
    node.until_down();
    ask_all(&mut client);
    assert_eq!(series(), before);
    let page = get(node.process.admin, "/metrics").text();
    for name in ["caller", "somebody", "198.51"] {
        assert!(!page.contains(name), "{name}");
    }
}

#[test]
fn without_redis_there_is_nothing_of_it() {
    let node = Node::begin(&plan(1), &[], &[]);
    node.ask("alice", 1);
    let metrics = node.metrics();
    let of_redis = |series: &&String| series.starts_with("tollward_redis_");
    assert_eq!(metrics.keys().filter(of_redis).count(), 0);
    assert_eq!(by_source(&node), [1.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
}

//! Gateways that share a Redis.

use std::thread;

use serde_json::json;
use tollward_testkit::http::head;
use tollward_testkit::redis::{RedisCluster, RedisServer};
use tollward_testkit::upstream::Upstream;

use crate::gated::{remaining, sha256};
use crate::process_gateway::GatewayProcess;
use crate::served::{Client, Folder, until};

/// Redis has time to answer, however slow the machine.
fn config(upstream: &Upstream) -> String {
    format!(
        "
store: {{ deadline: 2s }}
limits:
  tenant: {{ sustained: {{ rate: 1, window: 366d }}, burst: {{ capacity: 1000 }}, scope: tenant }}
  ip: {{ sustained: {{ rate: 1, window: 366d }}, burst: {{ capacity: 2000 }}, scope: ip }}
tenants: {{ acme: {{}} }}
keys: [ {{ sha256: {}, tenant: acme }} ]
routes: [ {{ match: /**, upstream: app }} ]
upstreams: {{ app: {{ url: {} }} }}
",
        sha256("key"),
        upstream.url()
    )
}

fn gateway(upstream: &Upstream, url: &str) -> (GatewayProcess, Folder) {
    asking(&config(upstream), url)
}

/// A gateway that asks the Redis at `url`.
fn asking(config: &str, url: &str) -> (GatewayProcess, Folder) {
    let (process, folder, _) = GatewayProcess::of(config, &["--redis", url]);
    until("a node that asks Redis", || {
        let page = process.metrics();
        let mut ups = page
            .lines()
            .filter(|line| line.starts_with("tollward_redis_up{"));
        let all = |line: &str| line.ends_with(" 1");
        page.contains("tollward_redis_up{") && ups.all(all)
    });
    (process, folder)
}

const KEY: [(&str, &str); 1] = [("x-api-key", "key")];

/// Who decided: how often.
fn decisions(process: &GatewayProcess, source: &str) -> u64 {
    let series = format!("tollward_decision_sources_total{{source=\"{source}\"}} ");
    let page = process.metrics();
    let found = page.lines().find_map(|line| line.strip_prefix(&series));
    found.unwrap().parse().unwrap()
}

#[test]
fn two_gateways_share_a_bucket_and_live_without_redis() {
    let (redis, upstream) = (RedisServer::start(), Upstream::start());
    let gateways = [
        gateway(&upstream, &redis.url()),
        gateway(&upstream, &redis.url()),
    ];
    let mut connections = gateways.each_ref().map(|(process, _)| process.connect());
    let mut expected = 1000;
    for _ in 0..5 {
        for connection in &mut connections {
            expected -= 1;
            let answer = connection.request("GET", "/", &KEY, b"").unwrap();
            assert_eq!((answer.status, remaining(&answer)), (200, expected));
        }
    }
    assert_eq!(decisions(&gateways[0].0, "redis"), 5);
    redis.kill();
    // Nobody waits for it, and nobody is refused for it.
    for connection in &mut connections {
        for _ in 0..10 {
            let answer = connection.request("GET", "/", &KEY, b"").unwrap();
            assert_eq!(answer.status, 200, "{}", answer.text());
        }
    }
    for (process, _) in &gateways {
        assert_eq!(decisions(process, "local"), 10);
    }
    redis.restart();
    until("an answer of Redis", || {
        let answer = connections[0].request("GET", "/", &KEY, b"").unwrap();
        assert_eq!(answer.status, 200);
        decisions(&gateways[0].0, "redis") > 5
    });
    assert!(upstream.count() >= 31);
}

/// Two limits of one request are in different parts of a cluster.
#[test]
fn a_client_that_goes_away_leaves_nothing_half_charged() {
    let (cluster, upstream) = (RedisCluster::start(), Upstream::start());
    let (process, _folder) = gateway(&upstream, &cluster.url());
    let left = || -> [u64; 2] {
        let check = json!({ "api_key": "key", "ip": "127.0.0.1", "peek": true });
        let (_, answer) = Client::new(process.process.api).check(check);
        assert_eq!(answer["source"], "redis", "{answer}");
        [0, 1].map(|it| answer["limits"][it]["remaining"].as_u64().unwrap())
    };
    assert_eq!(left(), [1000, 2000]);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for number in 0..50_u32 {
                    let mut connection = process.connect();
                    connection
                        .send(head("GET", "/", &KEY, 0).as_bytes())
                        .unwrap();
                    // Some go at once, and some a little later.
                    for _ in 0..number % 8 {
                        thread::yield_now();
                    }
                }
            });
        }
    });
    // Until none is under way any more.
    until("the end of all connections", || {
        process
            .metrics()
            .contains("tollward_gateway_connections 0\n")
    });
    let mut last = left();
    until("that nothing changes", || {
        thread::sleep(std::time::Duration::from_millis(100));
        std::mem::replace(&mut last, left()) == last
    });
    let [tenant, ip] = last;
    assert_eq!(
        1000 - tenant,
        2000 - ip,
        "one limit was charged without the other"
    );
    assert!((800..1000).contains(&tenant), "{tenant}");
}

/// Wherever the line is kept: in Redis, in a cluster, or on the node while Redis is away.
#[test]
fn whoever_leaves_the_line_gives_its_tokens_back() {
    let (single, cluster) = (RedisServer::start(), RedisCluster::start());
    let lost = RedisServer::start();
    for (url, source) in [
        (single.url(), "redis"),
        (cluster.url(), "redis"),
        (lost.url(), "local"),
    ] {
        let upstream = Upstream::start();
        let config = format!(
            "
store: {{ deadline: 2s }}
identity: {{ anonymous: allow }}
limits:
  line: {{ sustained: {{ rate: 10, window: hour }}, burst: {{ capacity: 1 }}, scope: ip, strategy: queue, queue: {{ max_wait: 1h }} }}
  other: {{ sustained: {{ rate: 1, window: 366d }}, burst: {{ capacity: 100 }}, scope: route }}
routes: [ {{ match: /**, upstream: app }} ]
upstreams: {{ app: {{ url: {} }} }}
",
            upstream.url()
        );
        let (process, _folder) = asking(&config, &url);
        if source == "local" {
            lost.kill();
            until("a node without Redis", || {
                let page = process.metrics();
                let mut ups = page.lines();
                ups.any(|line| line.starts_with("tollward_redis_up{") && line.ends_with(" 0"))
            });
        }
        assert_eq!(
            process
                .connect()
                .request("GET", "/", &[], b"")
                .unwrap()
                .status,
            200
        );
        let decided = || decisions(&process, source);
        let before = decided();
        let mut waiting = Vec::new();
        for caller in 1..=5 {
            let mut connection = process.connect();
            connection
                .send(head("GET", "/", &[], 0).as_bytes())
                .unwrap();
            until("a decision", || decided() == before + caller);
            waiting.push(connection);
        }
        let left = || {
            let check = json!({ "ip": "127.0.0.1", "path": "/", "peek": true });
            let (_, answer) = Client::new(process.process.api).check(check);
            let wait = answer["retry_after"].as_u64().unwrap_or(0);
            // Six minutes each.
            (
                wait.div_ceil(360),
                answer["limits"][1]["remaining"].as_u64().unwrap(),
            )
        };
        assert_eq!(left(), (6, 94));
        drop(waiting);
        until("all tokens", || left() == (1, 99));
        assert_eq!(upstream.count(), 1);
    }
}

//! Many nodes, one limit.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Barrier, Mutex};
use std::thread;

use serde_json::json;
use tollward_testkit::redis::RedisServer;

use crate::nodes::{Node, check, plan};
use crate::served::Client;

const NODES: usize = 4;
const CALLERS_OF_A_NODE: usize = 64;
const ROUNDS: usize = 200;
const CAPACITY: u32 = 100;

#[test]
fn four_nodes_admit_exactly_the_capacity() {
    let redis = RedisServer::start();
    let serve = |_| Node::start(&plan(CAPACITY), &redis.url());
    let nodes: Vec<Node> = (0..NODES).map(serve).collect();
    let callers: Vec<Client> = (0..NODES * CALLERS_OF_A_NODE)
        .map(|caller| nodes[caller % NODES].client())
        .collect();

    let together = Barrier::new(callers.len());
    let admitted: Vec<AtomicUsize> = (0..ROUNDS).map(|_| AtomicUsize::new(0)).collect();
    let faults = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for mut caller in callers {
            let (together, admitted, faults) = (&together, &admitted, &faults);
            scope.spawn(move || {
                for (round, admitted) in admitted.iter().enumerate() {
                    together.wait();
                    match ask(&mut caller, &format!("round-{round}")) {
                        Ok(true) => {
                            admitted.fetch_add(1, Relaxed);
                        }
                        Ok(false) => {}
                        // The others wait for this one: it must not end here.
                        Err(fault) => faults.lock().unwrap().push(fault),
                    }
                }
            });
        }
    });

    let faults = faults.into_inner().unwrap();
    assert!(faults.is_empty(), "{}, first: {}", faults.len(), faults[0]);
    for (round, admitted) in admitted.iter().enumerate() {
        let admitted = admitted.load(Relaxed);
        assert_eq!(admitted, CAPACITY as usize, "in round {round}");
    }
    for node in &nodes {
        assert_eq!(node.remaining("round-0"), 0);
        assert_eq!(node.metric("tollward_redis_bad_replies_total"), 0.0);
    }
}

/// Whether a user was admitted, by Redis or by a refusal of Redis.
fn ask(caller: &mut Client, user: &str) -> Result<bool, String> {
    let question = check(user, 1).to_string();
    let answer = caller
        .0
        .request("POST", "/v1/check", &[], question.as_bytes());
    let answer = answer.map_err(|error| error.to_string())?;
    let text = answer.text();
    let is_from = |source: &str| text.contains(&format!("\"source\":\"{source}\""));
    match answer.status {
        200 if is_from("redis") => Ok(true),
        429 if is_from("redis") || is_from("remembered") => Ok(false),
        status => Err(format!("{status}: {text}")),
    }
}

/// Who hammers on is refused from memory, but for one question every quarter of a second.
#[test]
fn a_hundred_thousand_refusals_cost_redis_next_to_nothing() {
    const CONNECTIONS: usize = 4;
    const BATCHES: usize = 25;
    const BATCH: usize = 1000;
    let redis = RedisServer::start();
    let node = Node::start(&plan(1), &redis.url());
    assert_eq!(node.ask("abuser", 1).0, 200);

    let batch = json!({ "checks": vec![check("abuser", 1); BATCH] }).to_string();
    let before = redis.calls("evalsha");
    thread::scope(|scope| {
        for _ in 0..CONNECTIONS {
            scope.spawn(|| {
                let mut client = node.client();
                for _ in 0..BATCHES {
                    let answer = client.post("/v1/check/batch", &batch).text();
                    assert_eq!(answer.matches("\"status\":429").count(), BATCH);
                }
            });
        }
    });
    let calls = redis.calls("evalsha") - before;
    assert!(calls < 1000, "{calls} calls");
    let by = |source: &str| node.metric(&sources(source));
    let refused = by("redis") + by("remembered") - 1.0;
    assert_eq!(refused, 100_000.0);
    assert!(by("remembered") > 99_000.0, "{}", by("remembered"));
}

fn sources(source: &str) -> String {
    format!("tollward_decision_sources_total{{source=\"{source}\"}}")
}

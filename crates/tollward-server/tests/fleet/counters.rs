//! Counters of the directory's tenants, which all nodes share.

use std::thread;

use serde_json::{Value, json};

use crate::node::{Fleet, Node, burst, within};
use std::time::Duration;

const POOL: u32 = 50;
const OWN: u32 = 40;

/// Asks by two threads of each node until all are refused: how many were admitted.
fn exhaust(fleet: &Fleet, tenant: &str) -> u32 {
    let check = json!({ "tenant": tenant });
    thread::scope(|scope| {
        let nodes = fleet.nodes.iter().chain(&fleet.nodes);
        let asking: Vec<_> = nodes
            .map(|node| scope.spawn(|| node.client().exhaust(&check).0))
            .collect();
        asking.into_iter().map(|it| it.join().unwrap()).sum()
    })
}

/// What a limit has left, as a node sees it.
fn left(node: &Node, tenant: &str, limit: &str) -> Value {
    let (_, decision) = node.peek(json!({ "tenant": tenant }));
    assert_eq!(decision["source"], "redis", "{decision}");
    let limits = decision["limits"].as_array().unwrap();
    let found = limits.iter().find(|it| it["name"] == limit);
    found.unwrap_or_else(|| panic!("no {limit}: {decision}"))["remaining"].clone()
}

#[test]
fn both_nodes_charge_a_tenant_and_its_parent() {
    let fleet = Fleet::start();
    let [a, b] = &fleet.nodes;
    let desk = a.desk();
    desk.made(
        "tenants",
        &json!({ "id": "pool", "rate_limit": burst(POOL) }),
    );
    for id in ["one", "two"] {
        let tenant = json!({ "id": id, "parent": "pool", "rate_limit": burst(OWN) });
        desk.made("tenants", &tenant);
    }
    within(Duration::from_secs(30), "the tenants", || {
        let (_, decision) = b.peek(json!({ "tenant": "two" }));
        decision["limits"]
            .as_array()
            .is_some_and(|it| it.len() == 2)
    });

    assert_eq!(exhaust(&fleet, "one"), OWN);
    // What its own limit refused was not taken from the pool: all or nothing.
    for node in &fleet.nodes {
        let (status, refusal) = node.client().check(json!({ "tenant": "one" }));
        assert_eq!((status, &refusal["binding"]), (429, &json!("tenant:one")));
        assert_eq!(left(node, "one", "tenant:pool"), POOL - OWN);
    }
    assert_eq!(exhaust(&fleet, "two"), POOL - OWN);
    for node in &fleet.nodes {
        let (status, refusal) = node.client().check(json!({ "tenant": "two" }));
        assert_eq!((status, &refusal["binding"]), (429, &json!("tenant:pool")));
        assert_eq!(left(node, "two", "tenant:two"), OWN - (POOL - OWN));
    }
}

#[test]
fn tenants_that_ask_at_once_share_their_parent_exactly() {
    let fleet = Fleet::start();
    let desk = fleet.nodes[1].desk();
    desk.made(
        "tenants",
        &json!({ "id": "pool", "rate_limit": burst(POOL) }),
    );
    let names = ["one", "two", "three"];
    for id in names {
        let tenant = json!({ "id": id, "parent": "pool", "rate_limit": burst(OWN) });
        desk.made("tenants", &tenant);
    }
    within(Duration::from_secs(30), "the tenants", || {
        let (_, decision) = fleet.nodes[0].peek(json!({ "tenant": "three" }));
        decision["limits"]
            .as_array()
            .is_some_and(|it| it.len() == 2)
    });
    let admitted: Vec<u32> = thread::scope(|scope| {
        let fleet = &fleet;
        let asking = names.map(|name| scope.spawn(move || exhaust(fleet, name)));
        asking.into_iter().map(|it| it.join().unwrap()).collect()
    });
    assert_eq!(admitted.iter().sum::<u32>(), POOL, "{admitted:?}");
    assert!(admitted.iter().all(|it| *it <= OWN), "{admitted:?}");
}

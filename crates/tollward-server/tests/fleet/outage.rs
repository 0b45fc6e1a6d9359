//! A database that is away under load: decisions go on, changes are refused, and all is well by itself afterwards.

use std::time::Duration;

use serde_json::{Value, json};
use tollward_testkit::http::Response;

use crate::desk::{Desk, text};
use crate::load::{Load, Told};
use crate::node::{Fleet, Node, burst, now, within};
use crate::served::get;

/// No decision takes longer than those of a node without a database, and this.
const DECISION: Duration = Duration::from_secs(1);
/// No answer of the admin door takes longer.
const ANSWER: Duration = Duration::from_secs(10);
/// Everything is as before, so long after the database is back.
const RECOVERY: Duration = Duration::from_secs(30);

#[test]
fn a_database_that_is_killed() {
    let fleet = Fleet::start();
    let told = outage(
        &fleet,
        Duration::from_secs(20),
        || fleet.postgres.kill(),
        || fleet.postgres.restart(),
    );
    assert!(told.requests > 1000, "there was no load: {told:?}");
}

#[test]
fn a_database_that_hangs() {
    let fleet = Fleet::start();
    outage(
        &fleet,
        Duration::from_secs(12),
        || fleet.postgres.stop(),
        || fleet.postgres.cont(),
    );
}

fn outage(fleet: &Fleet, lasts: Duration, take: impl Fn(), give_back: impl Fn()) -> Told {
    let [a, b] = &fleet.nodes;
    let desk = a.desk();
    let (large, small) = (key(&desk, "large", 1_000_000), key(&desk, "small", 5));
    let spent = u64::from(a.client().exhaust(&json!({ "api_key": small })).0) + 1;
    within(RECOVERY, "the keys on the other node", || {
        let large = b.peek(json!({ "api_key": large })).0;
        (large, b.peek(json!({ "api_key": small })).0) == (200, 429)
    });

    let apis = [a, b].map(|node| node.process.api);
    let load = Load::start(&apis, text(&large), text(&small));
    let control = fleet.without_database();
    let other = key(&control.desk(), "other", 1_000_000);
    let spent_key = key(&control.desk(), "spent", 1);
    control.client().exhaust(&json!({ "api_key": spent_key }));
    let control_load = Load::start(&[control.process.api], text(&other), text(&spent_key));
    std::thread::sleep(Duration::from_secs(1));
    take();
    let start = now();
    let mut round = 0;
    while start.elapsed() < lasts {
        for node in [a, b] {
            while_away(node, round);
        }
        round += 1;
    }
    for node in [a, b] {
        let directory = &node.desk().shown("status")["directory"];
        assert_eq!(directory["connected"], false, "{directory}");
        assert!(!text(&directory["error"]).is_empty());
        // What has been known for a moment holds for longer.
        assert_eq!(directory["stale"], false, "{directory}");
    }
    give_back();
    let back = now();
    for (index, node) in [a, b].into_iter().enumerate() {
        until_taken(&node.desk(), &json!({ "id": format!("after-{index}") }));
    }
    println!("changes are taken again after {:?}", back.elapsed());
    everything_is_live(a, b);
    let told = load.end();
    // It says what the machine does to a node that has no database to miss.
    let alone = control_load.end();
    let told_of = |it: &Told| {
        format!(
            "{} requests, the slowest took {:?}",
            it.requests, it.slowest
        )
    };
    println!(
        "{}; without a database: {}",
        told_of(&told),
        told_of(&alone)
    );
    assert_eq!(told.wrong, Vec::<String>::new());
    assert!(
        told.slowest <= alone.slowest + DECISION,
        "{}",
        told_of(&told)
    );
    usage_is_complete(&desk, told.requests + spent, told.refusals + 1);
    for node in [a, b] {
        assert_eq!(node.desk().shown("status")["gaps"]["usage"], 0);
    }
    told
}

/// The key of a new tenant.
fn key(desk: &Desk, tenant: &str, capacity: u32) -> Value {
    let tenant = json!({ "id": tenant, "rate_limit": burst(capacity) });
    let id = &desk.made("tenants", &tenant)["id"];
    desk.made("keys", &json!({ "tenant": id }))["secret"].clone()
}

/// What a node answers while the database is away.
fn while_away(node: &Node, round: u32) {
    let desk = node.desk();
    let writes = [
        ("POST", "tenants", json!({ "id": format!("lost-{round}") })),
        ("POST", "keys", json!({ "tenant": "large" })),
        (
            "PATCH",
            "tenants/large",
            json!({ "attributes": { "round": round } }),
        ),
        ("PUT", "enforcement", json!({ "mode": "off" })),
    ];
    let (method, target, body) = &writes[round as usize % writes.len()];
    unavailable(|| desk.ask(method, target, body));
    for target in [
        "status",
        "config",
        "enforcement",
        "explain?tenant=large",
        "buckets?tenant=small",
    ] {
        let start = now();
        assert_eq!(desk.get(target).status, 200, "{target}");
        assert!(start.elapsed() < ANSWER, "{target}: {:?}", start.elapsed());
    }
    unavailable(|| desk.get("usage"));
    for page in ["/healthz", "/readyz", "/metrics"] {
        assert_eq!(get(node.process.admin, page).status, 200, "{page}");
    }
}

#[track_caller]
fn unavailable(ask: impl Fn() -> Response) {
    let start = now();
    let answer = ask();
    let took = start.elapsed();
    let text = answer.text();
    assert_eq!(answer.status, 503, "{text}");
    let later = answer.header("retry-after").map(str::parse::<u32>);
    assert!(matches!(later, Some(Ok(1..))), "{later:?}");
    let media_type = answer.header("content-type");
    assert_eq!(media_type, Some("application/problem+json"));
    assert!(took < ANSWER, "{took:?}: {text}");
}

/// Waits until a change is taken.
fn until_taken(desk: &Desk, tenant: &Value) {
    within(RECOVERY, "a change is taken", || {
        let answer = desk.ask("POST", "tenants", tenant);
        match answer.status {
            // It may have been made though it was not said.
            201 | 409 => true,
            503 => false,
            status => panic!("{status}: {}", answer.text()),
        }
    });
}

/// A change that is made now is soon decided by everywhere.
fn everything_is_live(a: &Node, b: &Node) {
    let key = b.desk().made("keys", &json!({ "tenant": "large" }));
    for node in [a, b] {
        within(RECOVERY, "a new key", || {
            node.peek(json!({ "api_key": key["secret"] })).0 == 200
        });
        within(RECOVERY, "a node that is connected", || {
            node.desk().shown("status")["directory"]["connected"] == true
        });
        // What was refused is not there.
        assert_eq!(node.desk().shown("enforcement")["mode"], "on");
    }
}

/// Nothing that was counted is lost, and nothing is counted twice.
fn usage_is_complete(desk: &Desk, requests: u64, refusals: u64) {
    let sum = |granularity: &str, what: &str| -> u64 {
        let page = desk.shown(&format!("usage?granularity={granularity}&limit=1000"));
        assert_eq!(page["next"], Value::Null);
        let rows = page["items"].as_array().unwrap();
        rows.iter().map(|row| row[what].as_u64().unwrap()).sum()
    };
    for granularity in ["minute", "hour", "day"] {
        within(RECOVERY, "all requests are counted", || {
            let found = sum(granularity, "requests");
            assert!(found <= requests, "{found} of {requests}");
            found == requests
        });
        assert_eq!(sum(granularity, "refusals"), refusals);
    }
}

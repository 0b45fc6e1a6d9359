use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::thread;

use tollward_engine::{Clock, Engine, Mode};
use tollward_policy::{Facts, Policy, compile};
use tollward_store::MemoryStore;
use tollward_testkit::clock::ManualClock;
use tollward_testkit::conformance::at_once;

use super::*;

const CONFIG: &[u8] = b"
plans:
  bucket: { rate_limit: { sustained: { rate: 1, window: minute }, scope: [ip, route] } }
  window: { rate_limit: { algorithm: sliding_window, sustained: { rate: 1, window: minute }, scope: ip } }
";

/// Adds refusals of addresses by the limit of a plan.
fn refuse(refusals: &Refusals, plan: &str, addresses: impl Iterator<Item = u32>) {
    let clock = Arc::new(ManualClock::new());
    let policy = compile(CONFIG).unwrap().policy;
    let engine = Engine::new(policy, Arc::new(MemoryStore::new(10)), clock.clone());
    let active = engine.active();
    let facts = Facts {
        plan: Some(plan),
        ip: Some(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        ..Facts::default()
    };
    let ask = || at_once(engine.check(&active, &facts, Mode::Charge)).unwrap();
    assert!(ask().allowed);
    let refused = ask();
    assert_eq!(refused.at, clock.now());
    let status = refused.shown().unwrap();
    for address in addresses {
        let identifier = named(active.policy(), address);
        refusals.add(
            identifier,
            Severity::Warning,
            status,
            Some("/a/**"),
            &refused,
        );
    }
}

fn named(policy: &Policy, address: u32) -> Identifier<'static> {
    policy.address_identifier(IpAddr::V4(Ipv4Addr::from(address)))
}

#[test]
fn a_million_refusals_of_one_caller_are_one_event() {
    let refusals = Refusals::new();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| refuse(&refusals, "bucket", (0..250_000).map(|_| 0x0102_0304)));
        }
    });
    let expected = AuditEvent {
        at: (ManualClock::START_SECS * 1000).cast_signed(),
        event: "rate_limit_exceeded".into(),
        severity: "warning".into(),
        identifier: Some("ip:1.2.3.4".into()),
        scope: Some("ip,route".into()),
        route: Some("/a/**".into()),
        limit: Some("plan:bucket".into()),
        retry_after_ms: Some(60_000),
        count: 1_000_000,
        ..AuditEvent::default()
    };
    assert_eq!(refusals.take(), [expected]);
    assert_eq!(refusals.take(), []);
}

#[test]
fn a_million_callers_are_as_many_events_as_there_may_be_and_one_for_the_others() {
    let refusals = Refusals::new();
    thread::scope(|scope| {
        for part in 0..4 {
            let addresses = (part * 250_000)..((part + 1) * 250_000);
            let refusals = &refusals;
            scope.spawn(move || refuse(refusals, "bucket", addresses));
        }
    });
    let events = refusals.take();
    assert_eq!(events.len(), MAX_EVENTS + 1);
    let is_others = |event: &&AuditEvent| event.identifier.as_deref() == Some(OTHERS);
    let others: Vec<_> = events.iter().filter(is_others).collect();
    let [others] = others[..] else {
        panic!("{others:?}");
    };
    assert_eq!(others.count, 1_000_000 - MAX_EVENTS as i64);
    assert_eq!((&others.limit, &others.retry_after_ms), (&None, &None));
    let sum: i64 = events.iter().map(|event| event.count).sum();
    assert_eq!(sum, 1_000_000);
    assert_eq!(refusals.take(), []);
}

#[test]
fn each_limit_tells_its_own() {
    let refusals = Refusals::new();
    refuse(&refusals, "bucket", [7, 7, 8].into_iter());
    refuse(&refusals, "window", [7].into_iter());
    let told = |event: AuditEvent| {
        let limit = event.limit.unwrap_or_default();
        let who = event.identifier.unwrap_or_default();
        format!("{} {limit} {who} {}", event.event, event.count)
    };
    let mut told: Vec<_> = refusals.take().into_iter().map(told).collect();
    told.sort();
    assert_eq!(
        told,
        [
            "rate_limit_exceeded plan:bucket ip:0.0.0.7 2",
            "rate_limit_exceeded plan:bucket ip:0.0.0.8 1",
            "sliding_window_limit_exceeded plan:window ip:0.0.0.7 1",
        ]
    );
}

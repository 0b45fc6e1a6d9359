//! What an observer is told.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::net::IpAddr;
use std::sync::{Arc, Mutex};

use tollward_engine::{Action, Decision, Engine, Mode, Observer};
use tollward_policy::{Facts, Policy, Request, compile};
use tollward_store::MemoryStore;
use tollward_testkit::clock::ManualClock;
use tollward_testkit::conformance::at_once;

#[derive(Default)]
struct Told(Mutex<Vec<(String, Action)>>);

impl Observer for Told {
    fn decided(&self, request: &Request<'_, '_>, decision: &Decision<'_>) {
        let user = request.user().unwrap_or_default().to_owned();
        self.0.lock().unwrap().push((user, decision.action));
    }

    fn guessed(&self, policy: &Policy, ip: Option<IpAddr>, decision: &Decision<'_>) {
        let who = policy.address_identifier(ip).to_string();
        self.0.lock().unwrap().push((who, decision.action));
    }
}

#[test]
fn it_is_told_of_what_is_charged_and_not_of_what_is_looked_at() {
    let text = b"plans: { p: { rate_limit: { sustained: { rate: 1 }, scope: user } } }";
    let policy = compile(text).unwrap().policy;
    let store = Arc::new(MemoryStore::new(100));
    let told = Arc::new(Told::default());
    let clock = Arc::new(ManualClock::new());
    let engine = Engine::new(policy, store, clock).observed_by(told.clone());
    let active = engine.active();
    let facts = Facts {
        user: Some("a"),
        plan: Some("p"),
        ..Facts::default()
    };
    let unknown = Facts {
        plan: Some("q"),
        ..facts
    };
    for mode in [Mode::Peek, Mode::Charge, Mode::Peek, Mode::Charge] {
        at_once(engine.check(&active, &facts, mode)).unwrap();
        assert!(at_once(engine.check(&active, &unknown, mode)).is_err());
    }
    let address: IpAddr = "192.0.2.7".parse().unwrap();
    at_once(engine.wrong_key(&active, address));
    at_once(engine.wrong_key(&active, None));
    let expected = [
        ("a", Action::Allow),
        ("a", Action::Deny),
        ("ip:192.0.2.7", Action::Allow),
        ("unknown", Action::Allow),
    ];
    let expected = expected.map(|(who, action)| (who.to_owned(), action));
    assert_eq!(*told.0.lock().unwrap(), expected);
}

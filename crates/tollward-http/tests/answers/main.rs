//! Decisions as answers.

// Clippy knows the test functions as tests, but not the functions they share.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod bodies;
mod headers;
mod responses;

use std::sync::Arc;

use http::HeaderMap;
use serde_json::Value;
use tollward_engine::{Decision, Engine, Mode};
use tollward_http::{Told, status};
use tollward_policy::{Facts, ResponseOptions, compile};
use tollward_store::MemoryStore;
use tollward_testkit::clock::ManualClock;
use tollward_testkit::conformance::at_once;

/// Status, headers, media type and body of the refusal of a second request.
fn second_answer(config: &str) -> (u16, HeaderMap, &'static str, Value) {
    second_decision(config, rendered)
}

/// What a second request is answered, by whatever renders it.
fn second_decision<T>(
    config: &str,
    render: impl FnOnce(&Decision<'_>, &ResponseOptions) -> T,
) -> T {
    let policy = compile(config.as_bytes()).unwrap().policy;
    let store = Arc::new(MemoryStore::new(1024));
    let engine = Engine::new(policy, store, Arc::new(ManualClock::new()));
    let active = engine.active();
    let facts = Facts {
        user: Some("a"),
        plan: Some("p"),
        cost: 1,
        ..Facts::default()
    };
    at_once(engine.check(&active, &facts, Mode::Charge)).unwrap();
    let decision = at_once(engine.check(&active, &facts, Mode::Charge)).unwrap();
    render(&decision, active.policy().response())
}

fn rendered(
    decision: &Decision<'_>,
    options: &ResponseOptions,
) -> (u16, HeaderMap, &'static str, Value) {
    let told = Told::new(decision, options);
    let mut headers = HeaderMap::new();
    told.write_headers(&mut headers);
    let (media_type, body) = told.refusal();
    (status(decision).as_u16(), headers, media_type, body)
}

//! `examples/outbound-gateway.yaml` as it stands, but for the addresses.

use std::fs;

use tollward_testkit::upstream::Upstream;

use crate::gated::{Gated, passed, remaining};
use crate::served::example;

const UPSTREAM: &str = "http://127.0.0.1:9000";

fn start() -> (Upstream, Gated) {
    let upstream = Upstream::start();
    let text = fs::read_to_string(example("outbound-gateway.yaml")).unwrap();
    assert!(text.contains(UPSTREAM));
    let gated = Gated::of(&text.replace(UPSTREAM, &upstream.url()));
    (upstream, gated)
}

/// How many of so many requests pass that cost ten each.
fn chats(gated: &Gated, key: &str, tries: usize) -> usize {
    let answers = (0..tries).map(|_| {
        let key = [("x-api-key", key)];
        gated.ask("POST", "/v1/chat/completions", &key)
    });
    answers.filter(|answer| answer.status == 200).count()
}

#[test]
fn the_least_of_three_levels_holds() {
    let (_upstream, gated) = start();
    let first = gated.with_key("demo-a2", "/v1/models");
    assert_eq!((first.status, remaining(&first)), (200, 99));
    assert_eq!(passed(&gated, 150, "/v1/models", "demo-a2"), 99);
    // A thousand a minute come back, which is 50 in three seconds.
    gated.advance_ms(3000);
    assert_eq!(passed(&gated, 100, "/v1/models", "demo-a2"), 50);
}

#[test]
fn who_was_allocated_something_has_it_whatever_the_others_take() {
    let (_upstream, gated) = start();
    assert_eq!(passed(&gated, 250, "/v1/models", "demo-a1"), 200);
    assert_eq!(passed(&gated, 150, "/v1/models", "demo-a2"), 100);
    for _ in 0..3 {
        gated.advance_ms(3000);
        assert_eq!(passed(&gated, 250, "/v1/models", "demo-a1"), 100);
        assert_eq!(passed(&gated, 150, "/v1/models", "demo-a2"), 50);
    }
}

#[test]
fn tenants_without_a_limit_share_the_pool_first_come_first_served() {
    let (_upstream, gated) = start();
    assert_eq!(passed(&gated, 700, "/v1/models", "demo-b1"), 700);
    assert_eq!(passed(&gated, 200, "/v1/models", "demo-b2"), 200);
    assert_eq!(passed(&gated, 200, "/v1/models", "demo-b3"), 100);
    assert_eq!(passed(&gated, 1, "/v1/models", "demo-b1"), 0);
    // Others are not touched by it, but for what is left of the system's own bucket.
    gated.advance_ms(600);
    assert_eq!(passed(&gated, 10, "/v1/models", "demo-a2"), 10);
}

#[test]
fn costs_come_out_of_the_same_tokens() {
    let (_upstream, gated) = start();
    assert_eq!(chats(&gated, "demo-b1", 110), 100);
    let (_upstream, gated) = start();
    assert_eq!(chats(&gated, "demo-b2", 50), 50);
    assert_eq!(passed(&gated, 600, "/v1/models", "demo-b2"), 500);
}

#[test]
fn one_route_counts_by_a_sliding_window() {
    let (_upstream, gated) = start();
    assert_eq!(passed(&gated, 80, "/v1/batches", "demo-b1"), 60);
    // Another tenant has a window of its own.
    assert_eq!(passed(&gated, 1, "/v1/batches", "demo-b2"), 1);
    gated.advance_ms(30_000);
    assert_eq!(passed(&gated, 80, "/v1/batches", "demo-b1"), 0);
    // Half of the next minute is over, so half of the last one counts.
    gated.advance_ms(60_000);
    assert_eq!(passed(&gated, 80, "/v1/batches", "demo-b1"), 30);
}

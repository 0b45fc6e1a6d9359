//! What happens beyond a limit: what is charged for it.

use std::time::Duration;

use serde_json::json;
use tollward_core::Charge;

use super::{assert_faults, policy};
use crate::{Facts, Policy, Strategy};

/// A token bucket of this rate, window and capacity that queues.
fn queued(rate: u32, window: &str, capacity: u32, queue: &str) -> Policy {
    policy(&format!(
        "limits: {{ x: {{ sustained: {{ rate: {rate}, window: {window} }}, burst: {{ capacity: {capacity} }}, \
         scope: global, strategy: queue, queue: {queue} }} }}"
    ))
}

/// The capacity that a cost is charged against, and whether in shadow.
fn charged(policy: &Policy, cost: u32) -> (u32, bool) {
    let facts = Facts {
        cost,
        ..Facts::default()
    };
    let charges = policy.request(&facts).unwrap().charges();
    let (_, limit, charge) = charges.iter().next().unwrap();
    assert_eq!(charge.limit.rate(), limit.limit.rate());
    assert_eq!(charge.limit.window(), limit.limit.window());
    assert_eq!(charge.cost, u64::from(cost));
    (charge.limit.capacity(), charge.shadow)
}

#[test]
fn strategies_as_they_are_written() {
    let policy = policy(
        "
upstreams: { app: { url: http://a }, cheap: { url: http://c } }
limits:
  a: { sustained: { rate: 1 } }
  b: { sustained: { rate: 1 }, strategy: reject }
  c: { sustained: { rate: 1 }, strategy: queue }
  d: { sustained: { rate: 1 }, strategy: queue, queue: {} }
  e: { sustained: { rate: 1 }, strategy: queue, queue: { max_wait: 5m, max_queue: 7 } }
  f: { sustained: { rate: 1 }, strategy: degrade }
  g: { sustained: { rate: 1 }, strategy: degrade, degrade: { upstream: cheap } }
",
    );
    let queue = |millis, max_queue| Strategy::Queue {
        max_wait: Duration::from_millis(millis),
        max_queue,
    };
    let expected = [
        Strategy::Reject,
        Strategy::Reject,
        queue(1000, 100),
        queue(1000, 100),
        queue(300_000, 7),
        Strategy::Degrade { upstream: None },
        Strategy::Degrade { upstream: Some(1) },
        // Of wrong keys.
        Strategy::Reject,
    ];
    let found: Vec<_> = policy.limits().iter().map(|limit| limit.strategy).collect();
    assert_eq!(found, expected);
    let explained = policy.request(&Facts::default()).unwrap().explain();
    let told = serde_json::to_value(&explained).unwrap();
    let told = |index: usize| told["charges"][index].get("strategy").cloned();
    assert_eq!(told(0), None);
    assert_eq!(
        told(2),
        Some(json!({ "queue": { "max_wait_ms": 1000, "max_queue": 100 } }))
    );
    assert_eq!(told(5), Some(json!({ "degrade": { "upstream": null } })));
    assert_eq!(told(6), Some(json!({ "degrade": { "upstream": "cheap" } })));
    // Charged as a shadow limit, but not one to people.
    assert!(!explained.charges[6].shadow);
    assert_eq!(explained.charges[4].capacity.value, 1);
}

#[test]
fn what_does_not_go_together() {
    assert_faults(
        "
upstreams: { app: { url: http://a } }
limits:
  a: { sustained: { rate: 1 }, queue: {} }
  b: { sustained: { rate: 1 }, strategy: queue, degrade: { upstream: app } }
  c: { sustained: { rate: 1 }, strategy: degrade, queue: { max_wait: 1s } }
  d: { sustained: { rate: 1 }, algorithm: sliding_window, strategy: queue }
  e: { sustained: { rate: 1 }, shadow: true, strategy: queue }
  f: { sustained: { rate: 1 }, shadow: true, strategy: degrade }
  g: { sustained: { rate: 1 }, strategy: queued, queue: {} }
  h: { sustained: { rate: 7, window: minute }, strategy: queue }
  i: { sustained: { rate: 10 }, strategy: queue, queue: { max_wait: 99ms } }
",
        &[
            "4:39: limits.a.queue: a `queue` without `strategy: queue`; add `strategy: queue`, or remove this",
            "5:58: limits.b.degrade: a `degrade` without `strategy: degrade`; add `strategy: degrade`, or remove this",
            "6:58: limits.c.queue: a `queue` without `strategy: queue`; add `strategy: queue`, or remove this",
            "7:69: limits.d.strategy: a sliding window has no queue; use `algorithm: token_bucket`, or another strategy",
            "8:56: limits.e.strategy: `queue` on a limit that is `shadow: true`; remove one of the two: a shadow limit only counts",
            "9:56: limits.f.strategy: `degrade` on a limit that is `shadow: true`; remove one of the two: a shadow limit only counts",
            "10:42: limits.g.strategy: unknown word `queued`; did you mean `queue`?",
            "11:58: limits.h.strategy: nobody would ever wait: a token takes 8572 ms to come, and the longest wait is 1000 ms; raise `queue.max_wait`, or use another strategy",
            "12:43: limits.i.strategy: nobody would ever wait: a token takes 100 ms to come, and the longest wait is 99 ms; raise `queue.max_wait`, or use another strategy",
        ],
    );
    // These do.
    policy(
        "
limits:
  a: { sustained: { rate: 1 }, algorithm: sliding_window, strategy: degrade }
  b: { sustained: { rate: 1 }, shadow: false, strategy: queue }
  c: { sustained: { rate: 1 }, shadow: true, strategy: reject }
",
    );
}

#[test]
fn a_queue_is_a_larger_bucket() {
    const MAX: u32 = u32::MAX;
    let table = [
        // What refills within the longest wait.
        (10, "second", 20, "{ max_wait: 1s, max_queue: 100 }", 1, 30),
        (
            10,
            "second",
            20,
            "{ max_wait: 250ms, max_queue: 100 }",
            1,
            22,
        ),
        (10, "minute", 20, "{ max_wait: 6s, max_queue: 100 }", 1, 21),
        (
            10,
            "minute",
            20,
            "{ max_wait: 11999ms, max_queue: 100 }",
            1,
            21,
        ),
        (
            10,
            "minute",
            20,
            "{ max_wait: 1h, max_queue: 1000 }",
            1,
            620,
        ),
        // The requests that may wait, each of this cost.
        (10, "second", 20, "{ max_wait: 1s, max_queue: 3 }", 1, 23),
        (10, "second", 20, "{ max_wait: 1s, max_queue: 3 }", 2, 26),
        (10, "second", 20, "{ max_wait: 1s, max_queue: 3 }", 4, 30),
        (10, "second", 20, "{ max_wait: 1s, max_queue: 3 }", 20, 30),
        // Nothing waits that costs nothing, or can never be admitted.
        (10, "second", 20, "{ max_wait: 1s, max_queue: 3 }", 0, 20),
        (10, "second", 20, "{ max_wait: 1s, max_queue: 3 }", 21, 20),
        (10, "second", 20, "{ max_wait: 1s, max_queue: 3 }", MAX, 20),
        // No number is too large.
        (
            MAX,
            "second",
            1,
            "{ max_wait: 1s, max_queue: 4294967295 }",
            1,
            MAX,
        ),
        (
            MAX,
            "second",
            MAX,
            "{ max_wait: 1h, max_queue: 4294967295 }",
            MAX,
            MAX,
        ),
        (
            MAX,
            "second",
            MAX - 5,
            "{ max_wait: 1h, max_queue: 4 }",
            1,
            MAX - 1,
        ),
        (MAX, "366d", 1, "{ max_wait: 8ms, max_queue: 9 }", 1, 2),
    ];
    for (rate, window, capacity, queue, cost, expected) in table {
        let policy = queued(rate, window, capacity, queue);
        let found = charged(&policy, cost);
        assert_eq!(
            found,
            (expected, false),
            "{rate}/{window}, {capacity}, {queue}, cost {cost}"
        );
        // What is told of the limit is the limit.
        assert_eq!(policy.limits()[0].limit.capacity(), capacity);
    }
}

#[test]
fn a_degrading_limit_never_refuses_what_it_can_hold() {
    let text = "limits: { x: { sustained: { rate: 5 }, scope: global, strategy: degrade } }";
    let on = policy(text);
    for (cost, shadow) in [
        (0, true),
        (1, true),
        (5, true),
        (6, false),
        (u32::MAX, false),
    ] {
        assert_eq!(charged(&on, cost), (5, shadow), "{cost}");
    }
    let shadow = policy(&format!("{{ enforcement: shadow, {text} }}"));
    assert_eq!(charged(&shadow, 6), (5, true));
}

/// While nothing refuses, nothing waits either.
#[test]
fn in_shadow_there_is_no_queue() {
    let policy = policy(
        "{ enforcement: shadow, limits: { x: { sustained: { rate: 5 }, scope: global, strategy: queue } } }",
    );
    assert_eq!(charged(&policy, 1), (5, true));
}

#[test]
fn charges_outlive_their_borrow() {
    let policy = policy(
        "
upstreams: { app: { url: http://a, rate_limit: { sustained: { rate: 1 }, cost: 3 } } }
limits:
  a: { sustained: { rate: 10 }, strategy: queue, scope: user }
  b: { sustained: { rate: 10 }, strategy: degrade, scope: user, cost: 0 }
routes: [{ match: /**, upstream: app, cost: 2 }]
",
    );
    let facts = Facts {
        user: Some("u"),
        path: Some("/"),
        cost: 4,
        ..Facts::default()
    };
    let owned = {
        let charges = policy.request(&facts).unwrap().charges();
        assert_eq!(charges.tokens(), 8);
        let costs: Vec<_> = charges.iter().map(|(_, _, charge)| charge.cost).collect();
        assert_eq!(costs, [8, 0, 24]);
        let owned = charges.to_owned();
        for (one, other) in charges.iter().zip(owned.units(&policy)) {
            assert_eq!(one.0, other.0);
            assert!(std::ptr::eq(one.1, other.1));
            let cost = one.2.cost;
            assert_eq!(
                format!("{:?}", one.2),
                format!("{:?}", Charge { cost, ..other.2 })
            );
        }
        owned
    };
    let units: Vec<_> = owned
        .units(&policy)
        .map(|(_, _, charge)| charge.cost)
        .collect();
    // What a limit charges for one token: the route's cost is no part of it.
    assert_eq!(units, [1, 0, 3]);
    // Another policy has none of these limits; it is no reason to panic.
    let other = super::policy("");
    assert!(owned.units(&other).count() <= 3);
}

#[test]
fn degraded_requests_go_where_nothing_more_is_charged() {
    const HINT: &str =
        "remove its limits, or name an upstream without any: two may have the same `url`";
    let fault = |place: &str, name: &str| {
        format!(
            "{place}: the upstream `{name}` has limits of its own, which degraded requests would not be \
             charged by; {HINT}"
        )
    };
    let faults = [
        fault("7:72: limits.a.degrade.upstream", "one"),
        fault("8:72: limits.b.degrade.upstream", "many"),
    ];
    assert_faults(
        "
upstreams:
  free: { url: http://a }
  one: { url: http://a, rate_limit: { sustained: { rate: 1 } } }
  many: { url: http://a, rate_limits: { x: { sustained: { rate: 1 } } } }
limits:
  a: { sustained: { rate: 1 }, strategy: degrade, degrade: { upstream: one } }
  b: { sustained: { rate: 1 }, strategy: degrade, degrade: { upstream: many } }
  c: { sustained: { rate: 1 }, strategy: degrade, degrade: { upstream: free } }
",
        &faults.each_ref().map(String::as_str),
    );
}

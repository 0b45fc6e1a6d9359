//! Whoever waits as long as told is admitted; whoever waits less is not.

use std::time::Duration;

use serde_json::{Value, json};

use crate::served::{Client, Served};

/// Rate, window in seconds, capacity.
const BUCKETS: [(u32, u32, u32); 7] = [
    (1, 1, 1),
    (7, 60, 10),
    (1, 60, 3),
    (3, 7, 100),
    (999, 1000, 5),
    (1, 86_400, 2),
    (4_294_967_295, 31_622_400, 4_294_967_295),
];

fn ask(client: &mut Client, cost: u32, peek: bool) -> (u16, Value) {
    client.check(json!({ "user": "a", "plan": "p", "cost": cost, "peek": peek }))
}

fn bucket(rate: u32, window: u32, capacity: u32) -> String {
    format!(
        "plans: {{ p: {{ rate_limit: {{ sustained: {{ rate: {rate}, window: {window}s }}, \
         burst: {{ capacity: {capacity} }}, scope: user }} }} }}\n"
    )
}

/// A refusal of this cost is lifted in the very second, and the very millisecond, that it names.
fn assert_exact(served: &Served, client: &mut Client, cost: u32, what: &str) {
    let (status, refusal) = ask(client, cost, true);
    assert_eq!(status, 429, "{what}: {refusal}");
    let ms = refusal["retry_after_ms"].as_u64().unwrap();
    let secs = refusal["retry_after"].as_u64().unwrap();
    assert_eq!(secs, ms.div_ceil(1000), "{what}");
    if ms > 1000 {
        served.advance_secs(secs - 1);
        assert_eq!(ask(client, cost, true).0, 429, "{what}, a second early");
        served.advance_ms(ms - 1 - (secs - 1) * 1000);
    } else {
        served.advance_ms(ms - 1);
    }
    let (status, answer) = ask(client, cost, true);
    assert_eq!(status, 429, "{what}, a millisecond early");
    assert_eq!(answer["retry_after_ms"], 1, "{what}");
    served.advance_ms(1);
    assert_eq!(ask(client, cost, true).0, 200, "{what}, after {ms} ms");
    served.advance_ms(secs * 1000 - ms);
    assert_eq!(ask(client, cost, false).0, 200, "{what}, after {secs} s");
}

#[test]
fn a_bucket_admits_when_it_said() {
    for (rate, window, capacity) in BUCKETS {
        let served = Served::of(&bucket(rate, window, capacity));
        let mut client = served.client();
        assert_eq!(ask(&mut client, capacity, false).0, 200);
        for cost in [1, capacity.div_ceil(3), capacity] {
            let what = format!("{cost} of {capacity} at {rate}/{window}s");
            if ask(&mut client, cost, true).0 == 429 {
                assert_exact(&served, &mut client, cost, &what);
            }
        }
    }
}

#[test]
fn a_bucket_is_full_when_it_said() {
    for (rate, window, capacity) in BUCKETS {
        let served = Served::of(&bucket(rate, window, capacity));
        let mut client = served.client();
        let (_, answer) = ask(&mut client, capacity, false);
        let reset = answer["reset_at"].as_u64().unwrap();
        let wait = reset - served.clock.unix_secs();
        assert_eq!(
            wait,
            (u64::from(capacity) * u64::from(window)).div_ceil(rate.into())
        );
        served.advance_secs(wait - 1);
        assert_eq!(ask(&mut client, capacity, true).0, 429);
        served.advance_secs(1);
        let (status, answer) = ask(&mut client, capacity, true);
        assert_eq!((status, &answer["remaining"]), (200, &json!(capacity)));
    }
}

#[test]
fn a_sliding_window_admits_when_it_said() {
    let served = Served::of(
        "plans: { p: { rate_limit: { algorithm: sliding_window, \
         sustained: { rate: 10, window: minute }, scope: user } } }",
    );
    let mut client = served.client();
    served.advance_secs(20);
    assert_eq!(ask(&mut client, 7, false).0, 200);
    served.advance_secs(15);
    assert_eq!(ask(&mut client, 3, false).0, 200);
    for cost in [1, 4, 10] {
        assert_exact(&served, &mut client, cost, &format!("{cost}"));
    }
}

#[test]
fn several_limits_say_when_all_of_them_admit() {
    let served = Served::of(
        "
limits:
  a: { sustained: { rate: 1, window: second }, burst: { capacity: 5 }, scope: user }
  b: { sustained: { rate: 7, window: minute }, burst: { capacity: 9 }, scope: user }
  c: { algorithm: sliding_window, sustained: { rate: 8, window: 25s }, scope: global }
plans: { p: { rate_limit: { sustained: { rate: 1, window: 10s }, burst: { capacity: 20 }, scope: user } } }
",
    );
    let mut client = served.client();
    for round in 0..12 {
        let cost = round % 5 + 1;
        while ask(&mut client, cost, false).0 == 200 {}
        assert_exact(&served, &mut client, cost, &format!("round {round}"));
    }
}

#[test]
fn polling_a_bucket_gives_its_capacity_and_its_rate() {
    let served = Served::of(&bucket(1, 1, 5));
    let mut client = served.client();
    let mut admitted = 0;
    for _ in 0..6_000 {
        served.advance_ms(10);
        if ask(&mut client, 1, false).0 == 200 {
            admitted += 1;
        }
    }
    assert!((64..=66).contains(&admitted), "{admitted} in 60 s");
}

#[test]
fn whoever_keeps_to_the_rate_is_never_refused() {
    let served = Served::of(&bucket(3, 1, 1));
    let mut client = served.client();
    for call in 0..3_000 {
        // A third of a second, to the next microsecond of the clock.
        served.clock.advance(Duration::from_micros(333_334));
        let (status, answer) = ask(&mut client, 1, false);
        assert_eq!(status, 200, "call {call}: {answer}");
    }
}

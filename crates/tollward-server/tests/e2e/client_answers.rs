//! Answers that are passed on to clients: what a gateway would have done.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::served::{Client, Served};

const CONFIG: &str = "
plans:
  line:
    rate_limit:
      sustained: { rate: 4 }
      burst: { capacity: 1 }
      scope: user
      strategy: queue
  long:
    rate_limit:
      sustained: { rate: 1, window: hour }
      scope: user
      strategy: queue
      queue: { max_wait: 1h }
  soft:
    rate_limit: { sustained: { rate: 1, window: day }, scope: user, strategy: degrade }
";

#[expect(clippy::disallowed_methods, reason = "the waits under test are real")]
fn now() -> Instant {
    Instant::now()
}

fn check(plan: &str) -> Value {
    json!({ "user": "ann", "plan": plan })
}

/// How long the answer that the client may go on took.
fn taken(client: &mut Client, check: Value) -> Duration {
    let start = now();
    let answer = client.client_answer(check);
    assert_eq!((answer.status, answer.body.len()), (200, 0), "{answer:?}");
    assert_eq!(answer.header("retry-after"), None);
    start.elapsed()
}

#[test]
fn whoever_has_to_wait_is_answered_when_the_wait_is_over() {
    // The clock of the server stands still: every wait is a quarter of a second longer than the last.
    let served = Served::of(CONFIG);
    let mut client = served.client();
    taken(&mut client, check("line"));
    for waited in [250, 500, 750] {
        let taken = taken(&mut client, check("line"));
        assert!(taken >= Duration::from_millis(waited), "{taken:?}");
    }
    // The fifth would wait for a second; the sixth for longer than any may.
    let (_, told) = client.check(check("line"));
    assert_eq!(told["action"], "queue");
    assert_eq!(client.client_answer(check("line")).status, 429);
}

#[test]
fn only_who_is_let_through_waits() {
    let served = Served::of(CONFIG);
    let mut client = served.client();
    taken(&mut client, check("long"));
    // An hour would not end: who only looks, and who is told in JSON, is told at once.
    let mut peek = check("long");
    peek["peek"] = true.into();
    taken(&mut client, peek);
    let (status, told) = client.check(check("long"));
    assert_eq!((status, &told["action"]), (200, &json!("queue")));
    assert_eq!(told["retry_after"], 3600);
    assert_eq!(client.client_answer(check("long")).status, 429);
}

#[test]
fn whoever_is_to_be_served_more_cheaply_is_marked() {
    let served = Served::of(CONFIG);
    let mut client = served.client();
    for mark in [None, Some("true"), Some("true")] {
        let answer = client.client_answer(check("soft"));
        assert_eq!(answer.status, 200);
        assert_eq!(answer.header("x-ratelimit-degraded"), mark);
    }
    let told = client.ask(check("soft"));
    assert_eq!(told.header("x-ratelimit-degraded"), None);
}

//! Waiting for tokens, in real time.

use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;
use tollward_testkit::http::head;
use tollward_testkit::upstream::{Upstream, answer};

use crate::gated::{Gated, remaining};
use crate::served::{Client, until};

fn config(upstream: &Upstream, limit: &str) -> String {
    format!(
        "
identity: {{ anonymous: allow, ip: {{ trusted_proxies: [127.0.0.1] }} }}
limits: {{ line: {{ {limit}, scope: ip, strategy: queue }} }}
routes: [ {{ match: /**, upstream: app }} ]
upstreams: {{ app: {{ url: {} }} }}
",
        upstream.url()
    )
}

#[expect(clippy::disallowed_methods, reason = "the waits under test are real")]
fn now() -> Instant {
    Instant::now()
}

/// How many requests were decided about.
fn decided(gated: &Gated) -> u64 {
    let page = gated.metrics();
    let lines = page.lines();
    let counts = lines.filter(|line| line.starts_with("tollward_decision_sources_total"));
    counts
        .map(|line| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap())
        .sum()
}

#[test]
fn callers_are_served_in_the_order_of_their_arrival() {
    const CALLERS: usize = 50;
    let seen = Arc::new(Mutex::new(Vec::new()));
    let seeing = seen.clone();
    let upstream = Upstream::answering(move |request| {
        let caller: usize = request.target[1..].parse().unwrap();
        seeing.lock().unwrap().push((caller, now()));
        answer(200, &[], b"")
    });
    let limit = "sustained: { rate: 10 }, queue: { max_wait: 2s }";
    let gated = Gated::in_real_time(&config(&upstream, limit));
    let connections: Vec<_> = (0..CALLERS).map(|_| gated.connect()).collect();
    let (answers, answered) = channel();
    let start = now();
    for (caller, mut connection) in connections.into_iter().enumerate() {
        let target = format!("/{caller}");
        connection
            .send(head("GET", &target, &[], 0).as_bytes())
            .unwrap();
        let answers = answers.clone();
        thread::spawn(move || {
            let answer = connection.read(false).unwrap();
            answers
                .send((caller, answer.status, start.elapsed()))
                .unwrap();
        });
        // Not before this one was seen does the next one come.
        until("a decision", || decided(&gated) > caller as u64);
    }
    let arrived = start.elapsed();
    drop(answers);
    let mut answers: Vec<_> = answered.iter().collect();
    assert_eq!(answers.len(), CALLERS);
    answers.sort_unstable();

    // Ten at once, twenty who wait, and as many more as tokens came while they came.
    let served: Vec<_> = answers
        .iter()
        .filter(|(_, status, _)| *status == 200)
        .collect();
    let late = usize::try_from(arrived.as_millis() / 100).unwrap();
    let bounds = 30..=(31 + late).min(CALLERS);
    assert!(
        bounds.contains(&served.len()),
        "{} in {arrived:?}",
        served.len()
    );
    assert!(
        answers
            .iter()
            .all(|(_, status, _)| matches!(status, 200 | 429))
    );
    let seen = seen.lock().unwrap().clone();
    assert_eq!(seen.len(), served.len());
    for (place, (caller, at)) in seen.iter().enumerate() {
        // Those who wait for nothing, or were let go in one moment by a machine that had stalled, may
        // overtake each other on their way.
        let overtaken = seen[..place].iter().filter(|(other, _)| other > caller);
        for (other, earlier) in overtaken {
            let ahead = at.duration_since(*earlier);
            let is_one_moment = ahead < Duration::from_millis(50);
            assert!(
                is_one_moment,
                "{other} was served {ahead:?} before {caller}"
            );
        }
    }

    // A refusal does not wait, and whoever waits does so for about as long as the tokens take.
    for (place, (caller, _, at)) in served.iter().enumerate().skip(10) {
        let due = Duration::from_millis(100 * (place as u64 - 9));
        assert!(
            *at + Duration::from_millis(60) >= due,
            "{caller} after {at:?}, not {due:?}"
        );
        let late = due + arrived + Duration::from_secs(3);
        assert!(*at < late, "{caller} after {at:?}, not {due:?}");
    }
    let last = served.iter().map(|(.., at)| *at).max().unwrap();
    assert!(last > Duration::from_millis(1500), "{last:?}");
}

/// One at once and three who wait, three seconds each.
const SLOW: &str =
    "sustained: { rate: 20, window: minute }, burst: { capacity: 1 }, queue: { max_wait: 9s }";

#[test]
fn whoever_leaves_makes_room() {
    let upstream = Upstream::start();
    let gated = Gated::in_real_time(&config(&upstream, SLOW));
    assert_eq!(gated.get("/first", &[]).status, 200);
    let wait = |target: &str| {
        let before = decided(&gated);
        let mut connection = gated.connect();
        connection
            .send(head("GET", target, &[], 0).as_bytes())
            .unwrap();
        until("a decision", || decided(&gated) > before);
        connection
    };
    let start = now();
    let leaves = wait("/leaves");
    let mut stays = wait("/stays");
    let mut last = wait("/last");
    let refused = gated.get("/too-many", &[]);
    assert_eq!(refused.status, 429, "{}", refused.text());
    drop(leaves);
    // Its tokens are given back: there is a place again.
    let peek = json!({ "ip": "127.0.0.1", "path": "/", "peek": true });
    until("a place in the line", || {
        let (status, answer) = Client::new(gated.api).check(peek.clone());
        status == 200 && answer["action"] == "queue"
    });
    let mut late = wait("/late");
    for connection in [&mut stays, &mut last, &mut late] {
        assert_eq!(connection.read(false).unwrap().status, 200);
    }
    // Four would have taken twelve seconds.
    assert!(
        start.elapsed() < Duration::from_millis(11_900),
        "{:?}",
        start.elapsed()
    );
    let order: Vec<String> = upstream.seen().into_iter().map(|it| it.target).collect();
    assert_eq!(order, ["/first", "/stays", "/last", "/late"]);
}

#[test]
fn a_line_is_no_longer_than_it_may_be() {
    let upstream = Upstream::start();
    let limit = "sustained: { rate: 4, window: hour }, burst: { capacity: 1 }, \
                 queue: { max_wait: 1h, max_queue: 2 }";
    let gated = Gated::in_real_time(&config(&upstream, limit));
    let mut client = Client::new(gated.api);
    let mut statuses = Vec::new();
    for _ in 0..4 {
        let (status, _) = client.check(json!({ "ip": "127.0.0.1" }));
        statuses.push(status);
    }
    assert_eq!(statuses, [200, 200, 200, 429]);
    // Elsewhere nobody waits.
    let answer = gated.get("/", &[("x-forwarded-for", "192.0.2.1")]);
    assert_eq!((answer.status, remaining(&answer)), (200, 0));
    assert_eq!(gated.get("/", &[]).status, 429);
    assert_eq!(upstream.count(), 1);
}

#[test]
fn the_decision_api_tells_how_long_to_wait_and_takes_the_tokens() {
    let upstream = Upstream::start();
    let gated = Gated::of(&config(&upstream, SLOW));
    let mut client = Client::new(gated.api);
    let mut check = || client.check(json!({ "ip": "192.0.2.1" }));
    let (status, answer) = check();
    assert_eq!((status, &answer["action"]), (200, &"allow".into()));
    for wait_ms in [3000, 6000, 9000] {
        let (status, answer) = check();
        assert_eq!(
            (status, &answer["allowed"]),
            (200, &true.into()),
            "{answer}"
        );
        assert_eq!(answer["action"], "queue");
        assert_eq!(answer["retry_after_ms"], wait_ms);
        assert_eq!(answer["retry_after"], wait_ms / 1000);
        assert_eq!(answer["remaining"], 0);
    }
    let (status, answer) = check();
    assert_eq!((status, &answer["action"]), (429, &"deny".into()));
    // When there is a place in the line again, not when it could be served.
    assert_eq!(answer["retry_after_ms"], 3000, "{answer}");
    gated.advance_ms(500);
    assert_eq!(check().0, 429);
    gated.advance_ms(2500);
    let (status, answer) = check();
    assert_eq!((status, &answer["retry_after_ms"]), (200, &9000.into()));
}

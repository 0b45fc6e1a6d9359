//! Whoever comes when it was told to is admitted, and nobody is told to come much too late.

use std::collections::BTreeSet;

use tollward_testkit::http::{Connection, Response};
use tollward_testkit::upstream::Upstream;

use crate::gated::{Gated, number};

/// A limit, and what a request costs under it.
#[derive(Clone, Copy, Debug)]
struct Case {
    sliding: bool,
    rate: u64,
    window: &'static str,
    capacity: u64,
    cost: u64,
}

/// Limits of all sizes. A few requests empty each.
fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let mut dice = 1_u64;
    let mut throw = |sides: u64| {
        // Numerical Recipes' generator: the same cases in every run.
        dice = dice.wrapping_mul(6_364_136_223_846_793_005);
        dice = dice.wrapping_add(1_442_695_040_888_963_407);
        (dice >> 33) % sides
    };
    for index in 0..240 {
        let windows = ["second", "7s", "30s", "minute", "90m", "hour", "day"];
        let sliding = index % 3 == 0;
        let rate = 1 + throw([1, 3, 10, 100, 1000][index % 5]);
        let capacity = if sliding { rate } else { 1 + throw(200) };
        let cost = capacity.div_ceil(1 + throw(6));
        let window = windows[index % windows.len()];
        cases.push(Case {
            sliding,
            rate,
            window,
            capacity,
            cost,
        });
    }
    cases
}

fn config(cases: &[Case], upstream: &Upstream, response: &str) -> String {
    let mut text = format!(
        "identity: {{ anonymous: allow }}\nupstreams: {{ app: {{ url: {} }} }}\n\
         response: {{ {response} }}\nroutes:\n",
        upstream.url()
    );
    for (index, case) in cases.iter().enumerate() {
        let size = match case.sliding {
            true => "algorithm: sliding_window".to_owned(),
            false => format!("burst: {{ capacity: {} }}", case.capacity),
        };
        text += &format!(
            "  - {{ match: /{index}, upstream: app, cost: {}, rate_limit: {{ scope: ip, {size}, \
             sustained: {{ rate: {}, window: {} }} }} }}\n",
            case.cost, case.rate, case.window
        );
    }
    text
}

/// Asks until it is refused.
fn refusal(connection: &mut Connection, target: &str) -> Response {
    for _ in 0..100 {
        let answer = connection.request("GET", target, &[], b"").unwrap();
        match answer.status {
            200 => {}
            429 => return answer,
            status => panic!("{status}: {}", answer.text()),
        }
    }
    panic!("{target}: never refused");
}

#[test]
fn retry_after_is_neither_early_nor_a_second_late() {
    let upstream = Upstream::start();
    let cases = cases();
    let gated = Gated::of(&config(&cases, &upstream, "headers: x-ratelimit"));
    let mut connection = gated.connect();
    let mut waited = BTreeSet::new();
    for (index, case) in cases.iter().enumerate() {
        let target = format!("/{index}");
        // Where in a window, and how much of a token has come, is different each time.
        for pause in [0, 137, 999] {
            gated.advance_ms(pause);
            let refused = refusal(&mut connection, &target);
            let retry_after = number(&refused, "retry-after");
            waited.insert(retry_after);
            if let Some(early) = (retry_after * 1000).checked_sub(1100) {
                gated.advance_ms(early);
                let answer = connection.request("GET", &target, &[], b"").unwrap();
                assert_eq!(answer.status, 429, "told {retry_after}: {case:?}");
                // It is told what is left of the same time, in whole seconds.
                assert!(number(&answer, "retry-after") <= 2, "{case:?}");
                gated.advance_ms(1100);
            } else {
                gated.advance_ms(retry_after * 1000);
            }
            let answer = connection.request("GET", &target, &[], b"").unwrap();
            assert_eq!(answer.status, 200, "told {retry_after}: {case:?}");
        }
    }
    assert!(waited.len() > 40, "too few different waits: {waited:?}");
}

#[test]
fn jitter_makes_nobody_come_early() {
    let case = Case {
        sliding: false,
        rate: 6,
        window: "minute",
        capacity: 1,
        cost: 1,
    };
    let upstream = Upstream::start();
    let response = "headers: [x-ratelimit, ietf], body: nested, jitter: 4s";
    let gated = Gated::of(&config(&[case], &upstream, response));
    let mut connection = gated.connect();
    assert_eq!(gated.get("/0", &[]).status, 200);
    let mut waits = BTreeSet::new();
    for _ in 0..200 {
        let refused = refusal(&mut connection, "/0");
        let wait = number(&refused, "retry-after");
        waits.insert(wait);
        // One answer names one time.
        let state = format!("\"route:/0\";r=0;t={wait}");
        assert_eq!(refused.header("ratelimit"), Some(&*state));
        let body = crate::served::json(&refused);
        assert_eq!(body["error"]["retryAfter"], wait);
    }
    assert!(
        waits.iter().all(|wait| (10..=14).contains(wait)),
        "{waits:?}"
    );
    assert!(waits.len() > 2, "{waits:?}");
    gated.advance_ms(10_000);
    assert_eq!(gated.get("/0", &[]).status, 200);
}

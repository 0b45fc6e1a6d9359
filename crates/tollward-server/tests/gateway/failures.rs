//! Upstreams that fail, and what that costs.

use std::io::{self, Read, Write};
use std::net::TcpListener;
use std::sync::Mutex;
use std::sync::mpsc::channel;

use tollward_testkit::http::{Response, head};
use tollward_testkit::upstream::{Upstream, answer};

use crate::gated::{Gated, remaining};
use crate::served::{Client, json, until};

fn gated(url: &str) -> Gated {
    Gated::of(&format!(
        "
identity: {{ anonymous: allow }}
limits:
  per-ip: {{ sustained: {{ rate: 1, window: hour }}, burst: {{ capacity: 100 }}, scope: ip }}
routes: [ {{ match: /**, upstream: app }} ]
upstreams: {{ app: {{ url: {url}, response_timeout: 300ms, connect_timeout: 2s }} }}
"
    ))
}

/// Asserts that these are problems of this status, and that each was paid for once.
fn assert_problems(gated: &Gated, status: u16, reason: &str) {
    for (left, method) in [(99, "GET"), (98, "POST"), (97, "HEAD")] {
        let answer = gated.ask(method, "/a", &[]);
        assert_eq!(answer.status, status, "{method}: {}", answer.text());
        assert_eq!(remaining(&answer), left, "{method}");
        let media_type = answer.header("content-type");
        assert_eq!(media_type, Some("application/problem+json"));
        assert_eq!(answer.header("retry-after"), None);
        if method == "HEAD" {
            assert_eq!(answer.body, b"");
            continue;
        }
        let problem = json(&answer);
        assert_eq!(problem["status"], status);
        for member in ["type", "title", "detail"] {
            let words = problem[member].as_str().unwrap_or_default();
            assert!(!words.is_empty(), "{member}: {problem}");
        }
        // Where it went is nobody's business.
        assert!(!answer.text().contains("127.0.0.1"), "{problem}");
    }
    let line = format!("tollward_gateway_failures_total{{reason=\"{reason}\"}} 3\n");
    let metrics = gated.metrics();
    assert!(metrics.contains(&line), "no {line}: {metrics}");
    assert!(metrics.contains("tollward_gateway_answers_total{class=\"5xx\"} 3\n"));
}

fn end_of_connection() -> io::Error {
    io::ErrorKind::ConnectionAborted.into()
}

#[test]
fn one_with_as_many_connections_as_it_may_have_is_to_be_tried_again() {
    let (release, released) = channel::<()>();
    let released = Mutex::new(released);
    let upstream = Upstream::answering(move |_| {
        let _ = released.lock().unwrap().recv();
        answer(200, &[], b"")
    });
    let gated = Gated::of(&format!(
        "
identity: {{ anonymous: allow }}
gateway: {{ workers: 1 }}
routes: [ {{ match: /**, upstream: app }} ]
upstreams: {{ app: {{ url: {}, max_connections: 1 }} }}
",
        upstream.url()
    ));
    let mut first = gated.connect();
    first.send(head("GET", "/", &[], 0).as_bytes()).unwrap();
    until("a request at the upstream", || upstream.count() == 1);
    let busy = gated.get("/", &[]);
    assert_eq!(busy.status, 503, "{}", busy.text());
    assert_eq!(busy.header("retry-after"), Some("1"));
    assert_eq!(
        busy.header("content-type"),
        Some("application/problem+json")
    );
    drop(release);
    assert_eq!(first.read(false).unwrap().status, 200);
}

#[test]
fn one_that_hangs_is_a_timeout() {
    let upstream = Upstream::doing(|_, wire| {
        // Until the gateway gives it up.
        let _ = wire.read(&mut [0; 1]);
        Err(end_of_connection())
    });
    assert_problems(&gated(&upstream.url()), 504, "timed_out");
    assert_eq!(upstream.count(), 3);
}

#[test]
fn one_that_hangs_up_is_a_bad_gateway() {
    let upstream = Upstream::doing(|_, _| Err(end_of_connection()));
    assert_problems(&gated(&upstream.url()), 502, "reset");
}

#[test]
fn one_that_is_not_there_is_a_bad_gateway() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    assert_problems(&gated(&url), 502, "no_connection");
}

#[test]
fn one_that_talks_nonsense_is_a_bad_gateway() {
    let upstream = Upstream::doing(|_, wire| {
        wire.get_mut().write_all(b"220 ready\r\n\r\n")?;
        Err(end_of_connection())
    });
    assert_problems(&gated(&upstream.url()), 502, "bad_answer");
}

/// A reset, because not all was read, while a body is on its way.
#[test]
fn an_upload_that_is_cut_off_is_a_bad_gateway() {
    let upstream = Upstream::raw(|_, _| Err(end_of_connection()));
    let gated = gated(&upstream.url());
    let mut connection = gated.connect();
    let body = vec![b'x'; 1 << 20];
    let answer = connection.request("POST", "/a", &[], &body).unwrap();
    assert_eq!((answer.status, remaining(&answer)), (502, 99));
}

#[test]
fn errors_of_the_upstream_are_its_own() {
    let upstream = Upstream::answering(|request| {
        let status = request.target[1..].parse().unwrap();
        answer(
            status,
            &[("x-own", "yes"), ("retry-after", "7")],
            b"own words",
        )
    });
    let gated = gated(&upstream.url());
    for (left, status) in [(99, 500), (98, 503), (97, 404), (96, 429), (95, 502)] {
        let answer = gated.get(&format!("/{status}"), &[]);
        assert_eq!((answer.status, remaining(&answer)), (status, left));
        assert_eq!(answer.text(), "own words");
        assert_eq!(answer.header("x-own"), Some("yes"));
        assert_eq!(answer.header("retry-after"), Some("7"));
    }
}

#[test]
fn an_answer_that_breaks_off_is_seen_to_break_off() {
    let (read, is_read) = channel::<()>();
    let is_read = Mutex::new(is_read);
    let upstream = Upstream::doing(move |_, wire| {
        let answer = answer(200, &[], b"0123456789");
        wire.get_mut().write_all(&answer[..answer.len() - 5])?;
        let _ = is_read.lock().unwrap().recv();
        Err(end_of_connection())
    });
    let gated = gated(&upstream.url());
    let mut connection = gated.connect();
    connection
        .send(head("GET", "/a", &[], 0).as_bytes())
        .unwrap();
    let answer: Response = connection.read_head().unwrap();
    assert_eq!((answer.status, remaining(&answer)), (200, 99));
    assert_eq!(answer.header("content-length"), Some("10"));
    assert_eq!(connection.read_bytes(5).unwrap(), b"01234");
    drop(read);
    assert_eq!(connection.read_to_end(), b"");
    let (_, state) =
        Client::new(gated.api).check(serde_json::json!({ "ip": "127.0.0.1", "peek": true }));
    assert_eq!(state["remaining"], 99);
}

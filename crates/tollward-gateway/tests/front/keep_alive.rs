//! Connections that are kept, and what they survive.

use std::thread::sleep;
use std::time::Duration;

use crate::front::{Front, settings};

const REQUEST: &[u8] = b"GET /a HTTP/1.1\r\nHost: a\r\n\r\n";

#[test]
fn an_idle_connection_is_kept_for_longer_than_a_head_may_take() {
    let mut settings = settings();
    settings.header_timeout = Duration::from_millis(200);
    settings.idle_timeout = Duration::from_secs(3);
    let front = Front::start(&settings);
    let mut client = front.connect();
    client.send(REQUEST);
    assert_eq!(client.answer().unwrap().status, 200);
    // That it is still there cannot be seen but by letting the time pass.
    sleep(Duration::from_millis(900));
    client.send(REQUEST);
    assert_eq!(client.answer().unwrap().status, 200);
    // And in the end it goes, too.
    assert_eq!(client.answer(), None);
    front.end();
}

#[test]
fn requests_may_come_in_one_piece() {
    let front = Front::start(&settings());
    let mut client = front.connect();
    let chunked =
        b"POST /b HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n";
    let mixed = [REQUEST, chunked, chunked, REQUEST].concat();
    client.send(&mixed.repeat(100));
    for _ in 0..100 {
        for path in ["GET /a\n", "POST /b\n", "POST /b\n", "GET /a\n"] {
            let answer = client.answer().unwrap();
            assert!(answer.body.starts_with(path), "{}", answer.body);
        }
    }
    front.end();
}

#[test]
fn a_body_that_nobody_reads_is_not_taken_for_a_request() {
    let front = Front::start(&settings());
    let mut client = front.connect();
    let body = "GET /never HTTP/1.1\r\nHost: a\r\n\r\n".repeat(20_000);
    let head = format!(
        "POST /unread HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    client.send(head.as_bytes());
    client.send(body.as_bytes());
    assert_eq!(client.answer().unwrap().status, 200);
    client.rest();
    assert!(!front.has_seen("/never"));
    front.assert_serves();
    front.end();
}

#[test]
fn a_panic_ends_its_connection_and_nothing_else() {
    let front = Front::start(&settings());
    let mut others: Vec<_> = (0..4).map(|_| front.connect()).collect();
    for client in &mut others {
        client.send(REQUEST);
        assert_eq!(client.answer().unwrap().status, 200);
    }
    let mut client = front.connect();
    client.send(b"GET /panic HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.answer(), None);
    for client in &mut others {
        client.send(REQUEST);
        assert_eq!(client.answer().unwrap().status, 200);
    }
    front.end();
}

#[test]
fn a_refusal_says_why() {
    let front = Front::start(&settings());
    let mut client = front.connect();
    client.send(b"GET / HTTP/1.1\r\n\r\n");
    let answer = client.answer().unwrap();
    let head = answer.head.to_ascii_lowercase();
    assert!(head.contains("connection: close\r\n"), "{head}");
    assert!(
        head.contains("content-type: application/problem+json\r\n"),
        "{head}"
    );
    assert!(answer.body.contains("no Host"), "{}", answer.body);
    assert_eq!(client.answer(), None);
    front.end();
}

//! Bodies and connections that go on while they are passed through.

use std::io::{Read, Write};
use std::sync::Mutex;
use std::sync::mpsc::channel;

use tollward_testkit::http::head;
use tollward_testkit::upstream::{Upstream, answer, read_chunk};

use crate::gated::{Gated, remaining};
use crate::served::Client;

fn gated(upstream: &Upstream) -> Gated {
    Gated::of(&format!(
        "
identity: {{ anonymous: allow }}
limits:
  per-ip: {{ sustained: {{ rate: 1, window: hour }}, burst: {{ capacity: 5 }}, scope: ip }}
routes: [ {{ match: /**, upstream: app }} ]
upstreams: {{ app: {{ url: {} }} }}
",
        upstream.url()
    ))
}

#[test]
fn events_arrive_as_they_are_sent() {
    let (next, asked) = channel::<String>();
    let asked = Mutex::new(asked);
    let upstream = Upstream::doing(move |_, wire| {
        let wire = wire.get_mut();
        wire.write_all(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n",
        )?;
        // None is sent before the one before it was seen.
        for event in asked.lock().unwrap().iter() {
            let event = format!("data: {event}\n\n");
            wire.write_all(format!("{:x}\r\n{event}\r\n", event.len()).as_bytes())?;
        }
        wire.write_all(b"0\r\n\r\n")
    });
    let gated = gated(&upstream);
    let mut connection = gated.connect();
    connection
        .send(head("GET", "/events", &[], 0).as_bytes())
        .unwrap();
    let answer = connection.read_head().unwrap();
    assert_eq!(answer.header("content-type"), Some("text/event-stream"));
    assert_eq!(remaining(&answer), 4);
    for number in 0..20 {
        next.send(format!("event {number}")).unwrap();
        let expected = format!("data: event {number}\n\n");
        let chunk = connection.read_chunk().unwrap().unwrap();
        assert_eq!(String::from_utf8(chunk).unwrap(), expected);
    }
    drop(next);
    assert_eq!(connection.read_chunk().unwrap(), None);
    // The connection lives on.
    assert!(connection.is_quiet().unwrap());
}

#[test]
fn an_upload_is_seen_while_it_is_sent() {
    let (seen, is_seen) = channel::<Vec<u8>>();
    let seen = Mutex::new(seen);
    let upstream = Upstream::raw(move |_, wire| {
        let mut whole = 0;
        while let Some(chunk) = read_chunk(wire)? {
            whole += chunk.len();
            seen.lock().unwrap().send(chunk).unwrap();
        }
        let words = format!("{whole} bytes");
        wire.get_mut()
            .write_all(&answer(200, &[], words.as_bytes()))
    });
    let gated = gated(&upstream);
    let mut connection = gated.connect();
    let head = "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n";
    connection.send(head.as_bytes()).unwrap();
    for _ in 0..5 {
        connection.send(b"4\r\nping\r\n").unwrap();
        assert_eq!(is_seen.recv().unwrap(), b"ping");
    }
    connection.send(b"0\r\n\r\n").unwrap();
    assert_eq!(connection.read(false).unwrap().text(), "20 bytes");
}

#[test]
fn a_client_that_waits_for_100_is_told_to_go_on() {
    let upstream = Upstream::start();
    let gated = gated(&upstream);
    let mut connection = gated.connect();
    let expect = [("expect", "100-continue")];
    for left in (0..5).rev() {
        connection
            .send(head("POST", "/", &expect, 5).as_bytes())
            .unwrap();
        assert_eq!(connection.read_head().unwrap().status, 100);
        connection.send(b"hello").unwrap();
        let answer = connection.read(false).unwrap();
        assert_eq!((answer.status, remaining(&answer)), (200, left));
        assert_eq!(upstream.last().body, b"hello");
    }
    // Whoever is refused need not send it.
    connection
        .send(head("POST", "/", &expect, 5).as_bytes())
        .unwrap();
    assert_eq!(connection.read_head().unwrap().status, 429);
    assert_eq!(upstream.count(), 5);
}

/// Whoever sends all of a long body first reads the answer all the same.
#[test]
fn a_refusal_reaches_a_client_that_is_still_sending() {
    let upstream = Upstream::start();
    let gated = gated(&upstream);
    for _ in 0..5 {
        assert_eq!(gated.get("/", &[]).status, 200);
    }
    for size in [1000, 100_000, 1 << 20, 16 << 20] {
        let body = vec![b'x'; size];
        for _ in 0..3 {
            let answer = gated.connect().request("POST", "/", &[], &body);
            let answer = answer.unwrap_or_else(|error| panic!("{size} bytes: {error}"));
            assert_eq!(answer.status, 429, "{size} bytes");
        }
    }
    assert_eq!(upstream.count(), 5);
}

/// A frame of a client: final, of text, masked.
fn frame(text: &[u8], mask: [u8; 4]) -> Vec<u8> {
    let length = u8::try_from(text.len()).unwrap();
    assert!(length < 126);
    let mut frame = vec![0x81, 0x80 | length];
    frame.extend_from_slice(&mask);
    frame.extend(
        text.iter()
            .zip(mask.iter().cycle())
            .map(|(byte, key)| byte ^ key),
    );
    frame
}

#[test]
fn a_web_socket_is_passed_through() {
    // The example of RFC 6455.
    const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";
    const ACCEPT: &str = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";
    let upstream = Upstream::doing(|request, wire| {
        assert_eq!(request.header("sec-websocket-key"), Some(KEY));
        assert_eq!(request.header("upgrade"), Some("websocket"));
        let head = format!(
            "HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: Upgrade\r\n\
             sec-websocket-accept: {ACCEPT}\r\n\r\n"
        );
        wire.get_mut().write_all(head.as_bytes())?;
        loop {
            let mut start = [0; 6];
            wire.read_exact(&mut start)?;
            let length = usize::from(start[1] & 0x7f);
            let mut text = vec![0; length];
            wire.read_exact(&mut text)?;
            let mask = start[2..].iter().cycle();
            let text = text.iter().zip(mask).map(|(byte, key)| byte ^ key);
            let echo: Vec<u8> = [start[0], start[1] & 0x7f]
                .into_iter()
                .chain(text)
                .collect();
            wire.get_mut().write_all(&echo)?;
            if start[0] == 0x88 {
                return Err(std::io::ErrorKind::ConnectionAborted.into());
            }
        }
    });
    let gated = gated(&upstream);
    let mut connection = gated.connect();
    let head = format!(
        "GET /chat HTTP/1.1\r\nhost: a\r\nupgrade: websocket\r\nconnection: keep-alive, Upgrade\r\n\
         sec-websocket-key: {KEY}\r\nsec-websocket-version: 13\r\n\r\n"
    );
    connection.send(head.as_bytes()).unwrap();
    let answer = connection.read_head().unwrap();
    assert_eq!((answer.status, remaining(&answer)), (101, 4));
    assert_eq!(answer.header("sec-websocket-accept"), Some(ACCEPT));
    assert_eq!(answer.header("upgrade"), Some("websocket"));
    for number in 0..50_u8 {
        let text = format!("message {number}");
        connection
            .send(&frame(text.as_bytes(), [number, 2, 3, 4]))
            .unwrap();
        let echo = connection.read_bytes(2 + text.len()).unwrap();
        assert_eq!(echo[..2], [0x81, u8::try_from(text.len()).unwrap()]);
        assert_eq!(echo[2..], *text.as_bytes());
    }
    let mut close = frame(b"", [0; 4]);
    close[0] = 0x88;
    connection.send(&close).unwrap();
    assert_eq!(connection.read_to_end(), [0x88, 0]);
    // One request, one token, whatever goes through.
    let peek = serde_json::json!({ "ip": "127.0.0.1", "peek": true });
    assert_eq!(Client::new(gated.api).check(peek).1["remaining"], 4);
}

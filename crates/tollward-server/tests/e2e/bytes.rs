//! Requests as bytes: too many of them, too few, and none that HTTP knows.

use std::fs;

use serde_json::json;
use tollward_testkit::http::{Connection, head};

use crate::bad_input::{CONFIG, FINE, NO_CHECK, NO_JSON, TOO_DEAR};
use crate::process::Process;
use crate::served::{Client, Folder, Served, assert_problem};

const MEGABYTE: usize = 1 << 20;

/// What is not a request, or not one that can be read.
fn garbage() -> Vec<Vec<u8>> {
    let mut all: Vec<Vec<u8>> = [
        "GARBAGE\r\n\r\n",
        "\r\n\r\n\r\n",
        "POST /v1/check\r\n\r\n",
        "POST /v1/check HTTP/9.9\r\nhost: a\r\n\r\n",
        "PO ST /v1/check HTTP/1.1\r\nhost: a\r\n\r\n",
        "POST /v1/ch\0eck HTTP/1.1\r\nhost: a\r\n\r\n",
        "POST /v1/check HTTP/1.1\r\nbad header\r\n\r\n",
        "POST /v1/check HTTP/1.1\r\nx: a\0b\r\n\r\n",
        "POST /v1/check HTTP/1.1\r\nhost: a\r\ncontent-length: -1\r\n\r\n{}",
        "POST /v1/check HTTP/1.1\r\nhost: a\r\ncontent-length: two\r\n\r\n{}",
        "POST /v1/check HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\n{} ",
        "POST /v1/check HTTP/1.1\r\nhost: a\r\ncontent-length: 99999999999999999999999\r\n\r\n{}",
        "POST /v1/check HTTP/1.1\r\nhost: a\r\ntransfer-encoding: gzip\r\n\r\n{}",
        "POST /v1/check HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n{}\r\n",
        "POST /v1/check HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n-2\r\n{}\r\n0\r\n\r\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ]
    .iter()
    .map(|text| text.as_bytes().to_vec())
    .collect();
    // The start of a TLS handshake.
    all.push(b"\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03\0\0\0\0\0\0\0\0\r\n\r\n".to_vec());
    all.push(vec![0; 4096]);
    all
}

/// What the server said to these bytes before it closed.
fn answer_to(api: std::net::SocketAddr, bytes: &[u8]) -> String {
    let mut connection = Connection::open(api).unwrap();
    // It may have closed before all was sent.
    let _ = connection.send(bytes);
    let _ = connection.finish_sending();
    String::from_utf8_lossy(&connection.read_to_end()).into_owned()
}

#[test]
fn what_is_not_http_is_refused_or_cut_off() {
    let served = Served::of(CONFIG);
    for bytes in garbage() {
        let said = answer_to(served.api, &bytes);
        let refused = said.is_empty() || said.starts_with("HTTP/1.1 4");
        assert!(refused, "{:?}: {said}", String::from_utf8_lossy(&bytes));
    }
    let (_, answer) = served.client().check(json!({ "peek": true }));
    assert_eq!(answer["remaining"], 10);
}

#[test]
fn a_head_that_is_too_long_is_refused() {
    let served = Served::of(CONFIG);
    let long = "a".repeat(128 * 1024);
    let many = format!("x-{}: y\r\n", "a".repeat(50)).repeat(2000);
    for bytes in [
        format!("POST /{long} HTTP/1.1\r\nhost: a\r\n\r\n"),
        format!("POST /v1/check HTTP/1.1\r\nhost: a\r\nx: {long}\r\n\r\n"),
        format!("POST /v1/check HTTP/1.1\r\nhost: a\r\n{many}\r\n"),
        long.clone(),
    ] {
        let said = answer_to(served.api, bytes.as_bytes());
        let refused = said.is_empty() || said.starts_with("HTTP/1.1 4");
        assert!(refused, "{}: {said}", &bytes[..60]);
    }
    assert_eq!(served.client().check(json!({})).0, 200);
}

#[test]
fn a_body_that_is_too_long_is_answered() {
    let served = Served::of(CONFIG);
    let long = vec![b' '; 10 * MEGABYTE];
    for target in ["/v1/check", "/v1/check/batch"] {
        let response = served.client().post(target, &long);
        assert_problem(&response, 413, target);
        assert_eq!(response.header("connection"), Some("close"));
    }
    let mut connection = Connection::open(served.api).unwrap();
    let head = "POST /v1/check HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n";
    connection.send(head.as_bytes()).unwrap();
    for chunk in long.chunks(64 * 1024) {
        let size = format!("{:x}\r\n", chunk.len());
        connection.send(size.as_bytes()).unwrap();
        connection.send(chunk).unwrap();
        connection.send(b"\r\n").unwrap();
    }
    connection.send(b"0\r\n\r\n").unwrap();
    assert_problem(&connection.read(false).unwrap(), 413, "in chunks");
}

#[test]
fn a_chunked_body_is_read_piece_by_piece() {
    let served = Served::of(CONFIG);
    let mut connection = Connection::open(served.api).unwrap();
    let head = "POST /v1/check HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n";
    connection.send(head.as_bytes()).unwrap();
    for byte in br#"{"cost":3}"# {
        let chunk = format!("1;ext=1\r\n{}\r\n", char::from(*byte));
        connection.send(chunk.as_bytes()).unwrap();
    }
    connection.send(b"0\r\ntrailer: x\r\n\r\n").unwrap();
    let response = connection.read(false).unwrap();
    assert_eq!(crate::served::json(&response)["remaining"], 7);
    // The connection goes on.
    assert_eq!(Client(connection).check(json!({ "cost": 7 })).0, 200);
}

#[test]
fn names_may_be_long_but_bodies_may_not() {
    let served = Served::of(CONFIG);
    let mut client = served.client();
    let long = "é".repeat(30 * 1024);
    for fact in ["user", "tenant", "client"] {
        assert_eq!(
            client.check(json!({ fact: long, "cost": 0 })).0,
            200,
            "{fact}"
        );
    }
    for fact in ["plan", "ip", "method", "path"] {
        assert_eq!(client.check(json!({ fact: long })).0, 400, "{fact}");
    }
    assert_eq!(client.check(json!({ "api_key": long })).0, 401);
    let response = client.ask(json!({ "user": "x".repeat(MEGABYTE) }));
    assert_problem(&response, 413, "a user of a megabyte");
    // To the byte.
    for (length, status) in [(64 * 1024, 200), (64 * 1024 + 1, 413)] {
        let check = r#"{"cost":0}"#;
        let text = check.to_owned() + &" ".repeat(length - check.len());
        assert_eq!(
            served.client().post("/v1/check", text).status,
            status,
            "{length}"
        );
    }
}

#[test]
fn depth_is_no_danger() {
    let served = Served::of(CONFIG);
    let mut client = served.client();
    for (open, close) in [("[", "]"), ("{\"a\":", "}"), ("{\"user\":[", "]}")] {
        let deep = open.repeat(5000) + "1" + &close.repeat(5000);
        let response = client.post("/v1/check", &deep);
        assert_problem(&response, 400, open);
        let batch = format!("{{\"checks\":[{deep},{{}}]}}");
        let results = &crate::served::json(&client.post("/v1/check/batch", batch))["results"];
        assert_eq!(
            (&results[0]["status"], &results[1]["status"]),
            (&json!(400), &json!(200))
        );
    }
    let unclosed = "[".repeat(60_000);
    assert_problem(&client.post("/v1/check", unclosed), 400, "never closed");
}

#[test]
fn two_requests_in_one_piece_are_answered_in_order() {
    let served = Served::of(CONFIG);
    let mut connection = Connection::open(served.api).unwrap();
    let one = |body: &str| head("POST", "/v1/check", &[], body.len()) + body;
    let both = one(r#"{"cost":2}"#) + &one(r#"{"cost":3}"#);
    connection.send(both.as_bytes()).unwrap();
    for remaining in [8, 5] {
        let response = connection.read(false).unwrap();
        assert_eq!(crate::served::json(&response)["remaining"], remaining);
    }
}

#[test]
fn a_process_lives_through_all_of_it_without_growing() {
    let folder = Folder::new();
    let config = folder.write("tollward.yaml", CONFIG);
    let process = Process::serve(&["--config", config.to_str().unwrap()]);
    torment(&process, 2);
    let before = resident_kb(process.id());
    torment(&process, 20);
    let after = resident_kb(process.id());
    assert!(after < before + 32 * 1024, "{before} kB became {after} kB");
    assert_eq!(Client::new(process.api).check(json!({ "cost": 0 })).0, 200);
    let stderr = process.stderr();
    assert!(!stderr.contains("panicked"), "{stderr}");
}

fn torment(process: &Process, rounds: usize) {
    let long = vec![b'x'; 4 * MEGABYTE];
    let texts = [FINE, TOO_DEAR, NO_CHECK].concat();
    for round in 0..rounds {
        let mut client = Client::new(process.api);
        for text in texts
            .iter()
            .map(|text| text.as_bytes())
            .chain(NO_JSON.iter().copied())
        {
            client.post("/v1/check", text);
            client.post("/v1/check/batch", text);
        }
        let user = format!("{round}-{}", "u".repeat(60_000));
        client.ask(json!({ "user": user, "path": "/api/v1/payments/1" }));
        Client::new(process.api).post("/v1/check", &long);
        for bytes in garbage() {
            answer_to(process.api, &bytes);
        }
    }
}

fn resident_kb(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.unwrap()
        .trim()
        .trim_end_matches(" kB")
        .parse()
        .unwrap()
}

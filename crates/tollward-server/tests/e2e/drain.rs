//! The end of a process: what is under way is finished, and nothing new is begun.

use serde_json::json;
use tollward_testkit::http::{Connection, head};

use crate::process::Process;
use crate::served::{Client, get, json as body, until};

const QUESTION: &str = r#"{"user":"alice","plan":"free"}"#;

/// A request of which the server has begun to read the body, and half of the body is sent.
fn half_a_request(process: &Process) -> Connection {
    let mut connection = Connection::open(process.api).unwrap();
    let expect = [("expect", "100-continue")];
    let head = head("POST", "/v1/check", &expect, QUESTION.len());
    connection.send(head.as_bytes()).unwrap();
    // The server asks for the body only when it reads it.
    assert_eq!(connection.read_head().unwrap().status, 100);
    connection.send(&QUESTION.as_bytes()[..10]).unwrap();
    connection
}

#[test]
fn what_is_under_way_is_answered() {
    for signal in ["TERM", "INT"] {
        let mut process = Process::serve(&[]);
        assert_eq!(get(process.admin, "/readyz").status, 200);
        let mut idle = Client::new(process.api);
        assert_eq!(idle.check(json!({})).0, 200);
        let mut under_way = half_a_request(&process);

        process.signal(signal);
        Process::until_closed(process.api);
        assert_eq!(idle.0.read_to_end(), b"", "idle connections are closed");
        // Whoever asks is told that this one goes, until it has gone.
        let ready = get(process.admin, "/readyz");
        assert_eq!((ready.status, &*ready.text()), (503, "stopping\n"));
        assert_eq!(ready.header("retry-after"), Some("1"));
        assert_eq!(get(process.admin, "/healthz").status, 200);
        assert_eq!(get(process.admin, "/metrics").status, 200);

        under_way.send(&QUESTION.as_bytes()[10..]).unwrap();
        let response = under_way.read(false).unwrap();
        assert_eq!(response.status, 200);
        assert_eq!(body(&response)["remaining"], 99);
        assert_eq!(response.header("connection"), Some("close"));
        assert_eq!(process.wait(), Some(0), "{}", process.stderr());
        Process::until_closed(process.admin);
    }
}

#[test]
fn with_nothing_under_way_it_ends_at_once() {
    let mut process = Process::serve(&[]);
    process.signal("TERM");
    assert_eq!(process.wait(), Some(0), "{}", process.stderr());
}

#[test]
fn a_second_signal_does_not_wait() {
    let mut process = Process::serve(&["--drain", "600"]);
    let under_way = half_a_request(&process);
    process.signal("TERM");
    Process::until_closed(process.api);
    process.signal("TERM");
    assert_eq!(process.wait(), Some(1));
    until("a word about it", || {
        process.stderr().contains("SIGTERM again")
    });
    drop(under_way);
}

#[test]
fn waiting_has_an_end() {
    let mut process = Process::serve(&["--drain", "0"]);
    let under_way = half_a_request(&process);
    process.signal("TERM");
    assert_eq!(process.wait(), Some(1));
    until("a word about it", || {
        process.stderr().contains("did not finish")
    });
    drop(under_way);
}

#[test]
fn whoever_says_nothing_is_not_waited_for() {
    let mut process = Process::serve(&["--drain", "5"]);
    let silent = Connection::open(process.api).unwrap();
    until("two connections", || {
        let page = get(process.admin, "/metrics").text();
        page.contains("\ntollward_connections 2\n")
    });
    process.signal("TERM");
    assert_eq!(process.wait(), Some(0), "{}", process.stderr());
    drop(silent);
}

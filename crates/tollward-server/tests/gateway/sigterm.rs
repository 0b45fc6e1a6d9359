//! The end of a gateway under load.

use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use tollward_testkit::http::head;
use tollward_testkit::upstream::{Upstream, answer};

use crate::ending::config;
use crate::process::arg;
use crate::process_gateway::GatewayProcess;
use crate::served::{Folder, get, until};

#[test]
fn no_request_under_load_is_cut_off() {
    const CONNECTIONS: usize = 12;
    let upstream = Upstream::answering(|request| {
        // So that there is always something under way.
        thread::sleep(Duration::from_millis(2));
        let words = format!("{}{}", request.target, "x".repeat(20_000));
        answer(200, &[], words.as_bytes())
    });
    let folder = Folder::new();
    let log = folder.0.join("access.log");
    let access_log = format!("gateway: {{ access_log: {} }}", arg(&log));
    let config = config(&upstream, &access_log);
    let (mut process, _folder, _) = GatewayProcess::of(&config, &[]);
    let answered = AtomicUsize::new(0);
    let last_words = AtomicUsize::new(0);
    thread::scope(|scope| {
        for caller in 0..CONNECTIONS {
            let (process, answered, last_words) = (&process, &answered, &last_words);
            scope.spawn(move || {
                let mut connection = process.connect();
                for count in 0.. {
                    let target = format!("/{caller}/{count}");
                    let answer = connection.request("GET", &target, &[], b"");
                    // A connection that was not said to close takes one more request, always.
                    let answer = answer.unwrap_or_else(|error| panic!("{target}: {error}"));
                    assert_eq!(answer.status, 200);
                    assert_eq!(answer.body.len(), target.len() + 20_000);
                    assert!(answer.body.starts_with(target.as_bytes()));
                    answered.fetch_add(1, SeqCst);
                    if answer.header("connection") == Some("close") {
                        last_words.fetch_add(1, SeqCst);
                        assert_eq!(connection.read_to_end(), b"");
                        return;
                    }
                }
            });
        }
        until("some load", || answered.load(SeqCst) > 500);
        process.close();
    });
    assert_eq!(last_words.load(SeqCst), CONNECTIONS);
    process.ended();
    assert_eq!(upstream.count(), answered.load(SeqCst));
    // What was answered last is in the log like everything else.
    let lines = fs::read_to_string(&log).unwrap();
    assert_eq!(lines.lines().count(), answered.load(SeqCst));
    assert!(lines.ends_with("}\n"));
}

#[test]
fn a_long_answer_under_way_is_finished() {
    let (next, asked) = channel::<&str>();
    let asked = Mutex::new(asked);
    let upstream = Upstream::doing(move |_, wire| {
        let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
        wire.get_mut().write_all(head.as_bytes())?;
        for piece in asked.lock().unwrap().iter() {
            let chunk = format!("{:x}\r\n{piece}\r\n", piece.len());
            wire.get_mut().write_all(chunk.as_bytes())?;
        }
        wire.get_mut().write_all(b"0\r\n\r\n")
    });
    let (mut process, _folder, _) = GatewayProcess::of(&config(&upstream, ""), &[]);
    let mut connection = process.connect();
    connection
        .send(head("GET", "/", &[], 0).as_bytes())
        .unwrap();
    assert_eq!(connection.read_head().unwrap().status, 200);
    next.send("before").unwrap();
    assert_eq!(connection.read_chunk().unwrap().unwrap(), b"before");

    process.close();
    // It can be seen to finish.
    assert_eq!(get(process.process.admin, "/healthz").status, 200);
    for _ in 0..3 {
        next.send("after").unwrap();
        assert_eq!(connection.read_chunk().unwrap().unwrap(), b"after");
        assert!(TcpStream::connect(process.gateway).is_err());
    }
    drop(next);
    assert_eq!(connection.read_chunk().unwrap(), None);
    assert_eq!(connection.read_to_end(), b"");
    process.ended();
}

/// A request that is half sent when the signal comes is served.
#[test]
fn a_request_that_has_begun_is_served() {
    let upstream = Upstream::start();
    let (mut process, _folder, _) = GatewayProcess::of(&config(&upstream, ""), &[]);
    let expect = [("expect", "100-continue")];
    let mut connection = process.connect();
    connection
        .send(head("POST", "/a", &expect, 5).as_bytes())
        .unwrap();
    assert_eq!(connection.read_head().unwrap().status, 100);
    process.close();
    connection.send(b"hello").unwrap();
    let answer = connection.read(false).unwrap();
    assert_eq!((answer.status, &*answer.text()), (200, "POST /a"));
    assert_eq!(answer.header("connection"), Some("close"));
    process.ended();
}

#[test]
fn waiting_for_a_hanging_upstream_has_an_end() {
    let (hold, held) = channel::<()>();
    let held = Arc::new(Mutex::new(held));
    let upstream = Upstream::doing(move |_, _| {
        let _ = held.lock().unwrap().recv();
        Err(std::io::ErrorKind::ConnectionAborted.into())
    });
    let (mut process, _folder, _) = GatewayProcess::of(&config(&upstream, ""), &["--drain", "1"]);
    let mut connection = process.connect();
    connection
        .send(head("GET", "/", &[], 0).as_bytes())
        .unwrap();
    until("a request", || upstream.count() == 1);
    process.process.signal("TERM");
    assert_eq!(process.process.wait(), Some(1));
    assert!(
        process.process.stderr().contains("did not finish"),
        "{}",
        process.process.stderr()
    );
    drop(hold);
}

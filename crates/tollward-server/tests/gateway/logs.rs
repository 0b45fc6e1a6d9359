//! The access log, and what is counted.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::channel;
use std::thread;

use serde_json::{Value, json};
use tollward_testkit::http::{Connection, head};
use tollward_testkit::upstream::{Upstream, answer};

use crate::gated::{Gated, sha256};
use crate::process::arg;
use crate::process_gateway::GatewayProcess;
use crate::served::{Folder, assert_problem, until};

fn config(upstream: &Upstream, log: &str) -> String {
    format!(
        "
identity: {{ user: {{ header: X-User-Id }}, ip: {{ trusted_proxies: [127.0.0.1] }} }}
plans:
  p: {{ rate_limit: {{ sustained: {{ rate: 1, window: hour }}, burst: {{ capacity: 2 }}, scope: tenant }} }}
tenants: {{ acme: {{ plan: p }} }}
keys: [ {{ sha256: {}, tenant: acme }} ]
routes:
  - {{ match: /**, upstream: app }}
  - {{ match: /free/**, allow: true }}
upstreams: {{ app: {{ url: {} }} }}
gateway: {{ access_log: \"{log}\" }}
",
        sha256("secret-key"),
        upstream.url()
    )
}

fn lines(file: &Path) -> Vec<Value> {
    let text = fs::read_to_string(file).unwrap_or_default();
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// A gateway that writes a log.
struct Logged {
    gated: Gated,
    file: PathBuf,
    folder: Folder,
}

impl Logged {
    fn before(upstream: &Upstream) -> Self {
        let folder = Folder::new();
        let file = folder.0.join("access.log");
        let gated = Gated::of(&config(upstream, arg(&file)));
        Self {
            gated,
            file,
            folder,
        }
    }

    /// A connection on which a request has been sent.
    fn asked(&self) -> Connection {
        let mut connection = self.gated.connect();
        let head = head("GET", "/", &[("x-api-key", "secret-key")], 0);
        connection.send(head.as_bytes()).unwrap();
        connection
    }

    /// The only line, once it is there.
    fn only_line(&self) -> Value {
        until("a line", || lines(&self.file).len() == 1);
        lines(&self.file).remove(0)
    }
}

/// A line as it is written, but for how long it took.
fn line(value: &Value) -> Value {
    let mut value = value.clone();
    let fields = value.as_object_mut().unwrap();
    assert!(fields.remove("duration_us").unwrap().is_u64());
    value
}

/// Nothing is known of them but where they came from, so that is what is logged.
#[test]
fn what_is_refused_at_the_front_has_a_line_too() {
    let upstream = Upstream::start();
    let Logged {
        gated,
        file,
        folder: _folder,
    } = Logged::before(&upstream);
    let long = format!(
        "GET / HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n",
        "x".repeat(70_000)
    );
    let two_lengths = "POST /a?q=secret HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 192.0.2.7\r\n\
                       Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
    let readable = Some(("POST", "/a"));
    for (number, (request, status, read, reason)) in [
        ("garbage\r\n\r\n", 400, None, "not valid HTTP"),
        (&*long, 431, None, "too long"),
        (two_lengths, 400, readable, "both Content-Length and"),
        (
            "GET /b HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
            400,
            Some(("GET", "/b")),
            "more than one Host",
        ),
        (
            "CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n",
            501,
            Some(("CONNECT", "")),
            "forward proxy",
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let mut connection = gated.connect();
        connection.send(request.as_bytes()).unwrap();
        let answer = connection.read(false).unwrap();
        let problem = assert_problem(&answer, status, reason);
        assert_eq!(connection.read_to_end(), b"");
        until("a line", || lines(&file).len() == number + 1);
        let logged = line(&lines(&file)[number]);
        assert!(
            logged["reason"].as_str().unwrap().contains(reason),
            "{logged}"
        );
        assert_eq!(logged["reason"], problem["detail"]);
        let mut expected = json!({
            "time_ms": gated.unix_secs() * 1000, "ip": "127.0.0.1", "status": status,
            "bytes": answer.body.len(), "complete": true, "reason": logged["reason"],
        });
        if let Some((method, path)) = read {
            expected["method"] = method.into();
            expected["path"] = path.into();
        }
        assert_eq!(logged, expected);
    }
    assert_eq!(upstream.count(), 0);
    let text = fs::read_to_string(&file).unwrap();
    assert!(!text.contains("secret"), "{text}");
}

#[test]
fn every_request_has_a_line() {
    let upstream = Upstream::answering(|_| answer(201, &[], b"0123456789"));
    let Logged {
        gated,
        file,
        folder: _folder,
    } = Logged::before(&upstream);
    let key = [
        ("x-api-key", "secret-key"),
        ("x-user-id", "ann"),
        ("x-forwarded-for", "192.0.2.7"),
    ];
    let mut written = 0;
    let mut ask = |method: &str, target: &str, headers: &[(&str, &str)]| {
        let answer = gated.ask(method, target, headers);
        written += 1;
        until("a line", || lines(&file).len() == written);
        (answer, line(&lines(&file)[written - 1]))
    };
    let time_ms = gated.unix_secs() * 1000;
    let (_, admitted) = ask("POST", "/A//b?token=secret-query", &key);
    assert_eq!(
        admitted,
        json!({
            "time_ms": time_ms, "ip": "192.0.2.7", "method": "POST", "path": "/A//b",
            "status": 201, "bytes": 10, "complete": true, "action": "allow",
            "tenant": "acme", "plan": "p", "user": "ann", "upstream": "app",
        })
    );
    assert_eq!(ask("GET", "/", &key).1["status"], 201);
    let (refused, refusal) = ask("GET", "/", &key);
    assert_eq!(refused.status, 429);
    assert_eq!(refusal["status"], 429);
    assert_eq!(refusal["bytes"], refused.body.len());
    assert_eq!(refusal["complete"], true);
    assert_eq!(refusal.get("upstream"), None);
    assert_eq!(refusal["ip"], "192.0.2.7", "whom it was about: {refusal}");
    let (_, stranger) = ask("GET", "/", &[]);
    assert_eq!(stranger["status"], 401);
    assert_eq!(stranger.get("action"), None);
    let (_, bypass) = ask("GET", "/free/x", &key);
    assert_eq!(
        (&bypass["status"], &bypass["action"]),
        (&201.into(), &"bypass".into())
    );
    let (_, head) = ask("HEAD", "/free/x", &key);
    assert_eq!(
        (&head["bytes"], &head["complete"]),
        (&0.into(), &true.into())
    );
    let text = fs::read_to_string(&file).unwrap();
    assert!(!text.contains("secret"), "{text}");

    let metrics = gated.metrics();
    for series in [
        "tollward_gateway_answers_total{class=\"2xx\"} 4",
        "tollward_gateway_answers_total{class=\"4xx\"} 2",
        "tollward_gateway_answers_total{class=\"5xx\"} 0",
        "tollward_gateway_failures_total{reason=\"timed_out\"} 0",
        "tollward_gateway_unlogged_total 0",
        "tollward_decisions_total{policy=\"plan:p\",outcome=\"allowed\"} 2",
        "tollward_decisions_total{policy=\"plan:p\",outcome=\"denied\"} 1",
    ] {
        assert!(
            metrics.lines().any(|line| line == series),
            "no {series}: {metrics}"
        );
    }
    let one = gated.connect();
    until("an open connection", || {
        gated.metrics().contains("tollward_gateway_connections 1\n")
    });
    drop(one);
    until("none", || {
        gated.metrics().contains("tollward_gateway_connections 0\n")
    });
}

#[test]
fn an_answer_that_nobody_waits_for_is_told_as_such() {
    let upstream = Upstream::answering(|_| answer(200, &[], &vec![b'x'; 50 << 20]));
    let logged = Logged::before(&upstream);
    let mut connection = logged.asked();
    assert_eq!(connection.read_head().unwrap().status, 200);
    drop(connection);
    let line = logged.only_line();
    assert_eq!(
        (&line["status"], &line["complete"]),
        (&200.into(), &false.into())
    );
    assert!(line["bytes"].as_u64().unwrap() < 50 << 20, "{line}");
}

/// Who hangs up before there is an answer has a line like everybody.
#[test]
fn a_client_that_leaves_early_has_a_line() {
    let upstream = Upstream::doing(|_, wire| {
        // Until the gateway gives it up.
        let _ = wire.read(&mut [0; 1]);
        Err(std::io::ErrorKind::ConnectionAborted.into())
    });
    let logged = Logged::before(&upstream);
    let connection = logged.asked();
    until("a request", || upstream.count() == 1);
    drop(connection);
    let line = logged.only_line();
    assert_eq!(
        (&line["status"], &line["complete"]),
        (&499.into(), &false.into())
    );
    assert_eq!(
        (&line["tenant"], &line["bytes"]),
        (&"acme".into(), &0.into())
    );
}

#[test]
fn a_log_that_is_moved_away_is_begun_anew() {
    const REQUESTS: usize = 200;
    let upstream = Upstream::start();
    let Logged {
        gated,
        file,
        folder,
    } = Logged::before(&upstream);
    let key = [("x-api-key", "secret-key"), ("connection", "keep-alive")];
    let mut connection = gated.connect();
    let moved = |number: usize| folder.0.join(format!("access.log.{number}"));
    for number in 0..REQUESTS {
        let target = format!("/free/{number}");
        assert_eq!(
            connection
                .request("GET", &target, &key, b"")
                .unwrap()
                .status,
            200
        );
        if number % 50 == 25 {
            until("a log", || file.exists());
            fs::rename(&file, moved(number)).unwrap();
        }
    }
    let all = || {
        let files = (0..REQUESTS).filter(|it| it % 50 == 25).map(moved);
        let all = files.chain([file.clone()]).flat_map(|file| lines(&file));
        all.map(|line| line["path"].as_str().unwrap().to_owned())
            .collect::<Vec<String>>()
    };
    until("all lines", || all().len() == REQUESTS);
    let expected: Vec<String> = (0..REQUESTS).map(|it| format!("/free/{it}")).collect();
    assert_eq!(all(), expected);
    assert!(!lines(&file).is_empty());
}

#[test]
fn a_log_may_go_to_the_standard_output() {
    let upstream = Upstream::start();
    let (mut process, _folder, _) = GatewayProcess::of(&config(&upstream, "stdout"), &[]);
    let key = [("x-api-key", "secret-key")];
    let mut connection = process.connect();
    assert_eq!(
        connection.request("GET", "/x", &key, b"").unwrap().status,
        200
    );
    let is_there = |process: &GatewayProcess| {
        let said = process.process.output();
        said.lines()
            .any(|line| line.starts_with('{') && line.contains("\"path\":\"/x\""))
    };
    until("a line", || is_there(&process));
    // What is said last is not lost with the process.
    connection
        .send(head("GET", "/last", &key, 0).as_bytes())
        .unwrap();
    assert_eq!(connection.read(false).unwrap().status, 200);
    drop(connection);
    process.end();
    until("the last line", || {
        process.process.output().contains("/last")
    });
}

/// Whoever reads the log may be slow: what was answered is in it all the same.
#[test]
fn the_last_lines_are_written_before_the_end() {
    const REQUESTS: usize = 2000;
    let upstream = Upstream::start();
    let folder = Folder::new();
    let pipe = folder.0.join("access.pipe");
    let made = Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    let (read, may_read) = channel::<()>();
    let reading = pipe.clone();
    let reader = thread::spawn(move || {
        let mut pipe = fs::File::open(reading).unwrap();
        let _ = may_read.recv();
        let mut text = String::new();
        pipe.read_to_string(&mut text).unwrap();
        text.lines().count()
    });
    let (mut process, _folder, _) = GatewayProcess::of(&config(&upstream, arg(&pipe)), &[]);
    let key = [("x-api-key", "secret-key")];
    let mut connection = process.connect();
    for _ in 0..REQUESTS {
        let answer = connection.request("GET", "/free/x", &key, b"").unwrap();
        assert_eq!(answer.status, 200);
    }
    drop(connection);
    process.close();
    drop(read);
    process.ended();
    assert_eq!(reader.join().unwrap(), REQUESTS);
}

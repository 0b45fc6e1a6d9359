//! Requests and answers that are easily spoilt on their way.

use std::io::Write;

use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tollward_testkit::http::head;
use tollward_testkit::upstream::{Upstream, answer};

use crate::gated::{Gated, remaining};
use crate::http2::{ask, post, speak};
use crate::served::assert_problem;

fn gated(url: &str, rest: &str) -> Gated {
    Gated::of(&format!(
        "
identity: {{ anonymous: allow }}
limits:
  per-ip: {{ sustained: {{ rate: 1, window: hour }}, burst: {{ capacity: 1000 }}, scope: [ip, route] }}
routes:
  - {{ match: /**, upstream: app }}
  - {{ match: /%C3%A4/**, upstream: app, rate_limit: {{ sustained: {{ rate: 1, window: hour }}, burst: {{ capacity: 50 }}, scope: ip }} }}
upstreams: {{ app: {{ url: {url} }} }}
{rest}
"
    ))
}

#[test]
fn cookies_of_http2_are_one_line_again() {
    let upstream = Upstream::start();
    let gated = gated(&upstream.url(), "");
    Runtime::new().unwrap().block_on(async {
        let stream = TcpStream::connect(gated.gateway).await.unwrap();
        let mut client = speak(stream).await;
        let request = post("http://api.test/")
            .header("cookie", "a=1")
            .header("cookie", "b=2")
            .body(())
            .unwrap();
        let answer = ask(&mut client, request, b"", None).await;
        assert_eq!(answer.head.status, 200);
    });
    assert_eq!(upstream.last().header("cookie"), Some("a=1; b=2"));
}

#[test]
fn answers_without_a_body_end_where_they_should() {
    let upstream = Upstream::doing(|request, wire| {
        let status = &request.target[1..];
        let head = match status {
            "204" => "HTTP/1.1 204 No Content\r\nx-own: 1\r\n\r\n",
            "304" => "HTTP/1.1 304 Not Modified\r\netag: \"a\"\r\ncontent-length: 10\r\n\r\n",
            _ => "HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n",
        };
        wire.get_mut().write_all(head.as_bytes())?;
        match (status, &*request.method) {
            ("200", "GET") => wire.get_mut().write_all(b"0123456789"),
            _ => Ok(()),
        }
    });
    let gated = gated(&upstream.url(), "");
    let mut connection = gated.connect();
    let mut left = 1000;
    for _ in 0..3 {
        for (method, target, length) in [
            ("HEAD", "/200", Some("10")),
            ("GET", "/204", None),
            ("GET", "/304", Some("10")),
            ("GET", "/200", Some("10")),
        ] {
            left -= 1;
            let answer = connection.request(method, target, &[], b"").unwrap();
            assert_eq!(answer.status.to_string(), target[1..], "{method} {target}");
            // Of what was not modified it need not be said how long it is.
            let told = answer.header("content-length");
            assert!(
                told == length || target == "/304",
                "{method} {target}: {told:?}"
            );
            assert_eq!(remaining(&answer), left);
        }
    }
    assert_eq!(upstream.connections(), 1);
}

/// A server that closes connections without a word, as they do when they have been idle.
#[test]
fn connections_that_have_gone_stale_cost_nothing() {
    let upstream = Upstream::doing(|request, wire| {
        let words = format!("{} {}", request.method, request.target);
        wire.get_mut()
            .write_all(&answer(200, &[], words.as_bytes()))?;
        Err(std::io::ErrorKind::ConnectionAborted.into())
    });
    let gated = gated(&upstream.url(), "gateway: { workers: 1 }");
    let mut connection = gated.connect();
    for count in 1..=100 {
        let method = ["GET", "PUT", "POST"][count % 3];
        let answer = connection.request(method, "/a", &[], b"x").unwrap();
        // What is not safe to send twice may fail, but must not be sent twice.
        let is_fine = answer.status == 200 || (method == "POST" && answer.status == 502);
        assert!(is_fine, "{method}: {}", answer.text());
        assert_eq!(remaining(&answer), 1000 - count as u64);
    }
    assert!(upstream.count() <= 100);
}

#[test]
fn a_caller_of_grpc_learns_of_failures_in_its_own_words() {
    let upstream = Upstream::doing(|_, _| Err(std::io::ErrorKind::ConnectionAborted.into()));
    let gated = gated(&upstream.url(), "");
    let grpc = [("content-type", "application/grpc")];
    let answer = gated.ask("POST", "/a.B/C", &grpc);
    assert_eq!(
        (answer.status, answer.header("grpc-status")),
        (200, Some("14"))
    );
    assert_eq!(answer.header("content-type"), Some("application/grpc"));
    assert_eq!(remaining(&answer), 999);
    let answer = gated.ask("POST", "/a%2FB", &grpc);
    // A bad path is an internal matter of the caller's.
    assert_eq!(answer.status, 200);
    assert!(
        matches!(answer.header("grpc-status"), Some("3" | "13")),
        "{answer:?}"
    );
}

#[test]
fn letters_beyond_ascii_are_one_path_however_they_are_sent() {
    let upstream = Upstream::start();
    let gated = gated(&upstream.url(), "");
    let mut left = 50;
    for target in [&b"/%C3%A4/x"[..], b"/%c3%a4/x", "/ä/x".as_bytes()] {
        let mut connection = gated.connect();
        let request = [b"GET ", target, b" HTTP/1.1\r\nhost: a\r\n\r\n"].concat();
        connection.send(&request).unwrap();
        let answer = connection.read(false).unwrap();
        let shown = String::from_utf8_lossy(target);
        if answer.status == 400 {
            // Nobody has to take what no standard allows.
            assert!(!target.is_ascii(), "{shown}");
            continue;
        }
        left -= 1;
        assert_eq!((answer.status, remaining(&answer)), (200, left), "{shown}");
        assert_eq!(upstream.last().target, "/%C3%A4/x", "{shown}");
    }
    let mut connection = gated.connect();
    connection
        .send(b"GET /\xff/x HTTP/1.1\r\nhost: a\r\n\r\n")
        .unwrap();
    assert_eq!(connection.read(false).unwrap().status, 400);
}

#[test]
fn a_body_is_no_longer_than_it_may_be() {
    let upstream = Upstream::start();
    let gated = gated(&upstream.url(), "gateway: { max_body: 1000 }");
    let ask = |length: usize| {
        let body = vec![b'x'; length];
        gated.connect().request("POST", "/", &[], &body).unwrap()
    };
    assert_eq!(ask(1000).status, 200);
    assert_eq!(upstream.last().body.len(), 1000);
    assert_problem(&ask(1001), 413, "a body that says it is too long");
    let mut connection = gated.connect();
    let head = "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n";
    connection.send(head.as_bytes()).unwrap();
    connection
        .send(format!("3e8\r\n{0}\r\n3e8\r\n{0}\r\n0\r\n\r\n", "x".repeat(1000)).as_bytes())
        .unwrap();
    assert_problem(
        &connection.read(false).unwrap(),
        413,
        "a body that is too long",
    );
    assert_eq!(upstream.count(), 1);
}

/// What is not ours to read is the upstream's.
#[test]
fn authorization_is_passed_on_where_nothing_reads_it() {
    let upstream = Upstream::start();
    let gated = gated(&upstream.url(), "");
    for value in ["Basic YTpi", "Bearer x.y.z", "Digest username=\"a\""] {
        assert_eq!(gated.get("/", &[("authorization", value)]).status, 200);
        assert_eq!(upstream.last().header("authorization"), Some(value));
    }
}

/// Pipelined requests are answered in their order, each by itself.
#[test]
fn requests_may_come_before_their_answers() {
    let upstream = Upstream::start();
    let gated = gated(&upstream.url(), "");
    let mut connection = gated.connect();
    let requests: String = (0..20)
        .map(|it| head("GET", &format!("/{it}"), &[], 0))
        .collect();
    connection.send(requests.as_bytes()).unwrap();
    for number in 0..20_u64 {
        let answer = connection.read(false).unwrap();
        assert_eq!(answer.text(), format!("GET /{number}"));
        assert_eq!(remaining(&answer), 999 - number);
    }
}

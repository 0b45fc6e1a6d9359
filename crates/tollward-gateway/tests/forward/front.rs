//! Through a server of HTTP, as clients see it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tollward_gateway::Forwarder;
use tollward_policy::{Protocol, Upstream};

use crate::fixtures::{Seen, raw, read_head, serve, speaking, text, until, upstream, write};

/// A server that forwards all it gets.
async fn front(protocol: Protocol, upstream: Upstream) -> SocketAddr {
    let upstream = Arc::new(upstream);
    let forwarder = Forwarder::new();
    let (address, _) = serve(protocol, move |request: Request<Incoming>| {
        let (upstream, forwarder) = (upstream.clone(), forwarder.clone());
        async move {
            match forwarder.forward(&upstream, request).await {
                Ok(response) => {
                    response.map(|body| body.map_err(std::io::Error::other).boxed_unsync())
                }
                Err(error) => {
                    let mut response: Response<UnsyncBoxBody<_, _>> = text(error.detail());
                    *response.status_mut() = error.status();
                    response
                }
            }
        }
    })
    .await;
    address
}

/// A client of a server that forwards to this address.
async fn client_before(address: SocketAddr) -> TcpStream {
    let front = front(Protocol::Http1, upstream(&[address])).await;
    TcpStream::connect(front).await.unwrap()
}

/// Sends bytes as a client, and reads until the answer is as expected or the connection ends.
async fn talk(client: &mut TcpStream, sent: &str, enough: &str) -> String {
    write(client, sent).await;
    let mut read = Vec::new();
    let reading = async {
        while !String::from_utf8_lossy(&read).contains(enough) {
            if client.read_buf(&mut read).await.unwrap_or(0) == 0 {
                break;
            }
        }
    };
    let read_all = tokio::time::timeout(Duration::from_secs(10), reading).await;
    let read = String::from_utf8_lossy(&read).into_owned();
    assert!(read_all.is_ok(), "after {read:?} nothing more");
    read
}

#[tokio::test]
async fn an_upgrade_joins_both_sides_until_both_have_ended() {
    let (address, seen) = raw(|mut stream, seen| async move {
        let head = read_head(&mut stream).await.unwrap();
        assert!(head.contains("connection: upgrade\r\n") && head.contains("upgrade: echo\r\n"));
        // The first words of the new protocol come with the head.
        let answer = "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: echo\r\n\r\nhello ";
        write(&mut stream, answer).await;
        let (mut reading, mut writing) = stream.split();
        tokio::io::copy(&mut reading, &mut writing).await.unwrap();
        // The client is done; we are not.
        writing.write_all(b"goodbye").await.unwrap();
        seen.request();
    })
    .await;
    let mut client = client_before(address).await;
    let head = "GET /chat HTTP/1.1\r\nhost: a\r\nconnection: Upgrade\r\nupgrade: echo\r\n\r\n";
    let answer = talk(&mut client, head, "hello ").await;
    assert!(answer.starts_with("HTTP/1.1 101 "), "{answer}");
    assert!(answer.contains("upgrade: echo\r\n"), "{answer}");
    for word in ["one", "two", "three"] {
        assert_eq!(talk(&mut client, word, word).await, word);
    }
    client.shutdown().await.unwrap();
    let mut rest = String::new();
    client.read_to_string(&mut rest).await.unwrap();
    assert_eq!(rest, "goodbye");
    until("the server saw the end", || seen.requests() == 1).await;
}

#[tokio::test]
async fn an_upgrade_that_is_declined_is_an_answer_and_one_that_stands_still_ends() {
    let (address, _) = raw(|mut stream, _| async move {
        while let Some(head) = read_head(&mut stream).await {
            if head.starts_with("GET /no") {
                let answer = "HTTP/1.1 426 Upgrade Required\r\ncontent-length: 2\r\n\r\nno";
                write(&mut stream, answer).await;
            } else {
                let answer =
                    "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n";
                write(&mut stream, answer).await;
                return read_head(&mut stream).await.map_or((), |_| ());
            }
        }
    })
    .await;
    let mut upstream = upstream(&[address]);
    upstream.idle_timeout = Duration::from_millis(300);
    let front = front(Protocol::Http1, upstream).await;
    let mut client = TcpStream::connect(front).await.unwrap();
    let fields = "host: a\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n";
    let answer = talk(
        &mut client,
        &format!("GET /no HTTP/1.1\r\n{fields}"),
        "\r\n\r\nno",
    )
    .await;
    assert!(answer.starts_with("HTTP/1.1 426 "), "{answer}");
    let answer = talk(
        &mut client,
        &format!("GET /yes HTTP/1.1\r\n{fields}"),
        "\r\n\r\n",
    )
    .await;
    assert!(answer.starts_with("HTTP/1.1 101 "), "{answer}");
    let mut rest = Vec::new();
    let end = tokio::time::timeout(Duration::from_secs(10), client.read_to_end(&mut rest)).await;
    assert!(end.is_ok(), "it never ended");
    assert_eq!(rest, b"");
}

const EXPECTING: &str =
    "POST / HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\ncontent-length: 4\r\n\r\n";

/// Reads the body that such a head announces, and answers `fine`.
async fn take_body(mut stream: TcpStream) {
    let mut body = [0; 4];
    stream.read_exact(&mut body).await.unwrap();
    assert_eq!(&body, b"body");
    let answer = "HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nfine";
    write(&mut stream, answer).await;
    read_head(&mut stream).await;
}

/// Sends such a head, and the body once it is told to go on.
async fn send_body_when_told(mut client: TcpStream) {
    let told = talk(&mut client, EXPECTING, "\r\n\r\n").await;
    assert_eq!(told, "HTTP/1.1 100 Continue\r\n\r\n");
    let answer = talk(&mut client, "body", "fine").await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
}

#[tokio::test]
async fn a_client_is_told_to_go_on_when_the_upstream_says_so() {
    let (address, _) = raw(|mut stream, _| async move {
        let head = read_head(&mut stream).await.unwrap();
        assert!(head.contains("expect: 100-continue\r\n"), "{head}");
        assert!(
            head.ends_with("\r\n\r\n"),
            "a body that nobody asked for: {head}"
        );
        write(&mut stream, "HTTP/1.1 100 Continue\r\n\r\n").await;
        take_body(stream).await;
    })
    .await;
    send_body_when_told(client_before(address).await).await;
}

#[tokio::test]
async fn a_client_is_not_told_to_go_on_where_the_upstream_refuses() {
    let (address, seen) = raw(|mut stream, _| async move {
        read_head(&mut stream).await;
        write(
            &mut stream,
            "HTTP/1.1 401 Unauthorized\r\ncontent-length: 2\r\n\r\nno",
        )
        .await;
        assert_eq!(read_head(&mut stream).await, None);
    })
    .await;
    let front = front(Protocol::Http1, upstream(&[address])).await;
    for _ in 0..2 {
        let mut client = TcpStream::connect(front).await.unwrap();
        let answer = talk(&mut client, EXPECTING, "\r\n\r\nno").await;
        assert!(answer.starts_with("HTTP/1.1 401 "), "{answer}");
    }
    assert_eq!(seen.connections(), 2);
}

#[tokio::test]
async fn an_upstream_that_does_not_know_the_question_gets_the_body() {
    let (address, _) = raw(|mut stream, _| async move {
        read_head(&mut stream).await;
        take_body(stream).await;
    })
    .await;
    send_body_when_told(client_before(address).await).await;
}

/// A server that tells whether it saw the end of a request in chunks.
async fn watcher() -> (SocketAddr, Seen, Seen) {
    let complete = Seen::default();
    let told = complete.clone();
    let (address, seen) = raw(move |mut stream, seen| {
        let told = told.clone();
        async move {
            let mut read = Vec::new();
            let _ = stream.read_to_end(&mut read).await;
            if String::from_utf8_lossy(&read).ends_with("0\r\n\r\n") {
                told.request();
            }
            seen.request();
        }
    })
    .await;
    (address, seen, complete)
}

const CHUNKED: &str =
    "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n4\r\nsome\r\n";

#[tokio::test]
async fn a_bad_chunk_is_the_clients_fault_and_not_an_end() {
    let (address, seen, complete) = watcher().await;
    let mut client = client_before(address).await;
    let answer = talk(&mut client, &format!("{CHUNKED}nonsense\r\n"), "\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    until("the connection closed", || seen.requests() == 1).await;
    assert_eq!(complete.requests(), 0);
}

#[tokio::test]
async fn a_client_that_goes_takes_its_request_with_it() {
    let (address, seen, complete) = watcher().await;
    let mut client = client_before(address).await;
    write(&mut client, CHUNKED).await;
    until("it is on its way", || seen.connections() == 1).await;
    drop(client);
    until("the connection closed", || seen.requests() == 1).await;
    assert_eq!(complete.requests(), 0);
}

#[tokio::test]
async fn an_old_client_has_its_answer_without_chunks() {
    let (address, _) = raw(|mut stream, _| async move {
        read_head(&mut stream).await;
        write(
            &mut stream,
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\ngood\r\n0\r\n\r\n",
        )
        .await;
        read_head(&mut stream).await;
    })
    .await;
    let mut client = client_before(address).await;
    let answer = talk(&mut client, "GET / HTTP/1.0\r\n\r\n", "good").await;
    assert!(answer.starts_with("HTTP/1.0 200 OK\r\n"), "{answer}");
    assert!(answer.ends_with("\r\n\r\ngood"), "{answer}");
}

#[tokio::test]
async fn either_version_is_forwarded_to_either() {
    for (outer, inner) in [
        (Protocol::Http1, Protocol::Http2),
        (Protocol::Http2, Protocol::Http1),
        (Protocol::Http2, Protocol::Http2),
    ] {
        let (address, seen) = serve(inner, |request| async move {
            let host = request.headers().get("host").cloned();
            let authority = request.uri().authority().map(ToString::to_string);
            let said = host.map_or(authority.unwrap_or_default(), |host| {
                host.to_str().unwrap().into()
            });
            let body = request.into_body().collect().await.unwrap().to_bytes();
            text(format!("{said} {}", body.len()))
        })
        .await;
        let front = front(outer, speaking(inner, &[address])).await;
        let io = TokioIo::new(TcpStream::connect(front).await.unwrap());
        let body = Full::new(Bytes::from(vec![1; 100_000]));
        let response = match outer {
            Protocol::Http1 => {
                let (mut sender, connection) =
                    hyper::client::conn::http1::handshake(io).await.unwrap();
                tokio::spawn(connection);
                let request = Request::post("/x")
                    .header("host", "named.test")
                    .body(body)
                    .unwrap();
                sender.send_request(request).await.unwrap()
            }
            Protocol::Http2 => {
                let (mut sender, connection) =
                    hyper::client::conn::http2::handshake(TokioExecutor::new(), io)
                        .await
                        .unwrap();
                tokio::spawn(connection);
                let request = Request::post("http://named.test/x").body(body).unwrap();
                sender.send_request(request).await.unwrap()
            }
        };
        assert_eq!(response.status(), StatusCode::OK);
        let body = response.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(body, "named.test 100000");
        assert_eq!(seen.requests(), 1);
    }
}

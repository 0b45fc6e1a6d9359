//! Bodies in both directions: as they come, and never shorter than they were.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::BodyExt;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::oneshot;
use tollward_gateway::{ForwardError, Forwarder};
use tollward_policy::Protocol;

use crate::fixtures::{
    LONG, UNDER_WAY, echo_piece_by_piece, fetch, get, piece, raw, read_head, serve, settled,
    upload_to_a_slow_server, upstream, write,
};
use crate::script::{Script, Step};

#[tokio::test]
async fn an_upload_waits_for_a_slow_server() {
    upload_to_a_slow_server(Protocol::Http1).await;
}

#[tokio::test]
async fn a_download_waits_for_a_slow_client() {
    let written = Arc::new(AtomicUsize::new(0));
    let count = written.clone();
    let (address, _) = raw(move |mut stream, _| {
        let count = count.clone();
        async move {
            read_head(&mut stream).await;
            write(
                &mut stream,
                &format!("HTTP/1.1 200 OK\r\ncontent-length: {LONG}\r\n\r\n"),
            )
            .await;
            let piece = vec![0; 64 << 10];
            while count.load(Ordering::SeqCst) < LONG {
                stream.write_all(&piece).await.unwrap();
                count.fetch_add(piece.len(), Ordering::SeqCst);
            }
        }
    })
    .await;
    let upstream = Arc::new(upstream(&[address]));
    let response = Forwarder::new().forward(&upstream, get("/")).await.unwrap();
    let mut body = response.into_body();
    let mut length = piece(&mut body).await.len();
    let before = settled(&written).await;
    assert!(before < UNDER_WAY, "{before} bytes taken from the server");
    let mut longest = 0;
    while let Some(frame) = body.frame().await {
        let piece = frame.unwrap().into_data().unwrap().len();
        longest = longest.max(piece);
        length += piece;
    }
    assert_eq!(length, LONG);
    assert!(longest <= 256 << 10, "{longest} bytes in one piece");
}

#[tokio::test]
async fn both_directions_flow_at_once() {
    let mut rest = echo_piece_by_piece(Protocol::Http1).await;
    assert!(rest.frame().await.is_none());
}

#[tokio::test]
async fn trailers_go_both_ways() {
    let (address, seen) = serve(Protocol::Http1, |request| async move {
        let body = request.into_body().collect().await.unwrap();
        let sum = body.trailers().unwrap()["x-sum"].clone();
        let mut trailers = HeaderMap::new();
        trailers.insert("x-back", sum);
        let body = Script::new([Step::Data("body".into()), Step::Trailers(trailers)]);
        let mut response = Response::new(body.boxed_unsync());
        response
            .headers_mut()
            .insert("trailer", "x-back".parse().unwrap());
        response
    })
    .await;
    let upstream = Arc::new(upstream(&[address]));
    let forwarder = Forwarder::new();
    for _ in 0..2 {
        let mut trailers = HeaderMap::new();
        trailers.insert("x-sum", "42".parse().unwrap());
        let body = Script::new([Step::Data("data".into()), Step::Trailers(trailers)]);
        let request = Request::post("/")
            .header("te", "trailers")
            .header("trailer", "x-sum")
            .body(body)
            .unwrap();
        let response = forwarder.forward(&upstream, request).await.unwrap();
        assert_eq!(response.headers()["trailer"], "x-back");
        let body = response.into_body().collect().await.unwrap();
        assert_eq!(body.trailers().unwrap()["x-back"], "42");
        assert_eq!(body.to_bytes(), "body");
    }
    assert_eq!(seen.connections(), 1);
}

#[tokio::test]
async fn an_answer_that_is_cut_short_is_an_error() {
    for answer in [
        "HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nhalf\r\n",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n9\r\nhalf",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nhalf\r\nnonsense\r\n",
    ] {
        let (address, _) = raw(move |mut stream, _| async move {
            read_head(&mut stream).await;
            write(&mut stream, answer).await;
        })
        .await;
        let upstream = Arc::new(upstream(&[address]));
        let response = Forwarder::new().forward(&upstream, get("/")).await.unwrap();
        let mut body = response.into_body();
        let mut read = Vec::new();
        let error = loop {
            match body.frame().await.expect("a clean end") {
                Ok(frame) => read.extend(frame.into_data().unwrap()),
                Err(error) => break error,
            }
        };
        assert_eq!(read, b"half", "{answer}");
        assert_eq!(error.status(), StatusCode::BAD_GATEWAY, "{answer}");
        assert!(body.frame().await.is_none());
    }
}

#[tokio::test]
async fn an_early_answer_gets_through_though_the_server_closes() {
    for _ in 0..20 {
        let (address, seen) = raw(|mut stream, seen| async move {
            read_head(&mut stream).await;
            seen.request();
            write(
                &mut stream,
                "HTTP/1.1 413 Too Large\r\ncontent-length: 8\r\n\r\ntoo much",
            )
            .await;
        })
        .await;
        let upstream = Arc::new(upstream(&[address]));
        let forwarder = Forwarder::new();
        let body = Script::zeros(LONG, Arc::default());
        let request = Request::post("/").body(body).unwrap();
        let response = fetch(&forwarder, &upstream, request).await.unwrap();
        assert_eq!(response.status(), StatusCode::PAYLOAD_TOO_LARGE);
        assert_eq!(response.body(), "too much");
        assert_eq!(seen.requests(), 1);
    }
}

#[tokio::test]
async fn an_early_answer_ends_the_connection_though_the_server_would_keep_it() {
    let (address, seen) = raw(|mut stream, seen| async move {
        while read_head(&mut stream).await.is_some() {
            seen.request();
            write(
                &mut stream,
                "HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\n\r\n",
            )
            .await;
        }
    })
    .await;
    let upstream = Arc::new(upstream(&[address]));
    let forwarder = Forwarder::new();
    for _ in 0..2 {
        let body = Script::new([Step::Hang]).with_length(10);
        let request = Request::post("/").body(body).unwrap();
        let response = fetch(&forwarder, &upstream, request).await.unwrap();
        assert_eq!(response.status(), StatusCode::UNAUTHORIZED);
    }
    assert_eq!(seen.connections(), 2);
}

/// All that a server read until the end of the connection.
async fn read_by_server(body: Script) -> (Result<(), ForwardError>, String) {
    let (sender, read) = oneshot::channel();
    let sender = std::sync::Mutex::new(Some(sender));
    let (address, seen) = raw(move |mut stream, _| {
        let sender = sender.lock().unwrap().take().expect("a second connection");
        async move {
            let mut read = Vec::new();
            let _ = stream.read_to_end(&mut read).await;
            sender.send(String::from_utf8(read).unwrap()).unwrap();
        }
    })
    .await;
    let upstream = Arc::new(upstream(&[address]));
    let request = Request::post("/").header("host", "a").body(body).unwrap();
    let sent = fetch(&Forwarder::new(), &upstream, request).await;
    let read = read.await.unwrap();
    assert_eq!(seen.connections(), 1);
    (sent.map(|_| ()), read)
}

#[tokio::test]
async fn a_broken_request_never_looks_complete() {
    let steps = || {
        [
            Step::Data("some".into()),
            Step::Wait(Duration::from_millis(20)),
            Step::Fail,
        ]
    };
    let (sent, read) = read_by_server(Script::new(steps())).await;
    assert_eq!(sent, Err(ForwardError::BadRequestBody));
    assert!(read.ends_with("\r\n\r\n4\r\nsome\r\n"), "{read:?}");
    assert_eq!(
        ForwardError::BadRequestBody.status(),
        StatusCode::BAD_REQUEST
    );

    let (sent, read) = read_by_server(Script::new(steps()).with_length(9)).await;
    assert_eq!(sent, Err(ForwardError::BadRequestBody));
    assert!(read.ends_with("content-length: 9\r\n\r\nsome"), "{read:?}");

    // A body that ends before the length that was announced is no better.
    let short = Script::new([Step::Data("some".into())]).with_length(9);
    let (sent, read) = read_by_server(short).await;
    assert!(sent.is_err());
    let complete =
        "content-length: 9\r\n\r\nsome".len() + "POST / HTTP/1.1\r\nhost: a\r\n".len() + 5;
    assert!(read.len() < complete, "{read:?}");
}

#[tokio::test]
async fn a_request_that_breaks_while_it_is_answered_breaks_the_answer() {
    let (address, _) = serve(Protocol::Http1, |request| async move {
        let body = request.into_body().map_err(std::io::Error::other);
        Response::new(body.boxed_unsync())
    })
    .await;
    let upstream = Arc::new(upstream(&[address]));
    let body = Script::new([
        Step::Data("some".into()),
        Step::Wait(Duration::from_millis(50)),
        Step::Fail,
    ]);
    let request = Request::post("/").body(body).unwrap();
    let response = Forwarder::new().forward(&upstream, request).await.unwrap();
    let mut body = response.into_body();
    assert_eq!(piece(&mut body).await, "some");
    let error = body.frame().await.unwrap().unwrap_err();
    assert_eq!(error, ForwardError::BadRequestBody);
}

//! Nothing waits for ever, and nothing that moves is cut off.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::BodyExt;
use tollward_gateway::{ForwardError, Forwarder};
use tollward_policy::Protocol;
use tollward_testkit::certificates::Certificates;

use crate::fixtures::{
    LONG, behind_half, fetch, get, piece, raw, read_head, serve, text, until, upstream, write,
};
use crate::script::{Script, Step};

const SHORT: Duration = Duration::from_millis(300);

#[tokio::test]
async fn a_server_that_says_nothing_is_given_up() {
    let (address, seen) = raw(|mut stream, seen| async move {
        read_head(&mut stream).await;
        seen.request();
        read_head(&mut stream).await;
        seen.request();
    })
    .await;
    let mut upstream = upstream(&[address]);
    upstream.response_timeout = SHORT;
    let error = fetch(&Forwarder::new(), &Arc::new(upstream), get("/"))
        .await
        .unwrap_err();
    assert_eq!(error, ForwardError::TimedOut);
    assert_eq!(error.status(), StatusCode::GATEWAY_TIMEOUT);
    until("the connection closed", || seen.requests() == 2).await;
    assert_eq!(seen.connections(), 1);
}

#[tokio::test]
async fn a_server_that_does_not_read_is_given_up() {
    let (address, _) = raw(|stream, _| async move {
        let _stream = stream;
        std::future::pending::<()>().await;
    })
    .await;
    let mut upstream = upstream(&[address]);
    upstream.response_timeout = SHORT;
    let body = Script::zeros(LONG, Arc::default());
    let request = Request::post("/").body(body).unwrap();
    let error = fetch(&Forwarder::new(), &Arc::new(upstream), request)
        .await
        .unwrap_err();
    assert_eq!(error, ForwardError::TimedOut);
}

#[tokio::test]
async fn an_upload_that_moves_is_not_cut_off() {
    let (address, _) = serve(Protocol::Http1, |request| async move {
        let body = request.into_body().collect().await.unwrap().to_bytes();
        text(body.len().to_string())
    })
    .await;
    let mut upstream = upstream(&[address]);
    upstream.response_timeout = SHORT;
    upstream.idle_timeout = SHORT;
    let steps = (0..10).flat_map(|_| [Step::Data("12345".into()), Step::Wait(SHORT / 4)]);
    let request = Request::post("/").body(Script::new(steps)).unwrap();
    let response = fetch(&Forwarder::new(), &Arc::new(upstream), request)
        .await
        .unwrap();
    assert_eq!(response.body(), "50");
}

#[tokio::test]
async fn a_client_that_does_not_send_is_not_the_servers_fault() {
    let (address, _) = serve(Protocol::Http1, |request| async move {
        let body = request.into_body().collect().await;
        text(body.map_or(0, |body| body.to_bytes().len()).to_string())
    })
    .await;
    let mut upstream = upstream(&[address]);
    upstream.response_timeout = SHORT / 3;
    upstream.idle_timeout = 3 * SHORT;
    let upstream = Arc::new(upstream);
    let forwarder = Forwarder::new();
    let slow = Script::new([
        Step::Data("12345".into()),
        Step::Wait(2 * SHORT),
        Step::Data("12345".into()),
    ]);
    let request = Request::post("/").body(slow).unwrap();
    let response = fetch(&forwarder, &upstream, request).await.unwrap();
    assert_eq!(response.body(), "10");
    let endless = Script::new([Step::Data("12345".into()), Step::Hang]);
    let request = Request::post("/").body(endless).unwrap();
    let error = fetch(&forwarder, &upstream, request).await.unwrap_err();
    assert_eq!(error, ForwardError::SlowRequestBody);
    assert_eq!(error.status(), StatusCode::REQUEST_TIMEOUT);
}

#[tokio::test]
async fn an_answer_that_stands_still_is_given_up() {
    let (address, _) = raw(|mut stream, _| async move {
        read_head(&mut stream).await;
        write(
            &mut stream,
            "HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf",
        )
        .await;
        read_head(&mut stream).await;
    })
    .await;
    let mut upstream = upstream(&[address]);
    upstream.idle_timeout = SHORT;
    let mut body = behind_half(upstream).await;
    let error = body.frame().await.unwrap().unwrap_err();
    assert_eq!(error, ForwardError::Stalled);
}

#[tokio::test]
async fn an_answer_that_moves_or_is_not_asked_for_is_not_cut_off() {
    let (address, _) = raw(|mut stream, _| async move {
        while read_head(&mut stream).await.is_some() {
            write(&mut stream, "HTTP/1.1 200 OK\r\ncontent-length: 40\r\n\r\n").await;
            for _ in 0..8 {
                tokio::time::sleep(SHORT / 4).await;
                write(&mut stream, "piece").await;
            }
        }
    })
    .await;
    let mut upstream = upstream(&[address]);
    upstream.idle_timeout = SHORT;
    let upstream = Arc::new(upstream);
    let forwarder = Forwarder::new();
    let response = fetch(&forwarder, &upstream, get("/")).await.unwrap();
    assert_eq!(response.body().len(), 40);

    let response = forwarder.forward(&upstream, get("/")).await.unwrap();
    let mut body = response.into_body();
    let mut read = piece(&mut body).await.len();
    // A client that reads slowly.
    tokio::time::sleep(3 * SHORT).await;
    while let Some(frame) = body.frame().await {
        read += frame
            .unwrap()
            .into_data()
            .unwrap_or_else(|_| Bytes::new())
            .len();
    }
    assert_eq!(read, 40);
}

#[tokio::test]
async fn a_handshake_that_does_not_come_is_given_up() {
    let (address, seen) = raw(|mut stream, _| async move {
        read_head(&mut stream).await;
    })
    .await;
    let mut upstream = upstream(&[address]);
    upstream.targets[0].tls = true;
    upstream.connect_timeout = SHORT;
    // The roots do not matter: it does not come to that.
    let certificates = Certificates::make();
    upstream.tls.ca = Some(certificates.ca.clone());
    let error = fetch(&Forwarder::new(), &Arc::new(upstream), get("/"))
        .await
        .unwrap_err();
    assert_eq!(error, ForwardError::ConnectTimedOut);
    assert_eq!(error.status(), StatusCode::GATEWAY_TIMEOUT);
    assert_eq!(seen.connections(), 1);
}

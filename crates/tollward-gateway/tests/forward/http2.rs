//! Upstreams that speak HTTP/2.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode, Version};
use http_body_util::{BodyExt, Empty, Full};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::sync::Notify;
use tollward_gateway::{ForwardError, Forwarder};
use tollward_policy::{HostHeader, Protocol, Upstream};

use crate::fixtures::{
    behind_half, echo_piece_by_piece, fetch, get, raw, serve, speaking, text, until,
    upload_to_a_slow_server,
};
use crate::script::{Script, Step};

fn http2(addresses: &[std::net::SocketAddr]) -> Upstream {
    speaking(Protocol::Http2, addresses)
}

#[tokio::test]
async fn many_requests_share_a_connection() {
    let (address, seen) = serve(Protocol::Http2, |request| async move {
        assert_eq!(request.version(), Version::HTTP_2);
        text(request.uri().to_string())
    })
    .await;
    let upstream = Arc::new(http2(&[address]));
    let forwarder = Forwarder::new();
    let waiting: Vec<_> = (0..50)
        .map(|_| {
            let (forwarder, upstream) = (forwarder.clone(), upstream.clone());
            tokio::spawn(async move { fetch(&forwarder, &upstream, get("/a?b")).await })
        })
        .collect();
    for answer in waiting {
        let response = answer.await.unwrap().unwrap();
        assert_eq!(response.body(), "http://client.test/a?b");
        assert_eq!(response.version(), Version::HTTP_11);
    }
    assert_eq!((seen.connections(), seen.requests()), (1, 50));
}

#[tokio::test]
async fn the_head_is_that_of_http2() {
    let (address, _) = serve(Protocol::Http2, |request| async move {
        let mut names: Vec<_> = request.headers().keys().map(|name| name.as_str()).collect();
        names.sort_unstable();
        text(format!("{} {}", request.uri(), names.join(",")))
    })
    .await;
    let mut upstream = http2(&[address]);
    upstream.host = HostHeader::Target;
    upstream.targets[0].prefix = "/base".into();
    let request = Request::get("/a")
        .header("host", "client.test")
        .header("connection", "upgrade, x-private")
        .header("upgrade", "websocket")
        .header("x-private", "1")
        .header("te", "trailers")
        .header("x-public", "2")
        .body(Empty::<Bytes>::new())
        .unwrap();
    let response = fetch(&Forwarder::new(), &Arc::new(upstream), request)
        .await
        .unwrap();
    let expected = format!("http://{address}/base/a te,x-public");
    assert_eq!(response.body(), &expected);
}

#[tokio::test]
async fn trailers_go_both_ways_as_grpc_needs_them() {
    let (address, _) = serve(Protocol::Http2, |request| async move {
        assert_eq!(request.headers()["te"], "trailers");
        let body = request.into_body().collect().await.unwrap();
        let mut trailers = body.trailers().cloned().unwrap();
        trailers.insert("grpc-status", "0".parse().unwrap());
        let body = Full::new(body.to_bytes())
            .with_trailers(async move { Some(Ok(trailers)) })
            .map_err(|never: std::convert::Infallible| match never {});
        Response::new(body.boxed_unsync())
    })
    .await;
    let mut trailers = HeaderMap::new();
    trailers.insert("x-sum", "42".parse().unwrap());
    let body = Script::new([Step::Data("data".into()), Step::Trailers(trailers)]);
    let request = Request::post("/")
        .header("te", "trailers")
        .body(body)
        .unwrap();
    let upstream = Arc::new(http2(&[address]));
    let response = Forwarder::new().forward(&upstream, request).await.unwrap();
    let body = response.into_body().collect().await.unwrap();
    assert_eq!(body.trailers().unwrap()["x-sum"], "42");
    assert_eq!(body.trailers().unwrap()["grpc-status"], "0");
    assert_eq!(body.to_bytes(), "data");
}

#[tokio::test]
async fn both_directions_flow_at_once() {
    let rest = echo_piece_by_piece(Protocol::Http2).await;
    assert!(rest.collect().await.unwrap().to_bytes().is_empty());
}

#[tokio::test]
async fn an_upload_waits_for_a_slow_server() {
    upload_to_a_slow_server(Protocol::Http2).await;
}

#[tokio::test]
async fn a_broken_request_never_looks_complete() {
    let outcome = Arc::new(std::sync::Mutex::new(None));
    let told = outcome.clone();
    let (address, _) = serve(Protocol::Http2, move |request| {
        let told = told.clone();
        async move {
            let read = request.into_body().collect().await;
            *told.lock().unwrap() = Some(read.is_ok());
            text("")
        }
    })
    .await;
    let upstream = Arc::new(http2(&[address]));
    let body = Script::new([
        Step::Data("some".into()),
        Step::Wait(Duration::from_millis(20)),
        Step::Fail,
    ]);
    let request = Request::post("/").body(body).unwrap();
    let error = fetch(&Forwarder::new(), &upstream, request)
        .await
        .unwrap_err();
    assert_eq!(error, ForwardError::BadRequestBody);
    until("the server told", || outcome.lock().unwrap().is_some()).await;
    assert_eq!(*outcome.lock().unwrap(), Some(false));
}

/// A server that takes few streams, and sends connections away when told.
async fn strict(streams: u32, leave: Arc<Notify>) -> (std::net::SocketAddr, Arc<AtomicUsize>) {
    let connections = Arc::new(AtomicUsize::new(0));
    let count = connections.clone();
    let (address, _) = raw(move |stream, _| {
        count.fetch_add(1, Ordering::SeqCst);
        let leave = leave.clone();
        async move {
            let service = service_fn(|request: Request<hyper::body::Incoming>| async move {
                let wait = request.uri().path() == "/slow";
                if wait {
                    tokio::time::sleep(Duration::from_millis(300)).await;
                }
                Ok::<_, std::convert::Infallible>(text("ok"))
            });
            let connection = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
                .max_concurrent_streams(streams)
                .serve_connection(TokioIo::new(stream), service);
            let mut connection = std::pin::pin!(connection);
            tokio::select! {
                _ = connection.as_mut() => return,
                () = leave.notified() => connection.as_mut().graceful_shutdown(),
            }
            let _ = connection.await;
        }
    })
    .await;
    (address, connections)
}

#[tokio::test]
async fn more_streams_than_a_server_takes_need_another_connection() {
    let (address, connections) = strict(2, Arc::default()).await;
    let upstream = Arc::new(http2(&[address]));
    let forwarder = Forwarder::new();
    // The first answer brings what the server takes.
    fetch(&forwarder, &upstream, get("/")).await.unwrap();
    let waiting: Vec<_> = (0..6)
        .map(|_| {
            let (forwarder, upstream) = (forwarder.clone(), upstream.clone());
            tokio::spawn(async move { fetch(&forwarder, &upstream, get("/slow")).await })
        })
        .collect();
    for answer in waiting {
        assert_eq!(answer.await.unwrap().unwrap().status(), StatusCode::OK);
    }
    let connections = connections.load(Ordering::SeqCst);
    assert!((2..=3).contains(&connections), "{connections} connections");
}

#[tokio::test]
async fn a_connection_that_is_sent_away_is_replaced() {
    let leave = Arc::new(Notify::new());
    let (address, connections) = strict(100, leave.clone()).await;
    let upstream = Arc::new(http2(&[address]));
    let forwarder = Forwarder::new();
    for round in 1..=3 {
        let slow = {
            let (forwarder, upstream) = (forwarder.clone(), upstream.clone());
            tokio::spawn(async move { fetch(&forwarder, &upstream, get("/slow")).await })
        };
        fetch(&forwarder, &upstream, get("/")).await.unwrap();
        assert_eq!(connections.load(Ordering::SeqCst), round);
        leave.notify_one();
        assert!(
            slow.await.unwrap().is_ok(),
            "what was under way is answered"
        );
    }
}

#[tokio::test]
async fn a_server_that_says_nothing_is_given_up() {
    let (address, _) = serve(Protocol::Http2, |_| std::future::pending()).await;
    let mut upstream = http2(&[address]);
    upstream.response_timeout = Duration::from_millis(300);
    let upstream = Arc::new(upstream);
    let forwarder = Forwarder::new();
    let error = fetch(&forwarder, &upstream, get("/")).await.unwrap_err();
    assert_eq!(error, ForwardError::TimedOut);
}

#[tokio::test]
async fn an_answer_that_stands_still_is_given_up() {
    let (address, _) = serve(Protocol::Http2, |_| async {
        let body = Script::new([Step::Data("half".into()), Step::Hang]);
        Response::new(body.boxed_unsync())
    })
    .await;
    let mut upstream = http2(&[address]);
    upstream.idle_timeout = Duration::from_millis(300);
    let body = behind_half(upstream).await;
    assert_eq!(body.collect().await.unwrap_err(), ForwardError::Stalled);
}

#[tokio::test]
async fn an_answer_that_is_cut_short_is_an_error() {
    let (address, _) = serve(Protocol::Http2, |_| async {
        let body = Script::new([
            Step::Data("half".into()),
            Step::Wait(Duration::from_millis(50)),
            Step::Fail,
        ]);
        Response::new(body.boxed_unsync())
    })
    .await;
    let response = Forwarder::new()
        .forward(&Arc::new(http2(&[address])), get("/"))
        .await
        .unwrap();
    let read = response.into_body().collect().await;
    assert_eq!(read.unwrap_err(), ForwardError::Reset);
}

#[tokio::test]
async fn a_server_of_http1_is_no_connection() {
    let (address, seen) = serve(Protocol::Http1, |_| async { text("ok") }).await;
    let upstream = Arc::new(http2(&[address]));
    let error = fetch(&Forwarder::new(), &upstream, get("/"))
        .await
        .unwrap_err();
    assert_eq!(error, ForwardError::NoConnection);
    assert_eq!(seen.requests(), 0);
}

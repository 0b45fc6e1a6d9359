//! Connections are kept, and a request is sent once.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use http_body_util::BodyExt;
use tokio::sync::Notify;
use tollward_gateway::{ForwardError, Forwarder};
use tollward_policy::Protocol;

use crate::fixtures::{fetch, get, raw, read_head, reset, serve, text, until, upstream, write};

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

#[tokio::test]
async fn one_connection_serves_one_request_after_the_other() {
    let (address, seen) = serve(Protocol::Http1, |request| async move {
        text(request.uri().path().to_owned())
    })
    .await;
    let upstream = Arc::new(upstream(&[address]));
    let forwarder = Forwarder::new();
    for round in 0..50 {
        let path = format!("/{round}");
        let response = fetch(&forwarder, &upstream, get(&path)).await.unwrap();
        assert_eq!(response.body(), &path);
    }
    assert_eq!(seen.connections(), 1);
    assert_eq!(seen.requests(), 50);
}

#[tokio::test]
async fn an_answer_that_is_not_read_takes_its_connection_with_it() {
    let (address, seen) = serve(Protocol::Http1, |_| async { text(vec![0; 1 << 20]) }).await;
    let upstream = Arc::new(upstream(&[address]));
    let forwarder = Forwarder::new();
    for _ in 0..2 {
        let response = forwarder.forward(&upstream, get("/")).await.unwrap();
        drop(response);
    }
    assert_eq!(seen.connections(), 2);
    let read = fetch(&forwarder, &upstream, get("/")).await.unwrap();
    assert_eq!(read.body().len(), 1 << 20);
    let again = fetch(&forwarder, &upstream, get("/")).await.unwrap();
    assert_eq!(again.body().len(), 1 << 20);
    assert_eq!(seen.connections(), 3);
}

#[tokio::test]
async fn a_connection_goes_back_though_nobody_asks_for_the_end() {
    let (address, seen) = serve(Protocol::Http1, |_| async { text(vec![7; 300_000]) }).await;
    let upstream = Arc::new(upstream(&[address]));
    let forwarder = Forwarder::new();
    for _ in 0..3 {
        let response = forwarder.forward(&upstream, get("/")).await.unwrap();
        let mut body = response.into_body();
        let mut length = 0;
        while !http_body::Body::is_end_stream(&body) {
            let frame = body.frame().await.unwrap().unwrap();
            length += frame.into_data().unwrap().len();
        }
        assert_eq!(length, 300_000);
    }
    assert_eq!(seen.connections(), 1);
}

#[tokio::test]
async fn a_connection_that_was_closed_meanwhile_is_not_noticed() {
    let (address, seen) = raw(|mut stream, seen| async move {
        if read_head(&mut stream).await.is_some() {
            seen.request();
            write(&mut stream, OK).await;
        }
    })
    .await;
    let upstream = Arc::new(upstream(&[address]));
    let forwarder = Forwarder::new();
    for round in 1..=20 {
        let response = fetch(&forwarder, &upstream, get("/")).await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(seen.requests(), round);
    }
    assert_eq!(seen.connections(), 20);
}

#[tokio::test]
async fn what_an_idle_server_says_is_nobodys_answer() {
    let (address, seen) = raw(|mut stream, seen| async move {
        read_head(&mut stream).await;
        seen.request();
        write(&mut stream, OK).await;
        write(
            &mut stream,
            "HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\n\r\n",
        )
        .await;
        read_head(&mut stream).await;
    })
    .await;
    let upstream = Arc::new(upstream(&[address]));
    let forwarder = Forwarder::new();
    for round in 1..=5 {
        let response = fetch(&forwarder, &upstream, get("/")).await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(seen.requests(), round);
    }
}

#[tokio::test]
async fn a_request_that_was_read_is_never_sent_again() {
    let (address, seen) = raw(|mut stream, seen| async move {
        // The first request of a connection is answered, so that the second one finds it kept.
        while read_head(&mut stream).await.is_some() {
            seen.request();
            if seen.requests() == 2 {
                return reset(stream);
            }
            write(&mut stream, OK).await;
        }
    })
    .await;
    let forwarder = Forwarder::new();
    let upstream = Arc::new(upstream(&[address]));
    assert!(fetch(&forwarder, &upstream, get("/")).await.is_ok());
    let error = fetch(&forwarder, &upstream, get("/")).await.unwrap_err();
    assert_eq!(error, ForwardError::Reset);
    assert_eq!(error.status(), StatusCode::BAD_GATEWAY);
    assert_eq!(seen.requests(), 2);
    assert_eq!(seen.connections(), 1);
}

#[tokio::test]
async fn a_close_instead_of_an_answer_is_an_error_and_one_request() {
    let (address, seen) = raw(|mut stream, seen| async move {
        read_head(&mut stream).await;
        seen.request();
    })
    .await;
    let (spare, unused) = serve(Protocol::Http1, |_| async { text("spare") }).await;
    let upstream = Arc::new(upstream(&[address, spare]));
    let forwarder = Forwarder::new();
    let mut errors = Vec::new();
    for _ in 0..2 {
        errors.extend(fetch(&forwarder, &upstream, get("/")).await.err());
    }
    assert_eq!(errors, [ForwardError::Reset]);
    assert_eq!((seen.requests(), unused.requests()), (1, 1));
}

#[tokio::test]
async fn there_are_no_more_connections_than_allowed() {
    let gate = Arc::new(Notify::new());
    let inside = gate.clone();
    let (address, seen) = serve(Protocol::Http1, move |_| {
        let gate = inside.clone();
        async move {
            gate.notified().await;
            text("late")
        }
    })
    .await;
    let mut upstream = upstream(&[address]);
    upstream.max_connections = 2;
    let upstream = Arc::new(upstream);
    let forwarder = Forwarder::new();
    let ask = || {
        let (forwarder, upstream) = (forwarder.clone(), upstream.clone());
        tokio::spawn(async move { fetch(&forwarder, &upstream, get("/")).await })
    };
    let waiting = [ask(), ask()];
    until("two requests", || seen.requests() == 2).await;
    let error = fetch(&forwarder, &upstream, get("/")).await.unwrap_err();
    assert_eq!(error, ForwardError::Busy);
    assert_eq!(error.status(), StatusCode::SERVICE_UNAVAILABLE);
    gate.notify_waiters();
    for answer in waiting {
        assert_eq!(answer.await.unwrap().unwrap().body(), "late");
    }
    gate.notify_one();
    assert!(fetch(&forwarder, &upstream, get("/")).await.is_ok());
    assert_eq!(seen.connections(), 2);
}

#[tokio::test]
async fn a_request_given_up_frees_its_connection() {
    let (address, seen) = raw(|mut stream, seen| async move {
        read_head(&mut stream).await;
        seen.request();
        // The end of the connection, not an answer, is what ends this.
        while read_head(&mut stream).await.is_some() {}
        seen.request();
    })
    .await;
    let mut upstream = upstream(&[address]);
    upstream.max_connections = 1;
    let upstream = Arc::new(upstream);
    let forwarder = Forwarder::new();
    for round in 0..3 {
        let given_up = fetch(&forwarder, &upstream, get("/"));
        let _ = tokio::time::timeout(Duration::from_millis(50), given_up).await;
        until("the end seen", || seen.requests() == 2 * (round + 1)).await;
    }
    assert_eq!(seen.connections(), 3);
}

#[tokio::test]
async fn unused_connections_are_closed_after_a_while() {
    let (address, seen) = raw(|mut stream, seen| async move {
        while read_head(&mut stream).await.is_some() {
            write(&mut stream, OK).await;
        }
        seen.request();
    })
    .await;
    let mut upstream = upstream(&[address]);
    upstream.idle_timeout = Duration::from_millis(300);
    let upstream = Arc::new(upstream);
    let forwarder = Forwarder::new();
    assert!(fetch(&forwarder, &upstream, get("/")).await.is_ok());
    until("the connection closed", || seen.requests() == 1).await;
    assert!(fetch(&forwarder, &upstream, get("/")).await.is_ok());
    assert_eq!(seen.connections(), 2);
}

#[tokio::test]
async fn connections_outlive_a_reload_and_not_the_forwarder() {
    let (address, seen) = raw(|mut stream, seen| async move {
        while read_head(&mut stream).await.is_some() {
            write(&mut stream, OK).await;
        }
        seen.request();
    })
    .await;
    let forwarder = Forwarder::new();
    for _ in 0..3 {
        let reloaded = Arc::new(upstream(&[address]));
        assert!(fetch(&forwarder, &reloaded, get("/")).await.is_ok());
    }
    assert_eq!(seen.connections(), 1);
    let mut changed = upstream(&[address]);
    changed.response_timeout = Duration::from_secs(9);
    assert!(
        fetch(&forwarder, &Arc::new(changed), get("/"))
            .await
            .is_ok()
    );
    assert_eq!(seen.connections(), 2);
    drop(forwarder);
    until("both connections closed", || seen.requests() == 2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_at_once_on_several_threads_all_have_their_own_answer() {
    let (address, seen) = serve(Protocol::Http1, |request| async move {
        let path = request.uri().path().to_owned();
        let body = request.into_body().collect().await.unwrap().to_bytes();
        text([path.as_bytes(), &body].concat())
    })
    .await;
    let upstream = Arc::new(upstream(&[address]));
    let forwarder = Forwarder::new();
    let clients: Vec<_> = (0..32)
        .map(|client| {
            let (forwarder, upstream) = (forwarder.clone(), upstream.clone());
            tokio::spawn(async move {
                for round in 0..100 {
                    let path = format!("/{client}/{round}");
                    let body = http_body_util::Full::new(Bytes::from(vec![b'x'; client * 1000]));
                    let request = http::Request::post(&path).body(body).unwrap();
                    let response = fetch(&forwarder, &upstream, request).await.unwrap();
                    assert!(response.body().starts_with(path.as_bytes()));
                    assert_eq!(response.body().len(), path.len() + client * 1000);
                }
            })
        })
        .collect();
    for client in clients {
        client.await.unwrap();
    }
    assert_eq!(seen.requests(), 3200);
    assert!(seen.connections() <= 32);
}

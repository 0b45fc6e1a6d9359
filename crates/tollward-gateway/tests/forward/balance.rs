//! Several targets: each has its share, and the dead are left alone.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tollward_gateway::{ForwardError, Forwarder};
use tollward_policy::Protocol;

use crate::fixtures::{Seen, fetch, get, raw, read_head, serve, text, until, upstream, write};

async fn three() -> (Vec<SocketAddr>, Vec<Seen>) {
    let mut servers = Vec::new();
    for _ in 0..3 {
        servers.push(serve(Protocol::Http1, |_| async { text("ok") }).await);
    }
    servers.into_iter().unzip()
}

/// An address where nobody listens.
async fn nobody() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    listener.local_addr().unwrap()
}

#[tokio::test]
async fn three_targets_have_a_third_each() {
    let (addresses, seen) = three().await;
    let upstream = Arc::new(upstream(&addresses));
    let forwarder = Forwarder::new();
    for _ in 0..30 {
        fetch(&forwarder, &upstream, get("/")).await.unwrap();
    }
    let requests: Vec<usize> = seen.iter().map(Seen::requests).collect();
    assert_eq!(requests, [10, 10, 10]);
}

#[tokio::test]
async fn a_target_that_is_busy_has_fewer() {
    let (mut addresses, seen) = three().await;
    let gate = Arc::new(Notify::new());
    let inside = gate.clone();
    let (slow, stuck) = serve(Protocol::Http1, move |_| {
        let gate = inside.clone();
        async move {
            gate.notified().await;
            text("late")
        }
    })
    .await;
    addresses[0] = slow;
    let upstream = Arc::new(upstream(&addresses));
    let forwarder = Forwarder::new();
    let waiting = {
        let (forwarder, upstream) = (forwarder.clone(), upstream.clone());
        tokio::spawn(async move { fetch(&forwarder, &upstream, get("/")).await })
    };
    until("one is stuck", || stuck.requests() == 1).await;
    for _ in 0..30 {
        fetch(&forwarder, &upstream, get("/")).await.unwrap();
    }
    assert_eq!(stuck.requests(), 1);
    assert_eq!(seen[1].requests() + seen[2].requests(), 30);
    gate.notify_one();
    assert_eq!(waiting.await.unwrap().unwrap().body(), "late");
}

#[tokio::test]
async fn a_dead_target_is_not_noticed_and_comes_back() {
    let (mut addresses, seen) = three().await;
    let dead = nobody().await;
    addresses[0] = dead;
    let upstream = Arc::new(upstream(&addresses));
    let forwarder = Forwarder::new();
    for _ in 0..12 {
        fetch(&forwarder, &upstream, get("/")).await.unwrap();
    }
    assert_eq!(seen[1].requests() + seen[2].requests(), 12);

    let listener = TcpListener::bind(dead).await.unwrap();
    let back = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let count = back.clone();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let count = count.clone();
            tokio::spawn(async move {
                while read_head(&mut stream).await.is_some() {
                    count.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                    write(&mut stream, "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
                }
            });
        }
    });
    let back = || back.load(std::sync::atomic::Ordering::SeqCst);
    // It rests, whoever listens there now: its turn would be among the next three.
    for _ in 0..3 {
        fetch(&forwarder, &upstream, get("/")).await.unwrap();
    }
    assert_eq!(back(), 0);
    for _ in 0..1000 {
        fetch(&forwarder, &upstream, get("/")).await.unwrap();
        if back() > 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let before = back();
    assert_eq!(before, 1, "it never came back");
    for _ in 0..30 {
        fetch(&forwarder, &upstream, get("/")).await.unwrap();
    }
    assert_eq!(back() - before, 10);
}

#[tokio::test]
async fn a_target_that_breaks_off_rests_too() {
    let (mut addresses, _) = three().await;
    let (breaking, broken) = raw(|mut stream, seen| async move {
        read_head(&mut stream).await;
        seen.request();
    })
    .await;
    addresses[0] = breaking;
    let upstream = Arc::new(upstream(&addresses));
    let forwarder = Forwarder::new();
    let mut errors = 0;
    for _ in 0..15 {
        errors += usize::from(fetch(&forwarder, &upstream, get("/")).await.is_err());
    }
    assert_eq!((errors, broken.requests()), (3, 3));
}

#[tokio::test]
async fn a_target_that_hangs_rests_too() {
    let (mut addresses, _) = three().await;
    let (hanging, hung) = raw(|mut stream, seen| async move {
        read_head(&mut stream).await;
        seen.request();
        read_head(&mut stream).await;
    })
    .await;
    addresses[0] = hanging;
    let mut upstream = upstream(&addresses);
    upstream.response_timeout = Duration::from_millis(300);
    let upstream = Arc::new(upstream);
    let forwarder = Forwarder::new();
    let mut errors = Vec::new();
    for _ in 0..15 {
        errors.extend(fetch(&forwarder, &upstream, get("/")).await.err());
    }
    assert_eq!(errors, [ForwardError::TimedOut; 3]);
    assert_eq!(hung.requests(), 3);
}

#[tokio::test]
async fn where_all_are_dead_the_answer_is_an_error_at_once() {
    let addresses = [nobody().await, nobody().await];
    let upstream = Arc::new(upstream(&addresses));
    let forwarder = Forwarder::new();
    for _ in 0..10 {
        let error = fetch(&forwarder, &upstream, get("/")).await.unwrap_err();
        assert_eq!(error, ForwardError::NoConnection);
        assert_eq!(error.status(), StatusCode::BAD_GATEWAY);
    }
    // Though they rest, they are asked: somebody has to find out.
    let listener = TcpListener::bind(addresses[0]).await.unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            read_head(&mut stream).await;
            write(&mut stream, "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
        }
    });
    assert!(fetch(&forwarder, &upstream, get("/")).await.is_ok());
}

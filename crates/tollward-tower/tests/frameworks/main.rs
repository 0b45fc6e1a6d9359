//! The layer in the frameworks that it is for, called over sockets.

#![cfg(feature = "axum")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::routing::get;
use tokio::net::TcpListener;
use tollward_engine::Engine;
use tollward_policy::compile;
use tollward_store::MemoryStore;
use tollward_testkit::clock::ManualClock;
use tollward_testkit::http::Connection;
use tollward_tower::{RateLimitLayer, Toll};
use tonic::transport::Endpoint;
use tonic::transport::server::TcpIncoming;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

const PER_IP: &[u8] =
    b"limits: { per-ip: { scope: ip, sustained: { rate: 1 }, burst: { capacity: 2 } } }";

fn layer() -> RateLimitLayer {
    let policy = compile(PER_IP).unwrap().policy;
    let store = Arc::new(MemoryStore::new(1000));
    let engine = Engine::new(policy, store, Arc::new(ManualClock::new()));
    RateLimitLayer::new(Arc::new(engine))
}

#[tokio::test]
async fn axum() {
    let app = Router::new()
        .route("/", get(async |toll: Toll| format!("{:?}", toll.cost())))
        .layer(layer());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let service = app.into_make_service_with_connect_info::<SocketAddr>();
    tokio::spawn(async move { axum::serve(listener, service).await });
    let answers = tokio::task::spawn_blocking(move || {
        let mut connection = Connection::open(address).unwrap();
        let mut call = || connection.request("GET", "/", &[], b"").unwrap();
        [call(), call(), call()]
    });
    let [first, second, third] = answers.await.unwrap();
    assert_eq!((first.status, &*first.body), (200, &b"Some(1)"[..]));
    assert_eq!(second.header("x-ratelimit-remaining"), Some("0"));
    assert_eq!(third.status, 429);
    assert_eq!(third.header("retry-after"), Some("1"));
}

#[tokio::test]
async fn tonic() {
    let (_, health) = tonic_health::server::health_reporter();
    let incoming = TcpIncoming::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = incoming.local_addr().unwrap();
    let mut server = tonic::transport::Server::builder().layer(layer());
    tokio::spawn(server.add_service(health).serve_with_incoming(incoming));
    let channel = Endpoint::from_shared(format!("http://{address}")).unwrap();
    let mut client = HealthClient::new(channel.connect().await.unwrap());
    let mut codes = Vec::new();
    for _ in 0..3 {
        let answer = client.check(HealthCheckRequest::default()).await;
        codes.push(answer.map(|answer| {
            let left = answer.metadata().get("x-ratelimit-remaining");
            left.unwrap().to_str().unwrap().to_owned()
        }));
    }
    let refused = codes.pop().unwrap().unwrap_err();
    assert_eq!(refused.code(), tonic::Code::ResourceExhausted);
    assert_eq!(refused.metadata().get("retry-after").unwrap(), "1");
    let left: Vec<String> = codes.into_iter().map(Result::unwrap).collect();
    assert_eq!(left, ["1", "0"]);
}

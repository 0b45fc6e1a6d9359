use std::net::SocketAddr;

use axum::Router;
use axum::routing::{get, post};
use tokio::net::{TcpListener, TcpSocket};
use tollward_testkit::http::{Connection, Response};
use tollward_tower::{Address, Toll};

use crate::{ONE, OTHER, PER_IP, assert_told_once, layer, log};

/// Serves a router on a free port, with the addresses of callers.
async fn serve(app: Router) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let service = app.into_make_service_with_connect_info::<SocketAddr>();
    tokio::spawn(async move { axum::serve(listener, service).await });
    address
}

/// Sends a request from one of this machine's addresses.
async fn call(
    to: SocketAddr,
    from: [u8; 4],
    request: (&'static str, &'static str),
    headers: &'static [(&'static str, &'static str)],
) -> Response {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(SocketAddr::from((from, 0))).unwrap();
    let stream = socket.connect(to).await.unwrap().into_std().unwrap();
    stream.set_nonblocking(false).unwrap();
    let answer = tokio::task::spawn_blocking(move || {
        let (method, target) = request;
        let mut connection = Connection::over(stream).unwrap();
        connection.request(method, target, headers, b"").unwrap()
    });
    answer.await.unwrap()
}

/// The statuses of requests from these addresses.
async fn statuses(to: SocketAddr, from: &[[u8; 4]]) -> Vec<u16> {
    let mut statuses = Vec::new();
    for from in from {
        statuses.push(call(to, *from, ("GET", "/"), &[]).await.status);
    }
    statuses
}

#[tokio::test]
async fn a_router_with_a_layer() {
    let app = Router::new().route("/", get(async |toll: Toll| format!("{:?}", toll.cost())));
    let address = serve(app.layer(layer(PER_IP))).await;
    let get = || call(address, ONE, ("GET", "/"), &[]);
    let first = get().await;
    assert_eq!((first.status, &*first.body), (200, &b"Some(1)"[..]));
    assert_eq!(get().await.header("x-ratelimit-remaining"), Some("0"));
    let third = get().await;
    assert_eq!(third.status, 429);
    assert_eq!(third.header("retry-after"), Some("1"));
}

#[tokio::test]
async fn each_address_has_its_own_bucket() {
    let app = Router::new().route("/", get(async || "served"));
    let address = serve(app.layer(layer(PER_IP))).await;
    let seen = statuses(address, &[ONE, ONE, ONE, OTHER, OTHER, OTHER]).await;
    assert_eq!(seen, [200, 200, 429, 200, 200, 429]);
}

/// Serves a router as one does who has forgotten the addresses of callers.
async fn serve_without_addresses(app: Router) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, app).await });
    address
}

#[tokio::test]
async fn a_forgotten_address_is_an_error_that_is_logged_once() {
    let (log, _logging) = log();
    let app = Router::new().route("/", get(async || "served"));
    let address = serve_without_addresses(app.layer(layer(PER_IP))).await;
    assert_eq!(statuses(address, &[ONE, OTHER, ONE]).await, [500; 3]);
    let answer = call(address, ONE, ("GET", "/"), &[]).await;
    assert_eq!(
        answer.header("content-type"),
        Some("application/problem+json")
    );
    assert_told_once(&log, "into_make_service_with_connect_info");
}

#[tokio::test]
async fn without_addresses_all_share_a_bucket_if_that_is_wanted() {
    let app = Router::new().route("/", get(async || "served"));
    let layer = layer(PER_IP).address(Address::Unknown);
    let address = serve_without_addresses(app.layer(layer)).await;
    assert_eq!(statuses(address, &[ONE, OTHER, ONE]).await, [200, 200, 429]);
}

/// `/generate` is what a nested router sees of `/api/generate`.
const NESTED: &str = "
limits: { all: { scope: global, sustained: { rate: 1 }, burst: { capacity: 100 } } }
routes:
  - { match: POST /api/generate, cost: 5 }
  - { match: POST /api/v1/generate, cost: 7 }
  - { match: /api/internal/**, deny: true }
  - { match: /generate, deny: true }
";

#[tokio::test]
async fn nested_routers_are_matched_by_the_whole_path() {
    let cost = async |toll: Toll| format!("{:?}", toll.cost());
    let inner = Router::new()
        .route("/generate", post(cost))
        .route("/internal/keys", get(cost))
        .route("/other", get(cost));
    let api = inner.clone().nest("/v1", inner).layer(layer(NESTED));
    let address = serve(Router::new().nest("/api", api)).await;
    let call = async |method, path| {
        let answer = call(address, ONE, (method, path), &[]).await;
        (answer.status, String::from_utf8(answer.body).unwrap())
    };
    let costs = |cost: u64| (200, format!("Some({cost})"));
    assert_eq!(call("POST", "/api/generate").await, costs(5));
    assert_eq!(call("POST", "/api/v1/generate?a=b").await, costs(7));
    assert_eq!(call("GET", "/api/other").await, costs(1));
    assert_eq!(call("GET", "/api/internal/keys").await.0, 403);
    assert_eq!(call("GET", "/api/v1/internal/keys").await, costs(1));
}

#[tokio::test]
async fn a_settled_cost_is_not_multiplied_by_the_route() {
    let config = "
limits: { tokens: { scope: global, sustained: { rate: 1, window: hour }, burst: { capacity: 10000 } } }
routes: [{ match: POST /api/generate, cost: 4000 }]
";
    let work = async |toll: Toll| toll.settle(1200).await.map_or("", |()| "settled");
    let api = Router::new().route("/generate", post(work));
    let address = serve(Router::new().nest("/api", api.layer(layer(config)))).await;
    for left in ["6000", "4800", "3600"] {
        let answer = call(address, ONE, ("POST", "/api/generate"), &[]).await;
        assert_eq!(answer.status, 200);
        assert_eq!(answer.header("x-ratelimit-remaining"), Some(left));
    }
}

use std::net::SocketAddr;

use axum::Router;
use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use axum::routing::{get, post};
use tokio::net::{TcpListener, TcpSocket};
use tollward_testkit::http::{Connection, Response};
use tollward_tower::{Address, Identity, Toll};

use crate::{ONE, OTHER, OWN, PER_IP, assert_told_once, layer, log};

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

/// An authentication of the service's own: it knows its sessions.
async fn authenticate(mut request: Request, next: Next) -> axum::response::Response {
    let session = request.headers().get("x-session").map(|it| it.as_bytes());
    let identity = match session {
        Some(b"session-of-alice") => Identity::new().user("alice").plan("pro"),
        Some(b"session-of-bob") => Identity::new().user("bob").plan("free"),
        Some(b"session-of-acme") => Identity::new().tenant("acme"),
        Some(b"session-of-carol") => Identity::new().user("carol").plan("gold"),
        _ => Identity::new(),
    };
    request.extensions_mut().insert(identity);
    next.run(request).await
}

#[tokio::test]
async fn an_outer_layer_says_who_calls() {
    let who = async |toll: Toll| format!("{:?} {:?} {:?}", toll.tenant(), toll.user(), toll.plan());
    let app = Router::new().route("/", get(who));
    let app = app.layer(layer(OWN)).layer(from_fn(authenticate));
    let address = serve(app).await;
    let call = async |headers| {
        let answer = call(address, ONE, ("GET", "/"), headers).await;
        (answer.status, String::from_utf8(answer.body).unwrap())
    };
    let alice = &[
        ("x-session", "session-of-alice"),
        ("x-api-key", "a key of the service's own"),
    ];
    let said = "None Some(\"alice\") Some(\"pro\")".to_owned();
    assert_eq!(call(alice).await, (200, said.clone()));
    assert_eq!(call(alice).await, (200, said));
    assert_eq!(call(alice).await.0, 429);
    // The same address, and others: each has a bucket of its own.
    let bob = &[("x-session", "session-of-bob")];
    let said = "None Some(\"bob\") Some(\"free\")".to_owned();
    assert_eq!(call(bob).await, (200, said));
    assert_eq!(call(bob).await.0, 429);
    let acme = &[("x-session", "session-of-acme")];
    let said = "Some(\"acme\") None Some(\"free\")".to_owned();
    assert_eq!(call(acme).await, (200, said));
    // Whoever is not authenticated has to show credentials, and these are checked.
    let (status, body) = call(&[]).await;
    assert_eq!(status, 401, "{body}");
    assert!(body.contains("anonymous"), "{body}");
    let (status, body) = call(&[("x-api-key", "a guess")]).await;
    assert_eq!(status, 401, "{body}");
    assert!(body.contains("unknown_key"), "{body}");
    // A plan that is none is the service's mistake.
    let (status, body) = call(&[("x-session", "session-of-carol")]).await;
    assert_eq!(status, 500, "{body}");
    assert!(body.contains("misconfigured"), "{body}");
}

#[tokio::test]
async fn functions_say_who_calls_and_what_it_costs() {
    let header = |head: &http::request::Parts, name| {
        let value = head.headers.get(name)?.to_str().ok()?;
        Some(value.to_owned())
    };
    let layer = layer("limits: { per-user: { scope: user, sustained: { rate: 10 } } }")
        .identify(move |head| {
            header(head, "x-user").map_or(Identity::new(), |user| Identity::new().user(user))
        })
        .cost(move |head| {
            header(head, "x-tokens")
                .and_then(|it| it.parse().ok())
                .unwrap_or(1)
        });
    let app = Router::new().route("/", get(async |toll: Toll| format!("{:?}", toll.cost())));
    let address = serve(app.layer(layer)).await;
    let left = async |headers| {
        let answer = call(address, ONE, ("GET", "/"), headers).await;
        let left = answer.header("x-ratelimit-remaining");
        left.unwrap().parse::<u32>().unwrap()
    };
    assert_eq!(left(&[("x-user", "alice"), ("x-tokens", "6")]).await, 4);
    assert_eq!(left(&[("x-user", "bob"), ("x-tokens", "2")]).await, 8);
    assert_eq!(left(&[("x-user", "alice")]).await, 3);
    assert_eq!(left(&[]).await, 9);
}

#[tokio::test]
async fn a_function_says_what_refusals_look_like() {
    let layer = layer(&format!(
        "{PER_IP}\nroutes: [{{ match: /closed, deny: true }}]"
    ));
    let layer = layer.on_refusal(|refusal, request| {
        if refusal.reason == Some("denied") {
            return None;
        }
        let wait = refusal.retry_after?.as_secs();
        let (path, limit) = (request.uri.path(), refusal.limit?);
        let response = http::Response::builder().status(420);
        let response = response.header("content-type", "text/plain");
        response
            .body(format!("{path}: {limit}, wait {wait} s"))
            .ok()
    });
    let app = Router::new().route("/", get(async || "served"));
    let app = app.route("/closed", get(async || "served"));
    let address = serve(app.layer(layer)).await;
    assert_eq!(statuses(address, &[ONE, ONE, ONE]).await, [200, 200, 420]);
    let refused = call(address, ONE, ("GET", "/"), &[]).await;
    assert_eq!(refused.body, b"/: limit:per-ip, wait 1 s");
    assert_eq!(refused.header("content-type"), Some("text/plain"));
    // What the function did not set is what it would have been.
    assert_eq!(refused.header("retry-after"), Some("1"));
    assert_eq!(refused.header("x-ratelimit-remaining"), Some("0"));
    assert_eq!(refused.header("cache-control"), Some("no-store"));
    let denied = call(address, OTHER, ("GET", "/closed"), &[]).await;
    assert_eq!(denied.status, 403);
    let problem = Some("application/problem+json");
    assert_eq!(denied.header("content-type"), problem);
}

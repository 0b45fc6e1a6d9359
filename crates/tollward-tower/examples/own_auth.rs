//! An axum service that authenticates its callers itself, and tells the layer who they are.
//!
//! `cargo run -p tollward-tower --features axum --example own_auth`, then
//! `curl -H 'x-session: alice-1' http://127.0.0.1:3000/`.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use axum::response::Response;
use axum::{Router, routing::get};
use tollward_engine::{Engine, SystemClock};
use tollward_store::MemoryStore;
use tollward_tower::{Identity, RateLimitLayer, Toll};

const LIMITS: &[u8] = b"
plans:
  free: { rate_limit: { scope: user, sustained: { rate: 10, window: minute } } }
  pro: { rate_limit: { scope: user, sustained: { rate: 100, window: minute } } }
limits:
  strangers: { scope: ip, when: anonymous, sustained: { rate: 2, window: minute } }
";

/// Finds the session and says whose it is. A real service would ask its database.
async fn authenticate(mut request: Request, next: Next) -> Response {
    let session = request.headers().get("x-session").map(|it| it.as_bytes());
    let identity = match session {
        Some(b"alice-1") => Identity::new().user("alice").plan("pro"),
        Some(b"bob-1") => Identity::new().user("bob").plan("free"),
        // Nobody that we know: anonymous.
        _ => Identity::new(),
    };
    request.extensions_mut().insert(identity);
    next.run(request).await
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let compiled = tollward_policy::compile(LIMITS).map_err(|faults| faults[0].to_string())?;
    let store = Arc::new(MemoryStore::new(1_000_000));
    let clock = Arc::new(SystemClock::new());
    let engine = Arc::new(Engine::new(compiled.policy, store, clock));
    let app = Router::new()
        .route("/", get(async |toll: Toll| format!("{:?}\n", toll.user())))
        .layer(RateLimitLayer::new(engine))
        // The layer that is added last is called first.
        .layer(from_fn(authenticate));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:3000").await?;
    let service = app.into_make_service_with_connect_info::<SocketAddr>();
    Ok(axum::serve(listener, service).await?)
}

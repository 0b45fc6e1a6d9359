//! An axum service with a limit of its own on every address and a plan for every API key.
//!
//! `cargo run -p tollward-tower --features axum --example axum`, then call <http://127.0.0.1:3000/>.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::{Router, routing::get};
use tollward_engine::{Engine, SystemClock};
use tollward_store::MemoryStore;
use tollward_tower::{RateLimitLayer, Toll};

const LIMITS: &[u8] =
    b"limits: { per-ip: { scope: ip, sustained: { rate: 1 }, burst: { capacity: 5 } } }";

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let compiled = tollward_policy::compile(LIMITS).map_err(|faults| faults[0].to_string())?;
    let store = Arc::new(MemoryStore::new(1_000_000));
    let engine = Arc::new(Engine::new(
        compiled.policy,
        store,
        Arc::new(SystemClock::new()),
    ));
    let app = Router::new()
        .route(
            "/",
            get(async |toll: Toll| format!("that was {:?}\n", toll.cost())),
        )
        .layer(RateLimitLayer::new(engine));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:3000").await?;
    let service = app.into_make_service_with_connect_info::<SocketAddr>();
    Ok(axum::serve(listener, service).await?)
}

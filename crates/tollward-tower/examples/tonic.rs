//! A gRPC service, here the health service of tonic, with a limit on every address and a dearer method.
//!
//! `cargo run -p tollward-tower --features tonic --example tonic`. With the feature `tonic` the layer reads
//! the address of a client from tonic, with or without TLS. Routes are the paths of gRPC methods.

use std::sync::Arc;

use tollward_engine::{Engine, SystemClock};
use tollward_store::MemoryStore;
use tollward_tower::RateLimitLayer;
use tonic::transport::Server;

const LIMITS: &[u8] = b"
limits: { per-ip: { scope: ip, sustained: { rate: 1 }, burst: { capacity: 10 } } }
routes: [{ match: /grpc.health.v1.Health/Watch, cost: 5 }]
";

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let compiled = tollward_policy::compile(LIMITS).map_err(|faults| faults[0].to_string())?;
    let store = Arc::new(MemoryStore::new(1_000_000));
    let clock = Arc::new(SystemClock::new());
    let engine = Arc::new(Engine::new(compiled.policy, store, clock));
    let (_, health) = tonic_health::server::health_reporter();
    let mut server = Server::builder().layer(RateLimitLayer::new(engine));
    let server = server.add_service(health);
    Ok(server.serve("127.0.0.1:50051".parse()?).await?)
}

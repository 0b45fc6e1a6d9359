//! The layer in the frameworks that it is for, called over sockets.

#![cfg(all(feature = "axum", feature = "tonic"))]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod in_axum;
mod in_tonic;

use std::io;
use std::sync::{Arc, Mutex};

use tollward_engine::Engine;
use tollward_policy::compile;
use tollward_store::MemoryStore;
use tollward_testkit::clock::ManualClock;
use tollward_tower::RateLimitLayer;

/// Two requests for each address.
const PER_IP: &str =
    "limits: { per-ip: { scope: ip, sustained: { rate: 1 }, burst: { capacity: 2 } } }";

/// For callers that the service authenticates itself: plans for those who are, and nothing for others.
const OWN: &str = "
plans:
  free: { rate_limit: { scope: user, sustained: { rate: 1 } } }
  pro: { rate_limit: { scope: user, sustained: { rate: 2 } } }
identity: { anonymous: reject }
tenants: { acme: { plan: free } }
";

/// Two addresses of this machine.
const ONE: [u8; 4] = [127, 0, 0, 1];
const OTHER: [u8; 4] = [127, 0, 0, 2];

/// A layer under a clock that stands still.
fn layer(config: &str) -> RateLimitLayer {
    let compiled = compile(config.as_bytes()).unwrap_or_else(|faults| panic!("{faults:?}"));
    let store = Arc::new(MemoryStore::new(1000));
    let engine = Engine::new(compiled.policy, store, Arc::new(ManualClock::new()));
    RateLimitLayer::new(Arc::new(engine))
}

/// What is logged on this thread.
#[derive(Default)]
struct Log(Mutex<Vec<u8>>);

impl io::Write for &Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A log, which is written for as long as the guard lives.
fn log() -> (Arc<Log>, tracing::subscriber::DefaultGuard) {
    let log = Arc::new(Log::default());
    let subscriber = tracing_subscriber::fmt()
        .with_ansi(false)
        .with_max_level(tracing::Level::ERROR)
        .with_writer(log.clone())
        .finish();
    (log, tracing::subscriber::set_default(subscriber))
}

/// Asserts that a missing address was logged once, with how to provide it.
fn assert_told_once(log: &Log, remedy: &str) {
    let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    assert_eq!(log.lines().count(), 1, "{log}");
    assert!(log.contains("ERROR") && log.contains(remedy), "{log}");
}

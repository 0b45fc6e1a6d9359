//! Callers who hang up.

use std::sync::Arc;
use std::time::Duration;

use prometheus_client::metrics::gauge::Gauge;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tollward_directory::Directory;
use tollward_engine::{Action, Engine, Mode};
use tollward_policy::{AuditSettings, DirectoryUrl, Facts, UsageSettings, compile};
use tollward_store::MemoryStore;
use tollward_testkit::clock::ManualClock;
use tollward_tower::Gate;

use super::api::Api;
use super::listener::{self, Limits};
use crate::clashes::Clashes;
use crate::counters::Counters;
use crate::metrics::Metrics;
use crate::records::Records;
use crate::server::Access;

/// One request, and one that waits for a minute.
const CONFIG: &[u8] = b"
identity: { anonymous: allow }
limits:
  line:
    scope: global
    sustained: { rate: 1, window: minute }
    strategy: queue
    queue: { max_wait: 1m, max_queue: 1 }
";

/// What would become of one more.
async fn next(engine: &Engine) -> Action {
    let active = engine.active();
    let decision = engine.check(&active, &Facts::default(), Mode::Peek).await;
    decision.unwrap().action
}

async fn until(engine: &Engine, action: Action) {
    for _ in 0..1000 {
        if next(engine).await == action {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("never {action:?}");
}

#[tokio::test]
async fn a_proxy_that_hangs_up_gives_its_place_back() {
    let counters = Counters::Memory(Arc::new(MemoryStore::new(100)));
    let clock = Arc::new(ManualClock::new());
    let policy = compile(CONFIG).unwrap().policy;
    let engine = Arc::new(Engine::new(policy, counters.store(), clock.clone()));
    let directory = Directory::open(&DirectoryUrl::Memory).await.unwrap();
    let (audit, usage) = (AuditSettings::default(), UsageSettings::default());
    let (records, _recorder) = Records::open("node", directory, clock, &audit, &usage).unwrap();
    // As on a Redis Cluster, where every decision is made to its end.
    let door = Api {
        engine: engine.clone(),
        gate: Gate::new(engine.clone()).finishes(true),
        metrics: Arc::new(Metrics::new(
            engine.clone(),
            counters,
            None,
            records,
            Clashes::default(),
        )),
        access: Access {
            token: None,
            peers: Vec::new(),
        },
        body_timeout: Duration::from_secs(60),
        finishes: true,
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let limits = Limits {
        connections: 10,
        head_timeout: Duration::from_secs(60),
        write_timeout: Duration::from_secs(60),
    };
    let (_stop, stopping) = watch::channel(false);
    let open = Gauge::default();
    tokio::spawn(listener::serve(
        listener,
        Arc::new(door),
        limits,
        open,
        stopping,
    ));
    let ask = || async {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = b"GET /auth/envoy/ HTTP/1.1\r\nhost: a\r\n\r\n";
        stream.write_all(request).await.unwrap();
        stream
    };
    let mut first = ask().await;
    let mut start = [0; 12];
    first.read_exact(&mut start).await.unwrap();
    assert_eq!(&start, b"HTTP/1.1 200");
    assert_eq!(next(&engine).await, Action::Queue);
    let waiting = ask().await;
    until(&engine, Action::Deny).await;
    drop(waiting);
    until(&engine, Action::Queue).await;
}

//! The gateway as a door of the server.

use std::sync::Arc;

use anyhow::Context;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tollgate_engine::{Clock, Engine};
use tollgate_gateway::front::{self, Workers};
use tollgate_gateway::{AccessLog, Forwarder, Gateway, Stats};
use tollgate_http::Proofs;
use tollgate_policy::GatewaySettings;
use tollgate_tower::{Gate, Strangers};

/// What every gate of this process is made of.
#[derive(Clone)]
pub(crate) struct Gates {
    pub(crate) engine: Arc<Engine>,
    pub(crate) proofs: Arc<Proofs>,
    /// A decision is made to its end once it was begun.
    pub(crate) finishes: bool,
    /// Told how long each decision took, in microseconds.
    pub(crate) timed: Arc<dyn Fn(u64) + Send + Sync>,
}

impl Gates {
    /// A gate that lets through what its upstream is to see.
    pub(crate) fn routed(&self) -> Gate {
        self.plain().routed(true)
    }

    /// A gate for callers who ask for somebody else.
    pub(crate) fn plain(&self) -> Gate {
        Gate::new(self.engine.clone())
            .proofs(self.proofs.clone())
            .strangers(Strangers::Refused)
            .finishes(self.finishes)
            .timed(self.timed.clone())
    }
}

/// Opens the gateway: its threads serve until [`run`] has ended.
pub(crate) fn open(
    listener: TcpListener,
    settings: &GatewaySettings,
    gates: &Gates,
    clock: Arc<dyn Clock>,
    stats: Arc<Stats>,
) -> anyhow::Result<Workers> {
    let log = AccessLog::open(&settings.access_log, clock, stats.clone())
        .context("cannot open the access log")?;
    let gate = gates.routed();
    let opened = stats.clone();
    let service = move || {
        let gateway = Gateway {
            gate: gate.clone(),
            forwarder: Forwarder::new(),
            log: log.clone(),
            stats: stats.clone(),
        };
        move |peer, request| {
            let gateway = gateway.clone();
            async move { gateway.answer(peer, request).await }
        }
    };
    let open = Arc::new(move |connections| opened.opened(connections));
    front::start(listener.into_std()?, settings, service, open).context("cannot open the gateway")
}

/// Serves until it is told to stop, then until every request under way is answered.
pub(crate) async fn run(mut workers: Workers, mut stopping: watch::Receiver<bool>) {
    // An error means that nobody is left to stop it.
    let _ = stopping.wait_for(|stopping| *stopping).await;
    workers.stop();
    workers.ended().await;
}

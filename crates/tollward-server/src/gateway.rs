//! The gateway as a door of the server.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::timeout;
use tollward_engine::{Clock, Engine};
use tollward_gateway::front::{self, RefusalHook, Workers};
use tollward_gateway::{AccessLog, Forwarder, Gateway, Stats, UpstreamFailed, Written};
use tollward_http::{CrossOrigin, Proofs, cross_origin};
use tollward_policy::GatewaySettings;
use tollward_tower::{Gate, Strangers};
use tracing::warn;

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

/// How long the last lines of the access log may take.
const LAST_LINES: Duration = Duration::from_secs(5);

/// A gateway that is open.
pub(crate) struct Open {
    workers: Workers,
    /// The end of its access log.
    written: Option<Written>,
}

/// Opens the gateway: its threads serve until [`Open::run`] has ended. `failed` is told of requests that an
/// upstream failed.
pub(crate) fn open(
    listener: TcpListener,
    settings: &GatewaySettings,
    gates: &Gates,
    clock: Arc<dyn Clock>,
    stats: Arc<Stats>,
    failed: Option<UpstreamFailed>,
) -> anyhow::Result<Open> {
    let log = AccessLog::open(&settings.access_log, clock, &stats)
        .context("cannot open the access log")?;
    let (log, written) = log.unzip();
    let logged = log.clone();
    let refused = move |it: &front::Refused<'_>| {
        if let Some(log) = &logged {
            log.refused(it);
        }
    };
    let gate = gates.routed();
    let opened = stats.clone();
    let service = move || {
        let gateway = Arc::new(Gateway {
            gate: gate.clone(),
            forwarder: Forwarder::new(),
            log: log.clone(),
            stats: stats.clone(),
            failed: failed.clone(),
        });
        move |peer, request| gateway.clone().answer(peer, request)
    };
    let open = Arc::new(move |connections| opened.opened(connections));
    let refusing = cors_of_refusals(gates.engine.clone());
    let (listener, refused) = (listener.into_std()?, Arc::new(refused));
    let workers = front::start(listener, settings, service, refusing, open, refused)
        .context("cannot open the gateway")?;
    Ok(Open { workers, written })
}

/// Lets pages of other origins read the refusals of requests that the gateway itself never saw.
fn cors_of_refusals(engine: Arc<Engine>) -> RefusalHook {
    Arc::new(move |head, headers| {
        let found = cross_origin(engine.active().policy(), head);
        if let Some(CrossOrigin::Request(cors, _)) = found {
            cors.write_to(headers);
        }
    })
}

impl Open {
    /// Serves until it is told to stop, then until every request under way is answered and logged.
    pub(crate) async fn run(mut self, mut stopping: watch::Receiver<bool>) {
        // An error means that nobody is left to stop it.
        let _ = stopping.wait_for(|stopping| *stopping).await;
        self.workers.stop();
        self.workers.ended().await;
        if let Some(written) = self.written
            && timeout(LAST_LINES, written.wait()).await.is_err()
        {
            warn!("the access log cannot be written: some lines are lost");
        }
    }
}

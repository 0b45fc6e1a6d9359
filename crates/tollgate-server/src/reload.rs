//! A new configuration while running: on SIGHUP, or when the file has changed.

use std::sync::Arc;
use std::time::Duration;

use tollgate_engine::Engine;
use tollgate_policy::Settings;
use tracing::{error, info, warn};

use crate::metrics::Metrics;
use crate::server::NO_UPSTREAM;
use crate::source::{Source, Stamp};

/// How often the file is looked at. A change is read at the second look that finds it.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Replaces the engine's policy whenever the configuration changes. A configuration that cannot be
/// used changes nothing, and is reported.
pub(crate) struct Reload {
    pub(crate) source: Source,
    /// The source's stamp when it was read at the start.
    pub(crate) stamp: Option<Stamp>,
    pub(crate) settings: Settings,
    pub(crate) engine: Arc<Engine>,
    pub(crate) metrics: Arc<Metrics>,
    /// Whether there is a gateway, which needs somewhere to send requests.
    pub(crate) has_gateway: bool,
    pub(crate) hangup: Hangup,
}

impl Reload {
    /// Watches for ever.
    pub(crate) async fn watch(mut self) {
        let mut last = self.stamp;
        loop {
            let asked = tokio::select! {
                () = self.hangup.recv() => true,
                () = tokio::time::sleep(LOOK_EVERY) => false,
            };
            let stamp = self.source.stamp();
            // A file that has changed since the last look may be half written.
            let settled = stamp.is_some() && stamp == last;
            last = stamp;
            if asked || (settled && stamp != self.stamp) {
                self.stamp = stamp;
                self.reload();
            }
        }
    }

    fn reload(&self) {
        match self.source.load() {
            Ok(compiled) if self.has_gateway && compiled.policy.upstreams().is_empty() => {
                self.metrics.reloaded(false);
                error!(
                    "configuration not reloaded, the old one stays in force:\n{}: {NO_UPSTREAM}",
                    self.source
                );
            }
            Ok(compiled) => {
                if compiled.settings != self.settings {
                    warn!(
                        "`listen`, `store` or `gateway` has changed: restart for that to take effect"
                    );
                }
                self.engine.replace(compiled.policy);
                self.metrics.reloaded(true);
                info!(config = %self.source, "configuration reloaded");
            }
            Err(fault) => {
                self.metrics.reloaded(false);
                error!("configuration not reloaded, the old one stays in force:\n{fault}");
            }
        }
    }
}

/// SIGHUP, where there is such a thing. From when this is made it no longer ends the process.
pub(crate) struct Hangup {
    #[cfg(unix)]
    signal: Option<tokio::signal::unix::Signal>,
}

impl Hangup {
    pub(crate) fn new() -> Self {
        Self {
            #[cfg(unix)]
            signal: tokio::signal::unix::signal(tokio::signal::unix::SignalKind::hangup()).ok(),
        }
    }

    async fn recv(&mut self) {
        #[cfg(unix)]
        if let Some(signal) = &mut self.signal
            && signal.recv().await.is_some()
        {
            return;
        }
        std::future::pending().await
    }
}

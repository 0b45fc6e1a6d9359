//! A new configuration while running: on SIGHUP, when the file has changed, or when somebody asks.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::spawn_blocking;
use tollward_directory::{AuditEvent, Mirror};
use tollward_engine::Engine;
use tollward_policy::{Compiled, Settings, Warning};
use tracing::{error, info, warn};

use crate::clashes::Clashes;
use crate::config_state::{Applied, Ask, Asker, ConfigState};
use crate::kept::Kept;
use crate::metrics::Metrics;
use crate::records::{Records, Severity};
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
    pub(crate) records: Records,
    pub(crate) mirror: Mirror,
    /// Whether there is a gateway, which needs somewhere to send requests.
    pub(crate) has_gateway: bool,
    pub(crate) clashes: Clashes,
    pub(crate) kept: Kept,
    pub(crate) hangup: Hangup,
    pub(crate) state: ConfigState,
    pub(crate) asked: mpsc::Receiver<Ask>,
}

impl Reload {
    /// Watches for ever.
    pub(crate) async fn watch(mut self) {
        let mut last = self.stamp;
        loop {
            let mut ask = None;
            let asked = tokio::select! {
                () = self.hangup.recv() => true,
                Some(asked) = self.asked.recv() => {
                    ask = Some(asked);
                    true
                }
                () = tokio::time::sleep(LOOK_EVERY) => false,
            };
            let stamp = self.source.stamp();
            // A file that has changed since the last look may be half written.
            let settled = stamp.is_some() && stamp == last;
            last = stamp;
            if asked || (settled && stamp != self.stamp) {
                self.stamp = stamp;
                let (asker, answer) = ask.map(|ask| (ask.asker, ask.answer)).unzip();
                // Looking at everybody whom the directory has takes a while that no request should wait for.
                let result;
                (self, result) = match spawn_blocking(move || {
                    let result = self.reload(asker.as_ref());
                    (self, result)
                })
                .await
                {
                    Ok(done) => done,
                    Err(error) => {
                        return error!("configurations are not reloaded any more: {error}");
                    }
                };
                if let Some(answer) = answer {
                    // Whoever asked may have gone.
                    let _ = answer.send(result);
                }
            }
        }
    }

    /// Puts the configuration in force, or says why not.
    fn reload(&self, asker: Option<&Asker>) -> Result<(), String> {
        let before = self.state.applied().hash;
        match self.usable() {
            Ok((text, compiled)) => {
                if compiled.settings != self.settings {
                    warn!(
                        "`listen`, `store`, `gateway`, `directory`, `audit` or `usage` has changed: restart for \
                         that to take effect"
                    );
                }
                self.mirror.configure(&compiled.settings.directory);
                self.engine.replace(compiled.policy);
                let now_ms = self.now_ms();
                let warnings = self.kept.warnings(compiled.warnings);
                tell_warnings(&self.source, &warnings);
                self.state.apply(text, warnings, now_ms);
                self.metrics.reloaded(true);
                info!(config = %self.source, "configuration reloaded");
                self.clashes.look(&self.engine);
                self.record(asker, &before, now_ms);
                Ok(())
            }
            Err(why) => {
                self.metrics.reloaded(false);
                error!("configuration not reloaded, the old one stays in force:\n{why}");
                self.state.refuse(&why, self.now_ms());
                Err(why)
            }
        }
    }

    /// The configuration, if it can be put in force.
    fn usable(&self) -> Result<(Vec<u8>, Compiled), String> {
        let text = self.source.read().map_err(|error| error.to_string())?;
        let compiled = self.source.compile(&text);
        let compiled = compiled.map_err(|error| error.to_string())?;
        if self.has_gateway && compiled.policy.upstreams().is_empty() {
            return Err(format!("{}: {NO_UPSTREAM}", self.source));
        }
        let new = compiled.policy.new_clashes(self.engine.active().policy());
        if new.is_empty() {
            return Ok((text, compiled));
        }
        let sentences: Vec<String> = new
            .iter()
            .map(|it| format!("{}: {it}", self.source))
            .collect();
        Err(sentences.join("\n"))
    }

    fn record(&self, asker: Option<&Asker>, before: &str, now_ms: i64) {
        let Applied { hash, source, .. } = self.state.applied();
        if hash == before && asker.is_none() {
            return;
        }
        let told = |hash: &str| serde_json::json!({ "sha256": hash }).to_string();
        self.records.record(AuditEvent {
            at: now_ms,
            event: "rate_limit_config_updated".to_owned(),
            severity: Severity::Info.word().to_owned(),
            actor: asker.map(|asker| asker.actor.clone()),
            address: asker.map(|asker| asker.address.clone()),
            identifier: Some(format!("config:{source}")),
            before: Some(told(before)),
            after: Some(told(&hash)),
            ..AuditEvent::default()
        });
    }

    fn now_ms(&self) -> i64 {
        let clock = self.engine.clock();
        let micros = clock.calendar(clock.now()).as_micros();
        i64::try_from(micros / 1000).unwrap_or(i64::MAX)
    }
}

/// Logs what is legal in a configuration but surely not meant.
pub(crate) fn tell_warnings(source: &Source, warnings: &[Warning]) {
    for warning in warnings {
        warn!("{source}:{warning}");
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

//! An upstream: its targets, and which one is next.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use rustls::ClientConfig;
use tokio::sync::OnceCell;
use tollward_policy::Upstream;

use super::clock::Clock;
use super::error::ForwardError;
use super::patience::Limits;
use super::server::{Flight, Server};
use super::tls;
use crate::ticks::ticks;

/// How long certificates that could not be read are not read again.
const TLS_RETRY: std::time::Duration = std::time::Duration::from_secs(5);

/// The targets of an upstream.
pub(super) struct Pools {
    pub(super) servers: Vec<Arc<Server>>,
    pub(super) limits: Limits,
    next: AtomicUsize,
    /// The tick of the last request.
    used: AtomicU64,
    tls: OnceCell<Arc<ClientConfig>>,
    tls_failed_until: AtomicU64,
}

impl Pools {
    pub(super) fn new(upstream: &Upstream, now: u64) -> Self {
        let servers = upstream.targets.iter();
        Self {
            servers: servers
                .map(|target| Arc::new(Server::new(target, upstream)))
                .collect(),
            limits: Limits::of(upstream),
            next: AtomicUsize::new(0),
            used: AtomicU64::new(now),
            tls: OnceCell::new(),
            tls_failed_until: AtomicU64::new(0),
        }
    }

    /// The target for the next request: of those that do not rest, the one with the fewest requests;
    /// of those that do, the one that is back soonest. None if all have been tried.
    pub(super) fn choose(&self, tried: &[usize], now: u64) -> Option<(usize, Flight)> {
        self.used.store(now, Ordering::Relaxed);
        let count = self.servers.len();
        let first = match count {
            0 => return None,
            1 => 0,
            _ => self.next.fetch_add(1, Ordering::Relaxed) % count,
        };
        let chosen = (first..first + count)
            .map(|place| place % count)
            .filter(|place| !tried.contains(place))
            .min_by_key(|place| {
                let server = &self.servers[*place];
                (server.rests_until(now), server.in_flight())
            })?;
        let flight = Flight::new(self.servers[chosen].clone(), now);
        Some((chosen, flight))
    }

    /// The certificates, if the target is asked with TLS. They are read once.
    pub(super) async fn tls(
        &self,
        upstream: &Arc<Upstream>,
        clock: &Clock,
    ) -> Result<Arc<ClientConfig>, ForwardError> {
        let read = || async {
            if clock.now() < self.tls_failed_until.load(Ordering::Relaxed) {
                return Err(ForwardError::Misconfigured);
            }
            let of = upstream.clone();
            let read = tokio::task::spawn_blocking(move || tls::client_config(&of)).await;
            let reason = match read {
                Ok(Ok(config)) => return Ok(config),
                Ok(Err(reason)) => reason,
                Err(error) => error.to_string(),
            };
            tracing::warn!(upstream = &*upstream.name, reason, "no TLS for an upstream");
            let until = clock.now().saturating_add(ticks(TLS_RETRY));
            self.tls_failed_until.store(until, Ordering::Relaxed);
            Err(ForwardError::Misconfigured)
        };
        self.tls.get_or_try_init(read).await.cloned()
    }

    /// Closes connections that are not needed.
    pub(super) fn sweep(&self, now: u64) {
        for server in &self.servers {
            server.sweep(now, self.limits.idle);
        }
    }

    /// Whether there has been no request since a tick, and none is under way.
    pub(super) fn is_unused_since(&self, tick: u64) -> bool {
        self.used.load(Ordering::Relaxed) < tick
            && self.servers.iter().all(|server| server.in_flight() == 0)
    }
}

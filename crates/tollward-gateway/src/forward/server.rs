//! One target: its connections, its load, its health.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tollward_policy::{Target, Upstream};

use super::clock::{Clock, locked};
use super::error::ForwardError;
use super::head::Address;
use super::health::Health;
use super::http1::Http1;
use super::http2::Http2;

/// The most connections that are kept though no request needs them.
const MAX_IDLE: usize = 512;

/// A target and what is open to it.
pub(super) struct Server {
    pub(super) target: Target,
    /// None if the target's name cannot be written in a request.
    pub(super) address: Option<Address>,
    /// Held by the one request that opens a shared connection, so that others wait for it.
    pub(super) opening: tokio::sync::Mutex<()>,
    max_connections: usize,
    open: Arc<AtomicUsize>,
    in_flight: AtomicUsize,
    /// Whether there is anything in `health`.
    is_unwell: AtomicBool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    health: Health,
    /// The one used last is used next, so that those which are not needed grow old.
    #[expect(
        clippy::vec_box,
        reason = "a connection is large and moves with every request"
    )]
    idle: Vec<Box<Http1>>,
    shared: Vec<Http2>,
}

impl Server {
    pub(super) fn new(target: &Target, upstream: &Upstream) -> Self {
        Self {
            target: target.clone(),
            address: Address::new(target, upstream.host),
            opening: tokio::sync::Mutex::new(()),
            max_connections: upstream.max_connections,
            open: Arc::default(),
            in_flight: AtomicUsize::new(0),
            is_unwell: AtomicBool::new(false),
            state: Mutex::default(),
        }
    }

    pub(super) fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::Relaxed)
    }

    /// When it can be asked: nothing if now.
    pub(super) fn rests_until(&self, now: u64) -> Option<u64> {
        if !self.is_unwell.load(Ordering::Relaxed) {
            return None;
        }
        let health = locked(&self.state).health;
        health.is_resting(now).then(|| health.back_at())
    }

    /// A connection that no request has, if there is one that works.
    pub(super) fn take_idle(&self) -> Option<Box<Http1>> {
        let mut state = locked(&self.state);
        while let Some(mut connection) = state.idle.pop() {
            if connection.is_still_free() {
                return Some(connection);
            }
        }
        None
    }

    /// Puts a connection back whose exchange is over.
    pub(super) fn put_idle(&self, mut connection: Box<Http1>, clock: &Clock) {
        connection.rest(clock.now());
        let mut state = locked(&self.state);
        if state.idle.len() < MAX_IDLE {
            state.idle.push(connection);
        }
    }

    /// The shared connection with the fewest requests that takes another.
    pub(super) fn shared(&self) -> Option<Http2> {
        let state = locked(&self.state);
        let open = state.shared.iter().filter(|http2| http2.is_open());
        open.filter_map(|http2| Some((http2.room()?, http2)))
            .min_by_key(|(streams, _)| *streams)
            .map(|(_, http2)| http2.clone())
    }

    pub(super) fn share(&self, http2: Http2) {
        let mut state = locked(&self.state);
        state.shared.retain(Http2::is_open);
        state.shared.push(http2);
    }

    /// No further request is sent on this connection.
    pub(super) fn retire(&self, http2: &Http2) {
        locked(&self.state).shared.retain(|other| !other.is(http2));
    }

    /// Room for one more connection.
    pub(super) fn slot(&self) -> Result<Slot, ForwardError> {
        let slot = Slot(self.open.clone());
        if self.open.fetch_add(1, Ordering::AcqRel) < self.max_connections {
            Ok(slot)
        } else {
            Err(ForwardError::Busy)
        }
    }

    /// Closes connections that nobody has used for so many ticks, or that the server has closed.
    pub(super) fn sweep(&self, now: u64, idle: u64) {
        let is_old = |since: u64| now.saturating_sub(since) >= idle;
        let mut state = locked(&self.state);
        state
            .idle
            .retain_mut(|http1| !is_old(http1.idle_since) && http1.is_still_free());
        state
            .shared
            .retain(|http2| http2.is_open() && !http2.idle_since().is_some_and(is_old));
    }

    /// It answered, whatever the answer.
    pub(super) fn answered(&self) {
        if self.is_unwell.load(Ordering::Relaxed) {
            let was_resting = locked(&self.state).health.answered();
            self.is_unwell.store(false, Ordering::Relaxed);
            if was_resting {
                tracing::info!(target = %self.target, "a target answers again");
            }
        }
    }

    /// There was no connection, or it broke before an answer.
    pub(super) fn failed(&self, now: u64) {
        let rest = locked(&self.state).health.failed(now);
        self.is_unwell.store(true, Ordering::Relaxed);
        if let Some(rest) = rest {
            tracing::warn!(target = %self.target, ?rest, "a target does not answer and is left alone");
        }
    }
}

/// A connection counts until this is dropped.
#[derive(Debug)]
pub(super) struct Slot(Arc<AtomicUsize>);

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// A request at a target counts until this is dropped.
pub(super) struct Flight {
    pub(super) server: Arc<Server>,
    is_trial: bool,
}

impl Flight {
    pub(super) fn new(server: Arc<Server>, now: u64) -> Self {
        server.in_flight.fetch_add(1, Ordering::Relaxed);
        let is_trial =
            server.is_unwell.load(Ordering::Relaxed) && locked(&server.state).health.sent(now);
        Self { server, is_trial }
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        self.server.in_flight.fetch_sub(1, Ordering::Relaxed);
        if self.is_trial {
            locked(&self.server.state).health.tried();
        }
    }
}

//! What a connection is doing, and how long it may go on like that.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::task::AbortHandle;

use super::bare::Turn;
use super::clock::Clock;
use super::framing::{Framing, Head, Phase};
use super::limits::Limits;

/// When the front stops, a connection may have the next request on its way. It is given so many ticks
/// since its last.
const GRACE: u64 = 5;
/// And an idle connection so many since the stop: what has arrived has to be seen.
const NOTICE: u64 = 2;
/// A client that takes back more requests than it lets be answered, and more than these, is let go:
/// each costs us more than it costs the client.
const MAX_ABORTED: u64 = 200;

/// Fewer bytes at once are pings and their like, which prove nothing.
const CONTROL: usize = 64;

/// The state of one connection, shared by its socket, its requests and whoever watches over it.
#[derive(Debug)]
pub(super) struct Pulse {
    clock: Clock,
    limits: Arc<Limits>,
    state: Mutex<State>,
    is_condemned: AtomicBool,
    /// Whether a service's answer is being written.
    pub(super) turn: Turn,
    /// When the client last took more than control frames.
    moved: AtomicU64,
}

#[derive(Debug)]
struct State {
    /// None before a protocol is known, on HTTP/2, and after an upgrade.
    framing: Option<Framing>,
    /// Heads that were read and whose requests have not begun. As many as fit into hyper's buffer.
    heads: VecDeque<Head>,
    exchanges: Vec<Watched>,
    /// An exchange of HTTP/2 whose task has not been made.
    fresh: Option<Arc<Exchange>>,
    open: usize,
    begun: u64,
    answered: u64,
    aborted: u64,
    accepted: u64,
    /// When the last exchange ended.
    quiet: u64,
    /// When the head came that is under way, or a TLS handshake began.
    opening: Option<u64>,
    /// Since when the client takes nothing.
    blocked: Option<u64>,
    stopping: Option<u64>,
    leaving: Option<u64>,
    is_refused: bool,
}

#[derive(Debug)]
struct Watched {
    exchange: Arc<Exchange>,
    /// Of the stream's task. Without one, the exchange is all there is on the connection.
    task: Option<AbortHandle>,
}

/// What should become of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Nothing, for so many ticks.
    Wait(u64),
    /// It has nothing to do: it may be closed, in good order.
    Leave,
    /// It has been waited for long enough.
    End,
}

impl Pulse {
    /// Of a connection that has just been accepted.
    pub(super) fn new(clock: Clock, limits: Arc<Limits>) -> Self {
        let now = clock.now();
        let state = State {
            framing: None,
            heads: VecDeque::new(),
            exchanges: Vec::new(),
            fresh: None,
            open: 0,
            begun: 0,
            answered: 0,
            aborted: 0,
            accepted: now,
            quiet: now,
            opening: None,
            blocked: None,
            stopping: None,
            leaving: None,
            is_refused: false,
        };
        Self {
            clock,
            limits,
            state: Mutex::new(state),
            is_condemned: AtomicBool::new(false),
            turn: Turn::off(),
            moved: AtomicU64::new(0),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No state is left half-changed by a panic: nothing below can panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn now(&self) -> u64 {
        self.clock.now()
    }

    /// From now on the messages of HTTP/1 are followed.
    pub(super) fn follow_http1(&self) {
        self.state().framing = Some(Framing::new(self.limits.header_bytes));
        self.turn.switch(true);
    }

    /// From now on the bytes are nobody's messages.
    pub(super) fn follow_no_more(&self) {
        self.state().framing = None;
        self.turn.switch(false);
    }

    /// The client has begun something before its first request: a handshake, a preface.
    pub(super) fn is_opening(&self, is_opening: bool) {
        self.state().opening = is_opening.then(|| self.now());
    }

    /// Bytes have come.
    pub(super) fn read(&self, bytes: &[u8]) {
        let state = &mut *self.state();
        let Some(framing) = &mut state.framing else {
            return;
        };
        let known = state.heads.len();
        framing.read(bytes, &mut state.heads);
        if framing.phase() != Phase::Head {
            state.opening = None;
        } else if state.opening.is_none() || state.heads.len() > known {
            state.opening = Some(self.clock.now());
        }
    }

    /// The client takes no more of what it is sent, or does so again.
    pub(super) fn is_blocked(&self, is_blocked: bool) {
        let mut state = self.state();
        let now = self.now();
        if is_blocked {
            state.blocked.get_or_insert(now);
        } else {
            state.blocked = None;
            state.quiet = now;
        }
    }

    /// The client has taken so many bytes.
    pub(super) fn wrote(&self, bytes: usize) {
        if bytes > CONTROL {
            self.moved.store(self.now(), Ordering::Relaxed);
        }
    }

    /// A request begins: HTTP/1 with the head that was read along, if its end was seen.
    pub(super) fn begin_http1(self: &Arc<Self>) -> (Guard, Option<Head>) {
        self.turn.asked();
        let mut state = self.state();
        let exchange = state.begin();
        state.exchanges.clear();
        state.exchanges.push(Watched {
            exchange: exchange.clone(),
            task: None,
        });
        let head = state.heads.pop_front();
        drop(state);
        (self.guard(exchange), head)
    }

    /// A request of HTTP/2 begins. Its task is told by [`Self::watch`].
    pub(super) fn begin_http2(self: &Arc<Self>) -> Guard {
        let mut state = self.state();
        let exchange = state.begin();
        state.fresh = Some(exchange.clone());
        if state.aborted > MAX_ABORTED.max(state.answered) {
            self.is_condemned.store(true, Ordering::Relaxed);
        }
        drop(state);
        self.guard(exchange)
    }

    fn guard(self: &Arc<Self>, exchange: Arc<Exchange>) -> Guard {
        Guard {
            pulse: self.clone(),
            exchange,
            is_answered: false,
        }
    }

    /// The task of the exchange that began last.
    pub(super) fn watch(&self, task: AbortHandle) {
        let mut state = self.state();
        let Some(exchange) = state.fresh.take() else {
            return;
        };
        // Those that have ended go when they are half of the list.
        if state.exchanges.len() >= 2 * state.open.max(8) {
            state.exchanges.retain(Watched::is_running);
        }
        let task = Some(task);
        state.exchanges.push(Watched { exchange, task });
    }

    /// Whether nothing more is to be read.
    pub(super) fn is_condemned(&self) -> bool {
        self.is_condemned.load(Ordering::Relaxed)
    }

    /// A request was refused, and what follows on the connection is not to be read.
    pub(super) fn refuse(&self) {
        let mut state = self.state();
        // Streams of HTTP/2 are refused one by one.
        state.is_refused |= state.framing.is_some();
    }

    /// Whether the client may still be sending what nobody reads.
    pub(super) fn is_cut_short(&self) -> bool {
        let state = self.state();
        let phase = state.framing.as_ref().map(Framing::phase);
        let is_between = phase.is_none_or(|phase| phase == Phase::Boundary);
        state.is_refused || !is_between || !state.heads.is_empty()
    }

    /// The front stops.
    pub(super) fn stop(&self) {
        self.state().stopping = Some(self.now());
    }

    /// Whether an exchange is under way.
    pub(super) fn is_busy(&self) -> bool {
        self.state().open > 0
    }

    /// Whether no more requests are wanted after the one that is being answered.
    pub(super) fn is_last(&self) -> bool {
        let state = self.state();
        let is_lost = state.framing.as_ref().is_some_and(Framing::is_lost);
        is_lost || state.is_refused || state.stopping.is_some()
    }

    /// The connection has been asked to close.
    pub(super) fn leave(&self) {
        self.state().leaving = Some(self.now());
    }

    /// What is to be done now. Streams whose client has stopped are ended here.
    pub(super) fn judge(&self) -> Verdict {
        let now = self.now();
        let mut state = self.state();
        if state.is_stuck(now, self.limits.idle_ticks) {
            return Verdict::End;
        }
        let most = match state.stopping {
            Some(_) => 1,
            None => self.limits.header_ticks.min(self.limits.idle_ticks),
        };
        if state.open > 0 {
            return Verdict::Wait(most);
        }
        let moved = self.moved.load(Ordering::Relaxed);
        let (deadline, then) = state.deadline(&self.limits, moved);
        match deadline.saturating_sub(now) {
            0 => then,
            left => Verdict::Wait(left.min(most)),
        }
    }
}

impl State {
    fn begin(&mut self) -> Arc<Exchange> {
        self.open += 1;
        self.begun += 1;
        self.opening = None;
        Arc::default()
    }

    /// Whether the client has not moved for `patience`, in a way that ends the connection.
    fn is_stuck(&mut self, now: u64, patience: u64) -> bool {
        let is_over = |since: u64| now.saturating_sub(since) >= patience;
        if self.blocked.is_some_and(is_over) {
            return true;
        }
        let mut is_stuck = false;
        self.exchanges.retain(|watched| {
            if !watched.exchange.stalled().is_some_and(is_over) {
                return watched.is_running();
            }
            match &watched.task {
                Some(task) => task.abort(),
                None => is_stuck = true,
            }
            false
        });
        is_stuck
    }

    /// Until when the next request may take, and what happens then.
    fn deadline(&self, limits: &Limits, moved: u64) -> (u64, Verdict) {
        let phase = match &self.framing {
            Some(framing) => framing.phase(),
            None if self.opening.is_some() => Phase::Head,
            None => Phase::Boundary,
        };
        let first = self.accepted + limits.header_ticks;
        if let Some(leaving) = self.leaving {
            // The end of an answer may still be on its way.
            let since = leaving.max(self.quiet).max(moved);
            return (since + limits.header_ticks, Verdict::End);
        }
        match (phase, self.stopping) {
            (Phase::Head, _) if self.begun == 0 => (first, Verdict::End),
            (Phase::Head, _) => {
                let since = self.opening.unwrap_or(self.quiet).max(self.quiet);
                (since + limits.header_ticks, Verdict::End)
            }
            (Phase::Boundary, Some(stopping)) if self.blocked.is_none() => {
                let deadline = (self.quiet + GRACE).max(stopping + NOTICE);
                (deadline, Verdict::Leave)
            }
            (Phase::Boundary, _) if self.begun == 0 => (first, Verdict::End),
            (Phase::Boundary, _) => (self.quiet + limits.idle_ticks, Verdict::Leave),
            (Phase::Body, _) => (self.quiet + limits.idle_ticks, Verdict::End),
        }
    }
}

impl Watched {
    fn is_running(&self) -> bool {
        self.task.as_ref().is_none_or(|task| !task.is_finished())
    }
}

/// A request and its answer: since when the client has kept us waiting. 0 is not at all.
#[derive(Debug, Default)]
pub(super) struct Exchange {
    /// For a piece of its body.
    pub(super) reading: AtomicU64,
    /// With taking a piece of the answer.
    pub(super) writing: AtomicU64,
    /// Its body was longer than it may be.
    pub(super) is_too_long: AtomicBool,
}

impl Exchange {
    fn stalled(&self) -> Option<u64> {
        let since = |moment: &AtomicU64| match moment.load(Ordering::Relaxed) {
            0 => None,
            since => Some(since),
        };
        let (reading, writing) = (since(&self.reading), since(&self.writing));
        reading.into_iter().chain(writing).min()
    }
}

/// Counts an exchange as open until it is dropped.
#[derive(Debug)]
pub(super) struct Guard {
    pub(super) pulse: Arc<Pulse>,
    pub(super) exchange: Arc<Exchange>,
    /// Whether the answer was given to its end.
    pub(super) is_answered: bool,
}

impl Drop for Guard {
    fn drop(&mut self) {
        let now = self.pulse.now();
        self.pulse.turn.answered();
        self.exchange.writing.store(0, Ordering::Relaxed);
        let mut state = self.pulse.state();
        state.open = state.open.saturating_sub(1);
        state.quiet = now;
        match self.is_answered {
            true => state.answered += 1,
            false => state.aborted += 1,
        }
    }
}

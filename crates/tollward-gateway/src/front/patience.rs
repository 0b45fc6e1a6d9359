//! Watching over one connection with one timer.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Sleep, sleep};

use super::pulse::{Pulse, Verdict};
use crate::ticks::TICK;

/// What a connection has to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// The front stops.
    Stop,
    /// It is not needed any more.
    Leave,
    /// It has used up our patience.
    End,
}

/// Looks at the pulse of a connection when it may be time. The timer is not touched by what happens on
/// the connection: it is set anew only when it fires.
#[derive(Debug)]
pub(super) struct Patience {
    pulse: Arc<Pulse>,
    timer: Pin<Box<Sleep>>,
    stopping: watch::Receiver<bool>,
    pub(super) is_stopping: bool,
}

impl Patience {
    pub(super) fn new(pulse: Arc<Pulse>, stopping: watch::Receiver<bool>) -> Self {
        let first = match pulse.judge() {
            Verdict::Wait(left) => wait(left),
            Verdict::Leave | Verdict::End => Duration::ZERO,
        };
        Self {
            pulse,
            timer: Box::pin(sleep(first)),
            stopping,
            is_stopping: false,
        }
    }

    /// Waits for something to tell. Cancel-safe.
    pub(super) async fn event(&mut self) -> Event {
        loop {
            tokio::select! {
                () = stopped(&mut self.stopping), if !self.is_stopping => {
                    self.is_stopping = true;
                    self.pulse.stop();
                    self.timer = Box::pin(sleep(TICK));
                    return Event::Stop;
                }
                () = &mut self.timer => {}
            }
            match self.pulse.judge() {
                Verdict::Wait(left) => self.rearm(left),
                Verdict::Leave => {
                    self.pulse.leave();
                    self.rearm(1);
                    return Event::Leave;
                }
                Verdict::End => return Event::End,
            }
        }
    }

    /// What a task comes to, unless it takes too long.
    pub(super) async fn bound<T>(&mut self, task: impl Future<Output = T>) -> Option<T> {
        let mut task = std::pin::pin!(task);
        loop {
            tokio::select! {
                biased;
                done = task.as_mut() => return Some(done),
                event = self.event() => match event {
                    Event::Stop => {}
                    Event::Leave | Event::End => return None,
                },
            }
        }
    }

    fn rearm(&mut self, left: u64) {
        let next = self.timer.deadline() + wait(left);
        self.timer.as_mut().reset(next);
    }
}

fn wait(ticks: u64) -> Duration {
    TICK.saturating_mul(u32::try_from(ticks).unwrap_or(u32::MAX))
}

/// Waits until the front stops, or nobody is left to stop it.
pub(super) async fn stopped(stopping: &mut watch::Receiver<bool>) {
    let _ = stopping.wait_for(|is_stopping| *is_stopping).await;
}

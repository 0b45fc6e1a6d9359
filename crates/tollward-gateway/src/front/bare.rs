//! hyper's own answers to what it cannot read, which get a body on their way out.
//!
//! hyper answers an unreadable message by itself, with an empty 400, 414 or 431, and no service hears of
//! it. Nothing else is written on a connection on which no request is being answered. So bytes are looked
//! at here only if hyper has no answer of a service to write, and a service's answer is never changed.

use std::io::{self, IoSlice};
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::task::{Poll, ready};

use tollward_http::{BareAnswer, explain_bare};

/// No service's answer is under way.
const IDLE: u8 = 0;
/// A service has a request.
const ASKED: u8 = 1;
/// hyper has the whole answer, and may not have written all of it.
const ANSWERED: u8 = 2;
/// The connection is no longer, or not yet, one of HTTP/1.
const OFF: u8 = 3;

/// Whether hyper has an answer of a service to write on a connection of HTTP/1.
#[derive(Debug)]
pub struct Turn(AtomicU8);

impl Turn {
    /// Of a connection that is not known to be HTTP/1.
    pub fn off() -> Self {
        Self(AtomicU8::new(OFF))
    }

    /// Of a connection of HTTP/1 without a request.
    pub fn idle() -> Self {
        Self(AtomicU8::new(IDLE))
    }

    /// From now on it is a connection of HTTP/1, or is one no more.
    pub fn switch(&self, is_on: bool) {
        self.0.store(if is_on { IDLE } else { OFF }, Relaxed);
    }

    /// A service is given a request.
    pub fn asked(&self) {
        self.move_on(IDLE, ASKED);
        self.move_on(ANSWERED, ASKED);
    }

    /// hyper is given the whole answer, or it will never have one.
    pub fn answered(&self) {
        self.move_on(ASKED, ANSWERED);
    }

    /// hyper has written whatever it was given.
    pub fn flushed(&self) {
        self.move_on(ANSWERED, IDLE);
    }

    fn is_idle(&self) -> bool {
        self.0.load(Relaxed) == IDLE
    }

    fn move_on(&self, from: u8, to: u8) {
        // A connection is one task: nobody comes in between.
        if self.0.load(Relaxed) == from {
            self.0.store(to, Relaxed);
        }
    }
}

/// The answer that is written instead of hyper's, and how much of it is written.
#[derive(Debug, Default)]
pub struct Instead(Option<(BareAnswer, usize)>);

impl Instead {
    /// Looks at bytes that hyper wants to write. The answer, if these are hyper's own and this is the first
    /// look at them.
    pub fn look(&mut self, turn: &Turn, pieces: &[IoSlice<'_>]) -> Option<&BareAnswer> {
        if self.0.is_some() || !turn.is_idle() {
            return None;
        }
        let mut pieces = pieces.iter().filter(|piece| !piece.is_empty());
        let (only, None) = (pieces.next()?, pieces.next()) else {
            return None;
        };
        let (answer, _) = self.0.insert((explain_bare(only)?, 0));
        Some(answer)
    }

    /// Whether there is something to be written instead.
    pub fn is_some(&self) -> bool {
        self.0.is_some()
    }

    /// Writes it. Once all of it is written, the `asked` bytes of hyper count as written.
    pub fn poll_write(
        &mut self,
        asked: usize,
        mut write: impl FnMut(&[u8]) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if let Some((answer, written)) = &mut self.0 {
            while let Some(rest) = answer.bytes.get(*written..).filter(|it| !it.is_empty()) {
                match ready!(write(rest))? {
                    0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                    more => *written += more,
                }
            }
        }
        Poll::Ready(Ok(asked))
    }
}

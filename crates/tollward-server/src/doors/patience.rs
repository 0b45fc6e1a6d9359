//! A connection whose other end has to keep reading.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Sleep, sleep};
use tollward_gateway::front::{Instead, Turn};

/// How long a client that was refused may go on sending, so that it comes to read the refusal.
const LINGER: Duration = Duration::from_secs(1);

/// Gives up on a client that takes nothing of what it is sent for `patience`, so that it does not
/// keep its place for ever.
pub(crate) struct Patient {
    stream: TcpStream,
    patience: Duration,
    stalled: Option<Pin<Box<Sleep>>>,
    /// Whether hyper writes an answer of the door, or its own.
    turn: Arc<Turn>,
    instead: Instead,
    linger: Option<Pin<Box<Sleep>>>,
}

impl Patient {
    pub(crate) fn new(stream: TcpStream, patience: Duration, turn: Arc<Turn>) -> Self {
        Self {
            stream,
            patience,
            stalled: None,
            turn,
            instead: Instead::default(),
            linger: None,
        }
    }

    /// Whether these bytes are hyper's own answer, for which another is written.
    fn is_bare(&mut self, pieces: &[IoSlice<'_>]) -> bool {
        self.instead.look(&self.turn, pieces);
        self.instead.is_some()
    }

    fn poll_write_instead(
        &mut self,
        cx: &mut Context<'_>,
        asked: usize,
    ) -> Poll<io::Result<usize>> {
        let stream = &mut self.stream;
        let written = self
            .instead
            .poll_write(asked, |bytes| Pin::new(&mut *stream).poll_write(cx, bytes));
        self.bounded(written, cx)
    }

    /// Reads and throws away until the client has gone, or for a while: a socket that is closed with bytes
    /// unread takes back what it has sent.
    fn poll_linger(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let until = self.linger.get_or_insert_with(|| Box::pin(sleep(LINGER)));
        if until.as_mut().poll(cx).is_ready() {
            return Poll::Ready(());
        }
        let mut bytes = [0; 4096];
        // So that a client who sends without end does not hold up the others.
        for _ in 0..16 {
            let mut buffer = ReadBuf::new(&mut bytes);
            match ready!(Pin::new(&mut self.stream).poll_read(cx, &mut buffer)) {
                Ok(()) if !buffer.filled().is_empty() => {}
                _ => return Poll::Ready(()),
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    fn bounded<T>(
        &mut self,
        written: Poll<io::Result<T>>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let patience = self.patience;
        let stalled = self
            .stalled
            .get_or_insert_with(|| Box::pin(sleep(patience)));
        let given_up = |()| Err(io::ErrorKind::TimedOut.into());
        stalled.as_mut().poll(cx).map(given_up)
    }
}

impl AsyncRead for Patient {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Patient {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.is_bare(&[IoSlice::new(bytes)]) {
            return self.poll_write_instead(cx, bytes.len());
        }
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.bounded(written, cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.is_bare(pieces) {
            let asked = pieces.iter().map(|piece| piece.len()).sum();
            return self.poll_write_instead(cx, asked);
        }
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, pieces);
        self.bounded(written, cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.turn.flushed();
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.linger.is_none() {
            ready!(Pin::new(&mut self.stream).poll_shutdown(cx))?;
            if !self.instead.is_some() {
                return Poll::Ready(Ok(()));
            }
        }
        self.poll_linger(cx).map(Ok)
    }
}

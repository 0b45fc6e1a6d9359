//! The socket of a connection, as hyper sees it.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Sleep, sleep};
use tokio_rustls::server::TlsStream;

use super::bare::Instead;
use super::places::Place;
use super::pulse::Pulse;
use super::refused::Witness;

/// How long a client that was refused may go on sending, so that it comes to read the refusal: a
/// socket that is closed with bytes unread takes back what it has sent.
const LINGER: Duration = Duration::from_secs(2);

/// The first bytes of HTTP/2.
const PREFACE: [u8; 24] = *b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The bytes of a connection, in clear or under TLS.
#[derive(Debug)]
pub(super) enum Stream {
    Clear(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// A socket that tells its pulse what happens to it. It keeps its place among the connections for as
/// long as it is open, as a tunnel too.
#[derive(Debug)]
pub(super) struct Wire {
    stream: Stream,
    /// What was read to tell the protocol, and how much of it has been given on.
    first: ([u8; PREFACE.len()], u8, u8),
    pulse: Arc<Pulse>,
    is_blocked: bool,
    linger: Option<Pin<Box<Sleep>>>,
    instead: Instead,
    witness: Witness,
    _place: Place,
}

impl Wire {
    pub(super) fn new(stream: Stream, pulse: Arc<Pulse>, witness: Witness, place: Place) -> Self {
        Self {
            stream,
            first: ([0; PREFACE.len()], 0, 0),
            pulse,
            is_blocked: false,
            linger: None,
            instead: Instead::default(),
            witness,
            _place: place,
        }
    }

    /// Reads as much as it takes to tell whether this is HTTP/2.
    pub(super) async fn is_http2(&mut self) -> io::Result<bool> {
        let (bytes, read, _) = &mut self.first;
        loop {
            let known = usize::from(*read);
            if bytes[..known] != PREFACE[..known] {
                return Ok(false);
            }
            if known == PREFACE.len() {
                return Ok(true);
            }
            let mut rest = ReadBuf::new(&mut bytes[known..]);
            let stream = &mut self.stream;
            std::future::poll_fn(|cx| stream.poll_read(cx, &mut rest)).await?;
            match u8::try_from(rest.filled().len()) {
                Ok(0) | Err(_) => return Ok(false),
                Ok(more) => *read += more,
            }
            self.pulse.is_opening(true);
        }
    }

    fn take_first(&mut self, buffer: &mut ReadBuf<'_>) {
        let (bytes, read, taken) = &mut self.first;
        let left = &bytes[usize::from(*taken)..usize::from(*read)];
        let left = &left[..left.len().min(buffer.remaining())];
        buffer.put_slice(left);
        // At most as much as was left of 24.
        *taken = taken.saturating_add(u8::try_from(left.len()).unwrap_or(u8::MAX));
    }

    fn counted(&mut self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let Poll::Ready(Ok(bytes)) = &written {
            self.pulse.wrote(*bytes);
        }
        self.bounded(written)
    }

    /// Notes whether the client keeps us from writing.
    fn bounded<T>(&mut self, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_pending() != self.is_blocked {
            self.is_blocked = written.is_pending();
            self.pulse.is_blocked(self.is_blocked);
        }
        written
    }

    /// Whether these bytes are hyper's own answer, for which another is written.
    fn is_bare(&mut self, pieces: &[IoSlice<'_>]) -> bool {
        if let Some(answer) = self.instead.look(&self.pulse.turn, pieces) {
            self.witness
                .tell(None, answer.status, answer.detail, answer.body_bytes as u64);
        }
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
            .poll_write(asked, |bytes| stream.poll_write(cx, bytes));
        self.counted(written)
    }

    /// Reads and throws away until the client has gone, or for a while.
    fn poll_linger(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let until = self.linger.get_or_insert_with(|| Box::pin(sleep(LINGER)));
        if until.as_mut().poll(cx).is_ready() {
            return Poll::Ready(());
        }
        let mut bytes = [0; 4096];
        // So that a client who sends without end does not hold up the others.
        for _ in 0..16 {
            let mut buffer = ReadBuf::new(&mut bytes);
            match ready!(self.stream.poll_read(cx, &mut buffer)) {
                Ok(()) if !buffer.filled().is_empty() => {}
                _ => return Poll::Ready(()),
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.pulse.is_condemned() {
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        let before = buffer.filled().len();
        if self.first.1 > self.first.2 {
            self.take_first(buffer);
        } else {
            ready!(self.stream.poll_read(cx, buffer))?;
        }
        let read = &buffer.filled()[before..];
        if !read.is_empty() {
            self.pulse.read(read);
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Wire {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.is_bare(&[IoSlice::new(bytes)]) {
            return self.poll_write_instead(cx, bytes.len());
        }
        let written = self.stream.poll_write(cx, bytes);
        self.counted(written)
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
        let written = match &mut self.stream {
            Stream::Clear(stream) => Pin::new(stream).poll_write_vectored(cx, pieces),
            Stream::Tls(stream) => Pin::new(stream).poll_write_vectored(cx, pieces),
        };
        self.counted(written)
    }

    fn is_write_vectored(&self) -> bool {
        match &self.stream {
            Stream::Clear(stream) => stream.is_write_vectored(),
            Stream::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.pulse.turn.flushed();
        // A socket has nothing to flush, and its readiness says nothing about being blocked.
        let Stream::Tls(stream) = &mut self.stream else {
            return Poll::Ready(Ok(()));
        };
        let flushed = Pin::new(stream).poll_flush(cx);
        self.bounded(flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.linger.is_none() {
            let shut = match &mut self.stream {
                Stream::Clear(stream) => Pin::new(stream).poll_shutdown(cx),
                Stream::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
            };
            ready!(self.bounded(shut))?;
            if !self.pulse.is_cut_short() {
                return Poll::Ready(Ok(()));
            }
        }
        self.poll_linger(cx).map(Ok)
    }
}

impl Stream {
    fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self {
            Self::Clear(stream) => Pin::new(stream).poll_read(cx, buffer),
            Self::Tls(stream) => Pin::new(stream).poll_read(cx, buffer),
        }
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self {
            Self::Clear(stream) => Pin::new(stream).poll_write(cx, bytes),
            Self::Tls(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }
}

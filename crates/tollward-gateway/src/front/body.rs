//! Bodies that are watched as they pass.

use std::error::Error;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body as _, Frame, SizeHint};
use http_body_util::Full;
use hyper::body::Incoming;

use super::pulse::{Exchange, Guard, Pulse};

/// The body of a request.
///
/// It ends with an error if it is longer than the front allows. While it is waited for, the client's
/// patience is measured: one that sends nothing for the idle timeout loses its connection or stream.
#[derive(Debug)]
pub struct Body {
    incoming: Incoming,
    /// Bytes that may still come.
    left: Option<u64>,
    pulse: Arc<Pulse>,
    exchange: Arc<Exchange>,
}

impl Body {
    pub(super) fn new(incoming: Incoming, most: Option<u64>, guard: &Guard) -> Self {
        Self {
            incoming,
            left: most,
            pulse: guard.pulse.clone(),
            exchange: guard.exchange.clone(),
        }
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let polled = Pin::new(&mut self.incoming).poll_frame(cx);
        let reading = &self.exchange.reading;
        let Poll::Ready(frame) = polled else {
            if reading.load(Ordering::Relaxed) == 0 {
                reading.store(self.pulse.now(), Ordering::Relaxed);
            }
            return Poll::Pending;
        };
        reading.store(0, Ordering::Relaxed);
        let frame = match frame {
            None => return Poll::Ready(None),
            Some(Err(error)) => return Poll::Ready(Some(Err(BodyError::Broken(error)))),
            Some(Ok(frame)) => frame,
        };
        if let (Some(left), Some(data)) = (&mut self.left, frame.data_ref()) {
            match left.checked_sub(data.len() as u64) {
                Some(rest) => *left = rest,
                None => {
                    self.exchange.is_too_long.store(true, Ordering::Relaxed);
                    self.pulse.refuse();
                    return Poll::Ready(Some(Err(BodyError::TooLong)));
                }
            }
        }
        Poll::Ready(Some(Ok(frame)))
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        self.exchange.reading.store(0, Ordering::Relaxed);
    }
}

/// Why the body of a request ends before its end.
#[derive(Debug)]
pub enum BodyError {
    /// It is longer than the front allows: 413.
    TooLong,
    /// The client has gone, or what it sent makes no sense: 400.
    Broken(hyper::Error),
}

impl fmt::Display for BodyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong => f.write_str("the body is too long"),
            Self::Broken(_) => f.write_str("the body cannot be read"),
        }
    }
}

impl Error for BodyError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::TooLong => None,
            Self::Broken(error) => Some(error),
        }
    }
}

/// The body of an answer: the service's, or that of a refusal of our own.
pub(super) struct Answer<B> {
    content: Content<B>,
    guard: Guard,
}

enum Content<B> {
    Given(B),
    Ours(Full<Bytes>),
}

impl<B: http_body::Body<Data = Bytes> + Unpin> Answer<B> {
    pub(super) fn given(body: B, guard: Guard) -> Self {
        Self::new(Content::Given(body), guard)
    }

    pub(super) fn ours(body: Full<Bytes>, guard: Guard) -> Self {
        Self::new(Content::Ours(body), guard)
    }

    fn new(content: Content<B>, mut guard: Guard) -> Self {
        let now = guard.pulse.now();
        guard.exchange.writing.store(now, Ordering::Relaxed);
        guard.is_answered = match &content {
            Content::Given(body) => body.is_end_stream(),
            Content::Ours(body) => body.is_end_stream(),
        };
        Self { content, guard }
    }

    /// Whether the connection should be closed after it.
    pub(super) fn is_last(&self) -> bool {
        self.guard.pulse.is_last()
    }
}

impl<B> http_body::Body for Answer<B>
where
    B: http_body::Body<Data = Bytes> + Unpin,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    type Data = Bytes;
    type Error = Box<dyn Error + Send + Sync>;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let polled = match &mut self.content {
            Content::Given(body) => Pin::new(body).poll_frame(cx).map_err(Into::into),
            Content::Ours(body) => Pin::new(body)
                .poll_frame(cx)
                .map_err(|never| match never {}),
        };
        // hyper asks for more when the client has taken enough: as long as it does not, the client
        // is waited for.
        let since = match &polled {
            Poll::Ready(Some(Ok(_))) => self.guard.pulse.now(),
            _ => 0,
        };
        self.guard.exchange.writing.store(since, Ordering::Relaxed);
        if matches!(polled, Poll::Ready(None)) || self.is_end_stream() {
            self.guard.is_answered = true;
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        match &self.content {
            Content::Given(body) => body.is_end_stream(),
            Content::Ours(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Content::Given(body) => body.size_hint(),
            Content::Ours(body) => body.size_hint(),
        }
    }
}

//! The body of an answer on its way back.

use std::fmt;
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;

use super::error::ForwardError;
use super::http1::Http1;
use super::http2::Stream;
use super::patience::Patience;
use super::server::Flight;

/// The body of an upstream's answer.
///
/// It does the work of the connection that it comes from, and gives it back when the answer is
/// through. Dropping it before closes the connection, or the HTTP/2 stream. A body that ends without
/// an error is complete.
#[must_use = "an answer that is not read closes its connection"]
pub struct UpstreamBody(Kind);

enum Kind {
    Empty,
    /// All of it has been read.
    Read(Incoming),
    Http1(Incoming, Box<Exchange>),
    Http2(Incoming, Stream, Waiting),
}

/// An answer whose connection is still needed.
struct Exchange {
    http1: Box<Http1>,
    waiting: Waiting,
}

struct Waiting {
    patience: Patience,
    flight: Flight,
    /// Whether the time limit runs: it does not while nobody asks for more.
    is_asked: bool,
}

impl UpstreamBody {
    pub(super) fn empty() -> Self {
        Self(Kind::Empty)
    }

    pub(super) fn http1(
        body: Incoming,
        http1: Box<Http1>,
        flight: Flight,
        patience: Patience,
    ) -> Self {
        if http1.is_free() {
            flight.server.put_idle(http1, &patience.clock);
            return Self(Kind::Read(body));
        }
        let waiting = Waiting::new(flight, patience);
        Self(Kind::Http1(body, Box::new(Exchange { http1, waiting })))
    }

    pub(super) fn http2(
        body: Incoming,
        stream: Stream,
        flight: Flight,
        patience: Patience,
    ) -> Self {
        Self(Kind::Http2(body, stream, Waiting::new(flight, patience)))
    }

    /// Gives the connection back if the answer is through, and lets go of it if this was the end.
    fn settle(&mut self, has_ended: bool) {
        let is_over = match &self.0 {
            Kind::Http1(_, exchange) => has_ended || exchange.http1.is_free(),
            _ => has_ended,
        };
        if !is_over {
            return;
        }
        self.0 = match mem::replace(&mut self.0, Kind::Empty) {
            Kind::Http1(body, exchange) => {
                exchange.finish();
                if has_ended {
                    Kind::Empty
                } else {
                    Kind::Read(body)
                }
            }
            _ => Kind::Empty,
        };
    }
}

impl Exchange {
    /// A connection that is free goes back, any other is closed.
    fn finish(self) {
        let Self { mut http1, waiting } = self;
        if http1.is_still_free() {
            let Waiting {
                flight, patience, ..
            } = waiting;
            flight.server.put_idle(http1, &patience.clock);
        }
    }
}

impl Waiting {
    fn new(flight: Flight, patience: Patience) -> Self {
        Self {
            patience,
            flight,
            is_asked: false,
        }
    }

    /// What to say when there is nothing: to wait, or that it takes too long.
    fn on_nothing(&mut self, pulse: &super::clock::Pulse) -> Option<ForwardError> {
        if !self.is_asked {
            self.is_asked = true;
            self.patience.wait(pulse);
            return None;
        }
        self.patience.body_overdue(pulse)
    }
}

type Polled = Poll<Option<Result<Frame<Bytes>, ForwardError>>>;

impl Body for UpstreamBody {
    type Data = Bytes;
    type Error = ForwardError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Polled {
        let polled = match &mut self.0 {
            Kind::Empty => return Poll::Ready(None),
            Kind::Read(body) => Pin::new(body)
                .poll_frame(cx)
                .map_err(|error| ForwardError::of(&error)),
            Kind::Http1(body, exchange) => {
                let Exchange { http1, waiting } = &mut **exchange;
                let polled = http1.drive(cx, |quiet| Pin::new(&mut *body).poll_frame(quiet));
                waiting.passed_on(polled, http1.pulse())
            }
            Kind::Http2(body, stream, waiting) => {
                let polled = Pin::new(body).poll_frame(cx);
                if polled.is_pending() {
                    stream.pulse().watch(cx);
                }
                waiting.passed_on(polled, stream.pulse())
            }
        };
        match &polled {
            Poll::Pending => {}
            Poll::Ready(Some(Ok(_))) => self.settle(false),
            Poll::Ready(None) => self.settle(true),
            // Not given back: whatever else is in the connection belongs to this answer.
            Poll::Ready(Some(Err(_))) => self.0 = Kind::Empty,
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Kind::Empty => true,
            Kind::Read(body) | Kind::Http1(body, _) | Kind::Http2(body, ..) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            _ if self.is_end_stream() => SizeHint::with_exact(0),
            Kind::Empty => SizeHint::with_exact(0),
            Kind::Read(body) | Kind::Http1(body, _) | Kind::Http2(body, ..) => body.size_hint(),
        }
    }
}

impl Waiting {
    fn passed_on(
        &mut self,
        polled: Poll<Option<Result<Frame<Bytes>, hyper::Error>>>,
        pulse: &super::clock::Pulse,
    ) -> Polled {
        match polled {
            Poll::Ready(Some(Ok(frame))) => {
                self.is_asked = false;
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(Some(Err(error))) => {
                tracing::debug!(%error, "an upstream's answer broke off");
                Poll::Ready(Some(Err(self.patience.explain(&error))))
            }
            Poll::Ready(None) => Poll::Ready(None),
            Poll::Pending => match self.on_nothing(pulse) {
                Some(error) => Poll::Ready(Some(Err(error))),
                None => Poll::Pending,
            },
        }
    }
}

impl Drop for UpstreamBody {
    fn drop(&mut self) {
        // Whoever knows the length does not ask for the end.
        if self.is_end_stream() {
            self.settle(true);
        }
    }
}

impl fmt::Debug for UpstreamBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UpstreamBody")
            .field("has_ended", &self.is_end_stream())
            .finish_non_exhaustive()
    }
}

//! Bodies of requests that do as they are told.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use tokio::sync::mpsc;
use tokio::time::Sleep;

pub(crate) enum Step {
    Data(Bytes),
    Trailers(HeaderMap),
    Wait(Duration),
    Fail,
    Hang,
}

/// A body that takes one step after the other.
pub(crate) struct Script {
    steps: std::vec::IntoIter<Step>,
    waiting: Option<Pin<Box<Sleep>>>,
    length: Option<u64>,
}

impl Script {
    pub(crate) fn new(steps: impl IntoIterator<Item = Step>) -> Self {
        Self {
            steps: steps.into_iter().collect::<Vec<_>>().into_iter(),
            waiting: None,
            length: None,
        }
    }

    /// The length that it says it has.
    pub(crate) fn with_length(mut self, length: u64) -> Self {
        self.length = Some(length);
        self
    }
}

impl Body for Script {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        loop {
            if let Some(waiting) = &mut self.waiting {
                if waiting.as_mut().poll(cx).is_pending() {
                    return Poll::Pending;
                }
                self.waiting = None;
            }
            return Poll::Ready(match self.steps.next() {
                None => None,
                Some(Step::Data(data)) => Some(Ok(Frame::data(data))),
                Some(Step::Trailers(trailers)) => Some(Ok(Frame::trailers(trailers))),
                Some(Step::Fail) => Some(Err(io::Error::other("a bad chunk"))),
                Some(Step::Hang) => {
                    self.waiting = Some(Box::pin(tokio::time::sleep(Duration::MAX)));
                    continue;
                }
                Some(Step::Wait(time)) => {
                    self.waiting = Some(Box::pin(tokio::time::sleep(time)));
                    continue;
                }
            });
        }
    }

    fn size_hint(&self) -> SizeHint {
        self.length.map(SizeHint::with_exact).unwrap_or_default()
    }
}

/// A body that others write, one piece at a time.
pub(crate) struct Channel(pub(crate) mpsc::Receiver<Bytes>);

impl Body for Channel {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let polled = self.0.poll_recv(cx);
        polled.map(|data| data.map(|data| Ok(Frame::data(data))))
    }
}

/// A long body of zeros that counts how much of it has been asked for.
pub(crate) struct Zeros {
    pub(crate) left: usize,
    pub(crate) taken: Arc<AtomicUsize>,
}

impl Body for Zeros {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        static PIECE: [u8; 16 * 1024] = [0; 16 * 1024];
        if self.left == 0 {
            return Poll::Ready(None);
        }
        let length = self.left.min(PIECE.len());
        self.left -= length;
        self.taken.fetch_add(length, Ordering::SeqCst);
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(&PIECE[..length])))))
    }
}

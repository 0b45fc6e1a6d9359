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

type Polled = Poll<Option<io::Result<Frame<Bytes>>>>;

/// A body that a function makes, one piece at a time.
pub(crate) struct Script {
    next: Box<dyn FnMut(&mut Context<'_>) -> Polled + Send>,
    length: Option<u64>,
}

impl Script {
    fn of(next: impl FnMut(&mut Context<'_>) -> Polled + Send + 'static) -> Self {
        Self {
            next: Box::new(next),
            length: None,
        }
    }

    /// One step after the other.
    pub(crate) fn new(steps: impl IntoIterator<Item = Step>) -> Self {
        let mut steps = steps.into_iter().collect::<Vec<_>>().into_iter();
        let mut waiting: Option<Pin<Box<Sleep>>> = None;
        Self::of(move |cx| {
            loop {
                if let Some(wait) = &mut waiting {
                    if wait.as_mut().poll(cx).is_pending() {
                        return Poll::Pending;
                    }
                    waiting = None;
                }
                let time = match steps.next() {
                    None => return Poll::Ready(None),
                    Some(Step::Data(data)) => return Poll::Ready(Some(Ok(Frame::data(data)))),
                    Some(Step::Trailers(trailers)) => {
                        return Poll::Ready(Some(Ok(Frame::trailers(trailers))));
                    }
                    Some(Step::Fail) => {
                        return Poll::Ready(Some(Err(io::Error::other("a bad chunk"))));
                    }
                    Some(Step::Hang) => Duration::MAX,
                    Some(Step::Wait(time)) => time,
                };
                waiting = Some(Box::pin(tokio::time::sleep(time)));
            }
        })
    }

    /// What others write.
    pub(crate) fn channel(mut receiver: mpsc::Receiver<Bytes>) -> Self {
        Self::of(move |cx| {
            let polled = receiver.poll_recv(cx);
            polled.map(|data| data.map(|data| Ok(Frame::data(data))))
        })
    }

    /// So many zeros; `taken` counts those that have been asked for.
    pub(crate) fn zeros(mut left: usize, taken: Arc<AtomicUsize>) -> Self {
        static PIECE: [u8; 16 * 1024] = [0; 16 * 1024];
        Self::of(move |_| {
            if left == 0 {
                return Poll::Ready(None);
            }
            let length = left.min(PIECE.len());
            left -= length;
            taken.fetch_add(length, Ordering::SeqCst);
            Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(&PIECE[..length])))))
        })
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

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Polled {
        (self.next)(cx)
    }

    fn size_hint(&self) -> SizeHint {
        self.length.map(SizeHint::with_exact).unwrap_or_default()
    }
}

//! The body of a request on its way to an upstream.

use std::error::Error;
use std::pin::Pin;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use http_body_util::combinators::UnsyncBoxBody;

use super::clock::{Clock, locked};

type BodyError = Box<dyn Error + Send + Sync>;

/// The body of a request: nothing, or whatever the client sends.
pub(super) struct RequestBody(Option<Sending>);

struct Sending {
    body: UnsyncBoxBody<Bytes, BodyError>,
    upload: Arc<Upload>,
}

/// What is known of a body on its way, while a connection has it.
#[derive(Debug)]
pub(super) struct Upload {
    clock: Arc<Clock>,
    state: AtomicU8,
    moved: AtomicU64,
    held: Mutex<Option<Waker>>,
}

/// The client has been asked for more and has not sent it.
const WAITING: u8 = 1;
/// The client's body is broken.
const FAILED: u8 = 2;
/// The body waits for the upstream's `100 Continue`.
const HELD: u8 = 4;

impl RequestBody {
    /// A body on its way, and what can be known of it; nothing of either if it is empty.
    pub(super) fn new<B>(body: B, clock: &Arc<Clock>) -> (Self, Option<Arc<Upload>>)
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BodyError>,
    {
        if body.is_end_stream() {
            return (Self(None), None);
        }
        let upload = Arc::new(Upload {
            clock: clock.clone(),
            state: AtomicU8::new(0),
            moved: AtomicU64::new(clock.now()),
            held: Mutex::new(None),
        });
        let sending = Sending {
            body: body.map_err(Into::into).boxed_unsync(),
            upload: upload.clone(),
        };
        (Self(Some(sending)), Some(upload))
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let Some(Sending { body, upload }) = &mut self.0 else {
            return Poll::Ready(None);
        };
        if upload.has(HELD) && upload.poll_held(cx).is_pending() {
            return Poll::Pending;
        }
        let polled = Pin::new(body).poll_frame(cx);
        match &polled {
            Poll::Pending => {
                upload.set(WAITING);
                return Poll::Pending;
            }
            Poll::Ready(Some(Err(_))) => upload.set(FAILED),
            Poll::Ready(_) => {}
        }
        upload.clear(WAITING);
        upload.moved.store(upload.clock.now(), Ordering::Relaxed);
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.0
            .as_ref()
            .is_none_or(|sending| sending.body.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Some(sending) => sending.body.size_hint(),
            None => SizeHint::with_exact(0),
        }
    }
}

impl Upload {
    /// The tick at which the connection last took some of the body.
    pub(super) fn moved(&self) -> u64 {
        self.moved.load(Ordering::Relaxed)
    }

    /// Whether it is the client that is waited for.
    pub(super) fn is_waiting(&self) -> bool {
        self.has(WAITING)
    }

    /// Whether the client broke it.
    pub(super) fn has_failed(&self) -> bool {
        self.has(FAILED)
    }

    /// Keeps the body back until `release`.
    pub(super) fn hold(&self) {
        self.set(HELD);
    }

    pub(super) fn is_held(&self) -> bool {
        self.has(HELD)
    }

    /// The upstream wants the body, or has had the time to say that it does not.
    pub(super) fn release(&self) {
        let mut held = locked(&self.held);
        self.clear(HELD);
        self.moved.store(self.clock.now(), Ordering::Relaxed);
        let waker = held.take();
        drop(held);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn poll_held(&self, cx: &Context<'_>) -> Poll<()> {
        let mut held = locked(&self.held);
        if !self.has(HELD) {
            return Poll::Ready(());
        }
        *held = Some(cx.waker().clone());
        Poll::Pending
    }

    fn has(&self, bit: u8) -> bool {
        self.state.load(Ordering::Acquire) & bit != 0
    }

    fn set(&self, bit: u8) {
        self.state.fetch_or(bit, Ordering::AcqRel);
    }

    fn clear(&self, bit: u8) {
        self.state.fetch_and(!bit, Ordering::AcqRel);
    }
}

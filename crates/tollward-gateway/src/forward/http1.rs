//! A connection that speaks HTTP/1.1 and has no task of its own.
//!
//! The request that has the connection does its work: first the future of the request, then the body
//! of the answer. So nothing is handed from task to task, and a request that is given up takes its
//! connection with it.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use http::{Request, Response, Version};
use hyper::body::Incoming;
use hyper::client::conn::TrySendError;
use hyper::client::conn::http1::{Builder, Connection, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::task::unconstrained;

use super::clock::{Clock, Pulse};
use super::connect::Link;
use super::error::ForwardError;
use super::patience::Patience;
use super::server::Slot;
use super::upload::RequestBody;

/// The most bytes of an answer that are kept while nobody takes them; also the longest head.
const MAX_BUFFER: usize = 64 * 1024;

/// How often a connection that is never done is worked on before others have their turn.
const ROUNDS: usize = 8;

/// A connection to a target.
pub(super) struct Http1 {
    sender: SendRequest<RequestBody>,
    /// None when there is nothing more to be had from it.
    connection: Option<Connection<TokioIo<Link>, RequestBody>>,
    has_ended: bool,
    may_be_reused: bool,
    pulse: Arc<Pulse>,
    waker: Waker,
    /// The tick at which it was last put back.
    pub(super) idle_since: u64,
    slot: Slot,
}

/// Why an exchange came to nothing.
pub(super) enum Failure {
    /// Not a byte of the request has been sent.
    NotSent(Box<Request<RequestBody>>, ForwardError),
    /// It has been, or may have been.
    Failed(ForwardError),
}

impl Failure {
    /// What an error of a connection means for the request that it was to take.
    pub(super) fn of(mut error: TrySendError<Request<RequestBody>>, patience: &Patience) -> Self {
        let reason = patience.explain(error.error());
        tracing::debug!(error = %error.error(), "no answer of an upstream");
        match error.take_message() {
            Some(request) => Self::NotSent(Box::new(request), reason),
            None => Self::Failed(reason),
        }
    }
}

impl Http1 {
    pub(super) async fn new(link: Link, slot: Slot, clock: &Clock) -> hyper::Result<Box<Self>> {
        let (sender, connection) = Builder::new()
            .max_buf_size(MAX_BUFFER)
            .handshake(TokioIo::new(link))
            .await?;
        let pulse = clock.pulse();
        Ok(Box::new(Self {
            sender,
            connection: Some(connection),
            has_ended: false,
            may_be_reused: true,
            waker: Waker::from(pulse.clone()),
            pulse,
            idle_since: 0,
            slot,
        }))
    }

    /// Sends a request, and waits for the head of the answer.
    ///
    /// The connection must come back to `UpstreamBody`: there may be more of the answer in it, and of
    /// the request.
    pub(super) async fn exchange(
        &mut self,
        request: Request<RequestBody>,
        patience: &Patience,
    ) -> Result<Response<Incoming>, Failure> {
        let mut answer = pin!(unconstrained(self.sender.try_send_request(request)));
        self.pulse.rouse();
        patience.begin(&self.pulse);
        let outcome = poll_fn(
            |cx| match self.drive(cx, |quiet| answer.as_mut().poll(quiet)) {
                Poll::Ready(outcome) => Poll::Ready(Ok(outcome)),
                Poll::Pending => match patience.head_overdue(&self.pulse) {
                    Some(error) => Poll::Ready(Err(error)),
                    None => Poll::Pending,
                },
            },
        )
        .await;
        match outcome {
            Ok(Ok(response)) => {
                // A server of HTTP/1.0 would be sent HTTP/1.0 from now on, which has no chunks.
                self.may_be_reused = response.version() != Version::HTTP_10;
                Ok(response)
            }
            Ok(Err(error)) => Err(Failure::of(error, patience)),
            Err(error) => Err(Failure::Failed(error)),
        }
    }

    /// Works on the connection until `look` finds what it looks for.
    ///
    /// `look` gets a context that wakes nobody: all that it could wait for comes from this connection.
    pub(super) fn drive<T>(
        &mut self,
        cx: &mut Context<'_>,
        mut look: impl FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        let mut quiet = Context::from_waker(Waker::noop());
        for _ in 0..ROUNDS {
            self.pulse.begin(cx);
            let found = look(&mut quiet);
            let is_woken = self.pulse.take_woken();
            if is_woken {
                self.work();
            }
            if found.is_ready() {
                self.pulse.end();
                return found;
            }
            if is_woken {
                continue;
            }
            if self.has_ended && self.connection.take().is_some() {
                // Whatever still waits for the connection is told now.
                continue;
            }
            if !self.pulse.end() {
                return Poll::Pending;
            }
        }
        self.pulse.end();
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    fn work(&mut self) {
        let Some(connection) = &mut self.connection else {
            return;
        };
        if self.has_ended {
            return;
        }
        let mut cx = Context::from_waker(&self.waker);
        match connection.poll_without_shutdown(&mut cx) {
            Poll::Pending => {}
            Poll::Ready(Ok(())) => self.has_ended = true,
            Poll::Ready(Err(error)) => {
                tracing::debug!(%error, "a connection to an upstream ended");
                self.has_ended = true;
            }
        }
    }

    /// Whether another request can be sent: the last one and its answer are through.
    pub(super) fn is_free(&self) -> bool {
        !self.has_ended && self.may_be_reused && self.sender.is_ready()
    }

    /// What has happened since it was put back: whether it can still be used.
    pub(super) fn is_still_free(&mut self) -> bool {
        if self.pulse.take_woken() {
            self.work();
        }
        self.is_free()
    }

    /// Nobody waits for it any more.
    pub(super) fn rest(&mut self, now: u64) {
        self.idle_since = now;
        self.pulse.rest();
    }

    pub(super) fn pulse(&self) -> &Pulse {
        &self.pulse
    }

    /// After `101 Switching Protocols`: the connection itself, and what has been read of the new
    /// protocol.
    pub(super) async fn into_link(mut self: Box<Self>) -> Option<(Link, bytes::Bytes, Slot)> {
        let mut connection = self.connection.take()?;
        if !self.has_ended {
            let ended = poll_fn(|cx| connection.poll_without_shutdown(cx)).await;
            ended.ok()?;
        }
        let parts = connection.into_parts();
        Some((parts.io.into_inner(), parts.read_buf, self.slot))
    }
}

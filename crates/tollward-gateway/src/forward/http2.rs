//! Connections that speak HTTP/2, each shared by many requests.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::Poll;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};

use super::clock::{Clock, Pulse};
use super::connect::Link;
use super::error::ForwardError;
use super::http1::Failure;
use super::patience::Patience;
use super::server::Slot;
use super::upload::RequestBody;

/// The most streams on one connection, whatever its server takes.
const MOST_STREAMS: usize = 1000;

/// What no server can say about the streams that it takes.
const UNSAID: usize = usize::MAX - 1;

/// What a server may have sent of one answer, and of all, before it is taken.
const STREAM_WINDOW: u32 = 256 * 1024;
const CONNECTION_WINDOW: u32 = 2 * 1024 * 1024;

/// A connection to a target.
#[derive(Clone)]
pub(super) struct Http2 {
    sender: SendRequest<RequestBody>,
    load: Arc<Load>,
}

/// What a connection has to do.
#[derive(Debug)]
struct Load {
    streams: AtomicUsize,
    most: AtomicUsize,
    /// Heads of answers that have come.
    answers: AtomicU64,
    /// The tick at which the last request ended.
    used: AtomicU64,
}

/// A request on a connection. It counts until it is dropped.
#[derive(Debug)]
pub(super) struct Stream {
    load: Arc<Load>,
    pulse: Arc<Pulse>,
    clock: Arc<Clock>,
}

impl Http2 {
    /// Waits until the server has said how many streams it takes: those beyond it refuses, and they
    /// could not be sent again.
    pub(super) async fn new(
        mut link: Link,
        slot: Slot,
        clock: &Clock,
    ) -> Result<Self, ForwardError> {
        let arrivals = link.arrivals();
        let (sender, connection) = Builder::new(TokioExecutor::new())
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .initial_max_send_streams(UNSAID)
            .handshake(TokioIo::new(link))
            .await
            .map_err(|error| ForwardError::of(&error))?;
        while connection.current_max_send_streams() == UNSAID {
            if !arrivals.next().await {
                return Err(ForwardError::NoConnection);
            }
        }
        let load = Arc::new(Load {
            streams: AtomicUsize::new(0),
            most: AtomicUsize::new(MOST_STREAMS.min(connection.current_max_send_streams())),
            answers: AtomicU64::new(0),
            used: AtomicU64::new(clock.now()),
        });
        let seen = load.clone();
        tokio::spawn(async move {
            let _slot = slot;
            let mut connection = connection;
            let ended = poll_fn(|cx| {
                let polled = Pin::new(&mut connection).poll(cx);
                let most = connection.current_max_send_streams();
                seen.most.store(most.min(MOST_STREAMS), Ordering::Relaxed);
                polled
            });
            if let Err(error) = ended.await {
                tracing::debug!(%error, "a connection to an upstream ended");
            }
        });
        Ok(Self { sender, load })
    }

    /// Whether it takes requests at all.
    pub(super) fn is_open(&self) -> bool {
        !self.sender.is_closed()
    }

    /// Requests under way, if there may be one more.
    pub(super) fn room(&self) -> Option<usize> {
        let streams = self.load.streams.load(Ordering::Relaxed);
        (streams < self.load.most.load(Ordering::Relaxed)).then_some(streams)
    }

    /// The tick at which it was last used, if nobody uses it now.
    pub(super) fn idle_since(&self) -> Option<u64> {
        let is_idle = self.load.streams.load(Ordering::Relaxed) == 0;
        is_idle.then(|| self.load.used.load(Ordering::Relaxed))
    }

    /// Whether it is the same connection.
    pub(super) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.load, &other.load)
    }

    /// A request may go out: counted from now on.
    pub(super) fn stream(&self, clock: &Arc<Clock>) -> Stream {
        self.load.streams.fetch_add(1, Ordering::Relaxed);
        Stream {
            load: self.load.clone(),
            pulse: clock.pulse(),
            clock: clock.clone(),
        }
    }

    /// Sends a request, and waits for the head of the answer.
    pub(super) async fn exchange(
        &mut self,
        request: Request<RequestBody>,
        stream: &Stream,
        patience: &Patience,
    ) -> Result<Response<Incoming>, Failure> {
        let mut answer = pin!(self.sender.try_send_request(request));
        patience.begin(&stream.pulse);
        let outcome = poll_fn(|cx| {
            if let Poll::Ready(outcome) = answer.as_mut().poll(cx) {
                return Poll::Ready(Ok(outcome));
            }
            stream.pulse.watch(cx);
            match patience.head_overdue(&stream.pulse) {
                Some(error) => Poll::Ready(Err(error)),
                None => Poll::Pending,
            }
        });
        match outcome.await {
            Ok(Ok(response)) => {
                self.load.answers.fetch_add(1, Ordering::Relaxed);
                Ok(response)
            }
            Ok(Err(error)) => Err(Failure::of(error, patience)),
            Err(error) => Err(Failure::Failed(error)),
        }
    }

    /// Answers that have come over this connection.
    pub(super) fn answers(&self) -> u64 {
        self.load.answers.load(Ordering::Relaxed)
    }
}

impl Stream {
    pub(super) fn pulse(&self) -> &Pulse {
        &self.pulse
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.load.streams.fetch_sub(1, Ordering::Relaxed);
        self.load.used.store(self.clock.now(), Ordering::Relaxed);
    }
}

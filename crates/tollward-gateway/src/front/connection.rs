//! One connection, from its first byte to its last.

use std::convert::Infallible;
use std::error::Error;
use std::fmt::Display;
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONNECTION, HeaderMap, HeaderValue};
use http::request::Parts;
use http::{Request, Response, StatusCode, Version};
use http_body::Body as _;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::rt::Executor;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use tollward_http::{Asker, Peer, Problem, cors_of, problem_response};
use tracing::debug;

use super::body::{Answer, Body};
use super::clock::Clock;
use super::head::{Refusal, admit, agree};
use super::limits::Limits;
use super::patience::{Event, Patience};
use super::places::Place;
use super::pulse::{Guard, Pulse};
use super::refused::{RefusedHook, Witness};
use super::wire::{Stream, Wire};

/// Streams of one HTTP/2 connection at once.
const MAX_STREAMS: u32 = 250;
/// Streams that a client has taken back before we saw them, and that we have taken back because the
/// client did something wrong. With more of them the connection ends.
const MAX_RESETS: usize = 100;
/// Bytes of a stream, and of all streams of a connection, that a client may send ahead.
const STREAM_WINDOW: u32 = 256 * 1024;
const CONNECTION_WINDOW: u32 = 1024 * 1024;
/// Bytes of a stream that are kept for a client who does not take them.
const SEND_BUFFER: usize = 64 * 1024;
/// hyper's buffers are at least so large.
const MIN_BUFFER: usize = 64 * 1024;

/// Adds to the headers of a refusal what the head of the refused request calls for: those of CORS. It must
/// not block.
pub type RefusalHook = Arc<dyn Fn(&Parts, &mut HeaderMap) + Send + Sync>;

/// What the connections of a worker have in common.
pub(super) struct Shared<S> {
    pub(super) service: S,
    pub(super) refusing: RefusalHook,
    pub(super) clock: Clock,
    pub(super) limits: Arc<Limits>,
    pub(super) tls: Option<TlsAcceptor>,
    pub(super) stopping: watch::Receiver<bool>,
    pub(super) refused: RefusedHook,
}

/// Serves a connection to its end, or to where it becomes something else.
pub(super) async fn converse<S, F, B>(
    stream: TcpStream,
    address: SocketAddr,
    place: Place,
    shared: Arc<Shared<S>>,
) where
    S: Fn(Peer, Request<Body>) -> F + Send + Sync + 'static,
    F: Future<Output = Response<B>> + Send + 'static,
    B: http_body::Body<Data = Bytes> + Unpin + Send + 'static,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    if let Err(error) = stream.set_nodelay(true) {
        debug!(%error, "cannot set TCP_NODELAY");
    }
    let pulse = Arc::new(Pulse::new(shared.clock.clone(), shared.limits.clone()));
    let mut patience = Patience::new(pulse.clone(), shared.stopping.clone());
    let peer = Peer::new(address, shared.tls.is_some());
    let witness = Witness {
        peer,
        hook: shared.refused.clone(),
    };
    let tls = shared.tls.as_ref();
    let opened = patience.bound(open(stream, &pulse, tls, witness.clone(), place));
    let (wire, is_http2) = match opened.await {
        Some(Ok(opened)) => opened,
        Some(Err(error)) => return debug!(%address, %error, "no connection came about"),
        None => return,
    };
    let io = TokioIo::new(wire);
    let limits = shared.limits.clone();
    if is_http2 {
        let connection = http2(&limits, &pulse).serve_connection(
            io,
            service_fn(move |request| {
                let guard = pulse.begin_http2();
                answer(shared.clone(), witness.clone(), request, Ok(()), guard)
            }),
        );
        let leave = http2::Connection::graceful_shutdown;
        drive(pin!(connection), patience, address, leave, |_| true).await;
    } else {
        pulse.follow_http1();
        let is_busy = pulse.clone();
        let connection = http1(&limits).serve_connection(
            io,
            service_fn(move |request| {
                let (guard, head) = pulse.begin_http1();
                let agreed = agree(head, request.body());
                answer(shared.clone(), witness.clone(), request, agreed, guard)
            }),
        );
        let connection = connection.with_upgrades();
        let leave = http1::UpgradeableConnection::graceful_shutdown;
        // An idle connection of HTTP/1 cannot say that it leaves: it waits for what is on its way.
        let stops = |_| is_busy.is_busy();
        drive(pin!(connection), patience, address, leave, stops).await;
    }
}

/// TLS and the choice of a protocol.
async fn open(
    stream: TcpStream,
    pulse: &Arc<Pulse>,
    tls: Option<&TlsAcceptor>,
    witness: Witness,
    place: Place,
) -> io::Result<(Wire, bool)> {
    let Some(tls) = tls else {
        let mut wire = Wire::new(Stream::Clear(stream), pulse.clone(), witness, place);
        let is_http2 = wire.is_http2().await?;
        return Ok((wire, is_http2));
    };
    stream.readable().await?;
    pulse.is_opening(true);
    let stream = tls.accept(stream).await?;
    pulse.is_opening(false);
    let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    let stream = Stream::Tls(Box::new(stream));
    Ok((Wire::new(stream, pulse.clone(), witness, place), is_http2))
}

fn http1(limits: &Limits) -> http1::Builder {
    let mut http1 = http1::Builder::new();
    http1
        // Ours are better: hyper's would also end a connection that is only kept alive.
        .header_read_timeout(None)
        .max_buf_size(limits.header_bytes.max(MIN_BUFFER))
        .max_header_size(limits.header_bytes);
    http1
}

fn http2(limits: &Limits, pulse: &Arc<Pulse>) -> http2::Builder<Streams> {
    let mut http2 = http2::Builder::new(Streams(pulse.clone()));
    let ping = (limits.idle / 2).max(Duration::from_secs(1));
    http2
        .timer(TokioTimer::new())
        .keep_alive_interval(ping)
        .keep_alive_timeout(ping)
        .max_concurrent_streams(MAX_STREAMS)
        .max_header_list_size(u32::try_from(limits.header_bytes).unwrap_or(u32::MAX))
        .max_pending_accept_reset_streams(MAX_RESETS)
        .max_local_error_reset_streams(MAX_RESETS)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_send_buf_size(SEND_BUFFER);
    http2
}

/// Makes the tasks of streams known to the pulse.
#[derive(Clone)]
struct Streams(Arc<Pulse>);

impl<F> Executor<F> for Streams
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    fn execute(&self, stream: F) {
        self.0.watch(tokio::spawn(stream).abort_handle());
    }
}

/// Lets a connection go on until it ends or has to. `stops` says whether it leaves as soon as the
/// front stops.
async fn drive<C, E: Display>(
    mut connection: Pin<&mut C>,
    mut patience: Patience,
    address: SocketAddr,
    leave: fn(Pin<&mut C>),
    stops: impl Fn(()) -> bool,
) where
    C: Future<Output = Result<(), E>>,
{
    if patience.is_stopping && stops(()) {
        leave(connection.as_mut());
    }
    loop {
        tokio::select! {
            biased;
            ended = connection.as_mut() => {
                if let Err(error) = ended {
                    debug!(%address, %error, "connection ended");
                }
                return;
            }
            event = patience.event() => match event {
                Event::Stop if stops(()) => leave(connection.as_mut()),
                Event::Stop => {}
                Event::Leave => leave(connection.as_mut()),
                Event::End => return debug!(%address, "connection ended: out of patience"),
            },
        }
    }
}

/// Answers one request: with a refusal, or as the service does.
async fn answer<S, F, B>(
    shared: Arc<Shared<S>>,
    witness: Witness,
    request: Request<Incoming>,
    agreed: Result<(), Refusal>,
    guard: Guard,
) -> Result<Response<Answer<B>>, Infallible>
where
    S: Fn(Peer, Request<Body>) -> F,
    F: Future<Output = Response<B>> + Send,
    B: http_body::Body<Data = Bytes> + Unpin + Send,
{
    let (mut parts, incoming) = request.into_parts();
    let is_http1 = parts.version < Version::HTTP_2;
    let asker = Asker::from(&parts);
    let max_body = shared.limits.body;
    let can_upgrade = parts.extensions.get::<OnUpgrade>().is_some();
    let admitted = agreed.and_then(|()| admit(&mut parts, &incoming, max_body));
    let given = match admitted {
        Ok(()) => {
            let body = Body::new(incoming, max_body, &guard);
            let response = (shared.service)(witness.peer, Request::from_parts(parts, body)).await;
            // Whatever became of it: the reason is that there was too much of it.
            match guard.exchange.is_too_long.load(Ordering::Relaxed) {
                true => Err((Refusal::too_long(), cors_of(response.headers()))),
                false => Ok(response),
            }
        }
        Err(refusal) => {
            let bytes = problem(refusal, asker).body().size_hint().exact();
            let bytes = bytes.unwrap_or(0);
            witness.tell(Some(&parts), refusal.status, refusal.detail, bytes);
            let mut headers = HeaderMap::new();
            (shared.refusing)(&parts, &mut headers);
            Err((refusal, headers))
        }
    };
    let mut response = match given {
        Ok(response) if response.status() != StatusCode::SWITCHING_PROTOCOLS => {
            response.map(|body| Answer::given(body, guard))
        }
        Ok(response) if can_upgrade => {
            guard.pulse.follow_no_more();
            return Ok(response.map(|body| Answer::given(body, guard)));
        }
        Ok(response) => {
            let detail = "the upstream changes to a protocol that it was not asked for";
            let refusal = Refusal::new(StatusCode::BAD_GATEWAY, detail);
            refused(refusal, cors_of(response.headers()), asker, guard)
        }
        Err((refusal, headers)) => refused(refusal, headers, asker, guard),
    };
    let is_last = response.body().is_last();
    if is_http1 && is_last {
        let close = HeaderValue::from_static("close");
        response.headers_mut().insert(CONNECTION, close);
    }
    Ok(response)
}

fn refused<B>(
    refusal: Refusal,
    headers: HeaderMap,
    asker: Asker,
    guard: Guard,
) -> Response<Answer<B>>
where
    B: http_body::Body<Data = Bytes> + Unpin,
{
    guard.pulse.refuse();
    let mut response = problem(refusal, asker);
    response.headers_mut().extend(headers);
    response.map(|body| Answer::ours(body, guard))
}

fn problem(refusal: Refusal, asker: Asker) -> Response<Full<Bytes>> {
    let problem = Problem::new(refusal.status, refusal.detail);
    problem_response(&problem, asker)
}

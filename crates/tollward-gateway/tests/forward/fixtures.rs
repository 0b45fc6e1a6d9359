//! Upstreams that do as they are told.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Empty, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, mpsc};
use tollward_gateway::{ForwardError, Forwarder, UpstreamBody};
use tollward_policy::{HostHeader, Protocol, Target, Upstream, UpstreamTls};

use crate::script::Script;

/// The length of a long body.
pub(crate) const LONG: usize = 64 << 20;
/// What of it may be on the way: buffers of ours, and of the sockets on both sides.
pub(crate) const UNDER_WAY: usize = 16 << 20;

pub(crate) type Answer = Response<UnsyncBoxBody<Bytes, std::io::Error>>;

/// What a server has seen.
#[derive(Clone, Default)]
pub(crate) struct Seen {
    connections: Arc<AtomicUsize>,
    requests: Arc<AtomicUsize>,
}

impl Seen {
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    pub(crate) fn requests(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }

    pub(crate) fn request(&self) {
        self.requests.fetch_add(1, Ordering::SeqCst);
    }
}

/// An HTTP server, for either version, that answers with a function.
pub(crate) async fn serve<F, A>(protocol: Protocol, handler: F) -> (SocketAddr, Seen)
where
    F: Fn(Request<Incoming>) -> A + Clone + Send + Sync + 'static,
    A: Future<Output = Answer> + Send + 'static,
{
    raw(move |stream, seen| {
        let handler = handler.clone();
        let service = service_fn(move |request| {
            seen.request();
            let answer = handler(request);
            async move { Ok::<_, Infallible>(answer.await) }
        });
        async move {
            let io = TokioIo::new(stream);
            match protocol {
                Protocol::Http1 => {
                    let _ = hyper::server::conn::http1::Builder::new()
                        .half_close(true)
                        .serve_connection(io, service)
                        .with_upgrades()
                        .await;
                }
                Protocol::Http2 => {
                    let _ = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
                        .serve_connection(io, service)
                        .await;
                }
            }
        }
    })
    .await
}

/// A server that does with each connection what it is told.
pub(crate) async fn raw<F, A>(handler: F) -> (SocketAddr, Seen)
where
    F: Fn(TcpStream, Seen) -> A + Send + 'static,
    A: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let seen = Seen::default();
    let counted = seen.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            counted.connections.fetch_add(1, Ordering::SeqCst);
            tokio::spawn(handler(stream, counted.clone()));
        }
    });
    (address, seen)
}

/// Reads a head of a request, and whatever comes with it. Nothing at the end of the connection.
pub(crate) async fn read_head(stream: &mut TcpStream) -> Option<String> {
    let mut read = Vec::new();
    while !read.windows(4).any(|end| end == b"\r\n\r\n") {
        if stream.read_buf(&mut read).await.ok()? == 0 {
            return None;
        }
    }
    Some(String::from_utf8(read).unwrap())
}

/// A connection whose end is a reset, not a close.
pub(crate) fn reset(stream: TcpStream) {
    stream.set_zero_linger().unwrap();
}

pub(crate) async fn write(stream: &mut TcpStream, text: &str) {
    stream.write_all(text.as_bytes()).await.unwrap();
}

pub(crate) fn text(text: impl Into<Bytes>) -> Answer {
    let body = Full::new(text.into()).map_err(|never| match never {});
    Response::new(body.boxed_unsync())
}

pub(crate) fn target(address: SocketAddr) -> Target {
    Target {
        tls: false,
        host: address.ip().to_string().into(),
        port: address.port(),
        prefix: "".into(),
    }
}

pub(crate) fn upstream(addresses: &[SocketAddr]) -> Upstream {
    Upstream {
        name: "test".into(),
        targets: addresses.iter().copied().map(target).collect(),
        connect_timeout: Duration::from_secs(5),
        response_timeout: Duration::from_secs(20),
        idle_timeout: Duration::from_secs(20),
        protocol: Protocol::Http1,
        host: HostHeader::Keep,
        tls: UpstreamTls::default(),
        max_connections: 64,
    }
}

/// An upstream of servers that speak this.
pub(crate) fn speaking(protocol: Protocol, addresses: &[SocketAddr]) -> Upstream {
    let mut upstream = upstream(addresses);
    upstream.protocol = protocol;
    upstream
}

pub(crate) fn get(path: &str) -> Request<Empty<Bytes>> {
    Request::get(path)
        .header("host", "client.test")
        .body(Empty::new())
        .unwrap()
}

/// Sends, and reads the whole answer.
pub(crate) async fn fetch<B>(
    forwarder: &Forwarder,
    upstream: &Arc<Upstream>,
    request: Request<B>,
) -> Result<Response<Bytes>, ForwardError>
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let response: Response<UpstreamBody> = forwarder.forward(upstream, request).await?;
    let (parts, body) = response.into_parts();
    let body = body.collect().await?.to_bytes();
    Ok(Response::from_parts(parts, body))
}

/// The next piece of a body.
pub(crate) async fn piece(body: &mut UpstreamBody) -> Bytes {
    let frame = body.frame().await.unwrap().unwrap();
    frame.into_data().unwrap()
}

/// The rest of an answer of which `half` has come.
pub(crate) async fn behind_half(upstream: Upstream) -> UpstreamBody {
    let upstream = Arc::new(upstream);
    let response = Forwarder::new().forward(&upstream, get("/")).await.unwrap();
    let mut body = response.into_body();
    assert_eq!(piece(&mut body).await, "half");
    body
}

/// Waits until a count does not grow any more, and gives it.
pub(crate) async fn settled(count: &AtomicUsize) -> usize {
    let mut before = usize::MAX;
    while before != count.load(Ordering::SeqCst) {
        before = count.load(Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    before
}

/// Sends a long body to a server that does not read it until no more of it is taken from the client.
pub(crate) async fn upload_to_a_slow_server(protocol: Protocol) {
    let go = Arc::new(Notify::new());
    let inside = go.clone();
    let (address, _) = serve(protocol, move |request| {
        let go = inside.clone();
        async move {
            go.notified().await;
            let mut body = request.into_body();
            let mut length = 0;
            while let Some(frame) = body.frame().await {
                length += frame.unwrap().into_data().unwrap().len();
            }
            text(length.to_string())
        }
    })
    .await;
    let taken = Arc::new(AtomicUsize::new(0));
    let body = Script::zeros(LONG, taken.clone());
    let upstream = Arc::new(speaking(protocol, &[address]));
    let sent = tokio::spawn(async move {
        let request = Request::post("/").body(body).unwrap();
        fetch(&Forwarder::new(), &upstream, request).await
    });
    until("some of it taken", || taken.load(Ordering::SeqCst) > 0).await;
    let before = settled(&taken).await;
    assert!(before < UNDER_WAY, "{before} bytes taken from the client");
    go.notify_one();
    let response = sent.await.unwrap().unwrap();
    assert_eq!(response.body(), &LONG.to_string());
}

/// Sends pieces to a server that sends them back, each when the one before is back; gives the rest of the answer.
pub(crate) async fn echo_piece_by_piece(protocol: Protocol) -> UpstreamBody {
    let (address, _) = serve(protocol, |request| async move {
        let body = request.into_body().map_err(std::io::Error::other);
        Response::new(body.boxed_unsync())
    })
    .await;
    let (sender, receiver) = mpsc::channel(1);
    let upstream = Arc::new(speaking(protocol, &[address]));
    let request = Request::post("/").body(Script::channel(receiver)).unwrap();
    let response = Forwarder::new().forward(&upstream, request).await.unwrap();
    let mut body = response.into_body();
    for round in 0..100 {
        let sent = Bytes::from(format!("piece {round}"));
        sender.send(sent.clone()).await.unwrap();
        assert_eq!(piece(&mut body).await, sent);
    }
    body
}

/// Waits until a condition holds; a test that waits for ten seconds has failed.
pub(crate) async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..1000 {
        if holds() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("never: {what}");
}

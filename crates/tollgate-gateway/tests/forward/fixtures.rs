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
use tollgate_gateway::{ForwardError, Forwarder, UpstreamBody};
use tollgate_policy::{HostHeader, Protocol, Target, Upstream, UpstreamTls};

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
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let seen = Seen::default();
    let counted = seen.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            counted.connections.fetch_add(1, Ordering::SeqCst);
            let handler = handler.clone();
            let counted = counted.clone();
            let service = service_fn(move |request| {
                counted.request();
                let answer = handler(request);
                async move { Ok::<_, Infallible>(answer.await) }
            });
            tokio::spawn(async move {
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
            });
        }
    });
    (address, seen)
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

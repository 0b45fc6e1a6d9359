//! HTTP/2 on either side.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use h2::client::SendRequest;
use h2::{RecvStream, client, server};
use http::{HeaderMap, HeaderValue, Request, Response};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::time::timeout;
use tollward_testkit::upstream::Upstream;

use crate::gated::Gated;

/// Nothing here takes so long.
const LONG: Duration = Duration::from_secs(30);

/// The whole of an answer.
#[derive(Debug)]
pub(crate) struct Whole {
    pub(crate) head: http::response::Parts,
    pub(crate) body: Vec<u8>,
    pub(crate) trailers: Option<HeaderMap>,
}

/// Speaks HTTP/2 on a connection, by prior knowledge.
pub(crate) async fn speak<S>(stream: S) -> SendRequest<Bytes>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let (client, connection) = client::handshake(stream).await.unwrap();
    tokio::spawn(connection);
    client.ready().await.unwrap()
}

/// Sends a request with a body and maybe trailers.
pub(crate) async fn ask(
    client: &mut SendRequest<Bytes>,
    request: Request<()>,
    body: &'static [u8],
    trailers: Option<HeaderMap>,
) -> Whole {
    let (response, mut stream) = client.send_request(request, false).unwrap();
    stream
        .send_data(Bytes::from_static(body), trailers.is_none())
        .unwrap();
    if let Some(trailers) = trailers {
        stream.send_trailers(trailers).unwrap();
    }
    let response = timeout(LONG, response).await.expect("no answer").unwrap();
    let (head, mut stream) = response.into_parts();
    let body = collect(&mut stream).await;
    let trailers = timeout(LONG, stream.trailers()).await.unwrap().unwrap();
    Whole {
        head,
        body,
        trailers,
    }
}

async fn collect(stream: &mut RecvStream) -> Vec<u8> {
    let mut body = Vec::new();
    while let Some(data) = timeout(LONG, stream.data()).await.expect("no data") {
        let data = data.unwrap();
        stream.flow_control().release_capacity(data.len()).unwrap();
        body.extend_from_slice(&data);
    }
    body
}

/// Serves one connection: echoes the body, tells path and trailers, and ends with trailers of its own.
pub(crate) async fn echo<S>(stream: S)
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let Ok(mut connection) = server::handshake(stream).await else {
        return;
    };
    while let Some(Ok((request, mut respond))) = connection.accept().await {
        tokio::spawn(async move {
            let (head, mut stream) = request.into_parts();
            let body = collect(&mut stream).await;
            let trailers = stream.trailers().await.unwrap();
            let sum = trailers.and_then(|it| it.get("x-sum").cloned());
            let mut response = Response::builder()
                .header("x-path", head.uri.path())
                .header(
                    "x-tenant",
                    head.headers
                        .get("x-tollward-tenant")
                        .cloned()
                        .unwrap_or(HeaderValue::from_static("none")),
                );
            if let Some(sum) = sum {
                response = response.header("x-sum-seen", sum);
            }
            if let Some(te) = head.headers.get("te") {
                response = response.header("x-te", te);
            }
            let mut stream = respond
                .send_response(response.body(()).unwrap(), false)
                .unwrap();
            stream.send_data(body.into(), false).unwrap();
            let mut trailers = HeaderMap::new();
            trailers.insert("grpc-status", HeaderValue::from_static("0"));
            stream.send_trailers(trailers).unwrap();
        });
    }
}

/// Starts an upstream that speaks HTTP/2 by prior knowledge.
fn h2c_upstream(runtime: &Runtime) -> SocketAddr {
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
    let address = listener.local_addr().unwrap();
    runtime.spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(echo(stream));
        }
    });
    address
}

fn config(upstream: &str) -> String {
    format!(
        "
identity: {{ anonymous: allow }}
limits:
  per-ip: {{ sustained: {{ rate: 1, window: hour }}, burst: {{ capacity: 1000 }}, scope: ip }}
routes: [ {{ match: /**, upstream: app }} ]
upstreams: {{ app: {{ {upstream} }} }}
"
    )
}

pub(crate) fn post(uri: &str) -> http::request::Builder {
    Request::post(uri)
}

#[test]
fn http2_by_prior_knowledge_is_served() {
    let upstream = Upstream::start();
    let gated = Gated::of(&config(&format!("url: {}", upstream.url())));
    let runtime = Runtime::new().unwrap();
    runtime.block_on(async {
        let stream = TcpStream::connect(gated.gateway).await.unwrap();
        let mut client = speak(stream).await;
        for left in ["999", "998"] {
            let request = post("http://api.test/a//B?q")
                .header("x-a", "b")
                .body(())
                .unwrap();
            let answer = ask(&mut client, request, b"hello", None).await;
            assert_eq!(answer.head.status, 200);
            assert_eq!(answer.body, b"POST /a/B?q");
            assert_eq!(answer.head.headers["x-ratelimit-remaining"], left);
            let seen = upstream.last();
            assert_eq!(seen.body, b"hello");
            assert_eq!(seen.header("host"), Some("api.test"));
            assert_eq!(seen.header("x-forwarded-host"), Some("api.test"));
            assert_eq!(seen.header("x-a"), Some("b"));
        }
        // Many at once, on one connection.
        let tasks: Vec<_> = (0..100)
            .map(|_| {
                let mut client = client.clone();
                tokio::spawn(async move {
                    let request = post("http://api.test/").body(()).unwrap();
                    ask(&mut client, request, b"x", None).await.head.status
                })
            })
            .collect();
        for task in tasks {
            assert_eq!(task.await.unwrap(), 200);
        }
    });
    assert_eq!(upstream.count(), 102);
}

#[test]
fn trailers_pass_through_both_ways() {
    let runtime = Runtime::new().unwrap();
    let upstream = h2c_upstream(&runtime);
    let gated = Gated::of(&config(&format!("url: http://{upstream}, protocol: http2")));
    runtime.block_on(async {
        let stream = TcpStream::connect(gated.gateway).await.unwrap();
        let mut client = speak(stream).await;
        let request = post("http://api.test/pkg.Service/Call")
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .body(())
            .unwrap();
        let mut trailers = HeaderMap::new();
        trailers.insert("x-sum", HeaderValue::from_static("5"));
        let answer = ask(&mut client, request, b"hello", Some(trailers)).await;
        assert_eq!(answer.head.status, 200);
        assert_eq!(answer.head.headers["x-path"], "/pkg.Service/Call");
        assert_eq!(answer.head.headers["x-sum-seen"], "5");
        assert_eq!(answer.head.headers["x-te"], "trailers");
        assert_eq!(answer.head.headers["x-ratelimit-remaining"], "999");
        assert_eq!(answer.body, b"hello");
        let trailers = answer.trailers.expect("trailers");
        assert_eq!(trailers["grpc-status"], "0");
    });
}

#[test]
fn http1_is_served_by_an_upstream_of_http2() {
    let runtime = Runtime::new().unwrap();
    let upstream = h2c_upstream(&runtime);
    let gated = Gated::of(&config(&format!("url: http://{upstream}, protocol: http2")));
    let mut connection = gated.connect();
    for _ in 0..3 {
        let answer = connection.request("POST", "/x", &[], b"hello").unwrap();
        assert_eq!((answer.status, &*answer.text()), (200, "hello"));
        assert_eq!(answer.header("x-path"), Some("/x"));
    }
}

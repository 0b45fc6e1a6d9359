//! What becomes of connections that turn into something else.

use bytes::Bytes;
use http::header::{CONNECTION, UPGRADE};
use http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::Full;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tollward_gateway::front::Body;

use crate::front::{Front, settings, until};

/// Echoes whatever comes after the switch.
pub(crate) fn switch(mut request: Request<Body>) -> Response<Full<Bytes>> {
    let upgrade = hyper::upgrade::on(&mut request);
    tokio::spawn(async move {
        let Ok(upgraded) = upgrade.await else { return };
        let mut tunnel = TokioIo::new(upgraded);
        let mut bytes = [0; 1024];
        while let Ok(read @ 1..) = tunnel.read(&mut bytes).await {
            if tunnel.write_all(&bytes[..read]).await.is_err() {
                return;
            }
        }
    });
    let mut response = Response::new(Full::default());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("echo"));
    response
}

const SWITCH: &[u8] =
    b"GET /upgrade HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n";

#[test]
fn a_tunnel_outlives_the_timeouts_of_requests_but_not_the_front() {
    let mut settings = settings();
    settings.header_timeout = std::time::Duration::from_millis(200);
    let front = Front::start(&settings);
    let mut client = front.connect();
    // The first bytes of the tunnel come with the request.
    client.send(&[SWITCH, b"GET /never"].concat());
    assert_eq!(client.answer().unwrap().status, 101);
    assert_eq!(client.bytes(10), b"GET /never");
    // Others come and go meanwhile, for longer than a head may take.
    for _ in 0..3 {
        let mut silent = front.connect();
        assert_eq!(silent.answer(), None);
    }
    client.send(b"still here");
    assert_eq!(client.bytes(10), b"still here");
    until("the tunnel is the only one", || front.open() == 1);
    front.end();
    assert_eq!(client.rest(), b"");
}

#[test]
fn an_upgrade_that_was_not_asked_for_is_none() {
    let front = Front::start(&settings());
    let mut client = front.connect();
    client.send(b"GET /upgrade HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.answer().unwrap().status, 502);
    assert_eq!(client.answer(), None);
    front.end();
}

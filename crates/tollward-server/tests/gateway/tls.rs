//! TLS on either side.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, ServerConfig, StreamOwned};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio_rustls::{TlsAcceptor, TlsConnector};
use tollward_testkit::certificates::Certificates;
use tollward_testkit::upstream::Upstream;

use crate::certificates::{client, server};
use crate::gated::Gated;
use crate::http2::{ask, echo, post, speak};
use crate::process::arg;
use crate::served::assert_problem;

fn config(upstream: &str, rest: &str) -> String {
    format!(
        "
identity: {{ anonymous: allow }}
routes: [ {{ match: /**, upstream: app }} ]
upstreams: {{ app: {{ {upstream} }} }}
{rest}
"
    )
}

fn name() -> ServerName<'static> {
    ServerName::try_from("localhost").unwrap()
}

/// Sends over TLS and reads until the connection ends.
fn exchange(address: SocketAddr, config: Arc<ClientConfig>, request: &str) -> String {
    let tls = ClientConnection::new(config, name()).unwrap();
    let mut stream = StreamOwned::new(tls, TcpStream::connect(address).unwrap());
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    String::from_utf8(answer).unwrap()
}

#[test]
fn clients_may_come_by_tls_in_either_protocol() {
    let (upstream, certificates) = (Upstream::start(), Certificates::make());
    let gated = Gated::of(&config(
        &format!("url: {}", upstream.url()),
        &format!(
            "gateway: {{ tls: {{ cert: {}, key: {} }} }}",
            arg(&certificates.cert),
            arg(&certificates.key)
        ),
    ));
    let request = "GET /a HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    for protocols in [&[][..], &["http/1.1"]] {
        let answer = exchange(gated.gateway, client(&certificates, protocols), request);
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        assert!(answer.ends_with("\r\n\r\nGET /a"), "{answer}");
        assert_eq!(upstream.last().header("x-forwarded-proto"), Some("https"));
    }
    Runtime::new().unwrap().block_on(async {
        let connector = TlsConnector::from(client(&certificates, &["h2", "http/1.1"]));
        let stream = tokio::net::TcpStream::connect(gated.gateway).await.unwrap();
        let stream = connector.connect(name(), stream).await.unwrap();
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
        let mut client = speak(stream).await;
        let request = post("https://localhost/b").body(()).unwrap();
        let answer = ask(&mut client, request, b"hello", None).await;
        assert_eq!(
            (answer.head.status.as_u16(), &*answer.body),
            (200, &b"POST /b"[..])
        );
    });
    assert_eq!(upstream.last().header("x-forwarded-proto"), Some("https"));
    // Whoever does not speak TLS gets nothing, and takes nobody else's place.
    let mut plain = gated.connect();
    assert!(plain.request("GET", "/", &[], b"").is_err());
    assert_eq!(upstream.count(), 3);
}

/// An upstream of HTTP/2 over TLS.
fn h2_upstream(runtime: &Runtime, config: Arc<ServerConfig>) -> SocketAddr {
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
    let address = listener.local_addr().unwrap();
    let acceptor = TlsAcceptor::from(config);
    runtime.spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                if let Ok(stream) = acceptor.accept(stream).await {
                    echo(stream).await;
                }
            });
        }
    });
    address
}

#[test]
fn an_upstream_is_asked_by_tls_if_its_certificate_is_good() {
    let certificates = Certificates::make();
    let runtime = Runtime::new().unwrap();
    let upstream = h2_upstream(&runtime, server(&certificates, &["h2"]));
    let served = |url: &str, rest: &str| {
        let gated = Gated::of(&config(&format!("url: \"{url}\"{rest}"), ""));
        gated
            .connect()
            .request("POST", "/x", &[], b"hello")
            .unwrap()
    };
    let ca = arg(&certificates.ca);
    let trusting = format!(", protocol: http2, tls: {{ ca: {ca} }}");
    let port = upstream.port();
    for host in ["127.0.0.1", "localhost"] {
        let answer = served(&format!("https://{host}:{port}/base"), &trusting);
        assert_eq!((answer.status, &*answer.text()), (200, "hello"), "{host}");
        assert_eq!(answer.header("x-path"), Some("/base/x"));
    }
    // Those whom the system trusts have not signed it; and another name than its own is another server.
    let url = format!("https://localhost:{port}");
    assert_problem(
        &served(&url, ", protocol: http2"),
        502,
        "an unknown authority",
    );
    let other = Certificates::make();
    let wrong = format!(", protocol: http2, tls: {{ ca: {} }}", arg(&other.ca));
    assert_problem(&served(&url, &wrong), 502, "another authority");
    let url = format!("https://127.0.0.2:{port}");
    let answer = served(&url, &trusting);
    assert_eq!(answer.status, 502, "another name: {}", answer.text());
}

#[test]
fn http1_over_tls_is_spoken_by_default() {
    let certificates = Certificates::make();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = server(&certificates, &["http/1.1"]);
    let seen = std::thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        let tls = rustls::ServerConnection::new(server).unwrap();
        let mut stream = StreamOwned::new(tls, stream);
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            head.push(byte[0]);
        }
        stream
            .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi")
            .unwrap();
        stream.flush().unwrap();
        String::from_utf8(head).unwrap()
    });
    let ca = arg(&certificates.ca);
    let upstream = format!("url: \"https://localhost:{port}\", tls: {{ ca: {ca} }}");
    let gated = Gated::of(&config(&upstream, ""));
    assert_eq!(gated.get("/x", &[]).text(), "hi");
    let seen = seen.join().unwrap().to_lowercase();
    assert!(seen.starts_with("get /x http/1.1\r\n"), "{seen}");
    // Behind TLS a server is known by its own name.
    assert!(
        seen.contains(&format!("host: localhost:{port}\r\n")),
        "{seen}"
    );
}

//! TLS, and its certificate.

use std::io::Write;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use http::Request;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use tollward_gateway::front::Certificate;
use tollward_policy::ServerTls;
use tollward_testkit::certificates::Certificates;

use crate::front::{Client, Front, LONG, settings, until};
use crate::http2::{ask, runtime};

fn server_tls(certificates: &Certificates) -> ServerTls {
    ServerTls {
        cert: certificates.cert.clone(),
        key: certificates.key.clone(),
    }
}

fn client_config(certificates: &Certificates, protocols: &[&str]) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_file(&certificates.ca).unwrap())
        .unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider);
    let config = config.with_safe_default_protocol_versions().unwrap();
    let mut config = config.with_root_certificates(roots).with_no_client_auth();
    let protocols = protocols.iter().map(|name| name.as_bytes().to_vec());
    config.alpn_protocols = protocols.collect();
    Arc::new(config)
}

fn connect(
    front: &Front,
    config: Arc<ClientConfig>,
) -> Client<StreamOwned<ClientConnection, TcpStream>> {
    let stream = TcpStream::connect(front.address).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let tls = ClientConnection::new(config, name).unwrap();
    Client::over(StreamOwned::new(tls, stream))
}

const REQUEST: &[u8] = b"GET /a HTTP/1.1\r\nHost: a\r\n\r\n";

#[test]
fn both_protocols_are_spoken_under_tls() {
    let certificates = Certificates::make();
    let mut settings = settings();
    settings.tls = Some(server_tls(&certificates));
    settings.header_timeout = Duration::from_secs(2);
    let front = Front::start(&settings);
    for protocols in [&[][..], &["http/1.1"], &["http/1.1", "h2"]] {
        let mut client = connect(&front, client_config(&certificates, protocols));
        client.send(REQUEST);
        let answer = client.answer();
        // It prefers HTTP/2, and says so.
        if protocols.contains(&"h2") {
            assert_eq!(client.stream.conn.alpn_protocol(), Some(&b"h2"[..]));
            continue;
        }
        assert_eq!(answer.unwrap().status, 200);
        client.send(REQUEST);
        assert_eq!(client.answer().unwrap().status, 200);
    }
    runtime().block_on(async {
        let stream = tokio::net::TcpStream::connect(front.address).await.unwrap();
        let tls = tokio_rustls::TlsConnector::from(client_config(&certificates, &["h2"]));
        let name = ServerName::try_from("localhost").unwrap();
        let stream = tls.connect(name, stream).await.unwrap();
        let (mut client, connection) = h2::client::handshake(stream).await.unwrap();
        tokio::spawn(connection);
        let request = Request::get("https://a/b").body(()).unwrap();
        let (status, seen) = ask(&mut client, request, b"").await.unwrap();
        assert_eq!((status.as_u16(), &*seen), (200, "GET /b\nhost: a\nbody: "));
    });
    front.end();
}

#[test]
fn a_handshake_that_does_not_end_is_not_waited_for() {
    let certificates = Certificates::make();
    let mut settings = settings();
    settings.tls = Some(server_tls(&certificates));
    settings.header_timeout = Duration::from_millis(300);
    let front = Front::start(&settings);
    for first in [&b""[..], b"\x16\x03\x01", b"GET / HTTP/1.1\r\n\r\n"] {
        let mut client = front.connect();
        client.send(first);
        client.rest();
    }
    // A handshake alone is no request either.
    let mut client = connect(&front, client_config(&certificates, &[]));
    client.stream.flush().unwrap();
    client.rest();
    until("all are closed", || front.open() == 0);
    front.end();
}

#[test]
fn a_certificate_is_read_again_when_it_changes() {
    let certificates = Certificates::make();
    let files = server_tls(&certificates);
    let certificate = Certificate::read(&files).unwrap();
    assert_eq!(certificate.refresh(), Ok(false));
    let first = std::fs::read(&files.cert).unwrap();
    std::fs::write(&files.cert, "nonsense").unwrap();
    let fault = certificate.refresh().unwrap_err();
    assert_eq!(fault.file, files.cert);
    certificates.renew_server();
    assert_ne!(std::fs::read(&files.cert).unwrap(), first);
    assert_eq!(certificate.refresh(), Ok(true));
    assert_eq!(certificate.refresh(), Ok(false));
}

#[test]
fn a_fault_names_its_file() {
    let certificates = Certificates::make();
    let files = server_tls(&certificates);
    let missing = ServerTls {
        cert: certificates.path("none.crt"),
        ..files.clone()
    };
    let fault = Certificate::read(&missing).unwrap_err();
    assert_eq!(fault.file, missing.cert);
    let swapped = ServerTls {
        cert: files.cert.clone(),
        key: files.cert.clone(),
    };
    let fault = Certificate::read(&swapped).unwrap_err();
    assert_eq!(fault.file, swapped.key);
    assert!(fault.to_string().contains("server.crt"));
}

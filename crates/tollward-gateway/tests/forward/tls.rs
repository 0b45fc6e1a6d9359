//! Upstreams with TLS.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tollward_gateway::{ForwardError, Forwarder};
use tollward_policy::{ClientCertificate, Protocol, Upstream};
use tollward_testkit::certificates::Certificates;

use crate::fixtures::{fetch, get, text, upstream};

fn certificate(path: &Path) -> CertificateDer<'static> {
    CertificateDer::from_pem_file(path).unwrap()
}

/// A server that answers with the protocol agreed on, and whether the client showed a certificate.
async fn serve(files: &Certificates, wants_client: bool, protocols: &[&str]) -> SocketAddr {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .unwrap();
    let builder = if wants_client {
        let mut roots = RootCertStore::empty();
        roots.add(certificate(&files.ca)).unwrap();
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
        builder.with_client_cert_verifier(verifier.build().unwrap())
    } else {
        builder.with_no_client_auth()
    };
    let key = PrivateKeyDer::from_pem_file(&files.key).unwrap();
    let mut config = builder
        .with_single_cert(vec![certificate(&files.cert)], key)
        .unwrap();
    config.alpn_protocols = protocols
        .iter()
        .map(|name| name.as_bytes().to_vec())
        .collect();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let Ok(stream) = acceptor.accept(stream).await else {
                    return;
                };
                let session = stream.get_ref().1;
                let agreed = session
                    .alpn_protocol()
                    .map(<[u8]>::to_vec)
                    .unwrap_or_default();
                let is_http2 = agreed == b"h2";
                let shown = session.peer_certificates().map_or(0, <[_]>::len);
                let said = format!("{} {shown}", String::from_utf8(agreed).unwrap());
                let service = service_fn(move |_| {
                    let said = said.clone();
                    async move { Ok::<_, Infallible>(text(said)) }
                });
                let io = TokioIo::new(stream);
                if is_http2 {
                    let _ = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
                        .serve_connection(io, service)
                        .await;
                } else {
                    let _ = hyper::server::conn::http1::Builder::new()
                        .serve_connection(io, service)
                        .await;
                }
            });
        }
    });
    address
}

fn secure(address: SocketAddr, files: &Certificates) -> Upstream {
    let mut upstream = upstream(&[address]);
    upstream.targets[0].tls = true;
    upstream.tls.ca = Some(files.ca.clone());
    upstream
}

#[tokio::test]
async fn a_server_is_trusted_by_its_authority() {
    let files = Certificates::make();
    let address = serve(&files, false, &["h2", "http/1.1"]).await;
    let forwarder = Forwarder::new();
    let trusting = Arc::new(secure(address, &files));
    for _ in 0..3 {
        let response = fetch(&forwarder, &trusting, get("/")).await.unwrap();
        assert_eq!(response.body(), "http/1.1 0");
    }
    let mut named = secure(address, &files);
    named.targets[0].host = "localhost".into();
    let response = fetch(&forwarder, &Arc::new(named), get("/")).await.unwrap();
    assert_eq!(response.body(), "http/1.1 0");

    let strangers = Certificates::make();
    let wary = Arc::new(secure(address, &strangers));
    let error = fetch(&forwarder, &wary, get("/")).await.unwrap_err();
    assert_eq!(error, ForwardError::NoConnection);
}

#[tokio::test]
async fn a_client_certificate_is_shown() {
    let files = Certificates::make();
    let address = serve(&files, true, &[]).await;
    let forwarder = Forwarder::new();
    let mut upstream = secure(address, &files);
    assert!(
        fetch(&forwarder, &Arc::new(upstream.clone()), get("/"))
            .await
            .is_err()
    );
    upstream.tls.client = Some(ClientCertificate {
        cert: files.client_cert.clone(),
        key: files.client_key.clone(),
    });
    let response = fetch(&forwarder, &Arc::new(upstream), get("/"))
        .await
        .unwrap();
    assert_eq!(response.body(), " 1");
}

#[tokio::test]
async fn http2_is_agreed_on_or_there_is_no_connection() {
    let files = Certificates::make();
    let forwarder = Forwarder::new();
    let mut upstream = secure(serve(&files, false, &["h2"]).await, &files);
    upstream.protocol = Protocol::Http2;
    let response = fetch(&forwarder, &Arc::new(upstream), get("/"))
        .await
        .unwrap();
    assert_eq!(response.body(), "h2 0");
    let mut upstream = secure(serve(&files, false, &[]).await, &files);
    upstream.protocol = Protocol::Http2;
    let error = fetch(&forwarder, &Arc::new(upstream), get("/"))
        .await
        .unwrap_err();
    assert_eq!(error, ForwardError::NoConnection);
}

#[tokio::test]
async fn certificates_that_cannot_be_read_are_an_error() {
    let files = Certificates::make();
    let address = serve(&files, false, &[]).await;
    let forwarder = Forwarder::new();
    let mut missing = secure(address, &files);
    missing.tls.ca = Some(files.path("missing.crt"));
    let mut wrong = secure(address, &files);
    wrong.tls.ca = Some(files.key.clone());
    let mut keyless = secure(address, &files);
    keyless.tls.client = Some(ClientCertificate {
        cert: files.client_cert.clone(),
        key: files.path("missing.key"),
    });
    for upstream in [missing, wrong, keyless] {
        let upstream = Arc::new(upstream);
        for _ in 0..2 {
            let error = fetch(&forwarder, &upstream, get("/")).await.unwrap_err();
            assert_eq!(error, ForwardError::Misconfigured);
        }
    }
}

//! Clients and servers with certificates to be thrown away.

use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tollward_testkit::certificates::Certificates;

/// A client that trusts the authority.
pub(crate) fn client(certificates: &Certificates, protocols: &[&str]) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    let ca = CertificateDer::from_pem_file(&certificates.ca).unwrap();
    roots.add(ca).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider);
    let config = config.with_safe_default_protocol_versions().unwrap();
    let mut config = config.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = names(protocols);
    Arc::new(config)
}

/// A server with the certificate.
pub(crate) fn server(certificates: &Certificates, protocols: &[&str]) -> Arc<ServerConfig> {
    let cert = CertificateDer::from_pem_file(&certificates.cert).unwrap();
    let key = PrivateKeyDer::from_pem_file(&certificates.key).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider);
    let config = config.with_safe_default_protocol_versions().unwrap();
    let config = config.with_no_client_auth();
    let mut config = config.with_single_cert(vec![cert], key).unwrap();
    config.alpn_protocols = names(protocols);
    Arc::new(config)
}

fn names(protocols: &[&str]) -> Vec<Vec<u8>> {
    let bytes = |name: &&str| name.as_bytes().to_vec();
    protocols.iter().map(bytes).collect()
}

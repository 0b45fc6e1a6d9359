//! The certificates of connections to an upstream.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use tollward_policy::{Protocol, Upstream};

/// Reads what an upstream's connections need.
///
/// Returns a sentence for the log if that cannot be had.
pub(super) fn client_config(upstream: &Upstream) -> Result<Arc<ClientConfig>, String> {
    let roots = match &upstream.tls.ca {
        Some(file) => roots_of(file)?,
        None => system_roots()?,
    };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots);
    let mut config = match &upstream.tls.client {
        None => builder.with_no_client_auth(),
        Some(client) => {
            let key = PrivateKeyDer::from_pem_file(&client.key)
                .map_err(|error| unreadable(&client.key, &error))?;
            builder
                .with_client_auth_cert(certificates(&client.cert)?, key)
                .map_err(|error| unreadable(&client.cert, &error))?
        }
    };
    config.alpn_protocols = match upstream.protocol {
        Protocol::Http1 => vec![b"http/1.1".to_vec()],
        Protocol::Http2 => vec![b"h2".to_vec()],
    };
    Ok(Arc::new(config))
}

fn roots_of(file: &Path) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(file)? {
        roots
            .add(certificate)
            .map_err(|error| unreadable(file, &error))?;
    }
    Ok(roots)
}

fn system_roots() -> Result<RootCertStore, String> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    let (added, _) = roots.add_parsable_certificates(found.certs);
    if added == 0 {
        let reason = found.errors.first().map(ToString::to_string);
        return Err(format!(
            "the system trusts no certificate: {}",
            reason.as_deref().unwrap_or("none is installed")
        ));
    }
    Ok(roots)
}

/// At least one.
fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let certificates = CertificateDer::pem_file_iter(file)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| unreadable(file, &error))?;
    if certificates.is_empty() {
        return Err(format!("{}: there is no certificate in it", file.display()));
    }
    Ok(certificates)
}

fn unreadable(file: &Path, error: &dyn Error) -> String {
    format!("{}: {error}", file.display())
}

//! TLS towards clients.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwap;
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio::time::sleep;
use tollward_policy::ServerTls;
use tracing::{info, warn};

/// How often the files are looked at.
const LOOK: Duration = Duration::from_secs(5);

/// The certificate that clients are shown. When its files change it is read again.
#[derive(Debug)]
pub struct Certificate {
    files: ServerTls,
    current: ArcSwap<CertifiedKey>,
    read: Mutex<Option<Version>>,
}

/// When the two files were written.
type Version = [SystemTime; 2];

impl Certificate {
    /// Reads the files.
    pub fn read(files: &ServerTls) -> Result<Arc<Self>, TlsError> {
        let version = version(files).ok();
        Ok(Arc::new(Self {
            files: files.clone(),
            current: ArcSwap::from_pointee(certified_key(files)?),
            read: Mutex::new(version),
        }))
    }

    /// Reads the files again if they have changed since; the answer is whether they had. What is not
    /// a certificate and its key is not used, and the last that was stays.
    pub fn refresh(&self) -> Result<bool, TlsError> {
        let version = version(&self.files)?;
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        if *read == Some(version) {
            return Ok(false);
        }
        self.current.store(Arc::new(certified_key(&self.files)?));
        *read = Some(version);
        Ok(true)
    }

    /// Looks at the files every few seconds, for ever.
    pub(super) async fn keep_fresh(self: Arc<Self>) {
        let mut was_bad = false;
        loop {
            sleep(LOOK).await;
            let certificate = self.clone();
            let refreshed = tokio::task::spawn_blocking(move || certificate.refresh());
            match refreshed.await {
                Ok(Ok(is_new)) => {
                    if is_new {
                        info!("the certificate was read again");
                    }
                    was_bad = false;
                }
                Ok(Err(error)) if !was_bad => {
                    warn!(%error, "the certificate stays as it was");
                    was_bad = true;
                }
                _ => {}
            }
        }
    }
}

impl ResolvesServerCert for Certificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current.load_full())
    }
}

/// The TLS of a front: 1.2 and 1.3, HTTP/2 rather than HTTP/1.1.
pub fn tls_config(certificate: Arc<Certificate>) -> Result<ServerConfig, TlsError> {
    let provider = Arc::new(ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider);
    let builder = builder
        .with_safe_default_protocol_versions()
        .map_err(|error| TlsError::new(&certificate.files.cert, error))?;
    let mut config = builder
        .with_no_client_auth()
        .with_cert_resolver(certificate);
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

fn certified_key(files: &ServerTls) -> Result<CertifiedKey, TlsError> {
    let of_cert = |error| TlsError::new(&files.cert, error);
    let chain = CertificateDer::pem_file_iter(&files.cert).map_err(of_cert)?;
    let chain: Vec<_> = chain.collect::<Result<_, _>>().map_err(of_cert)?;
    if chain.is_empty() {
        return Err(TlsError::new(&files.cert, "no certificate in it"));
    }
    let key = PrivateKeyDer::from_pem_file(&files.key);
    let key = key.map_err(|error| TlsError::new(&files.key, error))?;
    CertifiedKey::from_der(chain, key, &ring::default_provider())
        .map_err(|error| TlsError::new(&files.key, error))
}

fn version(files: &ServerTls) -> Result<Version, TlsError> {
    let written = |file: &Path| {
        let written = std::fs::metadata(file).and_then(|metadata| metadata.modified());
        written.map_err(|error| TlsError::new(file, error))
    };
    Ok([written(&files.cert)?, written(&files.key)?])
}

/// A certificate or key that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsError {
    /// The file that is to blame.
    pub file: PathBuf,
    /// What is wrong with it.
    pub detail: String,
}

impl TlsError {
    fn new(file: &Path, detail: impl fmt::Display) -> Self {
        Self {
            file: file.to_owned(),
            detail: detail.to_string(),
        }
    }
}

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.file.display(), self.detail)
    }
}

impl std::error::Error for TlsError {}

impl From<TlsError> for io::Error {
    fn from(error: TlsError) -> Self {
        Self::new(io::ErrorKind::InvalidInput, error)
    }
}

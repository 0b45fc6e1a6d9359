//! A server with TLS.

use std::path::{Path, PathBuf};

use crate::certificates::Certificates;

/// What a client of a server with TLS needs, in PEM.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    /// The certificate of the authority that signed the server's.
    pub ca: PathBuf,
    /// A client's certificate, signed by the same.
    pub cert: PathBuf,
    /// The key of that.
    pub key: PathBuf,
}

impl TlsFiles {
    /// Makes them, and the server's own, in a directory.
    pub(super) fn make(directory: &Path) -> Self {
        let made = Certificates::make_in(directory);
        Self {
            ca: made.ca,
            cert: made.client_cert,
            key: made.client_key,
        }
    }
}

/// The server's arguments for the files in its directory. A client may come without a certificate.
pub(super) const SERVER_ARGS: [&str; 8] = [
    "--tls-cert-file",
    "server.crt",
    "--tls-key-file",
    "server.key",
    "--tls-ca-cert-file",
    "ca.crt",
    "--tls-auth-clients",
    "optional",
];

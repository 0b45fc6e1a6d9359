//! Certificates to be thrown away, made by the `openssl` program.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore, ServerConfig};

use crate::served::Folder;

/// An authority, and a certificate of this machine that it signed.
pub(crate) struct Certificates {
    pub(crate) ca: PathBuf,
    pub(crate) cert: PathBuf,
    pub(crate) key: PathBuf,
    _folder: Folder,
}

impl Certificates {
    pub(crate) fn make() -> Self {
        let folder = Folder::new();
        folder.write(
            "server.ext",
            "basicConstraints = critical, CA:FALSE\nsubjectAltName = IP:127.0.0.1, DNS:localhost\n",
        );
        let key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
        for args in [
            &*format!("req -x509 {key} -subj /CN=authority -days 30 -keyout ca.key -out ca.pem"),
            &format!("req -new {key} -subj /CN=localhost -keyout key.pem -out server.csr"),
            "x509 -req -in server.csr -CA ca.pem -CAkey ca.key -set_serial 2 -days 30 \
             -extfile server.ext -out cert.pem",
        ] {
            let made = Command::new("openssl")
                .args(args.split_whitespace())
                .current_dir(&folder.0)
                .stdin(Stdio::null())
                .output()
                .unwrap();
            let said = String::from_utf8_lossy(&made.stderr).into_owned();
            assert!(made.status.success(), "{args}: {said}");
        }
        Self {
            ca: folder.0.join("ca.pem"),
            cert: folder.0.join("cert.pem"),
            key: folder.0.join("key.pem"),
            _folder: folder,
        }
    }

    /// A client that trusts the authority.
    pub(crate) fn client(&self, protocols: &[&str]) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        let ca = CertificateDer::from_pem_file(&self.ca).unwrap();
        roots.add(ca).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider);
        let config = config.with_safe_default_protocol_versions().unwrap();
        let mut config = config.with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = names(protocols);
        Arc::new(config)
    }

    /// A server with the certificate.
    pub(crate) fn server(&self, protocols: &[&str]) -> Arc<ServerConfig> {
        let cert = CertificateDer::from_pem_file(&self.cert).unwrap();
        let key = PrivateKeyDer::from_pem_file(&self.key).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider);
        let config = config.with_safe_default_protocol_versions().unwrap();
        let config = config.with_no_client_auth();
        let mut config = config.with_single_cert(vec![cert], key).unwrap();
        config.alpn_protocols = names(protocols);
        Arc::new(config)
    }
}

fn names(protocols: &[&str]) -> Vec<Vec<u8>> {
    let bytes = |name: &&str| name.as_bytes().to_vec();
    protocols.iter().map(bytes).collect()
}

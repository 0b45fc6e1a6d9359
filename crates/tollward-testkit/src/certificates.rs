//! Certificates to be thrown away, made by the `openssl` program.
#![expect(
    clippy::panic,
    reason = "a fixture that cannot do its work fails the test, and only tests use it"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::redis::process::Directory;

/// Everything the certificates say, so that nothing depends on the machine's own configuration.
const CONFIG: &str = "\
[req]
distinguished_name = name
prompt = no
[name]
CN = Tollward test
[ca]
basicConstraints = critical, CA:TRUE
keyUsage = critical, keyCertSign, cRLSign
subjectKeyIdentifier = hash
[server]
basicConstraints = critical, CA:FALSE
keyUsage = critical, digitalSignature
extendedKeyUsage = serverAuth
subjectAltName = IP:127.0.0.1, DNS:localhost
[client]
basicConstraints = critical, CA:FALSE
keyUsage = critical, digitalSignature
extendedKeyUsage = clientAuth
subjectAltName = DNS:client.tollward.test
";

/// A new key, of which a certificate is asked for.
const NEW: &str =
    "-new -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -config openssl.conf";

/// An authority, and what it has signed, in files of PEM.
#[derive(Debug)]
pub struct Certificates {
    /// `ca.crt`: the certificate of the authority.
    pub ca: PathBuf,
    /// `server.crt`: the certificate of a server at 127.0.0.1 and localhost.
    pub cert: PathBuf,
    /// `server.key`: the key of that.
    pub key: PathBuf,
    /// `client.crt`: the certificate of a client.
    pub client_cert: PathBuf,
    /// `client.key`: the key of that.
    pub client_key: PathBuf,
    folder: PathBuf,
    _own: Option<Directory>,
}

impl Certificates {
    /// Makes them in a folder of their own, which goes away with this.
    #[track_caller]
    pub fn make() -> Self {
        let own = Directory::new();
        let mut made = Self::make_in(own.path());
        made._own = Some(own);
        made
    }

    /// Makes them in a folder that is there, where they stay.
    #[track_caller]
    pub fn make_in(folder: &Path) -> Self {
        if let Err(error) = fs::write(folder.join("openssl.conf"), CONFIG) {
            panic!("cannot write to {}: {error}", folder.display());
        }
        let ca = "-x509 -extensions ca -subj /CN=ca -days 30 -keyout ca.key -out ca.crt";
        openssl(folder, &format!("req {NEW} {ca}"));
        sign(folder, "server", 2);
        sign(folder, "client", 3);
        Self {
            ca: folder.join("ca.crt"),
            cert: folder.join("server.crt"),
            key: folder.join("server.key"),
            client_cert: folder.join("client.crt"),
            client_key: folder.join("client.key"),
            folder: folder.to_owned(),
            _own: None,
        }
    }

    /// Puts another certificate of the server, with another key, in the place of the one that is there.
    #[track_caller]
    pub fn renew_server(&self) {
        sign(&self.folder, "server", 4);
    }

    /// A path in their folder, of a file that need not be there.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }
}

/// Makes a key, and has the authority sign its certificate.
#[track_caller]
fn sign(folder: &Path, name: &str, serial: u32) {
    let files = format!("-keyout {name}.key -out {name}.csr");
    openssl(folder, &format!("req {NEW} -subj /CN={name} {files}"));
    openssl(
        folder,
        &format!(
            "x509 -req -in {name}.csr -CA ca.crt -CAkey ca.key -set_serial {serial} -days 30 \
             -extfile openssl.conf -extensions {name} -out {name}.crt"
        ),
    );
}

#[track_caller]
fn openssl(folder: &Path, args: &str) {
    let output = Command::new("openssl")
        .args(args.split_whitespace())
        .current_dir(folder)
        .stdin(Stdio::null())
        .output();
    match output {
        Ok(output) if output.status.success() => {}
        Ok(output) => panic!(
            "`openssl {args}`: {}",
            String::from_utf8_lossy(&output.stderr)
        ),
        Err(error) => panic!("openssl cannot be started: {error}; `apt-get install openssl`"),
    }
}

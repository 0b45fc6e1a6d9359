//! Certificates to be thrown away, made by the `openssl` program.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

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

/// Everything the certificates say, so that nothing depends on the machine's own configuration.
const CONFIG: &str = "\
[req]
distinguished_name = name
prompt = no
[name]
CN = Tollgate test
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
subjectAltName = DNS:client.tollgate.test
";

impl TlsFiles {
    /// Makes them, and the server's own, in a directory.
    pub(super) fn make(directory: &Path) -> Self {
        if let Err(error) = fs::write(directory.join("openssl.conf"), CONFIG) {
            panic!("cannot write {}: {error}", directory.display());
        }
        openssl(
            directory,
            "req -x509 -new -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -config openssl.conf \
             -extensions ca -subj /CN=ca -days 30 -keyout ca.key -out ca.crt",
        );
        for (serial, name) in ["server", "client"].into_iter().enumerate() {
            openssl(
                directory,
                &format!(
                    "req -new -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -config openssl.conf \
                     -subj /CN={name} -keyout {name}.key -out {name}.csr"
                ),
            );
            openssl(
                directory,
                &format!(
                    "x509 -req -in {name}.csr -CA ca.crt -CAkey ca.key -set_serial {} -days 30 \
                     -extfile openssl.conf -extensions {name} -out {name}.crt",
                    serial + 2
                ),
            );
        }
        Self {
            ca: directory.join("ca.crt"),
            cert: directory.join("client.crt"),
            key: directory.join("client.key"),
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

fn openssl(directory: &Path, args: &str) {
    let output = Command::new("openssl")
        .args(args.split_whitespace())
        .current_dir(directory)
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

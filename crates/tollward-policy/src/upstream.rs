//! Where admitted requests go.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use crate::compile::ClientCertificate;
use crate::config::{HostHeader, Protocol};

/// Servers that answer for some routes, and how they are asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upstream {
    /// Its name in the file.
    pub name: Box<str>,
    /// Its servers, at least one; either all of them are asked with TLS or none is.
    pub targets: Vec<Target>,
    /// How long a connection may take until it can be used, TLS handshake included.
    pub connect_timeout: Duration,
    /// How long the head of an answer may take, from when the request is sent.
    pub response_timeout: Duration,
    /// How long a body or an upgraded connection may stand still; also how long an unused connection is
    /// kept.
    pub idle_timeout: Duration,
    /// What is spoken.
    pub protocol: Protocol,
    /// What its servers are told as `Host`.
    pub host: HostHeader,
    /// The certificates, where targets are asked with TLS.
    pub tls: UpstreamTls,
    /// The most connections to one target.
    pub max_connections: usize,
}

/// One server of an upstream.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Target {
    /// Whether it is asked with TLS.
    pub tls: bool,
    /// A name or an address, that of IPv6 without brackets.
    pub host: Box<str>,
    /// The port.
    pub port: u16,
    /// What stands before every path: nothing, or `/base` without a slash at the end.
    pub prefix: Box<str>,
}

impl Target {
    /// The host as it stands in a URL and in `Host`: an IPv6 address in brackets, and the port unless
    /// it is that of the scheme.
    pub fn authority(&self) -> String {
        let usual = if self.tls { 443 } else { 80 };
        let is_v6 = self.host.contains(':');
        match (is_v6, self.port == usual) {
            (false, true) => self.host.to_string(),
            (false, false) => format!("{}:{}", self.host, self.port),
            (true, true) => format!("[{}]", self.host),
            (true, false) => format!("[{}]:{}", self.host, self.port),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls { "https" } else { "http" };
        write!(f, "{scheme}://{}{}", self.authority(), self.prefix)
    }
}

/// The certificates of connections to an upstream. Nothing here has been read yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UpstreamTls {
    /// A PEM file of those who may have signed the server's certificate; none for those whom the
    /// system trusts.
    pub ca: Option<PathBuf>,
    /// What is shown to the server.
    pub client: Option<ClientCertificate>,
}

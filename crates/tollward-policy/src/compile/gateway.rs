use std::path::PathBuf;
use std::time::Duration;

use super::{Compiler, word};
use crate::config::{self, File, Spanned};

/// How the gateway serves its clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GatewaySettings {
    /// Threads that serve; 0 for as many as there are cores.
    pub workers: usize,
    /// How long the head of a request may take: from its first byte, or from when the connection was
    /// accepted, to its end.
    pub header_timeout: Duration,
    /// How long a connection may wait for its next request; also how long a body may stand still.
    pub idle_timeout: Duration,
    /// The most connections that are open at once, over all workers.
    pub max_connections: usize,
    /// The longest head of a request, in bytes; at least 8192.
    pub max_header_bytes: usize,
    /// The longest body of a request, in bytes; none for no bound.
    pub max_body: Option<u64>,
    /// Where a line for each request goes.
    pub access_log: AccessLog,
    /// The certificate that clients are shown; none for no TLS.
    pub tls: Option<ServerTls>,
}

/// Where the lines of a log go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum AccessLog {
    /// Nowhere.
    #[default]
    Off,
    /// To the standard output.
    Stdout,
    /// To the end of a file.
    File(PathBuf),
}

/// A certificate that clients are shown. Nothing here has been read yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerTls {
    /// A PEM file with the certificate, and those above it.
    pub cert: PathBuf,
    /// A PEM file with its private key.
    pub key: PathBuf,
}

impl AccessLog {
    pub(super) fn of(written: Option<&Spanned<config::AccessLog>>) -> Self {
        match written.map(|log| &log.value) {
            None | Some(config::AccessLog::Off) => Self::Off,
            Some(config::AccessLog::Stdout) => Self::Stdout,
            Some(config::AccessLog::File(path)) => Self::File(path.into()),
        }
    }
}

impl Default for GatewaySettings {
    fn default() -> Self {
        Self {
            workers: 0,
            header_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(60),
            max_connections: 10_000,
            max_header_bytes: 65_536,
            max_body: None,
            access_log: AccessLog::Off,
            tls: None,
        }
    }
}

impl Compiler {
    pub(super) fn gateway(&mut self, file: &File) -> GatewaySettings {
        let door = file.listen.as_ref().and_then(|it| it.gateway.as_ref());
        if let Some(door) = door
            && file.upstreams.is_empty()
            && !self.is_broken("upstreams")
        {
            self.fault(
                &door.place,
                "a gateway that has nowhere to send a request",
                "add `upstreams`, and name one in `routes`; or remove this",
            );
        }
        let default = GatewaySettings::default();
        let Some(gateway) = &file.gateway else {
            return default;
        };
        let count = |value: &Option<_>, default| {
            word(value.as_ref()).map_or(default, |it: u32| usize::try_from(it).unwrap_or(default))
        };
        GatewaySettings {
            workers: count(&gateway.workers, default.workers),
            header_timeout: word(gateway.header_timeout.as_ref()).unwrap_or(default.header_timeout),
            idle_timeout: word(gateway.idle_timeout.as_ref()).unwrap_or(default.idle_timeout),
            max_connections: count(&gateway.max_connections, default.max_connections),
            max_header_bytes: count(&gateway.max_header_bytes, default.max_header_bytes),
            max_body: word(gateway.max_body.as_ref()),
            access_log: AccessLog::of(gateway.access_log.as_ref()),
            tls: gateway.tls.as_ref().map(|tls| ServerTls {
                cert: PathBuf::from(&tls.cert.value),
                key: PathBuf::from(&tls.key.value),
            }),
        }
    }
}

//! Opening connections: addresses, credentials, certificates, timeouts.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use redis::aio::{MultiplexedConnection, PubSub};
use redis::{
    AsyncConnectionConfig, Client, ConnectionAddr, ErrorKind, IntoConnectionInfo,
    RedisConnectionInfo, RedisError, TlsCertificates,
};
use tollward_policy::config::RedisUrl;

/// One server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Address {
    Tcp { host: String, port: u16 },
    Unix { path: PathBuf },
}

impl Address {
    /// `HOST:PORT`, as a cluster names its nodes.
    pub(crate) fn named(node: &str) -> Option<Self> {
        let (host, port) = node.rsplit_once(':')?;
        let host = host.trim_start_matches('[').trim_end_matches(']');
        Some(Self::Tcp {
            host: host.to_owned(),
            port: port.parse().ok()?,
        })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp { host, port } => write!(f, "{host}:{port}"),
            Self::Unix { path } => path.display().fmt(f),
        }
    }
}

/// Opens connections to the servers of one deployment, which share their credentials.
#[derive(Clone)]
pub(crate) struct Dialer {
    settings: RedisConnectionInfo,
    tls: Option<TlsCertificates>,
    timeout: Duration,
}

/// A connection that takes longer than this is given up, and another is tried.
const LEAST_CONNECT_TIMEOUT: Duration = Duration::from_millis(500);
const MOST_CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Messages that wait for the connection's own task.
const PIPELINE_BUFFER: usize = 64;

impl Dialer {
    pub(crate) fn new(url: &RedisUrl, tls: Option<TlsCertificates>, deadline: Duration) -> Self {
        let mut settings = RedisConnectionInfo::default().set_db(i64::from(url.database));
        if let Some(user) = &url.user {
            settings = settings.set_username(user);
        }
        if let Some(password) = &url.password {
            settings = settings.set_password(password);
        }
        let no_certificates = TlsCertificates {
            client_tls: None,
            root_cert: None,
        };
        Self {
            settings,
            tls: url.tls.then(|| tls.unwrap_or(no_certificates)),
            timeout: (deadline * 20).clamp(LEAST_CONNECT_TIMEOUT, MOST_CONNECT_TIMEOUT),
        }
    }

    /// The same for sentinels, which have no databases.
    pub(crate) fn without_database(mut self) -> Self {
        self.settings = self.settings.set_db(0);
        self
    }

    /// The same for sentinels that know neither user nor password, though their servers do.
    pub(crate) fn without_credentials(mut self) -> Self {
        self.settings = RedisConnectionInfo::default();
        self
    }

    /// Connects, within the time for it.
    pub(crate) async fn dial(&self, to: &Address) -> Result<MultiplexedConnection, RedisError> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(self.timeout))
            // Every call has a deadline of its own.
            .set_response_timeout(None)
            .set_pipeline_buffer_size(PIPELINE_BUFFER);
        let client = self.client(to)?;
        let connect = client.get_multiplexed_async_connection_with_config(&config);
        within(self.timeout, connect).await
    }

    /// Connects to listen to messages.
    pub(crate) async fn listen(&self, to: &Address) -> Result<PubSub, RedisError> {
        within(self.timeout, self.client(to)?.get_async_pubsub()).await
    }

    fn client(&self, to: &Address) -> Result<Client, RedisError> {
        let tcp = redis::io::tcp::TcpSettings::default()
            .set_nodelay(true)
            .set_keepalive(redis::io::tcp::socket2::TcpKeepalive::new());
        let addr = match to {
            Address::Unix { path } => ConnectionAddr::Unix(path.clone()),
            Address::Tcp { host, port } if self.tls.is_some() => ConnectionAddr::TcpTls {
                host: host.clone(),
                port: *port,
                insecure: false,
                tls_params: None,
            },
            Address::Tcp { host, port } => ConnectionAddr::Tcp(host.clone(), *port),
        };
        let info = addr
            .into_connection_info()?
            .set_redis_settings(self.settings.clone())
            .set_tcp_settings(tcp);
        match &self.tls {
            Some(tls) => Client::build_with_tls(info, tls.clone()),
            None => Client::open(info),
        }
    }
}

/// Gives up after `limit`.
pub(crate) async fn within<T>(
    limit: Duration,
    work: impl Future<Output = Result<T, RedisError>>,
) -> Result<T, RedisError> {
    match tokio::time::timeout(limit, work).await {
        Ok(result) => result,
        Err(_) => Err((ErrorKind::Io, "it took too long").into()),
    }
}

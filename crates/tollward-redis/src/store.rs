use std::fmt;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use redis::{ClientTlsConfig, TlsCertificates};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tollward_core::{Charge, Timestamp};
use tollward_policy::config::{MAX_PREFIX, RedisHost, RedisKind, RedisUrl, StoreClock};
use tollward_policy::{ClientCertificate, RedisOptions, RedisTls};
use tollward_store::{Mode, Outcome, Reply, Store, StoreError, Verdict};

use crate::cluster::Cartographer;
use crate::connect::{Address, Dialer};
use crate::debts;
use crate::fleet::Heart;
use crate::key::KeyName;
use crate::local::Local;
use crate::remembered::Remembered;
use crate::request::Request;
use crate::sentinel::Watcher;
use crate::shards::{Map, Running, Shards, empty_cluster};
use crate::shared::Shared;
use crate::stats::Stats;

/// How a store in Redis is to be.
#[derive(Clone)]
pub struct Options {
    /// Where Redis is.
    pub url: RedisUrl,
    /// What the names of all keys begin with: at most 24 bytes, without braces.
    pub prefix: String,
    /// How long a decision may take before this node decides by itself.
    pub deadline: Duration,
    /// Whose time decides: Redis's, read in the script, or the nodes', which they set by Redis's now and
    /// then.
    pub clock: StoreClock,
    /// Certificates, for `rediss://`.
    pub tls: RedisTls,
    /// The most buckets this node keeps while Redis is away.
    pub max_buckets: usize,
    /// Whether a refusal is remembered for a moment, so that a caller that hammers on costs Redis
    /// nothing.
    pub remember_refusals: bool,
    /// Whether this node tells others that it lives, counts them, and sets its clock by the servers'.
    pub heartbeat: bool,
    /// This node's time: the same that is given to [`Store::apply`].
    pub now: Now,
}

/// Tells the time.
pub type Now = Arc<dyn Fn() -> Timestamp + Send + Sync>;

impl Options {
    /// A store at this address, with everything else as it usually is.
    pub fn new(url: RedisUrl, now: Now) -> Self {
        let RedisOptions {
            prefix,
            deadline,
            clock,
            tls,
        } = RedisOptions::default();
        Self {
            url,
            prefix,
            deadline,
            clock,
            tls,
            max_buckets: 1_000_000,
            remember_refusals: true,
            heartbeat: true,
            now,
        }
    }
}

/// Why options make no store.
#[derive(Debug)]
pub enum InvalidOptions {
    /// The prefix is too long, or has braces in it.
    Prefix,
    /// A certificate or key cannot be read.
    Certificate(PathBuf, std::io::Error),
}

impl fmt::Display for InvalidOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Prefix => write!(
                f,
                "a prefix has at most {MAX_PREFIX} bytes, and no braces or spaces"
            ),
            Self::Certificate(path, error) => write!(f, "cannot read {}: {error}", path.display()),
        }
    }
}

impl std::error::Error for InvalidOptions {}

/// Counters in Redis, shared by all nodes that use the same prefix.
///
/// It answers by the deadline whatever Redis does. See the crate's documentation for what it promises.
pub struct RedisStore {
    inner: Arc<Inner>,
    tried: watch::Receiver<bool>,
    /// Ends with the store.
    _tasks: JoinSet<()>,
}

pub(crate) struct Inner {
    pub(crate) prefix: String,
    pub(crate) shared: Arc<Shared>,
    pub(crate) shards: Arc<Shards>,
    pub(crate) local: Local,
    pub(crate) remembered: Option<Remembered>,
}

/// One server of the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shard {
    /// Where it is.
    pub name: String,
    /// Whether it is asked; if not, `on_failure` decides.
    pub up: bool,
}

impl RedisStore {
    /// Starts a store. It does not wait for Redis: until Redis was found, `on_failure` decides. To be
    /// called on a Tokio runtime, on which its connections are kept.
    ///
    /// # Errors
    ///
    /// The options make no sense, whatever Redis does.
    pub fn start(options: Options) -> Result<Self, InvalidOptions> {
        let plain = |byte: u8| byte.is_ascii_graphic() && byte != b'{' && byte != b'}';
        if options.prefix.len() > MAX_PREFIX || !options.prefix.bytes().all(plain) {
            return Err(InvalidOptions::Prefix);
        }
        let url = &options.url;
        let certificates = url.tls.then(|| certificates(&options.tls)).transpose()?;
        let dialer = Dialer::new(url, certificates, options.deadline);
        let shared = Arc::new(Shared::new(
            dialer.clone(),
            options.deadline,
            options.clock,
            options.now,
            options.heartbeat,
        ));
        let mut tasks = JoinSet::new();
        let (tried_sender, tried) = watch::channel(false);
        let canary = KeyName::own(&options.prefix, "canary");
        let shards = match &url.kind {
            RedisKind::Standalone(host) => Map::One(Running::fixed(&shared, address(host), canary)),
            RedisKind::Unix { path } => {
                let path = path.clone();
                Map::One(Running::fixed(&shared, Address::Unix { path }, canary))
            }
            RedisKind::Sentinel { sentinels, master } => {
                let (sender, primary) = watch::channel(None);
                let watcher = Watcher {
                    sentinels: sentinels.iter().map(address).collect(),
                    master: master.clone(),
                    dialer: dialer.without_database(),
                    primary: sender,
                };
                tasks.spawn(watcher.run());
                Map::One(Running::following(&shared, primary, canary))
            }
            RedisKind::Cluster { .. } => empty_cluster(),
        };
        let shards = Arc::new(Shards::new(shards));
        match &url.kind {
            RedisKind::Cluster { seeds } => {
                let cartographer = Cartographer {
                    seeds: seeds.iter().map(address).collect(),
                    prefix: options.prefix.clone(),
                    shared: shared.clone(),
                    shards: shards.clone(),
                    tried: tried_sender,
                };
                tasks.spawn(cartographer.run());
            }
            _ => {
                tried_sender.send_replace(true);
            }
        }
        let inner = Arc::new(Inner {
            prefix: options.prefix,
            shared,
            shards,
            local: Local::new(options.max_buckets),
            remembered: options.remember_refusals.then(Remembered::new),
        });
        tasks.spawn(debts::settle(inner.clone()));
        if options.heartbeat {
            tasks.spawn(Heart::new(inner.clone()).run());
        }
        Ok(Self {
            inner,
            tried,
            _tasks: tasks,
        })
    }

    /// Whether the buckets of a request may be on several servers, which are asked one by one. A request
    /// that is dropped in between may leave some charged.
    pub fn is_cluster(&self) -> bool {
        self.inner.shards.is_cluster()
    }

    /// Waits until Redis was tried once, with whatever result.
    pub async fn tried(&self) {
        // The sender may have gone: it has said what it had to say.
        let _ = self.tried.clone().wait_for(|tried| *tried).await;
        for lane in self.inner.shards.lanes() {
            lane.tried().await;
        }
    }

    /// Its servers.
    pub fn shards(&self) -> Vec<Shard> {
        let shard = |lane: Arc<crate::lane::Lane>| Shard {
            name: lane.name(),
            up: lane.is_up(),
        };
        self.inner.shards.lanes().into_iter().map(shard).collect()
    }

    /// The nodes that share the limits, as last counted.
    pub fn nodes(&self) -> u32 {
        self.inner.local.nodes()
    }

    /// Buckets whose spending during an outage is still to be made good.
    pub fn debts(&self) -> usize {
        self.inner.local.debt_count()
    }

    /// What it has done so far.
    pub fn stats(&self) -> &Stats {
        &self.inner.shared.stats
    }

    /// What this node keeps while Redis is away.
    pub fn memory(&self) -> &tollward_store::MemoryStore {
        self.inner.local.memory()
    }
}

impl Store for RedisStore {
    fn apply<'a>(
        &'a self,
        charges: &'a [Charge<'a>],
        outcomes: &'a mut [Outcome],
        mode: Mode,
        now: Timestamp,
    ) -> Reply<'a, Verdict> {
        let inner = &*self.inner;
        if let Some(remembered) = &inner.remembered
            && remembered.refuses(charges, outcomes, mode, now)
        {
            return Reply::Now(Ok(Verdict {
                admitted: false,
                source: tollward_store::Source::Remembered,
            }));
        }
        Reply::Later(Box::pin(async move {
            let patience = pin!(tokio::time::sleep(inner.shared.deadline));
            Request::new(inner, charges, mode, now)
                .decide(outcomes, patience)
                .await
        }))
    }

    fn credit<'a>(
        &'a self,
        charges: &'a [Charge<'a>],
        charged_at: Timestamp,
        now: Timestamp,
    ) -> Reply<'a, ()> {
        let inner = &*self.inner;
        Reply::Later(Box::pin(async move {
            let patience = pin!(tokio::time::sleep(inner.shared.deadline));
            Request::new(inner, charges, Mode::Charge, now)
                .give_back(charged_at, patience)
                .await
                .map_err(|_| StoreError::Unavailable)
        }))
    }

    /// In force everywhere within 250 ms: for so long a node may remember a refusal, this one too if it was
    /// on its way. What another node has spent by itself during an outage is still charged when Redis is
    /// back.
    ///
    /// If Redis cannot be reached, this node forgets what it keeps itself all the same.
    fn reset<'a>(&'a self, charges: &'a [Charge<'a>], now: Timestamp) -> Reply<'a, ()> {
        let inner = &*self.inner;
        Reply::Later(Box::pin(async move {
            Request::new(inner, charges, Mode::Charge, now)
                .reset()
                .await
        }))
    }
}

fn address(at: &RedisHost) -> Address {
    Address::Tcp {
        host: at.host.clone(),
        port: at.port,
    }
}

fn certificates(files: &RedisTls) -> Result<TlsCertificates, InvalidOptions> {
    // Several parts of a process may do this; the first wins, and all are the same.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let read = |path: &PathBuf| {
        std::fs::read(path).map_err(|error| InvalidOptions::Certificate(path.clone(), error))
    };
    let client = files
        .client
        .as_ref()
        .map(|ClientCertificate { cert, key }| {
            Ok(ClientTlsConfig {
                client_cert: read(cert)?,
                client_key: read(key)?,
            })
        });
    Ok(TlsCertificates {
        client_tls: client.transpose()?,
        root_cert: files.ca.as_ref().map(read).transpose()?,
    })
}

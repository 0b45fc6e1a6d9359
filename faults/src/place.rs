//! A Redis to be broken, and how.

use std::time::Instant;

use anyhow::Result;
use tollward_testkit::fault::FaultProxy;
use tollward_testkit::redis::{RedisCluster, RedisServer, SentinelTrio};

/// What breaks, and by what.
#[derive(Clone, Copy)]
pub(crate) enum Breakage {
    /// One server, spoken to directly.
    Server(fn(&RedisServer) -> Result<Spell>),
    /// The way to one server.
    Way(fn(&FaultProxy) -> Result<Spell>),
    /// A primary under sentinels.
    Trio(fn(&SentinelTrio) -> Result<Spell>),
    /// Three primaries and their replicas.
    Cluster(fn(&RedisCluster) -> Result<Spell>),
}

/// How long it was broken.
pub(crate) struct Spell {
    pub(crate) broken: Instant,
    /// Since when Redis can be used again.
    pub(crate) mended: Instant,
    /// What else there is to say.
    pub(crate) note: Option<String>,
}

/// The password of single servers.
pub(crate) const PASSWORD: &str = "first";

/// What nodes keep their counters in. Everything of it ends with this.
pub(crate) enum Place {
    Server(RedisServer, fn(&RedisServer) -> Result<Spell>),
    Way {
        proxy: FaultProxy,
        act: fn(&FaultProxy) -> Result<Spell>,
        _server: RedisServer,
    },
    Trio(Box<SentinelTrio>, fn(&SentinelTrio) -> Result<Spell>),
    Cluster(RedisCluster, fn(&RedisCluster) -> Result<Spell>),
}

impl Place {
    /// Starts the processes, and waits until they are well. Blocks.
    pub(crate) fn start(breakage: Breakage) -> Self {
        let server = || RedisServer::builder().password(PASSWORD).start();
        match breakage {
            Breakage::Server(act) => Self::Server(server(), act),
            Breakage::Way(act) => {
                let server = server();
                let proxy = FaultProxy::start(server.addr());
                Self::Way {
                    proxy,
                    act,
                    _server: server,
                }
            }
            Breakage::Trio(act) => Self::Trio(Box::new(SentinelTrio::start()), act),
            Breakage::Cluster(act) => Self::Cluster(RedisCluster::start(), act),
        }
    }

    /// Where nodes find it.
    pub(crate) fn url(&self) -> String {
        match self {
            Self::Server(server, _) => server.url(),
            Self::Way { proxy, .. } => format!("redis://:{PASSWORD}@{}", proxy.addr()),
            Self::Trio(trio, _) => trio.url(),
            Self::Cluster(cluster, _) => cluster.url(),
        }
    }

    /// Breaks it and mends it again. Blocks.
    pub(crate) fn break_and_mend(&self) -> Result<Spell> {
        match self {
            Self::Server(server, act) => act(server),
            Self::Way { proxy, act, .. } => act(proxy),
            Self::Trio(trio, act) => act(trio),
            Self::Cluster(cluster, act) => act(cluster),
        }
    }
}

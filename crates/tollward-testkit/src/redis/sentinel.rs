//! A primary and its replica, watched by three sentinels.

use std::net::SocketAddr;
use std::time::Duration;

use super::client::Value;
use super::server::{Builder, RedisServer};
use super::wait_until;

const NAME: &str = "tollward-main";
const SENTINELS: usize = 3;
/// A sentinel that was held up itself does nothing for half a minute.
const PATIENCE: Duration = Duration::from_secs(90);
/// After which the primary is held to be down.
///
/// A sentinel first asks a new primary after the lesser of this and a second, and counts from before that: with
/// anything near or below a second, every failover is followed by a needless one, back and forth.
const DOWN_AFTER_MS: u32 = 2000;
/// A process that says nothing for so long is left out of account.
const ANSWER: Duration = Duration::from_secs(1);

/// A primary, a replica and three sentinels, of which two have to agree that the primary is down.
///
/// That takes two seconds without an answer; a failover that does not succeed is tried again after some more.
#[derive(Debug)]
pub struct SentinelTrio {
    servers: [RedisServer; 2],
    sentinels: Vec<RedisServer>,
}

impl SentinelTrio {
    /// Starts everything and waits until the replica is in sync and the sentinels know it and each other.
    #[track_caller]
    pub fn start() -> Self {
        Self::start_with(|builder| builder)
    }

    /// The same, of servers with something special, such as another binary. It goes for the sentinels as well.
    #[track_caller]
    pub fn start_with(special: impl Fn(Builder) -> Builder) -> Self {
        let primary = special(RedisServer::builder()).start();
        let port = primary.port().to_string();
        let replica = RedisServer::builder().args(&["--replicaof", "127.0.0.1", &port]);
        let replica = special(replica).start();
        wait_until("the replica is in sync", PATIENCE, || {
            let online = primary.info("replication", "slave0");
            online.filter(|it| it.contains("state=online"))
        });
        let start = |_| special(RedisServer::builder().sentinel(config(&primary))).start();
        let trio = Self {
            sentinels: (0..SENTINELS).map(start).collect(),
            servers: [primary, replica],
        };
        trio.wait_until_watched();
        trio
    }

    /// `redis-sentinel://`, the addresses of the sentinels, and the name of what they watch.
    pub fn url(&self) -> String {
        let sentinels: Vec<_> = self
            .sentinels
            .iter()
            .map(|it| it.addr().to_string())
            .collect();
        format!("redis-sentinel://{}/{NAME}", sentinels.join(","))
    }

    /// First the one that was the primary at the start, then the one that was its replica.
    pub fn servers(&self) -> &[RedisServer] {
        &self.servers
    }

    /// The sentinels.
    pub fn sentinels(&self) -> &[RedisServer] {
        &self.sentinels
    }

    /// Where the primary is, as all sentinels that answer say. Waits until they agree.
    #[track_caller]
    pub fn primary(&self) -> SocketAddr {
        wait_until("the sentinels agree", PATIENCE, || self.named())
    }

    /// The server at an address.
    #[track_caller]
    pub fn server_at(&self, address: SocketAddr) -> &RedisServer {
        match self.servers.iter().find(|it| it.addr() == address) {
            Some(server) => server,
            None => panic!("no server listens on {address}"),
        }
    }

    /// Kills the primary, and says where it was.
    #[track_caller]
    pub fn kill_primary(&self) -> SocketAddr {
        let primary = self.primary();
        self.server_at(primary).kill();
        primary
    }

    /// Waits until all sentinels that answer name another primary than the old one and that one agrees; gives it.
    #[track_caller]
    pub fn wait_for_failover(&self, old: SocketAddr) -> SocketAddr {
        wait_until("another server is the primary", PATIENCE, || {
            let new = self.named().filter(|it| *it != old)?;
            let role = self.server_at(new).try_command(&["ROLE"], ANSWER).ok()?;
            let role = role.as_array().first()?.as_text()?.to_owned();
            (role == "master").then_some(new)
        })
    }

    /// What all sentinels that answer say, if they say the same.
    fn named(&self) -> Option<SocketAddr> {
        let command = ["SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME];
        let answers = self.sentinels.iter();
        let answers = answers.filter_map(|it| it.try_command(&command, ANSWER).ok());
        let mut named = answers.map(|answer| match answer.as_array() {
            [host, port] => format!("{}:{}", host.as_text()?, port.as_text()?)
                .parse()
                .ok(),
            _ => None,
        });
        let first: SocketAddr = named.next()??;
        named.all(|it| it == Some(first)).then_some(first)
    }

    #[track_caller]
    fn wait_until_watched(&self) {
        for sentinel in &self.sentinels {
            wait_until("the sentinels know each other", PATIENCE, || {
                let view = sentinel.command(&["SENTINEL", "MASTER", NAME]);
                let says = |field: &str, wanted: &str| said(&view, field) == Some(wanted);
                let quorum = sentinel.command(&["SENTINEL", "CKQUORUM", NAME]);
                let fine = says("flags", "master")
                    && says("num-slaves", "1")
                    && says("num-other-sentinels", "2")
                    && !matches!(quorum, Value::Error(_));
                fine.then_some(())
            });
        }
    }
}

fn config(primary: &RedisServer) -> String {
    let mut config = format!(
        "sentinel monitor {NAME} 127.0.0.1 {} 2\n\
         sentinel down-after-milliseconds {NAME} {DOWN_AFTER_MS}\n\
         sentinel failover-timeout {NAME} 2000\n\
         sentinel parallel-syncs {NAME} 1\n",
        primary.port()
    );
    if let Some(password) = primary.password() {
        config += &format!("sentinel auth-pass {NAME} {password}\n");
    }
    config
}

/// The value behind a name in a list of names and values.
fn said<'a>(list: &'a Value, name: &str) -> Option<&'a str> {
    let mut pairs = list.as_array().chunks_exact(2);
    pairs.find(|it| it[0].as_text() == Some(name))?[1].as_text()
}

//! The map of a cluster, kept up to date.

use std::sync::Arc;
use std::time::Duration;

use redis::Value;
use redis::aio::MultiplexedConnection;
use tracing::{info, warn};

use crate::connect::{Address, within};
use crate::jitter::jittered;
use crate::key::KeyName;
use crate::shards::{Map, NOBODY, Running, Shards};
use crate::shared::Shared;
use crate::slot::SLOTS;

/// How often the map is read anyway.
const REFRESH_EVERY: Duration = Duration::from_secs(5);
/// How often while a primary is away: its replica may have taken over.
const REFRESH_IN_TROUBLE: Duration = Duration::from_millis(250);
const TIMEOUT: Duration = Duration::from_millis(500);

/// Reads the map for ever.
pub(crate) struct Cartographer {
    pub(crate) seeds: Vec<Address>,
    pub(crate) prefix: String,
    pub(crate) shared: Arc<Shared>,
    pub(crate) shards: Arc<Shards>,
    /// Told when the map was tried for the first time.
    pub(crate) tried: tokio::sync::watch::Sender<bool>,
}

/// The slots of one primary.
#[derive(Debug, PartialEq, Eq)]
struct Range {
    first: u16,
    last: u16,
    primary: Address,
}

impl Cartographer {
    pub(crate) async fn run(self) {
        let mut silent = true;
        loop {
            match self.read().await {
                Some(ranges) => {
                    if !silent {
                        info!("the map of the cluster is known again");
                    }
                    silent = true;
                    self.draw(&ranges);
                }
                None if silent => {
                    silent = false;
                    warn!("no node of the cluster gives its map: the last one known is used");
                }
                None => {}
            }
            self.tried.send_replace(true);
            let lanes = self.shards.lanes();
            let trouble = lanes.is_empty() || lanes.iter().any(|lane| !lane.is_up());
            let every = if trouble {
                REFRESH_IN_TROUBLE
            } else {
                REFRESH_EVERY
            };
            tokio::select! {
                () = tokio::time::sleep(jittered(every)) => {}
                () = self.shared.map_is_stale.notified() => {
                    // Many requests find out at once; and the nodes need a moment to agree.
                    tokio::time::sleep(jittered(Duration::from_millis(20))).await;
                }
            }
        }
    }

    /// The map, from whichever node gives it: over connections that are open, else from the seeds.
    async fn read(&self) -> Option<Vec<Range>> {
        let known: Vec<Address> = match &*self.shards.map() {
            Map::Cluster { primaries, .. } => primaries.iter().map(|(at, _)| at.clone()).collect(),
            Map::One(_) => Vec::new(),
        };
        for address in &known {
            let lane = self.shards.at(address);
            if let Some(connection) = lane.and_then(|lane| lane.connection())
                && let Some(ranges) = slots(connection, address).await
            {
                return Some(ranges);
            }
        }
        for address in self.seeds.iter().chain(&known) {
            let Ok(connection) = self.shared.dialer.dial(address).await else {
                continue;
            };
            if let Some(ranges) = slots(connection, address).await {
                return Some(ranges);
            }
        }
        None
    }

    fn draw(&self, ranges: &[Range]) {
        let Map::Cluster { primaries: old, .. } = &*self.shards.map() else {
            return;
        };
        let mut primaries: Vec<(Address, Arc<Running>)> = Vec::new();
        let mut slots = vec![NOBODY; usize::from(SLOTS)];
        for range in ranges {
            let known = primaries.iter().position(|(at, _)| *at == range.primary);
            let place = known.unwrap_or_else(|| {
                primaries.push((range.primary.clone(), self.way_to(range, old)));
                primaries.len() - 1
            });
            let place = u16::try_from(place).unwrap_or(NOBODY);
            for slot in range.first..=range.last.min(SLOTS - 1) {
                slots[usize::from(slot)] = place;
            }
        }
        for (address, _) in old {
            if !primaries.iter().any(|(at, _)| at == address) {
                info!(redis = %address, "no longer a primary of the cluster");
            }
        }
        self.shards.replace(Map::Cluster { primaries, slots });
    }

    fn way_to(&self, range: &Range, old: &[(Address, Arc<Running>)]) -> Arc<Running> {
        if let Some((_, running)) = old.iter().find(|(at, _)| *at == range.primary) {
            return running.clone();
        }
        info!(redis = %range.primary, "a primary of the cluster");
        let canary = KeyName::canary(&self.prefix, range.first);
        Running::fixed(&self.shared, range.primary.clone(), canary)
    }
}

/// Asks a node for the map. `CLUSTER SLOTS` is understood by all versions.
async fn slots(mut connection: MultiplexedConnection, asked: &Address) -> Option<Vec<Range>> {
    let mut command = redis::cmd("CLUSTER");
    command.arg("SLOTS");
    let reply = within(TIMEOUT, connection.send_packed_command(&command)).await;
    ranges(&reply.ok()?, asked)
}

fn ranges(reply: &Value, asked: &Address) -> Option<Vec<Range>> {
    let Value::Array(entries) = reply else {
        return None;
    };
    let ranges: Vec<Range> = entries
        .iter()
        .filter_map(|entry| range(entry, asked))
        .collect();
    (!ranges.is_empty()).then_some(ranges)
}

fn range(entry: &Value, asked: &Address) -> Option<Range> {
    let Value::Array(fields) = entry else {
        return None;
    };
    let [first, last, Value::Array(primary), ..] = &fields[..] else {
        return None;
    };
    let [host, port, ..] = &primary[..] else {
        return None;
    };
    // A node that does not know its own name is where it was asked.
    let host = match host {
        Value::BulkString(host) if !host.is_empty() => String::from_utf8(host.clone()).ok()?,
        _ => match asked {
            Address::Tcp { host, .. } => host.clone(),
            Address::Unix { .. } => return None,
        },
    };
    Some(Range {
        first: small(first)?,
        last: small(last)?,
        primary: Address::Tcp {
            host,
            port: small(port)?,
        },
    })
}

fn small(value: &Value) -> Option<u16> {
    match value {
        Value::Int(number) => u16::try_from(*number).ok(),
        _ => None,
    }
}

//! The other nodes: how many there are, and whether Redis still has what they wrote.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{Pipeline, Value};
use tracing::warn;

use crate::connect::within;
use crate::jitter::jittered;
use crate::key::KeyName;
use crate::server_facts;
use crate::store::Inner;

const BEAT_EVERY: Duration = Duration::from_secs(1);
/// A node that was not heard of for so long is not there.
const GONE_AFTER_US: u64 = 4_000_000;
/// The list of nodes is forgotten with the last of them.
const LIST_TTL_MS: u64 = 60_000;
/// The mark by which lost data is noticed.
const MARK_TTL_MS: u64 = 24 * 3_600_000;
const TIMEOUT: Duration = Duration::from_millis(500);
/// Fewer nodes are believed only when they were counted so often: after a loss of data, the others
/// have to be heard of first.
const BELIEVE_FEWER_AFTER: u32 = 5;
const LOOK_FOR_EVICTIONS_EVERY: u32 = 5;

/// Tells the others that this node lives, for ever.
pub(crate) struct Heart {
    inner: Arc<Inner>,
    id: String,
    list: KeyName,
    mark: KeyName,
    /// The mark last seen.
    seen: Option<Vec<u8>>,
    fewer: u32,
    beats: u32,
    /// The keys that each server had evicted when it was last asked.
    evicted: HashMap<String, u64>,
}

impl Heart {
    pub(crate) fn new(inner: Arc<Inner>) -> Self {
        let list = KeyName::own(&inner.prefix, "nodes");
        let mark = KeyName::own(&inner.prefix, "mark");
        Self {
            inner,
            id: format!("{:016x}", RandomState::new().hash_one(0_u8)),
            list,
            mark,
            seen: None,
            fewer: 0,
            beats: 0,
            evicted: HashMap::new(),
        }
    }

    pub(crate) async fn run(mut self) {
        let inner = self.inner.clone();
        loop {
            // From before the beat, so that a return during it is not missed.
            let mut recovered = pin!(inner.shared.recovered.notified());
            recovered.as_mut().enable();
            self.beat().await;
            tokio::select! {
                () = tokio::time::sleep(jittered(BEAT_EVERY)) => {}
                () = recovered => {}
            }
        }
    }

    /// A beat that fails is left out: what was last known stays.
    async fn beat(&mut self) {
        if let Some(connection) = self.connection_to(&self.list)
            && let Some(nodes) = self.list_nodes(connection).await
        {
            self.believe(nodes);
        }
        if let Some(connection) = self.connection_to(&self.mark) {
            self.look_at_mark(connection).await;
        }
        self.beats = self.beats.wrapping_add(1);
        if self.beats % LOOK_FOR_EVICTIONS_EVERY == 1 {
            self.look_for_evictions().await;
        }
    }

    fn connection_to(&self, key: &KeyName) -> Option<MultiplexedConnection> {
        let lane = self.inner.shards.lane(self.inner.shards.slot(key))?;
        lane.connection()
    }

    /// Enters this node, removes those that are gone, and counts.
    async fn list_nodes(&self, mut connection: MultiplexedConnection) -> Option<u32> {
        let shared = &self.inner.shared;
        // A server that forbids it is given this node's time, which is near enough for counting.
        let theirs = server_facts::time(&connection, shared).await;
        let now = theirs.unwrap_or_else(|| (shared.now)());
        let list = self.list.as_bytes();
        let mut pipeline = Pipeline::new();
        let gone = now.as_micros().saturating_sub(GONE_AFTER_US);
        pipeline
            .cmd("ZADD")
            .arg(list)
            .arg(now.as_micros())
            .arg(&self.id);
        pipeline
            .cmd("ZREMRANGEBYSCORE")
            .arg(list)
            .arg("-inf")
            .arg(gone);
        pipeline.cmd("PEXPIRE").arg(list).arg(LIST_TTL_MS);
        pipeline.cmd("ZCARD").arg(list);
        let replies = within(TIMEOUT, connection.send_packed_commands(&pipeline, 0, 4)).await;
        match replies.ok()?.last()? {
            Value::Int(nodes) => u32::try_from(*nodes).ok(),
            _ => None,
        }
    }

    fn believe(&mut self, nodes: u32) {
        let local = &self.inner.local;
        if nodes >= local.nodes() {
            self.fewer = 0;
            local.set_nodes(nodes);
            return;
        }
        self.fewer += 1;
        if self.fewer >= BELIEVE_FEWER_AFTER {
            self.fewer = 0;
            local.set_nodes(nodes);
        }
    }

    /// All nodes share a mark. If it is another one than before, the data is gone that was beside it.
    async fn look_at_mark(&mut self, mut connection: MultiplexedConnection) {
        let mark = self.mark.as_bytes();
        let mut pipeline = Pipeline::new();
        let fresh = format!("{:016x}", RandomState::new().hash_one(1_u8));
        pipeline
            .cmd("SET")
            .arg(mark)
            .arg(fresh)
            .arg("NX")
            .arg("PX")
            .arg(MARK_TTL_MS);
        pipeline.cmd("PEXPIRE").arg(mark).arg(MARK_TTL_MS);
        pipeline.cmd("GET").arg(mark);
        let replies = within(TIMEOUT, connection.send_packed_commands(&pipeline, 0, 3)).await;
        let Some(Value::BulkString(found)) = replies.ok().and_then(|mut replies| replies.pop())
        else {
            return;
        };
        // The mark may have been evicted, and the rest be there.
        if self.seen.as_ref().is_some_and(|seen| *seen != found) && !self.look_for_evictions().await
        {
            self.inner.shared.stats.data_losses.increment();
            warn!("Redis has lost its data since it was last seen: limits start afresh");
        }
        self.seen = Some(found);
    }

    /// Whether there were any since the last look, on servers that answered both times.
    async fn look_for_evictions(&mut self) -> bool {
        let mut more = 0;
        let mut seen = HashMap::new();
        for lane in self.inner.shards.lanes() {
            let name = lane.name();
            let before = self.evicted.get(&name).copied();
            let now = match lane.connection() {
                Some(connection) => server_facts::evicted(&connection).await,
                None => None,
            };
            if let (Some(before), Some(now)) = (before, now) {
                more += now.saturating_sub(before);
            }
            if let Some(evicted) = now.or(before) {
                seen.insert(name, evicted);
            }
        }
        self.evicted = seen;
        if more > 0 {
            self.inner.shared.stats.evictions.add(more);
            warn!("Redis has evicted {more} keys for want of memory: some limits start afresh");
        }
        more > 0
    }
}

//! One fault, from the start of its processes to the last answer.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use crate::client::Client;
use crate::faults::{Fault, OnFailure};
use crate::load::{Answer, Load, ONCE_PEEK};
use crate::metrics::Metrics;
use crate::node::Node;
use crate::place::{Place, Spell};

/// Nodes that share Redis. The one behind them keeps its counters in memory.
pub(crate) const NODES: usize = 2;
pub(crate) const MEMORY: usize = NODES;
/// The limit of the hot caller.
pub(crate) const HOT_CAPACITY: u32 = 100;
pub(crate) const HOT_RATE: u32 = 50;
/// What the caller has whose tokens never come back.
const ONCE_CAPACITY: u64 = 1_000_000;

/// Load before anything is measured, measured before the fault, and behind it.
const WARM_UP: Duration = Duration::from_millis(1_500);
const BEFORE: Duration = Duration::from_secs(1);
const AFTER: Duration = Duration::from_secs(4);
/// Nodes know Redis and each other by then.
const PATIENCE: Duration = Duration::from_secs(20);
/// What was spent during an outage is made good by then.
const SETTLED: Duration = Duration::from_secs(5);

/// All that was seen of one fault.
pub(crate) struct Trial {
    pub(crate) answers: Vec<Answer>,
    /// Since when times are measured.
    pub(crate) measured: Instant,
    pub(crate) spell: Spell,
    /// Of the nodes that share Redis, together.
    pub(crate) redis: Metrics,
    pub(crate) memory: Metrics,
    /// What Redis has spent of the bucket that never refills.
    pub(crate) once_spent: u64,
    /// What each node that shares Redis logged since `measured`.
    pub(crate) logs: Vec<String>,
    /// Files and connections that those nodes have open more than then.
    pub(crate) more_files: usize,
}

impl Trial {
    pub(crate) async fn run(fault: &Fault, binary: &Path, rate: u32) -> Result<Self> {
        let directory = Directory::new()?;
        let breakage = fault.breakage;
        let place = spawn_blocking(move || Place::start(breakage)).await?;
        let place = Arc::new(place);
        let url = place.url();
        let redis = format!("backend: redis, url: \"{url}\", prefix: \"faults:\", ");
        let mut nodes = Vec::new();
        for (name, store) in [("one", &*redis), ("two", &*redis), ("memory", "")] {
            let config = config(store, fault.on_failure);
            nodes.push(Node::start(binary, &directory.0, name, &config)?);
        }
        ready(&nodes).await?;
        let apis: Vec<SocketAddr> = nodes.iter().map(|node| node.api).collect();
        let load = Load::start(&apis, rate);
        sleep(WARM_UP).await;
        let before = all_metrics(&nodes).await?;
        let logged: Vec<usize> = nodes.iter().map(|node| node.log().len()).collect();
        let files = open_files(&nodes)?;
        let measured = Instant::now();
        sleep(BEFORE).await;
        let broken = place.clone();
        let spell = spawn_blocking(move || broken.break_and_mend()).await??;
        sleep(AFTER).await;
        let more_files = open_files(&nodes)?.saturating_sub(files);
        let answers = load.end().await;
        let after = all_metrics(&nodes).await?;
        settled(&nodes).await?;
        let once_spent = once_spent(&nodes[0]).await?;
        let logs = nodes.iter().zip(logged).take(NODES);
        let logs = logs.map(|(node, old)| node.log().split_off(old)).collect();
        for node in &mut nodes {
            ensure!(node.is_running(), "a node has ended:\n{}", node.log());
        }
        let mut added = after
            .into_iter()
            .zip(&before)
            .map(|(now, old)| now.since(old));
        let shared = added.by_ref().take(NODES);
        Ok(Self {
            redis: shared.fold(Metrics::default(), |sum, one| sum.and(&one)),
            memory: added.next().context("no memory node")?,
            answers,
            measured,
            spell,
            once_spent,
            logs,
            more_files,
        })
    }
}

fn config(store: &str, on_failure: OnFailure) -> String {
    let mode = on_failure.word();
    let plenty = "sustained: { rate: 100000, window: second }, burst: { capacity: 100000 }";
    let hot = format!(
        "sustained: {{ rate: {HOT_RATE}, window: second }}, burst: {{ capacity: {HOT_CAPACITY} }}"
    );
    let once =
        format!("sustained: {{ rate: 1, window: day }}, burst: {{ capacity: {ONCE_CAPACITY} }}");
    format!(
        "store: {{ {store}on_failure: {mode} }}
limits:
  per-user: {{ {plenty}, scope: user }}
  per-ip: {{ {plenty}, scope: ip }}
plans:
  hot: {{ rate_limit: {{ {hot}, scope: user }} }}
  once: {{ rate_limit: {{ {once}, scope: user }} }}
"
    )
}

/// Waits until the nodes have found Redis and each other.
async fn ready(nodes: &[Node]) -> Result<()> {
    let began = Instant::now();
    for node in &nodes[..NODES] {
        let mut client = Client::new(node.api);
        loop {
            let all = Metrics::of(node).await?.value("redis_nodes") == NODES as f64;
            let (_, answer) = client.check(ONCE_PEEK.to_owned()).await?;
            let answer: Value = serde_json::from_slice(&answer)?;
            if all && answer["source"] == "redis" {
                break;
            }
            ensure!(
                began.elapsed() < PATIENCE,
                "the nodes do not find Redis and each other: {}",
                node.log()
            );
            sleep(Duration::from_millis(50)).await;
        }
    }
    Ok(())
}

fn open_files(nodes: &[Node]) -> Result<usize> {
    nodes[..NODES].iter().map(Node::open_files).sum()
}

async fn all_metrics(nodes: &[Node]) -> Result<Vec<Metrics>> {
    let mut all = Vec::new();
    for node in nodes {
        all.push(Metrics::of(node).await?);
    }
    Ok(all)
}

/// Waits until nothing is owed any more, but not for ever.
async fn settled(nodes: &[Node]) -> Result<()> {
    let began = Instant::now();
    for node in &nodes[..NODES] {
        while Metrics::of(node).await?.value("redis_debts") > 0.0 && began.elapsed() < SETTLED {
            sleep(Duration::from_millis(50)).await;
        }
    }
    Ok(())
}

async fn once_spent(node: &Node) -> Result<u64> {
    let mut client = Client::new(node.api);
    let began = Instant::now();
    while began.elapsed() < SETTLED {
        let (_, answer) = client.check(ONCE_PEEK.to_owned()).await?;
        let answer: Value = serde_json::from_slice(&answer)?;
        let limits = answer["limits"].as_array().into_iter().flatten();
        let once = limits.filter(|limit| limit["name"] == "plan:once");
        let left = once.filter_map(|limit| limit["remaining"].as_u64()).next();
        if let Some(left) = left.filter(|_| answer["source"] == "redis") {
            return Ok(ONCE_CAPACITY.saturating_sub(left));
        }
        sleep(Duration::from_millis(50)).await;
    }
    bail!("Redis does not say what was spent: {}", node.log())
}

/// A directory that ends with this.
struct Directory(PathBuf);

impl Directory {
    fn new() -> Result<Self> {
        let name = format!("tollward-faults-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path)
            .with_context(|| format!("cannot make {}", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

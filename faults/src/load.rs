//! Checks at a steady rate, and what became of each.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::task::JoinSet;

use crate::client::Client;

/// Callers with plenty of tokens.
const USERS: usize = 2_000;
const ADDRESSES: usize = 200;
/// Of a hundred checks, those of the caller with few tokens and those of the one whose tokens never come
/// back.
const HOT: u64 = 10;
const ONCE: u64 = 5;
const CONNECTIONS: u32 = 16;
/// A connection that is further behind than this does not catch up.
const MOST_BEHIND: Duration = Duration::from_millis(200);

/// Whose check it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Caller {
    User,
    Hot,
    Once,
}

/// Who decided, as the answer says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Memory,
    Redis,
    Remembered,
    Local,
    Open,
    None,
    /// Something else, or nothing at all.
    Odd,
}

/// What became of one check.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answer {
    pub(crate) node: usize,
    pub(crate) caller: Caller,
    pub(crate) sent: Instant,
    pub(crate) at: Instant,
    /// None if there was no answer.
    pub(crate) status: Option<u16>,
    pub(crate) source: Source,
}

impl Answer {
    pub(crate) fn admitted(&self) -> bool {
        self.status == Some(200)
    }

    /// Whether it was decided without Redis because Redis could not be asked.
    pub(crate) fn fell_back(&self) -> bool {
        matches!(self.source, Source::Local | Source::Open) || self.status == Some(503)
    }
}

/// A load under way.
pub(crate) struct Load {
    ends: Arc<AtomicBool>,
    connections: JoinSet<Vec<Answer>>,
}

impl Load {
    /// So many checks a second, spread evenly over the nodes.
    pub(crate) fn start(nodes: &[SocketAddr], rate: u32) -> Self {
        let ends = Arc::new(AtomicBool::new(false));
        let callers = Arc::new(Callers::new());
        let mut connections = JoinSet::new();
        let count = CONNECTIONS * nodes.len() as u32;
        let every = Duration::from_secs(1) * count / rate.max(1);
        let start = Instant::now();
        for (node, address) in nodes.iter().enumerate() {
            for connection in 0..CONNECTIONS {
                let turn = connection * nodes.len() as u32 + node as u32;
                let worker = Worker {
                    node,
                    client: Client::new(*address),
                    next: start + every * turn / count,
                    every,
                    ends: ends.clone(),
                    callers: callers.clone(),
                    random: Random::new(turn),
                };
                connections.spawn(worker.run());
            }
        }
        Self { ends, connections }
    }

    /// Ends it, and gives all answers in the order in which they came.
    pub(crate) async fn end(self) -> Vec<Answer> {
        self.ends.store(true, Relaxed);
        let mut answers = self.connections.join_all().await.concat();
        answers.sort_by_key(|answer| answer.at);
        answers
    }
}

struct Worker {
    node: usize,
    client: Client,
    next: Instant,
    every: Duration,
    ends: Arc<AtomicBool>,
    callers: Arc<Callers>,
    random: Random,
}

impl Worker {
    async fn run(mut self) -> Vec<Answer> {
        let mut answers = Vec::new();
        while !self.ends.load(Relaxed) {
            tokio::time::sleep_until(self.next.into()).await;
            answers.push(self.ask().await);
            let due = self.next + self.every;
            let now = Instant::now();
            self.next = if due + MOST_BEHIND < now { now } else { due };
        }
        answers
    }

    async fn ask(&mut self) -> Answer {
        let (caller, body) = self.callers.next(&mut self.random);
        let sent = Instant::now();
        let answer = self.client.check(body).await;
        let at = Instant::now();
        let (status, source) = match answer {
            Ok((status, body)) => (Some(status), source(&body)),
            Err(_) => (None, Source::Odd),
        };
        Answer {
            node: self.node,
            caller,
            sent,
            at,
            status,
            source,
        }
    }
}

fn source(body: &[u8]) -> Source {
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    match body["source"].as_str() {
        Some("memory") => Source::Memory,
        Some("redis") => Source::Redis,
        Some("remembered") => Source::Remembered,
        Some("local") => Source::Local,
        Some("open") => Source::Open,
        Some("none") => Source::None,
        _ => Source::Odd,
    }
}

/// Who asks: some often, most seldom, by Zipf's law.
struct Callers {
    /// The share of the first user, of the first two, and so on, of 2^32.
    shares: Vec<u64>,
}

impl Callers {
    fn new() -> Self {
        let weights = (1..=USERS).map(|rank| 1.0 / rank as f64);
        let whole: f64 = weights.clone().sum();
        let mut sum = 0.0;
        let shares = weights.map(|weight| {
            sum += weight / whole;
            (sum * f64::from(u32::MAX)) as u64
        });
        Self {
            shares: shares.collect(),
        }
    }

    fn next(&self, random: &mut Random) -> (Caller, String) {
        let dice = random.next() % 100;
        if dice < HOT {
            return (Caller::Hot, HOT_CHECK.to_owned());
        }
        if dice < HOT + ONCE {
            return (Caller::Once, ONCE_CHECK.to_owned());
        }
        let point = random.next() & u64::from(u32::MAX);
        let user = self.shares.partition_point(|share| *share < point);
        let host = user % ADDRESSES;
        let body = format!(r#"{{"user":"user-{user}","ip":"10.0.0.{host}"}}"#);
        (Caller::User, body)
    }
}

const HOT_CHECK: &str = r#"{"user":"hot","plan":"hot","ip":"10.0.1.1"}"#;
const ONCE_CHECK: &str = r#"{"user":"once","plan":"once","ip":"10.0.1.2"}"#;
pub(crate) const ONCE_PEEK: &str = r#"{"user":"once","plan":"once","peek":true}"#;

/// Xorshift: the same in each run.
struct Random(u64);

impl Random {
    fn new(seed: u32) -> Self {
        Self((u64::from(seed) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 >> 16
    }
}

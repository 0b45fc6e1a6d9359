//! The exact store on Redis, beside plain script calls, and beside a bare counter.

use std::cell::RefCell;
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::Context;
use redis::Pipeline;
use redis::aio::MultiplexedConnection;
use tokio::runtime::Runtime;
use tollward_core::{Charge, Key, Limit, OnFailure, Timestamp, Window};
use tollward_engine::{Clock, SystemClock};
use tollward_redis::{Options, RedisStore};
use tollward_store::{Mode, Outcome, Source, Store};
use tollward_testkit::redis::RedisServer;

use crate::bars::Bars;
use crate::table::{Row, Table};
use crate::turns::{Effort, median};

const CALLERS: [usize; 4] = [1, 16, 64, 256];
const USERS: u64 = 10_000;
const FAMILIES: [&str; 4] = ["plan", "limit:per-user", "limit:daily", "limit:burst"];

/// One limit of one user per key: a hash of tokens and time, in floating point, by the caller's clock.
const ONE_CALL_PER_CHECK: &str = "
local ok = 1
local now = tonumber(ARGV[1])
for i, key in ipairs(KEYS) do
  local capacity, rate, cost = tonumber(ARGV[3 * i - 1]), tonumber(ARGV[3 * i]), tonumber(ARGV[3 * i + 1])
  local bucket = redis.call('HMGET', key, 'tokens', 'last_refill')
  local tokens = tonumber(bucket[1]) or capacity
  local last = tonumber(bucket[2]) or now
  tokens = math.min(capacity, tokens + (now - last) * rate)
  if tokens >= cost then tokens = tokens - cost else ok = 0 end
  redis.call('HMSET', key, 'tokens', tokens, 'last_refill', now)
  redis.call('EXPIRE', key, math.ceil(capacity / rate) + 1)
end
return ok";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Contender {
    Tollward,
    /// A script call per limit, one after the other, each caller on a connection of its own.
    Script,
    /// One script call for all limits of a check, and all callers share one connection, on which their
    /// calls do not wait for each other.
    Shared,
    /// As many `INCR` as a check has limits, in one round trip, over a shared connection.
    Incr,
}

impl Contender {
    const ALL: [Self; 4] = [Self::Tollward, Self::Script, Self::Shared, Self::Incr];

    fn word(self) -> &'static str {
        match self {
            Self::Tollward => "tollward",
            Self::Script => "a script call per limit",
            Self::Shared => "one call per check, shared",
            Self::Incr => "INCR",
        }
    }
}

/// A server and all who talk to it.
struct Lab {
    server: RedisServer,
    store: Arc<RedisStore>,
    clock: Arc<SystemClock>,
    client: redis::Client,
    connection: MultiplexedConnection,
    sha: String,
    runtime: Runtime,
}

pub(crate) fn run(effort: Effort, table: &mut Table, bars: &mut Bars) -> anyhow::Result<()> {
    let lab = Lab::start(Runtime::new()?)?;
    for limits in [1, 4] {
        for callers in CALLERS {
            lab.compare(limits, callers, effort, table, bars);
        }
    }
    drop(lab);
    // One thread: with Redis and whoever sends, there are as many as this is measured on elsewhere.
    let one = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()?;
    Lab::start(one)?.latency(effort, table, bars);
    Ok(())
}

/// What a turn gave: checks per second, and Redis's processor time for each in microseconds.
type Turn = (f64, f64);

impl Lab {
    fn start(runtime: Runtime) -> anyhow::Result<Self> {
        let server = RedisServer::start();
        let clock = Arc::new(SystemClock::new());
        let now = clock.clone();
        let options = Options {
            // Many callers in a closed loop wait for one another; nobody is to be sent away for it.
            deadline: Duration::from_secs(5),
            ..Options::new(server.url().parse()?, Arc::new(move || now.now()))
        };
        let store = runtime.block_on(async {
            let store = RedisStore::start(options)?;
            store.tried().await;
            anyhow::Ok(store)
        })?;
        let client = redis::Client::open(server.url())?;
        let (connection, sha) = runtime.block_on(async {
            let mut connection = client.get_multiplexed_async_connection().await?;
            let mut load = redis::cmd("SCRIPT");
            load.arg("LOAD").arg(ONE_CALL_PER_CHECK);
            let sha: String = load.query_async(&mut connection).await?;
            anyhow::Ok((connection, sha))
        })?;
        Ok(Self {
            server,
            store: Arc::new(store),
            clock,
            client,
            connection,
            sha,
            runtime,
        })
    }

    fn compare(
        &self,
        limits: usize,
        callers: usize,
        effort: Effort,
        table: &mut Table,
        bars: &mut Bars,
    ) {
        let turns: [RefCell<Vec<Turn>>; 4] = Default::default();
        for round in 0..effort.http_rounds {
            for turn in 0..Contender::ALL.len() {
                let who = (round + turn) % Contender::ALL.len();
                let result = self.turn(Contender::ALL[who], limits, callers, effort.http_turn);
                turns[who].borrow_mut().push(result);
            }
        }
        let medians = turns.map(|turns| {
            let turns = turns.into_inner();
            let speed = median(turns.iter().map(|turn| turn.0).collect());
            let cpu = median(turns.iter().map(|turn| turn.1).collect());
            (speed, cpu)
        });
        let (speed, cpu) = medians[0];
        let what = format!("Redis, {limits} limits, {callers} callers");
        for (peer, (their_speed, their_cpu)) in Contender::ALL.into_iter().zip(medians).skip(1) {
            let times = speed / their_speed;
            let row = Row::figure(&what, "checks/s", speed);
            table.push(
                row.against(peer.word(), their_speed)
                    .ratio(format!("{times:.2}x")),
            );
            let row = Row::figure(&what, "Redis CPU us/check", cpu);
            table.push(
                row.against(peer.word(), their_cpu)
                    .ratio(format!("{:.2}x", their_cpu / cpu)),
            );
            if callers == 64 && peer == Contender::Script {
                bars.redis(limits, times);
            }
        }
    }

    fn turn(&self, who: Contender, limits: usize, callers: usize, turn: Duration) -> Turn {
        let checks = Arc::new(AtomicU64::new(0));
        let callers: Vec<Caller> = (0..callers).map(|_| self.caller(who, limits)).collect();
        let cpu = self.server.cpu_us();
        let began = Instant::now();
        self.runtime.block_on(async {
            let mut tasks = tokio::task::JoinSet::new();
            for (caller, mut one) in (0..).zip(callers) {
                let checks = checks.clone();
                tasks.spawn(async move {
                    let mut user = caller * 7919;
                    while began.elapsed() < turn {
                        user = (user * 48_271 + 11) % USERS;
                        one.check(user).await;
                        checks.fetch_add(1, Relaxed);
                    }
                });
            }
            while tasks.join_next().await.is_some() {}
        });
        let elapsed = began.elapsed().as_secs_f64();
        let checks = checks.load(Relaxed) as f64;
        let used = (self.server.cpu_us() - cpu) as f64;
        (checks / elapsed, used / checks)
    }

    /// What a check takes at half of what 64 callers can do, arriving evenly.
    fn latency(&self, effort: Effort, table: &mut Table, bars: &mut Bars) {
        for limits in [1, 4] {
            let (full, _) = self.turn(Contender::Tollward, limits, 64, effort.http_turn);
            let turns: Vec<Vec<f64>> = (0..effort.http_rounds)
                .map(|_| self.pace(limits, full / 2.0, effort.http_turn))
                .collect();
            let at = |share: f64| {
                let of = |micros: &Vec<f64>| micros[((micros.len() - 1) as f64 * share) as usize];
                median(turns.iter().map(of).collect())
            };
            let what = format!("Redis, {limits} limits, half load");
            for (unit, share) in [("p50 us", 0.5), ("p95 us", 0.95), ("p99 us", 0.99)] {
                table.push(Row::figure(&what, unit, at(share)));
            }
            bars.redis_latency(limits, at(0.95) / 1000.0);
        }
    }

    /// The times of checks that arrive at this rate, whether or not those before are answered; sorted.
    fn pace(&self, limits: usize, per_second: f64, turn: Duration) -> Vec<f64> {
        let taken = Arc::new(Mutex::new(Vec::new()));
        let began = Instant::now();
        let mut sent = 0_u32;
        while began.elapsed() < turn {
            let due = began.elapsed().as_secs_f64() * per_second;
            while f64::from(sent) < due {
                let mut one = self.caller(Contender::Tollward, limits);
                let taken = taken.clone();
                let user = u64::from(sent) * 7919 % USERS;
                sent += 1;
                self.runtime.spawn(async move {
                    let asked = Instant::now();
                    one.check(user).await;
                    let micros = asked.elapsed().as_secs_f64() * 1e6;
                    if let Ok(mut taken) = taken.lock() {
                        taken.push(micros);
                    }
                });
            }
            std::thread::sleep(Duration::from_micros(20));
        }
        // The last of them.
        std::thread::sleep(Duration::from_millis(100));
        let mut micros = taken.lock().map(|taken| taken.clone()).unwrap_or_default();
        micros.sort_unstable_by(f64::total_cmp);
        micros
    }

    async fn connect(&self) -> MultiplexedConnection {
        let connection = self.client.get_multiplexed_async_connection().await;
        connection.unwrap_or_else(|_| self.connection.clone())
    }

    fn caller(&self, who: Contender, limits: usize) -> Caller {
        let window = Window::SECOND;
        Caller {
            who,
            limits,
            store: self.store.clone(),
            clock: self.clock.clone(),
            connection: match who {
                Contender::Script => self.runtime.block_on(self.connect()),
                _ => self.connection.clone(),
            },
            sha: self.sha.clone(),
            limit: Limit::token_bucket(1_000_000, window, 1_000_000).ok(),
        }
    }
}

/// One who checks, again and again.
struct Caller {
    who: Contender,
    limits: usize,
    store: Arc<RedisStore>,
    clock: Arc<SystemClock>,
    connection: MultiplexedConnection,
    sha: String,
    limit: Option<Limit>,
}

impl Caller {
    async fn check(&mut self, user: u64) {
        let done = match self.who {
            Contender::Tollward => self.tollward(user).await,
            Contender::Script => self.script_by_script(user).await,
            Contender::Shared => self.script(user, &FAMILIES[..self.limits]).await,
            Contender::Incr => self.incr(user).await,
        };
        if let Err(error) = done {
            // A figure of failures would mean nothing.
            panic!("{:?}: {error:#}", self.who);
        }
    }

    async fn tollward(&self, user: u64) -> anyhow::Result<()> {
        let limit = self.limit.as_ref().context("a limit")?;
        let scope = scope(user);
        let charges: [Charge<'_>; 4] = std::array::from_fn(|i| Charge {
            name: FAMILIES[i],
            limit,
            key: Key {
                family: FAMILIES[i],
                scope: &scope,
            },
            cost: 1,
            shadow: false,
            on_failure: OnFailure::Local,
        });
        let mut outcomes = [Outcome::default(); 4];
        let now: Timestamp = self.clock.now();
        let (charges, outcomes) = (&charges[..self.limits], &mut outcomes[..self.limits]);
        let reply = self.store.apply(charges, outcomes, Mode::Charge, now);
        let verdict = reply.wait().await?;
        anyhow::ensure!(
            verdict.source == Source::Redis && verdict.admitted,
            "{verdict:?}"
        );
        Ok(())
    }

    async fn script_by_script(&mut self, user: u64) -> anyhow::Result<()> {
        for family in FAMILIES[..self.limits].chunks(1) {
            self.script(user, family).await?;
        }
        Ok(())
    }

    async fn script(&mut self, user: u64, families: &[&str]) -> anyhow::Result<()> {
        let now = self.clock.now().as_micros() as f64 / 1e6;
        let mut command = redis::cmd("EVALSHA");
        command.arg(&self.sha).arg(families.len());
        for family in families {
            command.arg(format!("naive:{family}:user-{user:07}"));
        }
        command.arg(now);
        for _ in families {
            command.arg(1_000_000).arg(1_000_000).arg(1);
        }
        let answer: u32 = command.query_async(&mut self.connection).await?;
        anyhow::ensure!(answer == 1, "{answer}");
        Ok(())
    }

    async fn incr(&mut self, user: u64) -> anyhow::Result<()> {
        let mut pipeline = Pipeline::new();
        for family in &FAMILIES[..self.limits] {
            let key = format!("incr:{family}:user-{user:07}");
            pipeline.cmd("INCR").arg(key);
        }
        let counts: Vec<u64> = pipeline.query_async(&mut self.connection).await?;
        black_box(counts);
        Ok(())
    }
}

/// A user's scope as the policy encodes it.
fn scope(user: u64) -> Vec<u8> {
    let name = format!("user-{user:07}");
    let mut scope = vec![2];
    scope.extend_from_slice(&(name.len() as u32).to_le_bytes());
    scope.extend_from_slice(name.as_bytes());
    scope
}

//! One server: its connection, what is sent over it, and whether it is asked at all.

use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{Pipeline, RedisError, ServerErrorKind, Value};
use smallvec::SmallVec;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tollward_core::{Limit, Timestamp, Window};
use tollward_policy::config::StoreClock;
use tracing::{info, warn};

use crate::breaker::Breaker;
use crate::connect::Address;
use crate::jitter::jittered;
use crate::key::KeyName;
use crate::part::{Op, Part, PartCharge};
use crate::queue::{Failure, Job, Queue};
use crate::script::{self, Call};
use crate::server_facts;
use crate::shared::Shared;
use crate::trail::Trail;

/// The way to one server, and its queue.
pub(crate) struct Lane {
    pub(crate) queue: Queue,
    address: watch::Receiver<Option<Address>>,
    canary: KeyName,
    shared: Arc<Shared>,
    connection: Mutex<Option<MultiplexedConnection>>,
    breaker: Mutex<Breaker>,
    /// What was said about the server's settings.
    warned: Mutex<Vec<String>>,
    /// Whether the server was tried at all.
    tried: watch::Sender<bool>,
}

/// Calls under way at once: one is decided while the next is on its way.
const IN_FLIGHT: usize = 3;
/// Between attempts to connect, on average.
const RECONNECT_EVERY: Duration = Duration::from_millis(500);
/// Calls in a row that have to be answered in time before a server is asked again.
const PROOFS: usize = 3;
const BETWEEN_PROOFS: Duration = Duration::from_millis(20);
/// A server that fails again before this is thought to be ill.
const LASTING: Duration = Duration::from_secs(1);
/// Each relapse doubles the proofs, up to 48, which take a second.
const MAX_RELAPSES: u32 = 4;
/// How often a server that nobody asks is asked whether it is there.
const PULSE_EVERY: Duration = Duration::from_millis(500);
/// How much longer than until it is full a bucket is kept: moments differ a little between nodes.
const TTL_SLACK_MS: u64 = 2_000;
/// The same when it is the nodes that tell the time.
const CLIENT_TTL_SLACK_MS: u64 = 25_000;

impl Lane {
    pub(crate) fn new(
        shared: Arc<Shared>,
        address: watch::Receiver<Option<Address>>,
        canary: KeyName,
    ) -> Self {
        Self {
            queue: Queue::default(),
            address,
            canary,
            shared,
            connection: Mutex::default(),
            breaker: Mutex::default(),
            warned: Mutex::default(),
            tried: watch::Sender::new(false),
        }
    }

    /// Whether the server is asked at present.
    pub(crate) fn is_up(&self) -> bool {
        self.queue.is_open()
    }

    /// The server, as people know it.
    pub(crate) fn name(&self) -> String {
        match &*self.address.borrow() {
            Some(address) => address.to_string(),
            None => "no server known".to_owned(),
        }
    }

    /// Waits until the server was tried once, with whatever result.
    pub(crate) async fn tried(&self) {
        // The sender lives as long as this.
        let _ = self.tried.subscribe().wait_for(|tried| *tried).await;
    }

    /// Nobody will try it any more.
    pub(crate) fn give_up(&self) {
        self.queue.close();
        self.tried.send_replace(true);
    }

    /// The connection, for what is not a decision.
    pub(crate) fn connection(&self) -> Option<MultiplexedConnection> {
        self.connection
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn set_connection(&self, connection: Option<MultiplexedConnection>) {
        *self
            .connection
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = connection;
    }

    /// Connects, serves, and begins again whenever the server fails. Ends only with its task.
    pub(crate) async fn run(self: Arc<Self>) {
        let mut trouble = Trail::default();
        let mut relapses = 0;
        let mut address = self.address.clone();
        loop {
            let to = address.borrow_and_update().clone();
            let proven = match &to {
                Some(to) => self.connect_and_prove(to, PROOFS << relapses).await,
                // The sentinels get a moment to name one.
                None => match tokio::time::timeout(LASTING, address.changed()).await {
                    Ok(Ok(())) => continue,
                    _ => Err("no server is known".to_owned()),
                },
            };
            match proven {
                Ok(connection) => {
                    self.warn_of_settings(&connection).await;
                    let (cause, lasted) = self.serve(connection, &mut address, &mut trouble).await;
                    // One that keeps failing has to prove more, so that nobody waits for it in vain.
                    relapses = if lasted {
                        0
                    } else {
                        MAX_RELAPSES.min(relapses + 1)
                    };
                    self.set_connection(None);
                    self.shared.map_is_stale.notify_one();
                    trouble.tell(&self.name(), cause);
                }
                Err(cause) => {
                    trouble.tell(&self.name(), cause);
                    self.tried.send_replace(true);
                    tokio::select! {
                        () = tokio::time::sleep(jittered(RECONNECT_EVERY)) => {}
                        _ = address.changed() => {}
                    }
                }
            }
        }
    }

    /// A connection over which the script was run in time, several times, writing something.
    async fn connect_and_prove(
        &self,
        to: &Address,
        proofs: usize,
    ) -> Result<MultiplexedConnection, String> {
        self.shared.stats.connects.increment();
        let connection = self.shared.dialer.dial(to).await.map_err(in_words)?;
        if self.shared.clock == StoreClock::Client && self.shared.follows_clock {
            // Before anything is decided by this node's time.
            server_facts::time(&connection, &self.shared).await;
        }
        for proof in 0..proofs {
            if proof > 0 {
                tokio::time::sleep(BETWEEN_PROOFS).await;
            }
            self.probe(&connection).await?;
        }
        Ok(connection)
    }

    /// Warns of what would lose counters, once.
    async fn warn_of_settings(&self, connection: &MultiplexedConnection) {
        let warnings = server_facts::warnings(connection).await;
        let mut warned = self.warned.lock().unwrap_or_else(PoisonError::into_inner);
        if *warned != warnings {
            for warning in &warnings {
                warn!(redis = %self.name(), "{warning}");
            }
            *warned = warnings;
        }
    }

    /// Runs the script on a bucket of our own.
    async fn probe(&self, connection: &MultiplexedConnection) -> Result<(), String> {
        const ROOMY: u32 = 1_000_000;
        let limit = Limit::token_bucket(ROOMY, Window::SECOND, ROOMY);
        let charge = limit.map(|limit| PartCharge {
            key: self.canary,
            limit,
            cost: 1,
            shadow: true,
        });
        let part = Part {
            op: Op::Charge,
            charges: charge.into_iter().collect(),
            traces: Vec::new(),
        };
        let now = match self.shared.clock {
            StoreClock::Server => None,
            // Time stands still for this bucket; it is forgotten when it is not used.
            StoreClock::Client => Some(Timestamp::from_micros(1)),
        };
        let call = Call::new([&part], now, TTL_SLACK_MS);
        let mut group = [Group::new(call, false)];
        match self.call(connection, &mut group).await {
            Ok(()) => {}
            Err(Trouble::Late) => return Err("it answers too slowly".to_owned()),
            Err(Trouble::Gone(error)) => return Err(in_words(error)),
        }
        match group[0].reply.take() {
            Some(Value::ServerError(error)) => match error.kind() {
                // It is well, only not responsible.
                Some(ServerErrorKind::Moved | ServerErrorKind::Ask) => Ok(()),
                _ => Err(in_words(error.into())),
            },
            Some(value) => match group[0].call.read([&part], &value) {
                Ok(_) => Ok(()),
                Err(error) => Err(error.to_string()),
            },
            None => Err("it gave no answer".to_owned()),
        }
    }

    /// Sends what waits, until the breaker trips or the server moves. Says why it ended, and whether it
    /// lasted.
    async fn serve(
        self: &Arc<Self>,
        connection: MultiplexedConnection,
        address: &mut watch::Receiver<Option<Address>>,
        trouble: &mut Trail,
    ) -> (String, bool) {
        *self.breaker.lock().unwrap_or_else(PoisonError::into_inner) = Breaker::default();
        self.set_connection(Some(connection.clone()));
        self.queue.open();
        self.tried.send_replace(true);
        self.shared.recovered.notify_waiters();
        let mut senders = JoinSet::new();
        for _ in 0..IN_FLIGHT {
            senders.spawn(self.clone().send(connection.clone()));
        }
        let mut pulse = JoinSet::new();
        pulse.spawn(self.clone().pulse(connection));
        let mut lasting = pin!(tokio::time::sleep(LASTING));
        let mut lasted = false;
        let cause = loop {
            tokio::select! {
                Some(ended) = senders.join_next() => {
                    break ended.unwrap_or_else(|error| error.to_string());
                }
                Some(ended) = pulse.join_next() => {
                    break ended.unwrap_or_else(|error| error.to_string());
                }
                changed = address.changed() => break match changed {
                    Ok(()) => "another server is the primary now".to_owned(),
                    Err(_) => "it is no longer part of the cluster".to_owned(),
                },
                () = &mut lasting, if !lasted => {
                    lasted = true;
                    if trouble.end() {
                        info!(redis = %self.name(), "Redis decides again");
                    }
                }
            }
        };
        // Before anybody can see that it is closed.
        self.shared.stats.trips.increment();
        self.queue.close();
        // What is under way ends by its deadline.
        while senders.join_next().await.is_some() {}
        (cause, lasted)
    }

    /// One call after the other. Says why it ended.
    async fn send(self: Arc<Self>, connection: MultiplexedConnection) -> String {
        let mut batch = Vec::new();
        while self.queue.next_batch(&mut batch).await {
            let cause = self.send_batch(&connection, &mut batch).await;
            self.queue.came_back();
            if let Some(cause) = cause {
                return cause;
            }
        }
        "it was closed".to_owned()
    }

    async fn send_batch(
        &self,
        connection: &MultiplexedConnection,
        batch: &mut Vec<Job>,
    ) -> Option<String> {
        // Only keys of one slot may be in a call. A stable sort keeps the order of what is asked.
        batch.sort_by_key(|job| job.slot);
        let now = match self.shared.clock {
            StoreClock::Server => None,
            StoreClock::Client => {
                let latest = batch.iter().map(|job| job.now).max();
                latest.map(|now| self.shared.by_script_clock(now))
            }
        };
        let mut groups: SmallVec<[Group; 1]> = batch
            .chunk_by(|one, other| one.slot == other.slot && !one.alone && !other.alone)
            .map(|jobs| self.group(jobs, now))
            .collect();
        let stats = &self.shared.stats;
        stats.parts.add(batch.len() as u64);
        let sent = self.call(connection, &mut groups).await;
        if let Err(trouble) = sent {
            for mut job in batch.drain(..) {
                job.answer(Err(Failure::Unknown));
            }
            return match trouble {
                Trouble::Late => {
                    stats.timeouts.increment();
                    self.note(true).then(|| "it answers too slowly".to_owned())
                }
                Trouble::Gone(error) => {
                    stats.disconnects.increment();
                    Some(in_words(error))
                }
            };
        }
        let mut cause = None;
        let mut rest = &mut batch[..];
        for group in groups {
            let (jobs, others) = rest.split_at_mut(group.parts.min(rest.len()));
            rest = others;
            let trouble = self.deliver(group, jobs);
            if self.note(trouble.is_some()) {
                cause = trouble;
            }
        }
        batch.clear();
        cause
    }

    fn group(&self, jobs: &[Job], now: Option<Timestamp>) -> Group {
        let slack = match now {
            None => TTL_SLACK_MS,
            Some(_) => CLIENT_TTL_SLACK_MS,
        };
        let asking = jobs.first().is_some_and(|job| job.asking);
        let call = Call::new(jobs.iter().map(|job| &job.part), now, slack);
        Group {
            parts: jobs.len(),
            ..Group::new(call, asking)
        }
    }

    /// Hands out the answers of one call; says what is wrong if the server could not decide.
    fn deliver(&self, group: Group, jobs: &mut [Job]) -> Option<String> {
        let failed = |jobs: &mut [Job], failure: &Failure| {
            for job in jobs {
                job.answer(Err(failure.clone()));
            }
        };
        let value = match group.reply {
            Some(Value::ServerError(error)) => {
                let (failure, trouble) = self.refused(&error.into());
                failed(jobs, &failure);
                return trouble;
            }
            value => value.unwrap_or(Value::Nil),
        };
        match group.call.read(jobs.iter().map(|job| &job.part), &value) {
            Ok(answers) => {
                for (job, answer) in jobs.iter_mut().zip(answers) {
                    job.answer(Ok(answer));
                }
                None
            }
            Err(error) => {
                self.shared.stats.bad_replies.increment();
                failed(jobs, &Failure::Unknown);
                Some(error.to_string())
            }
        }
    }

    /// What a refusal of the server means for those who wait, and whether it is a fault. Nothing was
    /// executed.
    fn refused(&self, error: &RedisError) -> (Failure, Option<String>) {
        let stats = &self.shared.stats;
        let to = error.redirect_node().and_then(|(to, _)| Address::named(to));
        match (error.code(), to) {
            (Some("MOVED"), Some(to)) => {
                stats.redirects.increment();
                self.shared.map_is_stale.notify_one();
                (Failure::Moved { to }, None)
            }
            (Some("ASK"), Some(to)) => {
                stats.redirects.increment();
                (Failure::Ask { to }, None)
            }
            (Some("TRYAGAIN"), _) => {
                stats.redirects.increment();
                (Failure::Again, None)
            }
            _ => {
                stats.refusals.increment();
                (Failure::NotSent, Some(in_words(error.clone())))
            }
        }
    }

    /// Sends calls and waits for their replies, loading the script if the server does not have it.
    async fn call(
        &self,
        connection: &MultiplexedConnection,
        groups: &mut [Group],
    ) -> Result<(), Trouble> {
        self.shared.stats.calls.add(groups.len() as u64);
        self.send_groups(connection, groups, false).await?;
        if groups.iter().any(Group::lacks_script) {
            self.shared.stats.script_loads.increment();
            self.send_groups(connection, groups, true).await?;
        }
        Ok(())
    }

    /// Sends the calls that have no answer yet, with the script before them if it is missing.
    async fn send_groups(
        &self,
        connection: &MultiplexedConnection,
        groups: &mut [Group],
        load: bool,
    ) -> Result<(), Trouble> {
        let mut pipeline = Pipeline::new();
        let mut skipped = 0;
        if load {
            pipeline.cmd("SCRIPT").arg("LOAD").arg(script::SOURCE);
            skipped = 1;
        }
        let mut waiting: SmallVec<[(&mut Group, usize); 1]> = SmallVec::new();
        for group in groups.iter_mut() {
            if load && !group.lacks_script() {
                continue;
            }
            if group.asking {
                pipeline.cmd("ASKING");
                skipped += 1;
            }
            let place = waiting.len() + skipped;
            let call = &group.call;
            let command = pipeline.cmd("EVALSHA").arg(script::SHA1);
            command.arg(call.keys().len());
            for key in call.keys() {
                command.arg(key.as_bytes());
            }
            command.arg(call.packed());
            waiting.push((group, place));
        }
        let count = waiting.len() + skipped;
        let mut connection = connection.clone();
        let send = connection.send_packed_commands(&pipeline, 0, count);
        let mut replies = match tokio::time::timeout(self.shared.deadline, send).await {
            Ok(Ok(replies)) => replies,
            Ok(Err(error)) => return Err(Trouble::Gone(error)),
            Err(_) => return Err(Trouble::Late),
        };
        for (group, place) in waiting {
            group.reply = replies.get_mut(place).map(std::mem::take);
        }
        Ok(())
    }

    /// Takes note of a call's outcome, and says whether to stop.
    fn note(&self, failed: bool) -> bool {
        let mut breaker = self.breaker.lock().unwrap_or_else(PoisonError::into_inner);
        breaker.trips(failed)
    }

    /// Asks the server now and then whether it is there, so that a loss is noticed before somebody
    /// waits for it. Says why it ended.
    async fn pulse(self: Arc<Self>, connection: MultiplexedConnection) -> String {
        // Not noted with the calls: a server that answers this may still fail those.
        let mut late = Breaker::default();
        loop {
            tokio::time::sleep(jittered(PULSE_EVERY)).await;
            let mut connection = connection.clone();
            let ping = redis::cmd("PING");
            let pong = connection.send_packed_command(&ping);
            let failed = match tokio::time::timeout(self.shared.deadline, pong).await {
                Ok(Ok(_)) => false,
                Ok(Err(error)) => return in_words(error),
                Err(_) => true,
            };
            if late.trips(failed) {
                return "it answers too slowly".to_owned();
            }
        }
    }
}

/// One call of the script, and its reply.
struct Group {
    call: Call,
    asking: bool,
    parts: usize,
    reply: Option<Value>,
}

impl Group {
    fn new(call: Call, asking: bool) -> Self {
        Self {
            call,
            asking,
            parts: 1,
            reply: None,
        }
    }

    fn lacks_script(&self) -> bool {
        let no_script = Some(ServerErrorKind::NoScript);
        matches!(&self.reply, Some(Value::ServerError(error)) if error.kind() == no_script)
    }
}

/// Why calls have no replies. They may have been executed.
enum Trouble {
    Late,
    Gone(RedisError),
}

fn in_words(error: RedisError) -> String {
    match (error.code(), error.detail()) {
        (Some(code), Some(detail)) => format!("{code} {detail}"),
        _ => error.to_string(),
    }
}

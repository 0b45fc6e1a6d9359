//! The faults, in the order of the table.

use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use tollward_testkit::fault::FaultProxy;
use tollward_testkit::redis::{Client, RedisCluster, RedisServer, SentinelTrio, Value};

use crate::place::{Breakage, PASSWORD, Spell};

/// One way to break Redis.
pub(crate) struct Fault {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    /// `on_failure` of the nodes.
    pub(crate) on_failure: OnFailure,
    /// Whether every node has to notice at once, and decide without Redis.
    pub(crate) noticed: bool,
    /// How often Redis forgets a bucket at most: each time, one more capacity may be spent.
    pub(crate) losses: u32,
    pub(crate) breakage: Breakage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnFailure {
    Local,
    Open,
    Closed,
}

impl OnFailure {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Open => "open",
            Self::Closed => "closed",
        }
    }
}

const fn fault(name: &'static str, about: &'static str, breakage: Breakage) -> Fault {
    Fault {
        name,
        about,
        on_failure: OnFailure::Local,
        noticed: true,
        losses: 0,
        breakage,
    }
}

impl Fault {
    const fn losing(mut self, losses: u32) -> Self {
        self.losses = losses;
        self
    }

    /// Nodes need not fall back, or only by chance.
    const fn unnoticed(mut self) -> Self {
        self.noticed = false;
        self
    }

    const fn on_failure(mut self, on_failure: OnFailure) -> Self {
        self.on_failure = on_failure;
        self
    }
}

pub(crate) const FAULTS: &[Fault] = &[
    fault(
        "nothing",
        "for comparison: nothing is broken, for 5 s",
        Breakage::Server(|_| nothing()),
    )
    .unnoticed(),
    fault(
        "kill",
        "SIGKILL, 20 s later started again without data",
        Breakage::Server(|server| killed(server, Duration::from_secs(20))),
    )
    .losing(1),
    fault(
        "kill-open",
        "the same for 5 s, with `on_failure: open`",
        Breakage::Server(|server| killed(server, HOLD)),
    )
    .losing(1)
    .on_failure(OnFailure::Open),
    fault(
        "kill-closed",
        "the same for 5 s, with `on_failure: closed`",
        Breakage::Server(|server| killed(server, HOLD)),
    )
    .losing(1)
    .on_failure(OnFailure::Closed),
    fault(
        "stop",
        "SIGSTOP, 10 s later SIGCONT",
        Breakage::Server(stopped),
    ),
    fault(
        "latency-50",
        "answers come 50 ms late, for 5 s",
        Breakage::Way(late),
    ),
    fault(
        "latency-jitter",
        "answers come 0 to 200 ms late, for 5 s",
        Breakage::Way(unsteady),
    ),
    fault(
        "loss",
        "of 1000 packets 50 are lost and sent again 200 ms later, for 5 s",
        Breakage::Way(lossy),
    )
    .unnoticed(),
    fault(
        "black-hole",
        "all packets vanish, for 5 s",
        Breakage::Way(swallowed),
    ),
    fault(
        "reply-lost",
        "requests arrive and answers vanish, for 1 s",
        Breakage::Way(unanswered),
    ),
    fault(
        "restart-empty",
        "SIGKILL, and started again at once without data",
        Breakage::Server(|server| killed(server, Duration::ZERO)),
    )
    .losing(1),
    fault(
        "script-flush",
        "SCRIPT FLUSH ten times a second, for 10 s",
        Breakage::Server(script_flushed),
    )
    .unnoticed(),
    fault("flushall", "FLUSHALL, once", Breakage::Server(flushed))
        .losing(1)
        .unnoticed(),
    fault(
        "oom-noeviction",
        "maxmemory is reached, nothing is evicted, for 5 s",
        Breakage::Server(out_of_memory),
    ),
    fault(
        "oom-allkeys-lru",
        "maxmemory is reached, the oldest keys are evicted, for 5 s",
        Breakage::Server(evicting),
    )
    .losing(1)
    .unnoticed(),
    fault(
        "wrong-password",
        "another password and all connections closed, for 5 s",
        Breakage::Server(locked_out),
    ),
    fault(
        "sentinel-failover",
        "SIGKILL of the primary under three sentinels",
        Breakage::Trio(failed_over),
    )
    .losing(1),
    fault(
        "cluster-nothing",
        "for comparison: nothing is broken in a cluster, for 5 s",
        Breakage::Cluster(|_| nothing()),
    )
    .unnoticed(),
    fault(
        "cluster-primary-killed",
        "SIGKILL of one of three primaries",
        Breakage::Cluster(primary_killed),
    )
    .losing(1),
    fault(
        "slots-moved",
        "slots with keys move to another primary, one after the other, for 8 s",
        Breakage::Cluster(slots_moved),
    )
    .unnoticed(),
];

const HOLD: Duration = Duration::from_secs(5);
/// A command whose server is well is answered by then.
const PATIENCE: Duration = Duration::from_secs(10);

/// Broken from `broken` until now.
fn since(broken: Instant) -> Spell {
    Spell {
        broken,
        mended: Instant::now(),
        note: None,
    }
}

fn nothing() -> Result<Spell> {
    let broken = Instant::now();
    sleep(HOLD);
    Ok(since(broken))
}

fn killed(server: &RedisServer, hold: Duration) -> Result<Spell> {
    let broken = Instant::now();
    server.kill();
    sleep(hold);
    server.restart();
    Ok(since(broken))
}

fn stopped(server: &RedisServer) -> Result<Spell> {
    let broken = Instant::now();
    server.stop();
    sleep(Duration::from_secs(10));
    server.cont();
    Ok(since(broken))
}

fn late(way: &FaultProxy) -> Result<Spell> {
    let delay = Duration::from_millis(50);
    delayed(way, delay, delay)
}

fn unsteady(way: &FaultProxy) -> Result<Spell> {
    delayed(way, Duration::ZERO, Duration::from_millis(200))
}

fn delayed(way: &FaultProxy, min: Duration, max: Duration) -> Result<Spell> {
    let broken = Instant::now();
    way.delay(min, max);
    sleep(HOLD);
    way.delay(Duration::ZERO, Duration::ZERO);
    Ok(since(broken))
}

fn lossy(way: &FaultProxy) -> Result<Spell> {
    let broken = Instant::now();
    way.lose(50);
    sleep(HOLD);
    way.lose(0);
    Ok(since(broken))
}

fn swallowed(way: &FaultProxy) -> Result<Spell> {
    let broken = Instant::now();
    way.black_hole(true);
    sleep(HOLD);
    way.black_hole(false);
    Ok(since(broken))
}

fn unanswered(way: &FaultProxy) -> Result<Spell> {
    let broken = Instant::now();
    way.drop_replies(true);
    sleep(Duration::from_secs(1));
    way.drop_replies(false);
    Ok(since(broken))
}

fn script_flushed(server: &RedisServer) -> Result<Spell> {
    let broken = Instant::now();
    let mut admin = admin(server)?;
    for turn in 1..=100 {
        must(&mut admin, &["SCRIPT", "FLUSH"])?;
        let next = broken + Duration::from_millis(100) * turn;
        sleep(next.saturating_duration_since(Instant::now()));
    }
    Ok(since(broken))
}

fn flushed(server: &RedisServer) -> Result<Spell> {
    let broken = Instant::now();
    must(&mut admin(server)?, &["FLUSHALL"])?;
    Ok(since(broken))
}

/// Less memory is allowed than filler keys take, so that it does not help when other keys expire.
fn out_of_memory(server: &RedisServer) -> Result<Spell> {
    const FILLERS: usize = 16;
    let mut admin = admin(server)?;
    must(
        &mut admin,
        &["CONFIG", "SET", "maxmemory-policy", "noeviction"],
    )?;
    let filler = vec![b'x'; 1 << 20];
    let name = |number: usize| format!("filler-{number}").into_bytes();
    for number in 0..FILLERS {
        let answer = admin.call(&[b"SET".to_vec(), name(number), filler.clone()])?;
        ensure!(answer.is_ok(), "SET: {answer:?}");
    }
    let broken = Instant::now();
    set_maxmemory(server, &mut admin, -(8 << 20))?;
    sleep(HOLD);
    let mut unlink = vec![b"UNLINK".to_vec()];
    unlink.extend((0..FILLERS).map(name));
    admin.call(&unlink)?;
    let spell = since(broken);
    must(&mut admin, &["CONFIG", "SET", "maxmemory", "0"])?;
    Ok(spell)
}

/// Fills memory slowly enough that a key in use is never among the oldest: Redis tells ages to the second.
fn evicting(server: &RedisServer) -> Result<Spell> {
    const PER_TURN: usize = 8;
    let mut admin = admin(server)?;
    must(
        &mut admin,
        &["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"],
    )?;
    set_maxmemory(server, &mut admin, 8 << 20)?;
    let filler = vec![b'x'; 10 << 10];
    let broken = Instant::now();
    let mut number = 0;
    while broken.elapsed() < HOLD {
        for _ in 0..PER_TURN {
            number += 1;
            let name = format!("filler-{number}").into_bytes();
            let answer = admin.call(&[b"SET".to_vec(), name, filler.clone()])?;
            ensure!(answer.is_ok(), "SET: {answer:?}");
        }
        sleep(Duration::from_millis(20));
    }
    must(&mut admin, &["CONFIG", "SET", "maxmemory", "0"])?;
    let evicted = server.info("stats", "evicted_keys").unwrap_or_default();
    Ok(Spell {
        note: Some(format!("{evicted} keys were evicted")),
        ..since(broken)
    })
}

fn locked_out(server: &RedisServer) -> Result<Spell> {
    let mut admin = admin(server)?;
    let broken = Instant::now();
    must(&mut admin, &["CONFIG", "SET", "requirepass", "second"])?;
    let kill = ["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"];
    let killed = admin.call(&kill)?.as_int();
    ensure!(
        killed.is_some_and(|count| count > 0),
        "nobody was connected"
    );
    sleep(HOLD);
    must(&mut admin, &["CONFIG", "SET", "requirepass", PASSWORD])?;
    Ok(since(broken))
}

fn failed_over(trio: &SentinelTrio) -> Result<Spell> {
    let broken = Instant::now();
    let old = trio.kill_primary();
    trio.wait_for_failover(old);
    let spell = since(broken);
    let took = spell.mended - broken;
    Ok(Spell {
        note: Some(format!("the sentinels took {:.1} s", took.as_secs_f64())),
        ..spell
    })
}

/// Kills the primary that has the bucket of the hot caller.
fn primary_killed(cluster: &RedisCluster) -> Result<Spell> {
    let mut hot = None;
    for index in cluster.primaries() {
        let keys = cluster.servers()[index].command(&["KEYS", "*plan|user=hot"]);
        if let Some(key) = keys.as_array().first().and_then(Value::as_text) {
            hot = Some((index, slot(cluster, key)?));
        }
    }
    let (index, slot) = hot.context("no primary has the bucket of the hot caller")?;
    let broken = Instant::now();
    cluster.kill(index);
    cluster.primary_of(slot);
    let spell = since(broken);
    let took = spell.mended - broken;
    Ok(Spell {
        note: Some(format!("the cluster took {:.1} s", took.as_secs_f64())),
        ..spell
    })
}

fn slots_moved(cluster: &RedisCluster) -> Result<Spell> {
    const MOVE_FOR: Duration = Duration::from_secs(8);
    let primaries = cluster.primaries();
    let mut moves = Vec::new();
    for (turn, from) in primaries.iter().enumerate() {
        let to = primaries[(turn + 1) % primaries.len()];
        let keys = cluster.servers()[*from].command(&["KEYS", "*user=*"]);
        for key in keys.as_array().iter().filter_map(Value::as_text) {
            let is_hot = key.ends_with("user=hot");
            moves.push((!is_hot, slot(cluster, key)?, to));
        }
    }
    // The hot caller's first, then whatever comes.
    moves.sort_by_key(|(later, slot, _)| (*later, slot.wrapping_mul(40_503)));
    moves.dedup_by_key(|(_, slot, _)| *slot);
    let broken = Instant::now();
    let mut moved = 0;
    for (_, slot, to) in moves {
        if broken.elapsed() > MOVE_FOR {
            break;
        }
        cluster.move_slot(slot, to);
        moved += 1;
    }
    Ok(Spell {
        note: Some(format!("{moved} slots were moved")),
        ..since(broken)
    })
}

fn slot(cluster: &RedisCluster, key: &str) -> Result<u16> {
    let answer = cluster.servers()[0].command(&["CLUSTER", "KEYSLOT", key]);
    let slot = answer.as_int().and_then(|slot| u16::try_from(slot).ok());
    slot.with_context(|| format!("CLUSTER KEYSLOT: {answer:?}"))
}

/// A connection of our own, which stays open whatever happens to others.
fn admin(server: &RedisServer) -> Result<Client> {
    let mut client = Client::connect_unix(&server.socket(), PATIENCE)?;
    must(&mut client, &["AUTH", PASSWORD])?;
    Ok(client)
}

fn must(client: &mut Client, command: &[&str]) -> Result<()> {
    let answer = client.call(command)?;
    if !answer.is_ok() {
        bail!("{}: {answer:?}", command.join(" "));
    }
    Ok(())
}

/// Allows so much more memory than is used, or less.
fn set_maxmemory(server: &RedisServer, admin: &mut Client, more: i64) -> Result<()> {
    let used = server.info("memory", "used_memory").context("no memory")?;
    let max = used.parse::<u64>()?.saturating_add_signed(more).to_string();
    must(admin, &["CONFIG", "SET", "maxmemory", &max])
}

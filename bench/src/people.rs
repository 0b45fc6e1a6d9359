//! A hundred thousand tenants and a million API keys: what they weigh, what finding one takes, and what a
//! change of one does.

use std::collections::HashMap;
use std::hint::black_box;
use std::sync::{Arc, RwLock};
use std::time::Instant;

use anyhow::Context;
use sha2::{Digest, Sha256};
use sqlx::{AnyConnection, AssertSqlSafe, Connection};
use tollward_directory::{Directory, Mirror};
use tollward_engine::{Engine, Mode, SystemClock};
use tollward_policy::{
    ApiKey, Change, DirectorySettings, DirectoryUrl, Facts, Policy, TenantEntry, TenantLimit,
};
use tollward_store::MemoryStore;

use crate::bars::Bars;
use crate::bytes::held;
use crate::engine::at_once;
use crate::keys::Keys;
use crate::policy::{DEFAULT_MAX_BUCKETS, compiled};
use crate::table::{Row, Table};
use crate::turns::{Effort, interleave, median, throughput};

const PARTNERS: u32 = 100;
const TENANTS: u32 = 100_000;
const KEYS: u32 = 1_000_000;
/// Changes that are put in force together while everything is loaded.
const BATCH: usize = 10_000;
/// How often a change is measured.
const CHANGES: u32 = 200;

const PLANS: &str = "
plans: { free: { rate_limit: { sustained: { rate: 4000000000 } } } }
tenants: { system: { plan: free, rate_limit: { sustained: { rate: 4000000000 }, sharing: enforce } } }
";

pub(crate) fn run(effort: Effort, table: &mut Table, bars: &mut Bars) -> anyhow::Result<()> {
    let engine = Engine::new(
        compiled(PLANS)?,
        Arc::new(MemoryStore::new(DEFAULT_MAX_BUCKETS)),
        Arc::new(SystemClock::new()),
    );
    let limits = Limits::new()?;
    weigh(&engine, &limits, table);
    lookups(&engine, effort, table, bars);
    changes(&engine, &limits, table);
    drop(engine);
    startup(table)
}

struct Limits {
    partner: Arc<TenantLimit>,
    tenant: Arc<TenantLimit>,
}

impl Limits {
    fn new() -> anyhow::Result<Self> {
        let limit = |text: &str| {
            let limit = TenantLimit::parse(text);
            limit
                .map(Arc::new)
                .map_err(|faults| anyhow::anyhow!("{faults:?}"))
        };
        Ok(Self {
            partner: limit("{ sustained: { rate: 3000000000 }, sharing: enforce }")?,
            tenant: limit("{ sustained: { rate: 2000000000 } }")?,
        })
    }

    /// The first hundred are partners of the system; the others are tenants of theirs.
    fn tenant(&self, number: u32) -> Change {
        let parent = match number {
            0..PARTNERS => None,
            _ => Some(tenant_name(number % PARTNERS).into()),
        };
        let limit = match number {
            0..PARTNERS => &self.partner,
            _ => &self.tenant,
        };
        Change::Tenant {
            id: tenant_name(number).into(),
            entry: Some(TenantEntry {
                parent,
                plan: None,
                limit: Some(limit.clone()),
                ..TenantEntry::default()
            }),
        }
    }
}

fn tenant_name(number: u32) -> String {
    format!("tenant-{number:06}")
}

/// Shorter than those that people are given, but to the hash they are all one block.
fn secret(number: u32) -> String {
    Keys::new(KEYS, 0).at(number).clone()
}

fn key(number: u32) -> Change {
    Change::Key {
        hash: Sha256::digest(secret(number).as_bytes()).into(),
        key: Some(ApiKey {
            tenant: Some(tenant_name(number % TENANTS).into()),
            ..ApiKey::default()
        }),
    }
}

fn weigh(engine: &Engine, limits: &Limits, table: &mut Table) {
    let in_batches = |all: &mut dyn Iterator<Item = Change>| {
        let began = Instant::now();
        loop {
            let batch: Vec<Change> = all.take(BATCH).collect();
            if batch.is_empty() {
                return began.elapsed().as_secs_f64();
            }
            engine.change(batch);
        }
    };
    let mut tenants = (0..TENANTS).map(|number| limits.tenant(number));
    let mut keys = (0..KEYS).map(key);
    let all: [(&str, u32, &mut dyn Iterator<Item = Change>); 2] = [
        ("tenant", TENANTS, &mut tenants),
        ("API key", KEYS, &mut keys),
    ];
    for (what, count, all) in all {
        let (secs, bytes) = held(|| in_batches(all));
        let row = Row::figure(
            format!("{what}, in memory"),
            "bytes",
            bytes / f64::from(count),
        );
        table.push(row.grid(count, 1));
        let row = Row::figure(
            format!("{what}, put in force"),
            "us",
            secs * 1e6 / f64::from(count),
        );
        table.push(row.grid(count, 1));
    }
}

/// Finding a key and whose it is, beside what everybody would write first.
fn lookups(engine: &Engine, effort: Effort, table: &mut Table, bars: &mut Bars) {
    let active = engine.active();
    let policy = active.policy();
    let plain: HashMap<String, (String, Option<String>)> = (0..KEYS)
        .map(|number| (secret(number), (tenant_name(number % TENANTS), None)))
        .collect();
    let plain = RwLock::new(plain);
    for threads in [1, 2] {
        let turn = effort.turn;
        let ours = || {
            throughput(threads, turn, |thread| {
                let mut secrets = Keys::new(KEYS, thread);
                move || assert!(black_box(policy.key(secrets.next())).is_ok())
            })
        };
        let theirs = || {
            throughput(threads, turn, |thread| {
                let mut secrets = Keys::new(KEYS, thread);
                let plain = &plain;
                move || {
                    let found = plain.read().ok();
                    let found = found.and_then(|found| found.get(secrets.next()).cloned());
                    assert!(black_box(found).is_some());
                }
            })
        };
        let [ours, theirs] = interleave(effort.rounds, [&ours, &theirs]);
        let row = Row::time("API key found among a million", ours).grid(KEYS, threads);
        table.push(row.against_time("HashMap of secrets, RwLock", theirs));
        bars.key_lookup(threads, 1e6 / ours);
        let whole = || {
            throughput(threads, turn, |thread| {
                let mut secrets = Keys::new(KEYS, thread);
                move || {
                    let facts = Facts {
                        api_key: Some(secrets.next()),
                        ..Facts::default()
                    };
                    let active = engine.active();
                    let decision = at_once(engine.check(&active, &facts, Mode::Charge));
                    assert!(decision.is_some_and(|it| it.is_ok_and(|it| it.allowed)));
                }
            })
        };
        let [whole] = interleave(effort.rounds, [&whole]);
        let what = "engine, by API key: plan, tenant, partner, system";
        table.push(Row::time(what, whole).grid(KEYS, threads));
    }
}

/// One change of a policy in use, beside making the policy anew.
fn changes(engine: &Engine, limits: &Limits, table: &mut Table) {
    let began = Instant::now();
    let everyone = (0..TENANTS).map(|number| limits.tenant(number));
    let policy = engine.active().policy().clone();
    let anew: Policy = policy.with(everyone.chain((0..KEYS).map(key)).collect());
    let anew_us = began.elapsed().as_secs_f64() * 1e6;
    drop(anew);
    let kinds: [(&str, &dyn Fn(u32) -> Change); 4] = [
        ("a new API key", &|round| key(KEYS + round)),
        ("an API key revoked", &|round| Change::Key {
            hash: Sha256::digest(secret(round).as_bytes()).into(),
            key: None,
        }),
        ("a tenant changed", &|round| {
            limits.tenant(TENANTS - 1 - round)
        }),
        ("a partner of 999 changed", &|round| {
            limits.tenant(round % PARTNERS)
        }),
    ];
    for (what, change) in kinds {
        let times = (0..CHANGES).map(|round| {
            let change = change(round);
            let began = Instant::now();
            engine.change(vec![change]);
            began.elapsed().as_secs_f64() * 1e6
        });
        let us = median(times.collect());
        let row = Row::figure(format!("{what}, till it is in force"), "us", us);
        let row = row.grid(KEYS, 1).against("all of it anew", anew_us);
        table.push(row.ratio(format!("{:.0}x", anew_us / us)));
    }
}

/// A node that starts with all of them in a file of SQLite: from opening it until decisions are made by
/// them, and what the process has grown by then.
fn startup(table: &mut Table) -> anyhow::Result<()> {
    let folder = std::env::temp_dir().join(format!("tollward-bench-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let started = runtime.block_on(async {
        let url = DirectoryUrl::Sqlite(folder.join("people.db"));
        fill(&url).await?;
        let engine = Arc::new(Engine::new(
            compiled(PLANS)?,
            Arc::new(MemoryStore::new(DEFAULT_MAX_BUCKETS)),
            Arc::new(SystemClock::new()),
        ));
        let before = resident()?;
        let began = Instant::now();
        let directory = Directory::open(&url).await?;
        let mirror = Mirror::start(directory, engine.clone(), &DirectorySettings::default());
        mirror.caught_up(0).await;
        let secs = began.elapsed().as_secs_f64();
        let grown = resident()? - before;
        let active = engine.active();
        anyhow::ensure!(active.policy().directory_key_count() == KEYS as usize);
        anyhow::ensure!(active.policy().key(&secret(KEYS - 1)).is_ok());
        Ok((secs, grown))
    });
    std::fs::remove_dir_all(&folder)?;
    let (secs, grown) = started?;
    let what = "start with 100 000 tenants and a million keys in SQLite";
    table.push(Row::figure(what, "s", secs).grid(KEYS, 1));
    table.push(Row::figure("the same, memory of the process", "MB", grown).grid(KEYS, 1));
    Ok(())
}

/// Writes rows as the directory's own tables have them: a million edits would take longer than anything
/// else here.
async fn fill(url: &DirectoryUrl) -> anyhow::Result<()> {
    drop(Directory::open(url).await?);
    let mut connection = AnyConnection::connect(&url.expose()).await?;
    let mut insert = async |head: &str, rows: Vec<String>| {
        for some in rows.chunks(500) {
            let statement = format!("{head} VALUES {}", some.join(", "));
            sqlx::query(AssertSqlSafe(statement))
                .execute(&mut connection)
                .await?;
        }
        anyhow::Ok(())
    };
    let limit = |number: u32| match number {
        0..PARTNERS => (
            r#"{"sustained":{"rate":3000000000},"sharing":"enforce"}"#,
            3_000_000_000_u32,
        ),
        _ => (r#"{"sustained":{"rate":2000000000}}"#, 2_000_000_000),
    };
    let tenant = |number: u32| {
        let parent = match number {
            0..PARTNERS => "system".to_owned(),
            _ => tenant_name(number % PARTNERS),
        };
        let (text, rate) = limit(number);
        format!(
            "('{}', '{parent}', '{text}', {rate}, 1, '{{}}', 0, 0, 1)",
            tenant_name(number)
        )
    };
    insert(
        "INSERT INTO tenants (id, parent, rate_limit, rate, window_secs, attributes, created_at, updated_at, version)",
        (0..TENANTS).map(tenant).collect(),
    )
    .await?;
    let key = |number: u32| {
        let hash = Sha256::digest(secret(number).as_bytes());
        let hash: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
        let tenant = tenant_name(number % TENANTS);
        format!("('key_{number}', '{hash}', 'tg_00000000', '', '{tenant}', 0, 0, 1)")
    };
    insert(
        "INSERT INTO api_keys (id, hash, prefix, name, tenant_id, created_at, updated_at, version)",
        (0..KEYS).map(key).collect(),
    )
    .await?;
    Ok(connection.close().await?)
}

/// What this process has in memory, in megabytes.
fn resident() -> anyhow::Result<f64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB"));
    Ok(kib.context("no VmRSS")?.trim().parse::<f64>()? / 1024.0)
}

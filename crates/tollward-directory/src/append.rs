//! What is added without an edit, in batches, and what is forgotten.

use std::collections::BTreeMap;
use std::fmt::Write;

use sqlx::AnyConnection;

use crate::directory::Directory;
use crate::error::DirectoryError;
use crate::records::{AuditEvent, Granularity, UsageRow};
use crate::sql::{Statement, number, placeholders, run, statement};
use crate::stored;

type Result<T> = std::result::Result<T, DirectoryError>;

/// So many rows in one statement: far from the most values that any of the databases takes.
const ROWS: usize = 500;
/// So many old rows are removed at a time, so that nobody waits long for the lock.
const OLD_ROWS: u64 = 10_000;
/// A call of `prune` removes at most so many times [`OLD_ROWS`] of a kind; the next goes on.
const ROUNDS: u32 = 100;

/// Until when records are forgotten: what is older goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retention {
    /// Events, and boosts that ended before then, in Unix milliseconds.
    pub audit_before: i64,
    /// Roll-ups of minutes that began before then, in Unix seconds.
    pub minute_before: i64,
    /// Roll-ups of hours that began before then, in Unix seconds.
    pub hour_before: i64,
    /// Roll-ups of days that began before then, in Unix seconds.
    pub day_before: i64,
    /// Answers that were given, and batches that were written before then, in Unix milliseconds.
    pub idempotency_before: i64,
    /// Edits made before then, in Unix milliseconds: a node that has not heard of them loads everything
    /// anew.
    pub changes_before: i64,
}

/// What a batch of records is known by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batch<'a> {
    /// No other batch of any node has it.
    pub id: &'a str,
    /// When it is written, in Unix milliseconds. It is known for as long as answers are.
    pub now_ms: i64,
}

impl Directory {
    /// Adds to the audit trail, all or nothing.
    pub async fn add_audit(&self, events: &[AuditEvent]) -> Result<()> {
        self.write_events(None, events).await
    }

    /// As [`Directory::add_audit`], and once: a batch that failed may be written again under the same name,
    /// whether it was written after all or not.
    pub async fn add_audit_once(&self, batch: &Batch<'_>, events: &[AuditEvent]) -> Result<()> {
        self.write_events(Some(batch), events).await
    }

    async fn write_events(&self, batch: Option<&Batch<'_>>, events: &[AuditEvent]) -> Result<()> {
        if events.is_empty() {
            return Ok(());
        }
        let mut transaction = self.recording().await?;
        if is_written(&mut transaction, batch).await? {
            return transaction.roll_back().await;
        }
        write_audit(&mut transaction, events).await?;
        transaction.commit().await
    }

    /// Adds to roll-ups, all or nothing: counts of what is there already grow.
    pub async fn add_usage(&self, rows: &[UsageRow]) -> Result<()> {
        self.write_usage(None, rows).await
    }

    /// As [`Directory::add_usage`], and once: see [`Directory::add_audit_once`].
    pub async fn add_usage_once(&self, batch: &Batch<'_>, rows: &[UsageRow]) -> Result<()> {
        self.write_usage(Some(batch), rows).await
    }

    async fn write_usage(&self, batch: Option<&Batch<'_>>, rows: &[UsageRow]) -> Result<()> {
        // Each once, or PostgreSQL refuses the statement; in order, or two nodes wait for each other.
        let mut merged = BTreeMap::<_, UsageRow>::new();
        for row in rows {
            let name = (
                row.granularity,
                row.start,
                &row.tenant,
                &row.plan,
                &row.route,
            );
            merged
                .entry(name)
                .and_modify(|it| add(it, row))
                .or_insert_with(|| row.clone());
        }
        let rows: Vec<_> = merged.into_values().collect();
        let write = |some: &[UsageRow]| {
            let values = placeholders(some.len(), stored::USAGE_WIDTH);
            let text = format!("{}{values}{}", stored::ADD_USAGE, stored::ADD_USAGE_TO);
            some.iter().fold(statement(text), stored::bind_usage)
        };
        self.write_batch(batch, &rows, write).await
    }

    /// Notes when keys were last used, by SHA-256 and in Unix milliseconds. It never goes back.
    pub async fn touch_keys(&self, uses: &[([u8; 32], i64)]) -> Result<()> {
        let mut merged = BTreeMap::new();
        for (hash, at) in uses {
            let last = merged.entry(hash).or_insert(*at);
            *last = at.max(last).to_owned();
        }
        let uses: Vec<_> = merged.into_iter().collect();
        let write = |some: &[(&[u8; 32], i64)]| {
            let values = placeholders(some.len(), 2);
            let text = format!(
                "INSERT INTO key_uses (hash, last_used_at) VALUES {values} \
                 ON CONFLICT (hash) DO UPDATE SET last_used_at = excluded.last_used_at \
                 WHERE excluded.last_used_at > key_uses.last_used_at"
            );
            let bind =
                |to: Statement, (hash, at): &(&[u8; 32], i64)| to.text(&hex(*hash)).number(*at);
            some.iter().fold(statement(text), bind)
        };
        self.write_batch(None, &uses, write).await
    }

    /// Removes what is older than it need be, some of it if it is very much. How many rows went.
    pub async fn prune(&self, retention: &Retention) -> Result<u64> {
        let mut removed = 0;
        let audit = "DELETE FROM audit WHERE id IN \
             (SELECT id FROM audit WHERE at < $1 ORDER BY at LIMIT $2)";
        let answers = "DELETE FROM answers WHERE (actor, request_key) IN \
             (SELECT actor, request_key FROM answers WHERE created_at < $1 LIMIT $2)";
        let batches = "DELETE FROM batches WHERE id IN \
             (SELECT id FROM batches WHERE at < $1 LIMIT $2)";
        // No change for nodes: to them it is gone since it ended.
        let boosts = "DELETE FROM boosts WHERE id IN \
             (SELECT id FROM boosts WHERE ends_at < $1 LIMIT $2)";
        // Of keys that are no more.
        let uses = "DELETE FROM key_uses WHERE hash IN (SELECT hash FROM key_uses \
             WHERE last_used_at < $1 AND NOT EXISTS \
             (SELECT 1 FROM api_keys WHERE api_keys.hash = key_uses.hash) LIMIT $2)";
        for (text, before) in [
            (audit, retention.audit_before),
            (answers, retention.idempotency_before),
            (batches, retention.idempotency_before),
            (boosts, retention.audit_before),
            (uses, retention.audit_before),
        ] {
            removed += self.prune_by(|| statement(text).number(before)).await?;
        }
        for (granularity, before) in [
            (Granularity::Minute, retention.minute_before),
            (Granularity::Hour, retention.hour_before),
            (Granularity::Day, retention.day_before),
        ] {
            let secs = granularity.secs();
            let usage = format!(
                "DELETE FROM usage WHERE (granularity, start, tenant, plan, route) IN \
                 (SELECT granularity, start, tenant, plan, route FROM usage \
                 WHERE granularity = {secs} AND start < $1 LIMIT $2)"
            );
            let old = || statement(usage.as_str()).number(before);
            removed += self.prune_by(old).await?;
        }
        // The oldest edit that is left is where nodes can follow from, so what it changed is left too: a node
        // may know a part of that.
        let edits = "DELETE FROM edits WHERE revision IN (SELECT revision FROM edits \
             WHERE revision < (SELECT MAX(revision) FROM edits WHERE at < $1) \
             ORDER BY revision LIMIT $2)";
        let old = || statement(edits).number(retention.changes_before);
        removed += self.prune_by(old).await?;
        let changes = "DELETE FROM changes WHERE (revision, kind, id) IN \
             (SELECT revision, kind, id FROM changes \
             WHERE revision < (SELECT MIN(revision) FROM edits) LIMIT $1)";
        Ok(removed + self.prune_by(|| statement(changes)).await?)
    }

    /// Runs a statement again and again whose last value is how many rows it removes at most.
    async fn prune_by(&self, old: impl Fn() -> Statement) -> Result<u64> {
        let mut removed = 0;
        for _ in 0..ROUNDS {
            let mut transaction = self.recording().await?;
            let some = old().number(OLD_ROWS.cast_signed());
            let gone = run(&mut transaction, some).await?;
            transaction.commit().await?;
            removed += gone;
            if gone < OLD_ROWS {
                break;
            }
        }
        Ok(removed)
    }

    /// Writes rows in one transaction, some with each statement.
    async fn write_batch<T>(
        &self,
        batch: Option<&Batch<'_>>,
        rows: &[T],
        write: impl Fn(&[T]) -> Statement,
    ) -> Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        let mut transaction = self.recording().await?;
        if is_written(&mut transaction, batch).await? {
            return transaction.roll_back().await;
        }
        for some in rows.chunks(ROWS) {
            run(&mut transaction, write(some)).await?;
        }
        transaction.commit().await
    }
}

/// Whether a batch was written already. If somebody else is about to, this waits for how that ends.
async fn is_written(connection: &mut AnyConnection, batch: Option<&Batch<'_>>) -> Result<bool> {
    let Some(batch) = batch else {
        return Ok(false);
    };
    let add = statement("INSERT INTO batches (id, at) VALUES ($1, $2) ON CONFLICT DO NOTHING");
    let added = run(connection, add.text(batch.id).number(batch.now_ms)).await?;
    Ok(added == 0)
}

pub(crate) async fn write_audit(
    connection: &mut AnyConnection,
    events: &[AuditEvent],
) -> Result<()> {
    // The row is locked until the end, so the numbers are in the order of commits.
    let count = i64::try_from(events.len()).unwrap_or(i64::MAX);
    let next = "UPDATE counters SET value = value + $1 WHERE name = 'audit' RETURNING value";
    let last = number(connection, statement(next).number(count)).await?;
    let mut id = last.unwrap_or(count) - count;
    for some in events.chunks(ROWS) {
        let values = placeholders(some.len(), stored::AUDIT_WIDTH);
        let mut add = statement(format!("{}{values}", stored::ADD_AUDIT));
        for event in some {
            id += 1;
            add = stored::bind_event(add, id, event);
        }
        run(connection, add).await?;
    }
    Ok(())
}

fn add(to: &mut UsageRow, row: &UsageRow) {
    for (to, more) in [
        (&mut to.requests, row.requests),
        (&mut to.refusals, row.refusals),
        (&mut to.tokens, row.tokens),
        (&mut to.errors, row.errors),
    ] {
        *to = to.saturating_add(more);
    }
}

/// Two lower-case digits for each byte.
fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

//! How records are read and written, and how their places in a list are named.

use sqlx::AnyConnection;

use crate::error::DirectoryError;
use crate::records::{AuditEvent, Granularity, Remembered, UsageRow};
use crate::sql::{Fields, Statement, first, statement};

type Result<T> = std::result::Result<T, DirectoryError>;

/// Answers are remembered for a day.
pub(crate) const REMEMBERED_MS: i64 = 24 * 3_600_000;

pub(crate) const AUDIT: &str = "SELECT id, at, event, severity, actor, address, identifier, scope, \
     route, limit_name, retry_after_ms, count, before_json, after_json, node FROM audit";
pub(crate) const AUDIT_WIDTH: usize = 15;
pub(crate) const ADD_AUDIT: &str = "INSERT INTO audit (id, at, event, severity, actor, address, \
     identifier, scope, route, limit_name, retry_after_ms, count, before_json, after_json, node) VALUES ";

pub(crate) fn event(fields: &mut Fields<'_>) -> Result<AuditEvent> {
    Ok(AuditEvent {
        id: fields.next()?,
        at: fields.next()?,
        event: fields.next()?,
        severity: fields.next()?,
        actor: fields.next()?,
        address: fields.next()?,
        identifier: fields.next()?,
        scope: fields.next()?,
        route: fields.next()?,
        limit: fields.next()?,
        retry_after_ms: fields.next()?,
        count: fields.next()?,
        before: fields.next()?,
        after: fields.next()?,
        node: fields.next()?,
    })
}

pub(crate) fn bind_event(statement: Statement, id: i64, event: &AuditEvent) -> Statement {
    statement
        .number(id)
        .number(event.at)
        .text(&event.event)
        .text(&event.severity)
        .maybe_text(event.actor.as_deref())
        .maybe_text(event.address.as_deref())
        .maybe_text(event.identifier.as_deref())
        .maybe_text(event.scope.as_deref())
        .maybe_text(event.route.as_deref())
        .maybe_text(event.limit.as_deref())
        .maybe_number(event.retry_after_ms)
        .number(event.count)
        .maybe_text(event.before.as_deref())
        .maybe_text(event.after.as_deref())
        .text(&event.node)
}

/// An event's place in the trail, as a page names it.
pub(crate) fn event_name(event: &AuditEvent) -> String {
    format!("{}.{}", event.at, event.id)
}

pub(crate) fn event_of(name: &str) -> Result<(i64, i64)> {
    let parts = name.split_once('.');
    let parsed = parts.and_then(|(at, id)| Some((at.parse().ok()?, id.parse().ok()?)));
    parsed.ok_or_else(no_page)
}

pub(crate) const USAGE: &str = "SELECT granularity, start, tenant, plan, route, requests, refusals, \
     tokens, errors FROM usage";
pub(crate) const USAGE_WIDTH: usize = 9;
pub(crate) const ADD_USAGE: &str = "INSERT INTO usage (granularity, start, tenant, plan, route, \
     requests, refusals, tokens, errors) VALUES ";
/// What is there already is added to.
pub(crate) const ADD_USAGE_TO: &str = " ON CONFLICT (granularity, start, tenant, plan, route) \
     DO UPDATE SET requests = usage.requests + excluded.requests, \
     refusals = usage.refusals + excluded.refusals, tokens = usage.tokens + excluded.tokens, \
     errors = usage.errors + excluded.errors";

pub(crate) fn usage_row(fields: &mut Fields<'_>) -> Result<UsageRow> {
    let secs: i64 = fields.next()?;
    let granularity = Granularity::ALL.into_iter().find(|it| it.secs() == secs);
    Ok(UsageRow {
        granularity: granularity.unwrap_or_default(),
        start: fields.next()?,
        tenant: fields.next()?,
        plan: fields.next()?,
        route: fields.next()?,
        requests: fields.next()?,
        refusals: fields.next()?,
        tokens: fields.next()?,
        errors: fields.next()?,
    })
}

pub(crate) fn bind_usage(statement: Statement, row: &UsageRow) -> Statement {
    statement
        .number(row.granularity.secs())
        .number(row.start)
        .text(&row.tenant)
        .text(&row.plan)
        .text(&row.route)
        .number(row.requests)
        .number(row.refusals)
        .number(row.tokens)
        .number(row.errors)
}

/// A roll-up's place among those of its length, as a page names it.
pub(crate) fn usage_name(row: &UsageRow) -> String {
    serde_json::json!([row.start, row.tenant, row.plan, row.route]).to_string()
}

pub(crate) fn usage_of(name: &str) -> Result<(i64, [String; 3])> {
    let parts: std::result::Result<(i64, String, String, String), _> = serde_json::from_str(name);
    let (start, tenant, plan, route) = parts.map_err(|_| no_page())?;
    Ok((start, [tenant, plan, route]))
}

fn no_page() -> DirectoryError {
    DirectoryError::Invalid("`after` is not what a page before this one ended with".to_owned())
}

pub(crate) async fn recall(
    connection: &mut AnyConnection,
    key: &str,
    actor: &str,
    now_ms: i64,
) -> Result<Option<Remembered>> {
    let asked = statement(
        "SELECT request_key, actor, fingerprint, status, body, created_at FROM answers \
         WHERE request_key = $1 AND actor = $2 AND created_at > $3",
    );
    let asked = asked
        .text(key)
        .text(actor)
        .number(now_ms.saturating_sub(REMEMBERED_MS));
    let read = |fields: &mut Fields<'_>| {
        Ok(Remembered {
            key: fields.next()?,
            actor: fields.next()?,
            fingerprint: fields.next()?,
            status: fields.number()?,
            body: fields.next()?,
            created_at: fields.next()?,
        })
    };
    first(connection, asked, read).await
}

//! The audit trail, as it can be asked.

use axum::extract::State;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tollward_directory::{AuditEvent, AuditFilter};
use utoipa::{IntoParams, ToSchema};

use super::Shared;
use super::answer::Answer;
use super::failure::Failure;
use super::guard::{By, Read};
use super::input::Asked;
use super::moment::Moment;
use super::paging::{Items, page};

/// An event of the audit trail.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = AuditEvent)]
pub(super) struct View {
    /// Its number.
    id: i64,
    /// When it happened.
    at: Moment,
    /// What happened: `rate_limit_exceeded`, `tenant_created`.
    event: String,
    /// How bad that is: `info`, `warning`.
    severity: String,
    /// Who did it, if it was a change.
    actor: Option<String>,
    /// From where.
    address: Option<String>,
    /// Whom or what it concerns.
    identifier: Option<String>,
    /// The scope of the limit.
    scope: Option<String>,
    /// The route.
    route: Option<String>,
    /// The limit's name.
    limit: Option<String>,
    /// When to try again, in milliseconds from then.
    retry_after_ms: Option<i64>,
    /// How often it happened.
    count: i64,
    /// What was there before.
    before: Option<Value>,
    /// What was there after it.
    after: Option<Value>,
    /// The node that tells it.
    node: String,
}

impl From<AuditEvent> for View {
    fn from(event: AuditEvent) -> Self {
        let json = |text: Option<String>| text.and_then(|text| serde_json::from_str(&text).ok());
        Self {
            id: event.id,
            at: Moment(event.at),
            event: event.event,
            severity: event.severity,
            actor: event.actor,
            address: event.address,
            identifier: event.identifier,
            scope: event.scope,
            route: event.route,
            limit: event.limit,
            retry_after_ms: event.retry_after_ms,
            count: event.count,
            before: json(event.before),
            after: json(event.after),
            node: event.node,
        }
    }
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Wanted {
    /// Only events of this name.
    event: Option<String>,
    /// Only what this one did.
    actor: Option<String>,
    /// Only what concerns this one, such as `tenant:acme`.
    identifier: Option<String>,
    /// Only from then on.
    since: Option<Moment>,
    /// Only before then.
    until: Option<Moment>,
    /// The most items on the page; 100 unless told otherwise.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
    /// The `next` of the page before.
    after: Option<String>,
}

/// Shows the audit trail
///
/// The newest events come first. Refusals of one caller by one limit are one event in an interval, with a count.
#[utoipa::path(get, path = "/admin/v1/audit", tag = "audit", params(Wanted),
    responses((status = 200, description = "A page of events", body = Items<View>)))]
pub(super) async fn list_audit(
    _: By<Read>,
    State(shared): State<Shared>,
    Asked(wanted): Asked<Wanted>,
) -> Result<Answer, Failure> {
    let page = page(wanted.limit, wanted.after)?;
    let filter = AuditFilter {
        event: wanted.event,
        actor: wanted.actor,
        identifier: wanted.identifier,
        since_ms: wanted.since.map(|moment| moment.0),
        until_ms: wanted.until.map(|moment| moment.0),
    };
    let listed = shared.directory.audit(&filter, &page).await?;
    Answer::ok(&Items {
        items: listed.items.into_iter().map(View::from).collect(),
        next: listed.next,
    })
}

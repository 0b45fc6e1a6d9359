//! What was used, by tenant, plan and route.

use axum::extract::State;
use serde::{Deserialize, Serialize};
use tollward_directory::{Granularity, UsageFilter, UsageRow};
use utoipa::{IntoParams, ToSchema};

use super::Shared;
use super::answer::Answer;
use super::failure::Failure;
use super::guard::{By, Read};
use super::input::Asked;
use super::moment::Moment;
use super::paging::{Items, page};

/// How much time one roll-up is of.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = Granularity)]
pub(super) enum Span {
    Minute,
    #[default]
    Hour,
    Day,
}

impl From<Span> for Granularity {
    fn from(span: Span) -> Self {
        match span {
            Span::Minute => Self::Minute,
            Span::Hour => Self::Hour,
            Span::Day => Self::Day,
        }
    }
}

/// What was used in one span of time.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Usage)]
pub(super) struct View {
    /// When the span begins.
    start: Moment,
    /// The tenant; null if there is none.
    tenant: Option<String>,
    /// The plan; null if there is none.
    plan: Option<String>,
    /// The route; null if there is none.
    route: Option<String>,
    /// Requests, refused ones too.
    requests: i64,
    /// Requests that were refused.
    refusals: i64,
    /// Tokens taken.
    tokens: i64,
    /// Errors of the upstream.
    errors: i64,
}

impl From<UsageRow> for View {
    fn from(row: UsageRow) -> Self {
        let named = |name: String| Some(name).filter(|name| !name.is_empty());
        Self {
            start: Moment(row.start.saturating_mul(1000)),
            tenant: named(row.tenant),
            plan: named(row.plan),
            route: named(row.route),
            requests: row.requests,
            refusals: row.refusals,
            tokens: row.tokens,
            errors: row.errors,
        }
    }
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Wanted {
    /// How long a span is; an hour unless told otherwise.
    #[param(inline)]
    granularity: Option<Span>,
    /// Only of this tenant.
    tenant: Option<String>,
    /// Only of this plan.
    plan: Option<String>,
    /// Only on this route.
    route: Option<String>,
    /// Only spans that begin then or later.
    since: Option<Moment>,
    /// Only spans that begin before then.
    until: Option<Moment>,
    /// The most items on the page; 100 unless told otherwise.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
    /// The `next` of the page before.
    after: Option<String>,
}

/// Shows what was used
///
/// The oldest spans come first. What nodes have counted is written every few seconds.
#[utoipa::path(get, path = "/admin/v1/usage", tag = "usage", params(Wanted),
    responses((status = 200, description = "A page of roll-ups", body = Items<View>)))]
pub(super) async fn list_usage(
    _: By<Read>,
    State(shared): State<Shared>,
    Asked(wanted): Asked<Wanted>,
) -> Result<Answer, Failure> {
    let page = page(wanted.limit, wanted.after)?;
    // A span belongs to those that begin in its first second or later.
    let secs = |moment: Moment| moment.0.div_euclid(1000) + i64::from(moment.0 % 1000 != 0);
    let filter = UsageFilter {
        granularity: wanted.granularity.unwrap_or_default().into(),
        tenant: wanted.tenant,
        plan: wanted.plan,
        route: wanted.route,
        since: wanted.since.map(secs),
        until: wanted.until.map(secs),
    };
    let listed = shared.directory.usage(&filter, &page).await?;
    Answer::ok(&Items {
        items: listed.items.into_iter().map(View::from).collect(),
        next: listed.next,
    })
}

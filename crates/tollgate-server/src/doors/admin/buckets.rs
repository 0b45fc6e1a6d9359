//! Buckets: seen, made full, given some back.

use std::collections::BTreeMap;

use axum::extract::{RawQuery, State};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tollgate_engine::{Active, BucketError, BucketStatus};
use tollgate_http::{Problem, rejected};
use tracing::info;
use utoipa::ToSchema;

use super::Shared;
use super::answer::Answer;
use super::failure::Failure;
use super::guard::{By, Caller, Operate, Read};
use super::input::{Body, Text};
use super::selection::{self, FactParams, Given, Selection};
use super::work::Changed;

/// The longest body.
const MAX_BYTES: usize = 64 * 1024;

/// Buckets as they are told.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Buckets {
    /// Each bucket, as every limit sees it that counts there.
    buckets: Vec<Bucket>,
    /// The limits whose buckets were given tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    granted: Option<Vec<String>>,
}

/// One bucket as a limit sees it.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Bucket {
    /// By what it is known.
    key: String,
    /// The limit's name.
    limit: String,
    /// The words of the limit's scope.
    scope: String,
    /// The most at once.
    capacity: u32,
    /// Tokens per window.
    rate: u32,
    /// The window in seconds.
    window_secs: u32,
    /// Whole tokens left; null if nobody can tell.
    remaining: Option<u32>,
    /// Milliseconds until it is full again; null if nobody can tell.
    full_after_ms: Option<u64>,
    /// Who said so.
    source: String,
}

impl From<&BucketStatus<'_>> for Bucket {
    fn from(status: &BucketStatus<'_>) -> Self {
        let BucketStatus {
            key,
            limit,
            level,
            source,
        } = status;
        Self {
            key: key.clone(),
            limit: limit.name.to_string(),
            scope: limit.scope_text.to_string(),
            capacity: limit.limit.capacity(),
            rate: limit.limit.rate(),
            window_secs: limit.limit.window().as_secs(),
            remaining: level.map(|level| level.remaining),
            full_after_ms: level.map(|level| level.full_after_us.div_ceil(1000)),
            source: source.word().to_owned(),
        }
    }
}

/// Tokens to be given back.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Grant {
    /// A caller by its facts: `tenant`, `plan`, `user`, `client`, `api_key`, `ip`, `method` and `path`.
    facts: BTreeMap<String, Option<String>>,
    /// Only to the bucket of this limit, such as `plan:free`; to all of the caller's unless told otherwise.
    limit: Option<String>,
    /// How many tokens, of each bucket at most what is spent.
    #[schema(minimum = 1, maximum = 4294967295u32)]
    tokens: u32,
}

/// Shows buckets
///
/// Those of a caller, by its facts, or those of keys. Either is given.
#[utoipa::path(get, path = "/admin/v1/buckets", tag = "buckets",
    params(FactParams, ("key" = Option<Vec<String>>, Query, description = "A bucket's key; may be given up to 100 times, instead of facts")),
    responses((status = 200, description = "The buckets", body = Buckets)))]
pub(super) async fn show_buckets(
    _: By<Read>,
    State(shared): State<Shared>,
    RawQuery(query): RawQuery,
) -> Result<Answer, Failure> {
    let selection = Selection::from_query(query.as_deref().unwrap_or_default())?;
    let active = shared.engine.active();
    let buckets = inspect(&shared, &active, &selection).await?;
    answer(&buckets, None)
}

/// Makes buckets full
///
/// Answers with the buckets as they are then.
#[utoipa::path(post, path = "/admin/v1/buckets/reset", tag = "buckets", request_body = selection::Body,
    responses((status = 200, description = "The buckets, full", body = Buckets)))]
pub(super) async fn reset_buckets(
    By(caller, ..): By<Operate>,
    State(shared): State<Shared>,
    RawQuery(query): RawQuery,
    Text(text): Text<MAX_BYTES>,
) -> Result<Answer, Failure> {
    no_query(query)?;
    let selection = Selection::from_body(&text)?;
    let active = shared.engine.active();
    let reset = match &selection {
        Selection::Keys(keys) => shared.engine.reset_keys(&active, keys).await,
        Selection::Request(given) => shared.engine.reset(&active, &given.facts()).await,
    };
    reset.map_err(failed)?;
    let seen = inspect(&shared, &active, &selection).await;
    if seen.is_err() {
        info!(actor = caller.actor, from = %caller.address, "buckets reset, and not seen since");
    }
    let buckets = seen?;
    record(&shared, &caller, &buckets, None);
    answer(&buckets, None)
}

/// Gives tokens back
///
/// To the buckets of a caller, up to what is spent of each. Answers with the buckets as they are then.
#[utoipa::path(post, path = "/admin/v1/buckets/grant", tag = "buckets", request_body = Grant,
    responses((status = 200, description = "The buckets, and the limits that were given some", body = Buckets)))]
pub(super) async fn grant_buckets(
    By(caller, ..): By<Operate>,
    State(shared): State<Shared>,
    RawQuery(query): RawQuery,
    body: Body<Grant, MAX_BYTES>,
) -> Result<Answer, Failure> {
    no_query(query)?;
    let Grant {
        facts,
        limit,
        tokens,
    } = body.value;
    if tokens == 0 {
        return Err(Failure::invalid(
            "tokens",
            "nothing is given",
            "write at least 1",
        ));
    }
    let given = Given::from_body(facts)?;
    let active = shared.engine.active();
    let facts = given.facts();
    let granted = shared
        .engine
        .grant(&active, &facts, limit.as_deref(), tokens);
    let granted = granted.await.map_err(failed)?;
    let seen = shared.engine.inspect(&active, &facts).await;
    let mut buckets = seen.map_err(failed)?;
    buckets.retain(|bucket| granted.iter().any(|name| **name == *bucket.limit.name));
    record(&shared, &caller, &buckets, Some(tokens));
    answer(&buckets, Some(granted))
}

fn no_query(query: Option<String>) -> Result<(), Failure> {
    match query {
        Some(_) => Err(Failure::bad_input(
            "There is no query here: the buckets are named in the body.",
        )),
        None => Ok(()),
    }
}

async fn inspect<'p>(
    shared: &Shared,
    active: &'p Active,
    selection: &Selection,
) -> Result<Vec<BucketStatus<'p>>, Failure> {
    let seen = match selection {
        Selection::Keys(keys) => shared.engine.inspect_keys(active, keys).await,
        Selection::Request(given) => shared.engine.inspect(active, &given.facts()).await,
    };
    seen.map_err(failed)
}

/// Tells the log and the audit trail that buckets were made full, or given tokens: one event for each.
fn record(shared: &Shared, caller: &Caller, buckets: &[BucketStatus<'_>], tokens: Option<u32>) {
    let Caller { actor, address, .. } = caller;
    for key in distinct(buckets) {
        let (event, after) = match tokens {
            None => {
                info!(actor, from = %address, key, "bucket reset");
                ("buckets_reset", json!({ "key": key }))
            }
            Some(tokens) => {
                info!(actor, from = %address, key, tokens, "bucket given tokens");
                ("buckets_granted", json!({ "key": key, "tokens": tokens }))
            }
        };
        shared.records.record(shared.event(
            caller,
            Changed {
                event,
                identifier: format!("bucket:{key}"),
                before: None,
                after: Some(after),
            },
        ));
    }
}

/// The keys, each once where a bucket has several rows.
fn distinct<'a>(buckets: &'a [BucketStatus<'_>]) -> impl Iterator<Item = &'a str> {
    let rows = buckets.chunk_by(|one, other| one.key == other.key);
    rows.filter_map(|rows| Some(&*rows.first()?.key))
}

fn answer(buckets: &[BucketStatus<'_>], granted: Option<Vec<String>>) -> Result<Answer, Failure> {
    Answer::ok(&Buckets {
        buckets: buckets.iter().map(Bucket::from).collect(),
        granted,
    })
}

pub(super) fn failed(error: BucketError) -> Failure {
    match error {
        BucketError::Rejected(rejection) => {
            let mut problem = rejected(&rejection);
            if problem.status == StatusCode::UNAUTHORIZED {
                // It would be understood to be about the token.
                problem.status = StatusCode::BAD_REQUEST;
            }
            problem.into()
        }
        BucketError::NoLimit(_) => Problem::new(StatusCode::BAD_REQUEST, error.to_string())
            .with("reason", "unknown_limit")
            .into(),
        BucketError::Unavailable => Problem::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "The store did not answer. What was to be reset may or may not be: do it again.",
        )
        .with("reason", "store_unavailable")
        .into(),
    }
}

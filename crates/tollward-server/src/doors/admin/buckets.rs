//! Buckets: seen, made full, given some back.

use std::collections::{BTreeMap, BTreeSet};

use axum::extract::{RawQuery, State};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tollward_directory::AuditEvent;
use tollward_engine::{Active, BucketError, BucketStatus};
use tollward_http::{Problem, rejected};
use tollward_policy::{KeyText, OwnedKey};
use tracing::info;
use utoipa::ToSchema;

use super::answer::Answer;
use super::failure::Failure;
use super::guard::{By, Caller, Operate, Read};
use super::input::{Body, Text};
use super::selection::{self, FactParams, Given, Selection};
use super::work::Changed;
use super::{Shared, to_the_end};
use crate::records::Severity;

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
    let working = shared.clone();
    let selection = to_the_end(async move {
        reset(&working, &caller, &selection).await?;
        Ok(selection)
    });
    let selection = selection.await?;
    let active = shared.engine.active();
    let buckets = inspect(&shared, &active, &selection).await?;
    answer(&buckets, None)
}

/// Makes buckets full, and tells so before anything else can go wrong.
async fn reset(shared: &Shared, caller: &Caller, selection: &Selection) -> Result<(), Failure> {
    let active = shared.engine.active();
    let reset = match selection {
        Selection::Keys(keys) => shared.engine.reset_keys(&active, keys).await,
        Selection::Request(given) => shared.engine.reset(&active, &given.facts()).await,
    };
    let keys = match selection {
        Selection::Keys(keys) => keys.iter().map(text_of).collect(),
        Selection::Request(given) => keys_of(&active, given, None),
    };
    record(shared, caller, keys, None, &reset);
    reset.map_err(failed)
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
    let working = shared.clone();
    let granted = to_the_end(async move {
        let granted = grant(&working, &caller, &given, limit.as_deref(), tokens).await?;
        Ok((given, granted))
    });
    let (given, granted) = granted.await?;
    let active = shared.engine.active();
    let seen = shared.engine.inspect(&active, &given.facts()).await;
    let mut buckets = seen.map_err(failed)?;
    buckets.retain(|bucket| granted.iter().any(|name| **name == *bucket.limit.name));
    answer(&buckets, Some(granted))
}

/// Gives tokens back, and tells so before anything else can go wrong. The limits whose buckets were given
/// some.
async fn grant(
    shared: &Shared,
    caller: &Caller,
    given: &Given,
    limit: Option<&str>,
    tokens: u32,
) -> Result<Vec<String>, Failure> {
    let active = shared.engine.active();
    let facts = given.facts();
    let granted = shared.engine.grant(&active, &facts, limit, tokens).await;
    let keys = keys_of(&active, given, limit);
    record(shared, caller, keys, Some(tokens), &granted);
    granted.map_err(failed)
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

/// The keys of a caller's buckets, or only of those of one limit. Facts that make no sense have none.
fn keys_of(active: &Active, given: &Given, limit: Option<&str>) -> BTreeSet<String> {
    let Ok(request) = active.policy().request(&given.facts()) else {
        return BTreeSet::new();
    };
    let charges = request.charges();
    let meant = charges
        .iter()
        .filter(|(_, it, _)| limit.is_none_or(|name| *it.name == *name));
    meant
        .map(|(_, _, charge)| KeyText(charge.key).to_string())
        .collect()
}

fn text_of(key: &OwnedKey) -> String {
    KeyText(key.key()).to_string()
}

/// Tells the log and the audit trail that buckets were made full, or given tokens: one event for each. If
/// nobody knows whether they were, it tells that.
fn record<T>(
    shared: &Shared,
    caller: &Caller,
    keys: BTreeSet<String>,
    tokens: Option<u32>,
    done: &Result<T, BucketError>,
) {
    let (outcome, severity) = match done {
        Ok(_) => ("done", Severity::Info),
        Err(BucketError::Unavailable) => ("unknown", Severity::Warning),
        Err(BucketError::Rejected(_) | BucketError::NoLimit(_)) => return,
    };
    let Caller { actor, address, .. } = caller;
    for key in keys {
        let mut after = json!({ "key": key, "outcome": outcome });
        let event = match tokens {
            None => {
                info!(actor, from = %address, key, outcome, "bucket reset");
                "buckets_reset"
            }
            Some(tokens) => {
                info!(actor, from = %address, key, tokens, outcome, "bucket given tokens");
                after["tokens"] = tokens.into();
                "buckets_granted"
            }
        };
        let changed = Changed {
            event,
            identifier: format!("bucket:{key}"),
            before: None,
            after: Some(after),
        };
        shared.records.record(AuditEvent {
            severity: severity.word().to_owned(),
            ..shared.event(caller, changed)
        });
    }
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
            "The store did not answer. What was to be changed may or may not be: look before you do it again.",
        )
        .with("reason", "store_unavailable")
        .into(),
    }
}

//! Buckets, seen and reset.

use std::net::SocketAddr;

use http::header::{CACHE_CONTROL, HeaderValue};
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use serde::Serialize;
use tollgate_engine::{Active, BucketError, BucketStatus};
use tollgate_http::{Problem, rejected};
use tracing::info;

use super::Admin;
use super::selection::Selection;
use crate::doors::{body, reply};

/// The longest body of a reset.
const MAX_BYTES: usize = 64 * 1024;

/// Buckets as they are told.
#[derive(Serialize)]
struct Answer<'a> {
    buckets: Vec<Bucket<'a>>,
}

#[derive(Serialize)]
struct Bucket<'a> {
    key: &'a str,
    limit: &'a str,
    scope: &'a str,
    capacity: u32,
    rate: u32,
    window_secs: u32,
    /// Null if nobody can tell.
    remaining: Option<u32>,
    full_after_ms: Option<u64>,
    source: &'static str,
}

impl<'a> Bucket<'a> {
    fn new(status: &'a BucketStatus<'_>) -> Self {
        let BucketStatus {
            key,
            limit,
            level,
            source,
        } = status;
        Self {
            key,
            limit: &limit.name,
            scope: &limit.scope_text,
            capacity: limit.limit.capacity(),
            rate: limit.limit.rate(),
            window_secs: limit.limit.window().as_secs(),
            remaining: level.map(|level| level.remaining),
            full_after_ms: level.map(|level| level.full_after_us.div_ceil(1000)),
            source: source.word(),
        }
    }
}

impl Admin {
    pub(super) async fn show_buckets(
        &self,
        request: &Request<Incoming>,
    ) -> Result<Response<Full<Bytes>>, Problem> {
        let selection = Selection::from_query(request.uri().query().unwrap_or_default())?;
        let active = self.engine.active();
        let buckets = self.inspect(&active, &selection).await?;
        Ok(answer(&buckets))
    }

    /// Answers with the buckets as they are then.
    pub(super) async fn reset_buckets(
        &self,
        peer: SocketAddr,
        request: Request<Incoming>,
    ) -> Result<Response<Full<Bytes>>, Problem> {
        if request.uri().query().is_some() {
            let detail = "There is no query here: the buckets are named in the body.";
            return Err(Problem::new(StatusCode::BAD_REQUEST, detail).with("reason", "bad_input"));
        }
        let text = body::read(request.into_body(), MAX_BYTES, self.body_timeout).await?;
        let selection = Selection::from_body(&text)?;
        let active = self.engine.active();
        let reset = match &selection {
            Selection::Keys(keys) => self.engine.reset_keys(&active, keys).await,
            Selection::Request(given) => self.engine.reset(&active, &given.facts()).await,
        };
        reset.map_err(failed)?;
        let seen = self.inspect(&active, &selection).await;
        if seen.is_err() {
            info!(%peer, "buckets reset, and not seen since");
        }
        let buckets = seen?;
        for key in distinct(&buckets) {
            info!(%peer, key, "bucket reset");
        }
        Ok(answer(&buckets))
    }

    async fn inspect<'p>(
        &self,
        active: &'p Active,
        selection: &Selection,
    ) -> Result<Vec<BucketStatus<'p>>, Problem> {
        let seen = match selection {
            Selection::Keys(keys) => self.engine.inspect_keys(active, keys).await,
            Selection::Request(given) => self.engine.inspect(active, &given.facts()).await,
        };
        seen.map_err(failed)
    }
}

/// The keys, each once where a bucket has several rows.
fn distinct<'a>(buckets: &'a [BucketStatus<'_>]) -> impl Iterator<Item = &'a str> {
    let rows = buckets.chunk_by(|one, other| one.key == other.key);
    rows.filter_map(|rows| Some(&*rows.first()?.key))
}

fn answer(buckets: &[BucketStatus<'_>]) -> Response<Full<Bytes>> {
    let answer = Answer {
        buckets: buckets.iter().map(Bucket::new).collect(),
    };
    let mut response = reply::json(StatusCode::OK, "application/json", &answer);
    let no_store = HeaderValue::from_static("no-store");
    response.headers_mut().insert(CACHE_CONTROL, no_store);
    response
}

fn failed(error: BucketError) -> Problem {
    match error {
        BucketError::Rejected(rejection) => {
            let mut problem = rejected(&rejection);
            // A 401 would be understood to be about the token.
            problem.status = StatusCode::BAD_REQUEST;
            problem
        }
        BucketError::NoLimit(_) => {
            Problem::new(StatusCode::BAD_REQUEST, error.to_string()).with("reason", "unknown_limit")
        }
        BucketError::Unavailable => Problem::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "The store did not answer. What was to be reset may or may not be: do it again.",
        )
        .with("reason", "store_unavailable"),
    }
}

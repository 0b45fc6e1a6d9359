//! What would become of a request, and why.

use axum::extract::{RawQuery, State};
use tollward_engine::BucketError;

use super::Shared;
use super::answer::Answer;
use super::buckets::failed;
use super::failure::Failure;
use super::guard::{By, Read};
use super::selection::{FactParams, Given};

/// Explains what a request would be charged
///
/// The route, the plan and where it comes from, and each charge with where its numbers come from. Nothing is
/// charged. It is answered from memory.
#[utoipa::path(get, path = "/admin/v1/explain", tag = "explain", params(FactParams),
    responses((status = 200, description = "The explanation, as `tollward explain --json` prints it", body = Object)))]
pub(super) async fn explain(
    _: By<Read>,
    State(shared): State<Shared>,
    RawQuery(query): RawQuery,
) -> Result<Answer, Failure> {
    let given = Given::from_query(query.as_deref().unwrap_or_default())?;
    let active = shared.engine.active();
    let facts = given.facts();
    let request = active.policy().request(&facts);
    let request = request.map_err(|rejection| failed(BucketError::Rejected(rejection)))?;
    Answer::ok(&request.explain())
}

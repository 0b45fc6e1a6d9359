//! Tenants removed.

use axum::extract::State;
use serde::Deserialize;
use tollgate_policy::ROOT;
use utoipa::IntoParams;

use super::change::must_be_ours;
use super::missing;
use super::view::{View, told};
use crate::doors::admin::Shared;
use crate::doors::admin::answer::Answer;
use crate::doors::admin::failure::Failure;
use crate::doors::admin::guard::{Administer, By};
use crate::doors::admin::input::{Asked, Id};
use crate::doors::admin::precondition::IfMatch;
use crate::doors::admin::work::{Changed, Work};

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(in crate::doors::admin) struct How {
    /// Also all tenants below it.
    cascade: Option<bool>,
}

/// The most tenants that go at once.
const MAX_AT_ONCE: usize = 1000;

/// Deletes a tenant
///
/// Its users, keys, boosts and entries of the allow-list go too. One with tenants below it is deleted only
/// with `cascade=true`, and these with it.
#[utoipa::path(delete, path = "/admin/v1/tenants/{id}", tag = "tenants",
    params(("id" = String, Path, description = "The tenant's name"), How),
    responses(
        (status = 200, description = "The tenant as it was", body = View),
        (status = 404, description = "There is none"),
        (status = 409, description = "There are tenants below it; or it is written in the configuration file; or it is the root"),
    ))]
pub(in crate::doors::admin) async fn delete_tenant(
    By(caller, ..): By<Administer>,
    State(shared): State<Shared>,
    Id(id): Id,
    expected: IfMatch,
    Asked(how): Asked<How>,
) -> Result<Answer, Failure> {
    must_be_ours(&shared, &id)?;
    if id == ROOT {
        let detail = format!(
            "`{ROOT}` is the root and always there. Change its `rate_limit` to null instead."
        );
        return Err(Failure::conflict("root", detail));
    }
    let mut work = Work::begin(&shared, caller).await?;
    let tenant = work.edit.tenant(&id).await?.ok_or_else(|| missing(&id))?;
    expected.check(tenant.version)?;
    let children = work.edit.children(&id).await?;
    let doomed = match (children, how.cascade) {
        (0, _) => vec![id.clone()],
        (_, Some(true)) => work.edit.subtree(&id).await?,
        (children, _) => {
            let detail = format!(
                "The tenant {id:?} has {children} tenants below it. Delete or move them first, or delete all \
                 with `?cascade=true`."
            );
            return Err(Failure::conflict("has_children", detail).with("children", children));
        }
    };
    if doomed.len() > MAX_AT_ONCE {
        let detail = format!(
            "{} tenants would go, more than {MAX_AT_ONCE} at once. Delete some of those below it first.",
            doomed.len()
        );
        return Err(Failure::conflict("too_many", detail));
    }
    // Those below first.
    for id in doomed.iter().rev() {
        // The file's own stay, and are none of the directory's.
        let Some(tenant) = work.edit.tenant(id).await? else {
            continue;
        };
        work.edit.delete_tenant(id).await?;
        work.record(Changed {
            event: "tenant_deleted",
            identifier: format!("tenant:{id}"),
            before: Some(told(&tenant)),
            after: None,
        })
        .await?;
    }
    let mut answer = Answer::ok(&View::new(tenant))?;
    answer.version = None;
    work.commit(answer).await
}

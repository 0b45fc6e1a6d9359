//! Tenants removed.

use std::collections::HashSet;

use axum::extract::State;
use serde::Deserialize;
use tollward_directory::Edit;
use tollward_policy::{Policy, ROOT};
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
use crate::doors::admin::suspend::with_suspension;
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
/// with `cascade=true`, and these with it. What the configuration file has of them stays.
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
    let active = shared.engine.active();
    let doomed = at_and_below(&id, &mut work.edit, active.policy()).await?;
    drop(active);
    let below = doomed.len().saturating_sub(1);
    if below > 0 && how.cascade != Some(true) {
        let detail = format!(
            "The tenant {id:?} has {below} tenants below it. Delete or move them first, or delete all with \
             `?cascade=true`."
        );
        return Err(Failure::conflict("has_children", detail).with("below", below));
    }
    if doomed.len() > MAX_AT_ONCE {
        let detail = format!(
            "{} tenants would go, more than {MAX_AT_ONCE} at once. Delete some of those below it first.",
            doomed.len()
        );
        return Err(Failure::conflict("too_many", detail));
    }
    let gone = work.edit.tenants(&doomed).await?;
    work.edit.delete_tenants(&doomed).await?;
    for tenant in &gone {
        work.record(Changed {
            event: "tenant_deleted",
            identifier: format!("tenant:{}", tenant.id),
            before: Some(with_suspension(told(tenant), tenant.suspended_at)),
            after: None,
        });
    }
    let mut answer = Answer::ok(&View::new(tenant))?;
    answer.version = None;
    work.commit(answer).await
}

/// A tenant and those below it, without what is the file's: where the file has a tenant of the same name, that
/// one counts, and whoever is below it stays, as do its keys and users.
async fn at_and_below(id: &str, edit: &mut Edit, policy: &Policy) -> Result<Vec<String>, Failure> {
    let mut found = edit.subtree(id).await?;
    // Each is behind the one it is below, so those that are left have none of the file above them.
    while let Some(written) = found.iter().find(|id| policy.file_tenant(id).is_some()) {
        let kept: HashSet<String> = edit.subtree(written).await?.into_iter().collect();
        found.retain(|id| !kept.contains(id));
    }
    Ok(found)
}

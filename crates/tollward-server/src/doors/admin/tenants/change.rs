//! Tenants made, changed and moved.

use axum::extract::State;
use serde::Deserialize;
use serde_json::{Map, Value};
use tollward_directory::{Edit, Tenant};
use tollward_policy::{Allocation, Policy, ROOT, TenantLimit};
use utoipa::ToSchema;

use super::budget::{Warning, asks_for_more, given, gives_less, judge};
use super::limit::RateLimit;
use super::missing;
use super::tree::Place;
use super::view::{View, budget, effective, told};
use crate::doors::admin::Shared;
use crate::doors::admin::answer::Answer;
use crate::doors::admin::failure::Failure;
use crate::doors::admin::guard::{Administer, By};
use crate::doors::admin::input::{Body, Id, read_value};
use crate::doors::admin::names;
use crate::doors::admin::once::OnceKey;
use crate::doors::admin::patch::patched;
use crate::doors::admin::precondition::IfMatch;
use crate::doors::admin::work::{Begun, Changed, Work};

/// A tenant as it is to be.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::doors::admin) struct NewTenant {
    /// Its name, for ever: 1 to 128 bytes of printable characters.
    #[schema(min_length = 1, max_length = 128, example = "acme")]
    id: String,
    /// The tenant above it; `system`, the root, unless told otherwise.
    #[schema(min_length = 1, max_length = 128, example = "system")]
    parent: Option<String>,
    /// Its plan.
    plan: Option<String>,
    /// Its limit, as `rate_limit` of the configuration file.
    rate_limit: Option<RateLimit>,
    /// Whatever else is known of it: at most 16 KiB.
    #[serde(default)]
    attributes: Map<String, Value>,
}

/// Changes of a tenant, as a merge patch: what is left out stays, null removes, objects are merged.
#[derive(Debug, ToSchema)]
#[schema(as = TenantPatch)]
#[expect(dead_code, reason = "describes what is read field by field")]
pub(in crate::doors::admin) struct Patch {
    /// The tenant to move it below.
    parent: Option<String>,
    /// Its plan.
    plan: Option<String>,
    /// Its limit, or what is to change of it.
    #[schema(value_type = Option<Object>)]
    rate_limit: Option<Value>,
    /// Attributes to change; null removes one.
    attributes: Option<Map<String, Value>>,
}

const PATCHED: [&str; 4] = ["parent", "plan", "rate_limit", "attributes"];

/// A tenant that may be stored.
struct Checked {
    row: Tenant,
    warnings: Vec<Warning>,
}

impl NewTenant {
    /// Checks it against all that there is.
    async fn checked(
        self,
        before: Option<&Tenant>,
        edit: &mut Edit,
        policy: &Policy,
    ) -> Result<Checked, Failure> {
        names::tenant("id", &self.id)?;
        names::plan(self.plan.as_deref(), policy)?;
        let limit = self.rate_limit.as_ref().map(RateLimit::checked);
        let limit = limit.transpose()?;
        let is_root = self.id == ROOT;
        if is_root && self.parent.is_some() {
            let message = format!("`{ROOT}` is the root and has no parent");
            return Err(Failure::invalid("parent", message, "leave it out"));
        }
        let place = Place {
            id: &self.id,
            parent: self.parent.as_deref().unwrap_or(ROOT),
            before,
            limit: limit.as_ref(),
        };
        place.check(edit, policy).await?;
        let mut warnings = Vec::new();
        if !is_root {
            warnings.extend(place.fits(edit, policy).await?);
        }
        warnings.extend(place.children_fit(edit, policy).await?);
        let allotted = limit.as_ref().map(|limit| limit.limit());
        Ok(Checked {
            row: Tenant {
                parent: self.parent.filter(|parent| parent != ROOT),
                plan: self.plan,
                rate: allotted.map(|limit| limit.rate()),
                window_secs: allotted.map(|limit| limit.window().as_secs()),
                rate_limit: self.rate_limit.map(|limit| limit.0.to_string()),
                attributes: names::attributes(&self.attributes)?,
                id: self.id,
                ..before.cloned().unwrap_or_default()
            },
            warnings,
        })
    }
}

impl Place<'_> {
    /// Whether the parent's budget allows it. A child that asks for no more than it had is never refused,
    /// whatever became of the budget meanwhile.
    async fn fits(&self, edit: &mut Edit, policy: &Policy) -> Result<Option<Warning>, Failure> {
        let Some(parent_limit) = limit_of(self.parent, edit, policy).await? else {
            return Ok(None);
        };
        let others = given(self.parent, Some(self.id), edit, policy).await?;
        let asked = self.limit.map(TenantLimit::allotted);
        let Some(allocation) = Allocation::new(&parent_limit, others, asked) else {
            return Ok(None);
        };
        let same_parent = self
            .before
            .filter(|before| before.parent.as_deref().unwrap_or(ROOT) == self.parent);
        let had =
            same_parent.and_then(|before| Some((u64::from(before.rate?), before.window_secs?)));
        match judge(self.parent, &allocation) {
            Err(_) if !asks_for_more(had, asked) => Ok(None),
            judged => judged,
        }
    }

    /// Whether the children of a tenant fit the budget that it is to have. One that gives no less than it
    /// gave is never refused, whatever became of the children meanwhile.
    async fn children_fit(
        &self,
        edit: &mut Edit,
        policy: &Policy,
    ) -> Result<Option<Warning>, Failure> {
        let Some(limit) = self.limit else {
            return Ok(None);
        };
        let rates = given(self.id, None, edit, policy).await?;
        let Some(allocation) = Allocation::new(limit, rates, None) else {
            return Ok(None);
        };
        match judge(self.id, &allocation) {
            Err(_) if !gives_less(self.limit_before().as_ref(), limit) => Ok(None),
            judged => judged,
        }
    }
}

/// The limit of a tenant, of the file or of the directory.
async fn limit_of(
    id: &str,
    edit: &mut Edit,
    policy: &Policy,
) -> Result<Option<TenantLimit>, Failure> {
    if let Some(entry) = policy.file_tenant(id) {
        return Ok(entry.limit.as_deref().cloned());
    }
    let text = edit.tenant(id).await?.and_then(|tenant| tenant.rate_limit);
    // What was stored has been checked; what no longer makes sense limits nobody.
    Ok(text.and_then(|text| TenantLimit::stored(&text).ok()))
}

/// Makes a tenant
///
/// If its parent's budget is `allocated`, what all children have together has to fit: beyond the budget, but
/// within its ratio, the answer has `warnings`; beyond that it is refused with the arithmetic.
#[utoipa::path(post, path = "/admin/v1/tenants", tag = "tenants", request_body = NewTenant,
    responses(
        (status = 201, description = "The tenant", body = View),
        (status = 409, description = "There is one already, in the file or in the directory; or the budget does not allow it"),
    ))]
pub(in crate::doors::admin) async fn create_tenant(
    By(caller, ..): By<Administer>,
    State(shared): State<Shared>,
    once: OnceKey,
    body: Body<NewTenant>,
) -> Result<Answer, Failure> {
    let once = once.of(&body);
    let mut work = match Work::begin_once(&shared, caller, once).await? {
        Begun::New(work) => work,
        Begun::Again(answer) => return Ok(computed(&shared, answer).await),
    };
    let id = body.value.id.clone();
    must_be_ours(&shared, &id)?;
    if work.edit.tenant(&id).await?.is_some() {
        let detail = format!("There is a tenant {id:?} already.");
        return Err(Failure::conflict("exists", detail));
    }
    let active = shared.engine.active();
    let checked = body.value.checked(None, &mut work.edit, active.policy());
    let checked = checked.await?;
    drop(active);
    let after = work.edit.put_tenant(checked.row).await?;
    work.record(Changed {
        event: "tenant_created",
        identifier: format!("tenant:{id}"),
        before: None,
        after: Some(told(&after)),
    });
    let view = View::new(after).warned(checked.warnings);
    let answer = Answer::created(&view)?;
    let answer = work.commit(answer).await?;
    Ok(computed(&shared, answer).await)
}

/// Changes or moves a tenant
///
/// A tenant that is moved keeps what it has spent of its own limit; its new ancestors are charged from then on.
#[utoipa::path(patch, path = "/admin/v1/tenants/{id}", tag = "tenants", request_body = Patch,
    params(("id" = String, Path, description = "The tenant's name")),
    responses(
        (status = 200, description = "The tenant as it is now", body = View),
        (status = 404, description = "There is none"),
        (status = 409, description = "It is written in the configuration file; or a budget does not allow it"),
    ))]
pub(in crate::doors::admin) async fn change_tenant(
    By(caller, ..): By<Administer>,
    State(shared): State<Shared>,
    Id(id): Id,
    expected: IfMatch,
    body: Body<Map<String, Value>>,
) -> Result<Answer, Failure> {
    must_be_ours(&shared, &id)?;
    let mut work = Work::begin(&shared, caller).await?;
    let before = match work.edit.tenant(&id).await? {
        None if id == ROOT => Tenant {
            id: ROOT.to_owned(),
            ..Tenant::default()
        },
        found => found.ok_or_else(|| missing(&id))?,
    };
    expected.check(before.version)?;
    let tenant: NewTenant = read_value(patched(document(&before), body.value, &PATCHED)?)?;
    let active = shared.engine.active();
    let checked = tenant.checked(Some(&before), &mut work.edit, active.policy());
    let checked = checked.await?;
    drop(active);
    let after = work.edit.put_tenant(checked.row).await?;
    let event = match before.parent == after.parent {
        true => "tenant_changed",
        false => "tenant_moved",
    };
    work.record(Changed {
        event,
        identifier: format!("tenant:{id}"),
        before: Some(told(&before)),
        after: Some(told(&after)),
    });
    let view = View::new(after).warned(checked.warnings);
    let answer = Answer::ok(&view)?;
    let answer = work.commit(answer).await?;
    Ok(computed(&shared, answer).await)
}

/// What of a tenant is patched.
fn document(tenant: &Tenant) -> Map<String, Value> {
    let mut fields = match told(tenant) {
        Value::Object(fields) => fields,
        _ => Map::new(),
    };
    fields.retain(|_, value| !value.is_null());
    fields.insert("id".to_owned(), tenant.id.clone().into());
    fields
}

/// Refuses to change what the file has.
pub(in crate::doors::admin) fn must_be_ours(shared: &Shared, id: &str) -> Result<(), Failure> {
    if shared.engine.active().policy().file_tenant(id).is_none() {
        return Ok(());
    }
    let place = format!("tenants.{id}");
    Err(Failure::read_only(
        "tenant",
        id,
        &shared.config.source(),
        &place,
    ))
}

/// The answer with what limits the tenant now, and what of its budget is given: known only when this node
/// holds the change.
pub(in crate::doors::admin) async fn computed(shared: &Shared, mut answer: Answer) -> Answer {
    let id = answer.body["id"].as_str().unwrap_or_default().to_owned();
    let effective = effective(shared.engine.active().policy(), &id);
    answer.body["effective"] = serde_json::to_value(effective).unwrap_or_default();
    let limit = RateLimit(answer.body["rate_limit"].clone()).checked().ok();
    // What was changed is changed, whether or not this can be told.
    let budget = budget(shared, &id, limit.as_ref()).await.ok().flatten();
    answer.body["budget"] = serde_json::to_value(budget).unwrap_or_default();
    answer
}

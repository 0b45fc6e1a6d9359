//! Tenants as they are shown.

use serde::Serialize;
use serde_json::{Map, Value, json};
use tollward_directory::Tenant;
use tollward_policy::{Allocation, Policy, PolicyLimit, ROOT, TenantEntry, TenantLimit};
use utoipa::ToSchema;

use super::budget::{BudgetView, Warning, with_file};
use super::limit::RateLimit;
use crate::doors::admin::Shared;
use crate::doors::admin::failure::Failure;
use crate::doors::admin::moment::Moment;
use crate::doors::admin::names;
use crate::doors::admin::source::Origin;

/// A tenant.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Tenant)]
pub(in crate::doors::admin) struct View {
    /// Its name.
    id: String,
    /// The tenant above it; null for the root.
    parent: Option<String>,
    /// Its plan.
    plan: Option<String>,
    /// When it was suspended; null if it is not.
    suspended_at: Option<Moment>,
    /// Why it was suspended.
    suspended_reason: Option<String>,
    /// Its limit.
    rate_limit: Option<RateLimit>,
    /// What that and the limits above it make of it; null if nothing limits it.
    effective: Option<Effective>,
    /// What of its budget is given to children; null unless the budget is `allocated`.
    budget: Option<BudgetView>,
    /// Whatever else is known of it.
    attributes: Map<String, Value>,
    /// Where it is written.
    source: Origin,
    /// When it was made; null unless it is of the directory.
    created_at: Option<Moment>,
    /// When it was last changed; null unless it is of the directory.
    updated_at: Option<Moment>,
    /// The version, for `If-Match`; null for one of the file.
    version: Option<i64>,
    /// What is worth a thought about what was just done.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    warnings: Vec<Warning>,
}

/// What limits a tenant.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::doors::admin) struct Effective {
    /// Tokens per window.
    rate: u32,
    /// The window in seconds.
    window_secs: u32,
    /// The most at once.
    burst: u32,
    /// Every bucket that its requests are charged to: its own, then upwards.
    levels: Vec<Level>,
}

/// A bucket that a tenant is charged to.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = EffectiveLevel)]
pub(in crate::doors::admin) struct Level {
    /// Whose it is.
    tenant: String,
    /// Tokens per window.
    rate: u32,
    /// The window in seconds.
    window_secs: u32,
    /// The most at once.
    burst: u32,
}

impl Level {
    fn new(limit: &PolicyLimit) -> Self {
        let name = &*limit.name;
        Self {
            tenant: name.strip_prefix("tenant:").unwrap_or(name).to_owned(),
            rate: limit.limit.rate(),
            window_secs: limit.limit.window().as_secs(),
            burst: limit.limit.capacity(),
        }
    }
}

/// What limits a tenant on this node now.
pub(super) fn effective(policy: &Policy, id: &str) -> Option<Effective> {
    let levels: Vec<Level> = policy.tenant(id)?.levels().map(Level::new).collect();
    let first = levels.first()?;
    Some(Effective {
        rate: first.rate,
        window_secs: first.window_secs,
        burst: first.burst,
        levels,
    })
}

impl View {
    /// One of the directory; none if the file has one too, which is then the one that counts.
    pub(super) async fn stored(shared: &Shared, tenant: Tenant) -> Result<Option<Self>, Failure> {
        if shared
            .engine
            .active()
            .policy()
            .file_tenant(&tenant.id)
            .is_some()
        {
            return Ok(None);
        }
        let mut view = Self::new(tenant);
        let limit = view.rate_limit.as_ref();
        let limit = limit.and_then(|limit| limit.checked().ok());
        view.budget = budget(shared, &view.id, limit.as_ref()).await?;
        view.effective = effective(shared.engine.active().policy(), &view.id);
        Ok(Some(view))
    }

    /// One of the directory, without what has to be computed.
    pub(in crate::doors::admin) fn new(tenant: Tenant) -> Self {
        let limit = tenant.rate_limit.as_deref();
        let limit = limit.and_then(|text| serde_json::from_str(text).ok());
        Self {
            parent: above(&tenant.id, tenant.parent.as_deref()),
            plan: tenant.plan,
            suspended_at: tenant.suspended_at.map(Moment),
            suspended_reason: tenant.suspended_reason,
            rate_limit: limit.map(RateLimit),
            effective: None,
            budget: None,
            attributes: names::stored_attributes(&tenant.attributes),
            source: Origin::Directory,
            created_at: Some(Moment(tenant.created_at)),
            updated_at: Some(Moment(tenant.updated_at)),
            version: Some(tenant.version),
            warnings: Vec::new(),
            id: tenant.id,
        }
    }

    /// The same, with what is worth a thought.
    pub(super) fn warned(self, warnings: Vec<Warning>) -> Self {
        Self { warnings, ..self }
    }

    /// One of the file, if it has it.
    pub(super) async fn written(shared: &Shared, id: &str) -> Result<Option<Self>, Failure> {
        let (mut view, limit) = {
            let active = shared.engine.active();
            let Some(entry) = active.policy().file_tenant(id) else {
                return Ok(None);
            };
            (
                Self::of_entry(id, entry, active.policy()),
                entry.limit.clone(),
            )
        };
        view.budget = budget(shared, id, limit.as_deref()).await?;
        Ok(Some(view))
    }

    fn of_entry(id: &str, entry: &TenantEntry, policy: &Policy) -> Self {
        Self {
            id: id.to_owned(),
            parent: above(id, entry.parent.as_deref()),
            plan: entry.plan.as_deref().map(str::to_owned),
            suspended_at: None,
            suspended_reason: None,
            rate_limit: entry.limit.as_deref().map(RateLimit::of),
            effective: effective(policy, id),
            budget: None,
            attributes: Map::new(),
            source: Origin::File,
            created_at: None,
            updated_at: None,
            version: None,
            warnings: Vec::new(),
        }
    }

    /// The root of which nothing is written.
    pub(super) async fn root(shared: &Shared) -> Result<Self, Failure> {
        let active = shared.engine.active();
        let entry = TenantEntry::default();
        Ok(Self {
            source: Origin::BuiltIn,
            version: Some(0),
            ..Self::of_entry(ROOT, &entry, active.policy())
        })
    }
}

fn above(id: &str, parent: Option<&str>) -> Option<String> {
    (id != ROOT).then(|| parent.unwrap_or(ROOT).to_owned())
}

/// What of a tenant's budget is given.
pub(super) async fn budget(
    shared: &Shared,
    id: &str,
    limit: Option<&TenantLimit>,
) -> Result<Option<BudgetView>, Failure> {
    // Most have none, and nothing has to be asked for them.
    let Some(limit) = limit.filter(|limit| Allocation::new(limit, [], None).is_some()) else {
        return Ok(None);
    };
    let stored = shared.directory.allocated(id, None).await?;
    let active = shared.engine.active();
    let rates = with_file(stored, id, None, active.policy());
    let allocation = Allocation::new(limit, rates, None);
    Ok(allocation.as_ref().map(BudgetView::from))
}

/// What the audit trail tells of a tenant.
pub(super) fn told(tenant: &Tenant) -> Value {
    let limit = tenant.rate_limit.as_deref();
    let limit: Option<Value> = limit.and_then(|text| serde_json::from_str(text).ok());
    json!({
        "parent": above(&tenant.id, tenant.parent.as_deref()),
        "plan": tenant.plan,
        "rate_limit": limit,
        "attributes": names::stored_attributes(&tenant.attributes),
    })
}

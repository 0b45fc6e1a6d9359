use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::Compiler;
use crate::budget::{Allocation, Fit};
use crate::config::{self, AllowEntry, File};
use crate::people::{Allowed, AllowedCaller, ApiKey, TenantEntry};
use crate::policy::{ByHash, Names, Plan, ROOT};

impl Compiler {
    pub(super) fn tenants(&mut self, file: &File, plans: &Names<Plan>) -> Names<TenantEntry> {
        let written: HashMap<&str, &config::Tenant> = file
            .tenants
            .iter()
            .map(|(name, tenant)| (name.value.as_str(), tenant))
            .collect();
        let circular = circular(&written);
        for (name, tenant) in &file.tenants {
            if let Some(plan) = &tenant.plan {
                self.check_plan(plan, plans, file);
            }
            let Some(parent) = &tenant.parent else {
                continue;
            };
            if name.value == ROOT {
                let message = format!("`{ROOT}` is the root and has no parent");
                self.fault(&parent.place, message, "remove it");
            } else if parent.value != ROOT
                && !written.contains_key(parent.value.as_str())
                && !self.may_be_broken("tenants", &parent.value)
            {
                let names = file.tenants.iter().map(|(name, _)| name.value.as_str());
                let hint = self.hint_of_name(&parent.value, names, "tenants");
                let message = format!("there is no tenant `{}`", parent.value);
                self.fault(&parent.place, message, hint);
            } else if circular.contains(name.value.as_str()) {
                let message = format!("`{}` would be its own ancestor", name.value);
                self.fault(&parent.place, message, "break the circle");
            }
        }
        let text = |value: &Option<config::Spanned<String>>| {
            value.as_ref().map(|value| value.value.as_str().into())
        };
        let mut tenants = Names::default();
        for (name, tenant) in &file.tenants {
            let limit = tenant.rate_limit.as_ref();
            let entry = TenantEntry {
                parent: text(&tenant.parent),
                plan: text(&tenant.plan),
                limit: limit.and_then(|limit| self.tenant_limit(limit, file).map(Arc::new)),
            };
            tenants.insert(name.value.as_str().into(), entry);
        }
        self.check_budgets(file, &tenants);
        self.check_depth(file, &tenants, &circular);
        tenants
    }

    /// The children of a tenant may not have more than its budget.
    fn check_budgets(&mut self, file: &File, tenants: &Names<TenantEntry>) {
        let mut given: HashMap<&str, Vec<(u64, u32)>> = HashMap::new();
        for (_, tenant) in tenants.iter().filter(|(id, _)| ***id != *ROOT) {
            if let Some(limit) = &tenant.limit {
                let parent = tenant.parent.as_deref().unwrap_or(ROOT);
                given.entry(parent).or_default().push(limit.allotted());
            }
        }
        for (name, written) in &file.tenants {
            let limit = tenants.get(name.value.as_str());
            let limit = limit.and_then(|tenant| tenant.limit.as_deref());
            let children = given.remove(name.value.as_str()).unwrap_or_default();
            let allocation = limit.and_then(|limit| Allocation::new(limit, children, None));
            let exceeds = |it: &Allocation| it.fit() == Fit::Exceeds;
            if let (Some(allocation), Some(budget)) = (
                allocation.filter(exceeds),
                written
                    .rate_limit
                    .as_ref()
                    .and_then(|it| it.budget.as_ref()),
            ) {
                self.fault(
                    &budget.place,
                    format!(
                        "the children of `{}` are given more than its budget: their sum is {}, the budget {} \
                         times {} per {} s",
                        name.value,
                        allocation.sum(),
                        allocation.total(),
                        allocation.ratio(),
                        allocation.window_secs(),
                    ),
                    "raise `total` or `overcommit_ratio`, or lower the children's rates",
                );
            }
        }
    }

    /// A request pays at every level that binds it, so there is a most of them.
    fn check_depth(&mut self, file: &File, tenants: &Names<TenantEntry>, circular: &HashSet<&str>) {
        let binds = |tenant: &TenantEntry| {
            let limit = tenant.limit.as_deref();
            limit.is_some_and(|limit| limit.sharing() != config::Sharing::Private)
        };
        // How many are at and above each, of which it is known.
        let mut depths: HashMap<&str, usize> = HashMap::new();
        for (name, written) in &file.tenants {
            let (mut id, mut trail) = (name.value.as_str(), Vec::new());
            let mut depth = loop {
                if let Some(depth) = depths.get(id) {
                    break *depth;
                }
                let Some(tenant) = tenants.get(id).filter(|_| !circular.contains(id)) else {
                    break 0;
                };
                trail.push((id, tenant));
                if id == ROOT {
                    break 0;
                }
                id = tenant.parent.as_deref().unwrap_or(ROOT);
            };
            for (id, tenant) in trail.into_iter().rev() {
                depth += usize::from(binds(tenant));
                depths.insert(id, depth);
            }
            if depth > MAX_LEVELS {
                let message = format!(
                    "more than {MAX_LEVELS} limits bind `{}` and those below it",
                    name.value
                );
                let hint = "let fewer of its ancestors say `sharing: inherit` or `enforce`";
                self.fault(&written.place, message, hint);
            }
        }
    }

    pub(super) fn keys(&mut self, file: &File, plans: &Names<Plan>) -> ByHash<ApiKey> {
        let mut keys = ByHash::default();
        for key in &file.keys {
            if let Some(plan) = &key.plan {
                self.check_plan(plan, plans, file);
            }
            if key.tenant.is_none() && key.user.is_none() && key.client.is_none() {
                self.fault(
                    &key.place,
                    "a key that belongs to nobody",
                    "give it a `tenant`, a `user` or a `client`",
                );
            }
            let text = |value: &Option<config::Spanned<String>>| {
                value.as_ref().map(|value| value.value.as_str().into())
            };
            let entry = ApiKey {
                tenant: text(&key.tenant),
                user: text(&key.user),
                client: text(&key.client),
                plan: text(&key.plan),
                expires_at: key.expires_at.as_ref().map(|end| end.value),
            };
            if keys.insert(key.sha256.value, entry).is_some() {
                self.fault(&key.sha256.place, "this key is listed twice", "remove one");
            }
        }
        keys
    }

    pub(super) fn allow(&mut self, file: &File) -> Vec<AllowedCaller> {
        let allowed = file.allow.iter().filter_map(|entry| {
            let who = match entry {
                AllowEntry {
                    cidr: Some(net), ..
                } => Allowed::Net(net.value),
                AllowEntry {
                    api_key: Some(key), ..
                } => Allowed::Key(key.sha256.value),
                AllowEntry {
                    user: Some(user), ..
                } => Allowed::User(user.value.as_str().into()),
                AllowEntry {
                    tenant: Some(tenant),
                    ..
                } => Allowed::Tenant(tenant.value.as_str().into()),
                // The decoder has refused an entry that names nobody.
                _ => return None,
            };
            let reason = entry.reason.as_ref();
            let reason = reason.map_or("allow-list", |reason| reason.value.as_str());
            Some(AllowedCaller {
                who,
                reason: reason.into(),
            })
        });
        allowed.collect()
    }
}

/// The most limits of tenants that a request is charged by, besides its own tenant's.
pub const MAX_LEVELS: usize = 32;

/// Those that are their own ancestors. No step is done twice, so a deep tree costs no more than a flat one.
fn circular<'a>(written: &HashMap<&'a str, &'a config::Tenant>) -> HashSet<&'a str> {
    let mut seen: HashSet<&str> = HashSet::with_capacity(written.len());
    let mut circular = HashSet::new();
    for start in written.keys() {
        let (mut name, mut trail) = (*start, Vec::new());
        while seen.insert(name) {
            trail.push(name);
            let tenant = written.get(name).filter(|_| name != ROOT);
            let Some(tenant) = tenant else {
                break;
            };
            let parent = tenant.parent.as_ref();
            name = parent.map_or(ROOT, |parent| parent.value.as_str());
        }
        // Where it ended may be a name that it came by: those from there on go in a circle.
        let last_is_root = trail.last().is_some_and(|last| *last == ROOT);
        if !last_is_root {
            circular.extend(trail.into_iter().skip_while(|other| *other != name));
        }
    }
    circular
}

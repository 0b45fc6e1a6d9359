use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::Compiler;
use crate::budget::{Allocation, Fit};
use crate::config::{self, CallerEntry, File};
use crate::people::{ApiKey, Listed, ListedCaller, TenantEntry};
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
            } else if parent.value != ROOT && !written.contains_key(parent.value.as_str()) {
                self.check_tenant(parent, file);
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
                suspended: false,
            };
            tenants.insert(name.value.as_str().into(), entry);
        }
        self.check_budgets(file, &tenants);
        self.check_depth(file, &tenants, &circular);
        tenants
    }

    /// The children of a tenant may not have more than its budget. What is beyond the total, but within the
    /// ratio, is a warning.
    fn check_budgets(&mut self, file: &File, tenants: &Names<TenantEntry>) {
        let mut given: HashMap<&str, Vec<Child<'_>>> = HashMap::new();
        for (name, _) in file.tenants.iter().filter(|(name, _)| name.value != ROOT) {
            let id = name.value.as_str();
            let entry = tenants.get(id);
            if let Some((entry, limit)) =
                entry.and_then(|entry| Some((entry, entry.limit.as_ref()?)))
            {
                let parent = entry.parent.as_deref().unwrap_or(ROOT);
                given
                    .entry(parent)
                    .or_default()
                    .push((id, limit.allotted()));
            }
        }
        for (name, written) in &file.tenants {
            let limit = tenants.get(name.value.as_str());
            let limit = limit.and_then(|tenant| tenant.limit.as_deref());
            let budget = written.rate_limit.as_ref();
            let budget = budget.and_then(|limit| limit.budget.as_ref());
            let children = given.remove(name.value.as_str()).unwrap_or_default();
            let (Some(limit), Some(budget), Some(((last, asked), others))) =
                (limit, budget, children.split_last())
            else {
                continue;
            };
            let others = others.iter().map(|(_, allotted)| *allotted);
            let Some(allocation) = Allocation::new(limit, others, Some(*asked)) else {
                continue;
            };
            match allocation.fit() {
                Fit::Fits => {}
                Fit::Overcommitted => self.warn(
                    &budget.place,
                    format!("the budget of `{}` is overcommitted: {allocation}", name.value),
                    "lower the children's rates, or be sure that not all of them come at once",
                ),
                Fit::Exceeds => self.fault(
                    &budget.place,
                    format!(
                        "the children of `{}` are given more than its budget: {allocation} for `{last}`",
                        name.value
                    ),
                    "raise `total` or `overcommit_ratio`, or lower the children's rates",
                ),
            }
        }
    }

    /// A request pays at every level that binds it, so there is a most of them.
    fn check_depth(&mut self, file: &File, tenants: &Names<TenantEntry>, circular: &HashSet<&str>) {
        let binds = |tenant: &TenantEntry| {
            let limit = tenant.limit.as_deref();
            limit.is_some_and(|limit| limit.binds_below())
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
            if let Some(tenant) = &key.tenant {
                self.check_tenant(tenant, file);
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
                suspended: false,
            };
            if keys.insert(key.sha256.value, entry).is_some() {
                self.fault(&key.sha256.place, "this key is listed twice", "remove one");
            }
        }
        keys
    }
}

impl Compiler {
    /// A tenant on a list must exist: a typo would allow or deny nobody.
    pub(super) fn check_lists(&mut self, file: &File) {
        for entry in file.allow.iter().chain(&file.deny) {
            if let Some(tenant) = &entry.tenant {
                self.check_tenant(tenant, file);
            }
        }
    }
}

/// The entries of a list; those that give no reason get this one.
pub(super) fn listed(written: &[CallerEntry], unsaid: &str) -> Vec<ListedCaller> {
    let text = |name: &config::Spanned<String>| Box::from(name.value.as_str());
    let listed = written.iter().filter_map(|entry| {
        // The decoder has refused an entry that names nobody, or several.
        let net = entry.cidr.as_ref().map(|net| Listed::Net(net.value));
        let key = entry.api_key.as_ref();
        let key = key.map(|key| Listed::Key(key.sha256.value));
        let user = entry.user.as_ref().map(|user| Listed::User(text(user)));
        let client = entry.client.as_ref();
        let client = client.map(|client| Listed::Client(text(client)));
        let tenant = entry.tenant.as_ref();
        let tenant = tenant.map(|tenant| Listed::Tenant(text(tenant)));
        let reason = entry.reason.as_ref();
        Some(ListedCaller {
            who: net.or(key).or(user).or(client).or(tenant)?,
            reason: reason.map_or(unsaid, |reason| reason.value.as_str()).into(),
        })
    });
    listed.collect()
}

/// The name of a tenant, and its rate and window.
type Child<'a> = (&'a str, (u64, u32));

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

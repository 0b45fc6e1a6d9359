use std::collections::HashMap;

use super::Compiler;
use crate::config::{self, AllowEntry, File};
use crate::policy::{AllowList, ApiKey, ByHash, Names, Plan, ROOT, Tenant};

impl Compiler {
    pub(super) fn tenants(&mut self, file: &File, plans: &Names<Plan>) -> Names<Tenant> {
        let written: HashMap<&str, &config::Tenant> = file
            .tenants
            .iter()
            .map(|(name, tenant)| (name.value.as_str(), tenant))
            .collect();
        let above = above(&written);
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
            } else if let Some(Above::Itself) = above.get(name.value.as_str()) {
                let message = format!("`{}` would be its own ancestor", name.value);
                self.fault(&parent.place, message, "break the circle");
            }
        }
        let compiled = above.into_iter().map(|(name, above)| {
            let plan = match above {
                Above::Plan(plan) => plan.map(|(plan, whose)| (plan.into(), whose.into())),
                Above::Walking | Above::Itself => None,
            };
            (name.into(), Tenant { plan })
        });
        let mut tenants: Names<Tenant> = compiled.collect();
        tenants.entry(ROOT.into()).or_insert(Tenant { plan: None });
        tenants
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
            };
            if keys.insert(key.sha256.value, entry).is_some() {
                self.fault(&key.sha256.place, "this key is listed twice", "remove one");
            }
        }
        keys
    }

    pub(super) fn allow(&mut self, file: &File) -> AllowList {
        let mut list = AllowList::default();
        for entry in &file.allow {
            let reason: Box<str> = match &entry.reason {
                Some(reason) => reason.value.as_str().into(),
                None => "allow-list".into(),
            };
            match entry {
                AllowEntry {
                    cidr: Some(net), ..
                } => list.nets.push((net.value, reason)),
                AllowEntry {
                    api_key: Some(key), ..
                } => {
                    list.keys.insert(key.sha256.value, reason);
                }
                AllowEntry {
                    user: Some(user), ..
                } => {
                    list.users.insert(user.value.as_str().into(), reason);
                }
                AllowEntry {
                    tenant: Some(tenant),
                    ..
                } => {
                    list.tenants.insert(tenant.value.as_str().into(), reason);
                }
                // The decoder has refused an entry that names nobody.
                _ => {}
            }
        }
        list
    }
}

/// What is known of a tenant and those above it.
#[derive(Clone, Copy)]
enum Above<'a> {
    /// The way up from it is not finished.
    Walking,
    /// Its plan or the nearest ancestor's, and whose it is.
    Plan(Option<(&'a str, &'a str)>),
    /// It is its own ancestor.
    Itself,
}

/// Walks up from every tenant. No step is done twice, so a deep tree costs no more than a flat one.
fn above<'a>(written: &HashMap<&'a str, &'a config::Tenant>) -> HashMap<&'a str, Above<'a>> {
    let mut known: HashMap<&str, Above<'_>> = HashMap::with_capacity(written.len());
    for start in written.keys() {
        let (mut name, mut trail) = (*start, Vec::new());
        let mut plan = loop {
            match known.get(name) {
                Some(Above::Plan(plan)) => break *plan,
                Some(Above::Itself) => break None,
                Some(Above::Walking) => {
                    let circle = trail.iter().skip_while(|(other, _)| *other != name);
                    known.extend(circle.map(|(name, _)| (*name, Above::Itself)));
                    break None;
                }
                None => {}
            }
            // A parent that is not written is the root, or a fault.
            let Some(tenant) = written.get(name) else {
                break None;
            };
            known.insert(name, Above::Walking);
            trail.push((name, *tenant));
            name = match &tenant.parent {
                _ if name == ROOT => break None,
                Some(parent) => parent.value.as_str(),
                None => ROOT,
            };
        };
        for (name, tenant) in trail.into_iter().rev() {
            let own = tenant.plan.as_ref();
            plan = own.map(|own| (own.value.as_str(), name)).or(plan);
            if let Some(above @ Above::Walking) = known.get_mut(name) {
                *above = Above::Plan(plan);
            }
        }
    }
    known
}

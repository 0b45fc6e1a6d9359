use std::collections::HashMap;

use super::Compiler;
use crate::config::{self, AllowEntry, File, did_you_mean};
use crate::policy::{AllowList, ApiKey, ByHash, Names, Tenant};

/// The root of the tenant tree. It is always there.
const ROOT: &str = "system";

impl Compiler {
    pub(super) fn tenants(&mut self, file: &File) -> Names<Tenant> {
        let written: HashMap<&str, &config::Tenant> = file
            .tenants
            .iter()
            .map(|(name, tenant)| (name.value.as_str(), tenant))
            .collect();
        for (name, tenant) in &file.tenants {
            if let Some(plan) = &tenant.plan {
                self.check_plan(plan, file);
            }
            let Some(parent) = &tenant.parent else {
                continue;
            };
            if name.value == ROOT {
                let message = format!("`{ROOT}` is the root and has no parent");
                self.fault(&parent.place, message, "remove it");
            } else if parent.value != ROOT && !written.contains_key(parent.value.as_str()) {
                let hint = match did_you_mean(&parent.value, written.keys().copied()) {
                    Some(name) => format!("did you mean `{name}`?"),
                    None => "add it under `tenants`".into(),
                };
                let message = format!("there is no tenant `{}`", parent.value);
                self.fault(&parent.place, message, hint);
            } else if ancestors(&name.value, &written).any(|above| above == name.value) {
                let message = format!("`{}` would be its own ancestor", name.value);
                self.fault(&parent.place, message, "break the circle");
            }
        }
        if !self.faults.is_empty() {
            return Names::default();
        }
        let mut tenants: Names<Tenant> = written
            .keys()
            .map(|name| {
                let plan = std::iter::once(*name)
                    .chain(ancestors(name, &written))
                    .find_map(|whose| {
                        let plan = written.get(whose)?.plan.as_ref()?;
                        Some((plan.value.as_str().into(), whose.into()))
                    });
                ((*name).into(), Tenant { plan })
            })
            .collect();
        tenants.entry(ROOT.into()).or_insert(Tenant { plan: None });
        tenants
    }

    pub(super) fn keys(&mut self, file: &File) -> ByHash<ApiKey> {
        let mut keys = ByHash::default();
        for key in &file.keys {
            if let Some(plan) = &key.plan {
                self.check_plan(plan, file);
            }
            if key.tenant.is_none() && key.user.is_none() {
                self.fault(
                    &key.place,
                    "a key that belongs to nobody",
                    "give it a `tenant` or a `user`",
                );
            }
            let text = |value: &Option<config::Spanned<String>>| {
                value.as_ref().map(|value| value.value.as_str().into())
            };
            let entry = ApiKey {
                tenant: text(&key.tenant),
                user: text(&key.user),
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

/// The tenants above one, nearest first; a circle ends where it comes round, naming its start.
fn ancestors<'a>(
    of: &'a str,
    written: &HashMap<&'a str, &'a config::Tenant>,
) -> impl Iterator<Item = &'a str> {
    let mut left = written.len() + 1;
    std::iter::successors(Some(of), move |name| {
        left = left.checked_sub(1)?;
        if *name == ROOT {
            return None;
        }
        let parent = written.get(name)?.parent.as_ref();
        Some(parent.map_or(ROOT, |parent| parent.value.as_str()))
    })
    .skip(1)
}

//! The tenants above and below each other.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use super::entry::TenantEntry;
use super::kin::Kin;
use super::sharded::Sharded;
use super::tenant::{Said, Tenant};
use super::{Origin, People};
use crate::policy::{ROOT, Rules};

impl People {
    /// The tree anew: the file's tenants, and those of the directory that the file has not.
    pub(super) fn rebuild_tree(
        &mut self,
        rules: &Rules,
        directory: BTreeMap<Box<str>, TenantEntry>,
    ) {
        self.tenants = Sharded::default();
        self.kin = Kin::default();
        self.hidden = Arc::default();
        for (id, entry) in &rules.tenants {
            self.insert(id, entry.clone(), Origin::File);
        }
        for (id, entry) in directory {
            self.put_tenant(rules, &id, Some(entry));
        }
        if self.tenants.get(ROOT).is_none() {
            self.insert(ROOT, TenantEntry::default(), Origin::Directory);
        }
        let all = self.tenants.iter().map(|(id, _)| id.clone()).collect();
        self.compute(rules, all);
    }

    /// What the directory has of tenants, seen or hidden.
    pub(super) fn directory_tenants(&self) -> BTreeMap<Box<str>, TenantEntry> {
        let tenants = self.tenants.iter();
        let seen = tenants.filter(|(_, tenant)| tenant.origin == Origin::Directory);
        let seen = seen.map(|(id, tenant)| (id.clone(), tenant.entry.clone()));
        let hidden = self.hidden.iter();
        let hidden = hidden.map(|(id, entry)| (id.clone(), entry.clone()));
        seen.chain(hidden).collect()
    }

    /// Takes an entry of the directory. The tree has to be computed from there.
    pub(super) fn put_tenant(&mut self, rules: &Rules, id: &str, entry: Option<TenantEntry>) {
        if rules.tenants.contains_key(id) {
            let hidden = Arc::make_mut(&mut self.hidden);
            match entry {
                Some(entry) => _ = hidden.insert(id.into(), entry),
                None => _ = hidden.remove(id),
            }
            return;
        }
        self.remove(id);
        match entry {
            Some(entry) => self.insert(id, entry, Origin::Directory),
            None if id == ROOT => self.insert(ROOT, TenantEntry::default(), Origin::Directory),
            None => {}
        }
    }

    fn insert(&mut self, id: &str, entry: TenantEntry, origin: Origin) {
        if let Some(parent) = parent_of(id, &entry) {
            self.kin.insert(parent, id);
        }
        let tenant = Tenant::unresolved(id, entry, origin);
        self.tenants.insert(id.into(), Arc::new(tenant));
    }

    fn remove(&mut self, id: &str) {
        let Some(tenant) = self.tenants.remove(id) else {
            return;
        };
        if let Some(parent) = parent_of(id, &tenant.entry) {
            self.kin.remove(parent, id);
        }
    }

    /// Computes what these tenants and all below them have.
    pub(super) fn resolve(&mut self, rules: &Rules, touched: HashSet<Box<str>>) {
        let affected = if touched.contains(ROOT) {
            // Also those that hang from it for want of another parent.
            self.tenants.iter().map(|(id, _)| id.clone()).collect()
        } else {
            self.at_and_below(touched)
        };
        self.compute(rules, affected);
    }

    fn at_and_below(&self, touched: HashSet<Box<str>>) -> HashSet<Box<str>> {
        let mut found = HashSet::new();
        let mut left: Vec<Box<str>> = touched.into_iter().collect();
        while let Some(id) = left.pop() {
            left.extend(
                self.kin
                    .of(&id)
                    .filter(|it| !found.contains(*it))
                    .map(Box::from),
            );
            found.insert(id);
        }
        found
    }

    /// Computes these tenants, each after the one above it. One whose parent is missing, or that would be
    /// its own ancestor, is computed as a child of the root and marked as lost: its requests are refused.
    fn compute(&mut self, rules: &Rules, mut left: HashSet<Box<str>>) {
        if left.remove(ROOT) {
            self.compute_one(rules, ROOT, false);
        }
        let mut trail: Vec<Box<str>> = Vec::new();
        while let Some(start) = left.iter().next().cloned() {
            let mut next = Some(start);
            while let Some(id) = next.take_if(|id| left.remove(&**id)) {
                next = self.parent(&id).map(Box::from);
                trail.push(id);
            }
            // The way up has come by here before: it goes in a circle, which is cut open.
            let mut is_cut = next.is_some_and(|next| trail.contains(&next));
            while let Some(id) = trail.pop() {
                self.compute_one(rules, &id, std::mem::take(&mut is_cut));
            }
        }
        let stranger = Tenant::unresolved("", TenantEntry::default(), Origin::Directory);
        let root = self.tenants.get(ROOT).map(|root| &**root);
        self.stranger = Arc::new(stranger.under(root, rules.on_failure, Said::default()));
    }

    fn compute_one(&mut self, rules: &Rules, id: &str, is_cut: bool) {
        let Some(tenant) = self.tenants.get(id).cloned() else {
            return;
        };
        let written = parent_of(id, &tenant.entry);
        let found = written.and_then(|parent| self.tenants.get(parent));
        let found = found.filter(|_| !is_cut).map(|parent| &**parent);
        let root = || self.tenants.get(ROOT).map(|root| &**root);
        let said = Said {
            boost: self.boosts.of_tenant(id),
            denied: {
                let of_file = rules.deny.callers.tenant(Some(id));
                of_file.or_else(|| self.deny.tenant(Some(id)))
            },
            // The file's tenants and the directory's are one: whoever suspended one meant both.
            twin_is_suspended: self.hidden.get(id).is_some_and(|twin| twin.suspended),
            lost: match written.filter(|_| found.is_none()) {
                Some(_) if is_cut => Some(None),
                missing => missing.map(Some),
            },
        };
        let parent = found.or_else(|| written.and_then(|_| root()));
        let resolved = tenant.under(parent, rules.on_failure, said);
        self.tenants.insert(id.into(), Arc::new(resolved));
    }

    /// The tenant above one: as it says, if there is such a one.
    fn parent(&self, id: &str) -> Option<&str> {
        let written = parent_of(id, &self.tenants.get(id)?.entry)?;
        let known = self.tenants.get(written);
        Some(known.map_or(ROOT, |parent| parent.id()))
    }
}

/// The name of the tenant above; none for the root.
pub(crate) fn parent_of<'a>(id: &str, entry: &'a TenantEntry) -> Option<&'a str> {
    let parent = entry.parent.as_deref().unwrap_or(ROOT);
    (id != ROOT).then_some(parent)
}

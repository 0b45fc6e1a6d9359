//! What the file and the directory say that does not go together.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::Origin;
use super::entry::TenantEntry;
use super::tree::parent_of;
use crate::budget::{Allocation, Fit};
use crate::policy::{Policy, ROOT};

/// Something that the file and the directory say differently. The file wins.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Clash {
    /// Both have this tenant.
    Tenant(Box<str>),
    /// Both have the API key with this SHA-256, of which these are the first hexadecimal digits.
    Key(String),
    /// A tenant of the directory is below one that is nowhere.
    MissingParent {
        /// The tenant.
        tenant: Box<str>,
        /// What it names as its parent.
        parent: Box<str>,
    },
    /// The file has no such plan, and so many entries of the directory name it.
    MissingPlan {
        /// The plan.
        plan: Box<str>,
        /// Tenants, users and keys.
        entries: usize,
    },
    /// The children of a tenant of the file were given more than its budget has.
    Budget {
        /// The tenant.
        tenant: Box<str>,
        /// The arithmetic.
        allocation: Allocation,
    },
}

impl fmt::Display for Clash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tenant(id) => write!(
                f,
                "the tenant `{id}` is in the file and in the directory: the file's is used; remove one"
            ),
            Self::Key(hash) => write!(
                f,
                "the API key {hash}… is in the file and in the directory: the file's is used; remove one"
            ),
            Self::MissingParent { tenant, parent } => write!(
                f,
                "the tenant `{tenant}` of the directory is below `{parent}`, which is neither there nor in \
                 the file: it is taken for a child of `{ROOT}`; move it, or add `{parent}`"
            ),
            Self::MissingPlan { plan, entries } => write!(
                f,
                "the plan `{plan}` is not in the file, but {entries} entries of the directory have it: their \
                 requests are refused; add the plan, or change them"
            ),
            Self::Budget { tenant, allocation } => write!(
                f,
                "the children of the tenant `{tenant}`, of the file and of the directory, are given more than \
                 its budget: {allocation}"
            ),
        }
    }
}

impl Clash {
    /// Whether one that was known is of the same, and no better.
    fn is_no_worse_than(&self, known: &Self) -> bool {
        match (self, known) {
            (Self::MissingPlan { plan, .. }, Self::MissingPlan { plan: other, .. }) => {
                plan == other
            }
            (
                Self::Budget { tenant, allocation },
                Self::Budget {
                    tenant: other,
                    allocation: before,
                },
            ) => tenant == other && allocation.excess() <= before.excess(),
            _ => self == known,
        }
    }

    /// Whether somebody would have more than the file means to give, or nothing at all.
    fn weighs(&self) -> bool {
        match self {
            Self::Tenant(_) | Self::Key(_) => false,
            Self::MissingParent { .. } | Self::MissingPlan { .. } | Self::Budget { .. } => true,
        }
    }
}

impl Policy {
    /// What would not go together, were these rules put in force instead of another policy's, and does
    /// now, or not so badly: plans that people of the directory have, parents that they are below, and
    /// budgets that are given away. Entries of both are no harm: the file's are used.
    pub fn new_clashes(&self, active: &Self) -> Vec<Clash> {
        let mut clashes = self.for_people_of(active).clashes();
        clashes.retain(Clash::weighs);
        if !clashes.is_empty() {
            let known = active.clashes();
            clashes.retain(|clash| !known.iter().any(|it| clash.is_no_worse_than(it)));
        }
        clashes
    }

    /// What the file and the directory say that does not go together, in some order of its own, at most a
    /// hundred of each kind. It looks at everybody: not for every request.
    pub fn clashes(&self) -> Vec<Clash> {
        const MOST: usize = 100;
        let people = &self.people;
        let tenants = people.hidden.keys().cloned().map(Clash::Tenant);
        let keys = self.rules.keys.keys();
        let keys = keys.filter(|hash| people.keys.get(*hash).is_some());
        let keys = keys.map(|hash| Clash::Key(crate::scope::hex(&hash[..6])));
        let all = people.tenants.iter();
        let missing_parents = all.filter_map(|(id, tenant)| {
            let parent = parent_of(id, &tenant.entry)?;
            let is_missing = people.tenants.get(parent).is_none();
            is_missing.then(|| Clash::MissingParent {
                tenant: id.clone(),
                parent: parent.into(),
            })
        });
        let kinds: [Vec<Clash>; 5] = [
            tenants.take(MOST).collect(),
            keys.take(MOST).collect(),
            missing_parents.take(MOST).collect(),
            self.missing_plans().into_iter().take(MOST).collect(),
            self.broken_budgets().into_iter().take(MOST).collect(),
        ];
        kinds.into_iter().flatten().collect()
    }

    fn missing_plans(&self) -> Vec<Clash> {
        let people = &self.people;
        let tenants = people.tenants.iter();
        let of_tenants = tenants.filter_map(|(_, tenant)| tenant.entry.plan.as_deref());
        let of_users = people.users.iter().map(|(_, plan)| &**plan);
        let of_keys = people
            .keys
            .iter()
            .filter_map(|(_, key)| key.plan.as_deref());
        let mut missing: BTreeMap<&str, usize> = BTreeMap::new();
        for plan in of_tenants.chain(of_users).chain(of_keys) {
            if !self.has_plan(plan) {
                *missing.entry(plan).or_default() += 1;
            }
        }
        let clash = |(plan, entries): (&str, usize)| Clash::MissingPlan {
            plan: plan.into(),
            entries,
        };
        missing.into_iter().map(clash).collect()
    }

    fn broken_budgets(&self) -> Vec<Clash> {
        let tenants = || self.people.tenants.iter();
        let has_budget = |id: &str, entry: &TenantEntry| {
            let limit = entry.limit.as_deref()?;
            Allocation::new(limit, [], None).map(|_| Box::from(id))
        };
        let parents = tenants().filter(|(_, tenant)| tenant.origin == Origin::File);
        let parents: BTreeSet<Box<str>> = parents
            .filter_map(|(id, tenant)| has_budget(id, &tenant.entry))
            .collect();
        let mut given: BTreeMap<&str, Vec<(u64, u32)>> = BTreeMap::new();
        for (id, tenant) in tenants() {
            let parent = parent_of(id, &tenant.entry).filter(|it| parents.contains(*it));
            if let (Some(parent), Some(limit)) = (parent, &tenant.entry.limit) {
                given.entry(parent).or_default().push(limit.allotted());
            }
        }
        let clash = |(parent, children): (&str, Vec<(u64, u32)>)| {
            let limit = self.file_tenant(parent)?.limit.as_deref()?;
            let allocation = Allocation::new(limit, children, None)?;
            (allocation.fit() == Fit::Exceeds).then(|| Clash::Budget {
                tenant: parent.into(),
                allocation,
            })
        };
        given.into_iter().filter_map(clash).collect()
    }
}

//! What the file and the directory say that does not go together.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;

use super::Origin;
use super::entry::TenantEntry;
use super::key::ApiKey;
use super::list::{List, Listed};
use super::tree::parent_of;
use crate::budget::{Allocation, Fit};
use crate::policy::Policy;

/// Something that the file and the directory say differently. The file wins.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Clash {
    /// Both have this tenant.
    Tenant(Box<str>),
    /// Both have the API key with this SHA-256, of which these are the first hexadecimal digits.
    Key(String),
    /// No tenant has this name, but so many keys and users belong to it.
    MissingTenant {
        /// The tenant.
        tenant: Box<str>,
        /// Keys and users.
        entries: usize,
    },
    /// The allow-list has an API key with a SHA-256 that begins so, and there is no such key.
    AllowedNobody(String),
    /// A tenant of the directory is below one that is nowhere.
    MissingParent {
        /// The tenant.
        tenant: Box<str>,
        /// What it names as its parent.
        parent: Box<str>,
    },
    /// A tenant of the directory would be its own ancestor.
    Circle(Box<str>),
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

/// The most clashes of a kind that are told.
const MOST: usize = 100;

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
                 the file: its requests get 503 `misconfigured`; move it, or add `{parent}`"
            ),
            Self::Circle(tenant) => write!(
                f,
                "the tenant `{tenant}` of the directory would be its own ancestor: its requests get 503 \
                 `misconfigured`; move it"
            ),
            Self::MissingPlan { plan, entries } => write!(
                f,
                "the plan `{plan}` is not in the file, but tenants, users or keys of the directory have it \
                 ({entries} in all): their requests get 503 `misconfigured`; add the plan, or change them"
            ),
            Self::MissingTenant { tenant, entries } => write!(
                f,
                "the tenant `{tenant}` does not exist, but keys or users of the directory belong to it ({entries} in \
                 all): their requests get 503 `misconfigured`; add the tenant, or change them"
            ),
            Self::AllowedNobody(hash) => write!(
                f,
                "the allow-list has the API key {hash}…, but there is no such key: it allows nobody; remove the \
                 entry"
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
    /// What it is about: two clashes about the same are one that has changed.
    fn subject(&self) -> (&'static str, &str, &str) {
        let (name, other) = match self {
            Self::Tenant(name) | Self::Circle(name) => (&**name, ""),
            Self::Key(hash) | Self::AllowedNobody(hash) => (hash.as_str(), ""),
            Self::MissingParent { tenant, parent } => (&**tenant, &**parent),
            Self::MissingPlan { plan, .. } => (&**plan, ""),
            Self::MissingTenant { tenant, .. } | Self::Budget { tenant, .. } => (&**tenant, ""),
        };
        (self.word(), name, other)
    }

    /// Whether it is worse than an earlier clash about the same.
    fn is_worse_than(&self, earlier: &Self) -> bool {
        match (self, earlier) {
            (
                Self::Budget { allocation, .. },
                Self::Budget {
                    allocation: before, ..
                },
            ) => allocation.excess() > before.excess(),
            _ => false,
        }
    }

    /// Whether somebody would have more than the file means to give, or nothing at all.
    fn weighs(&self) -> bool {
        match self {
            Self::Tenant(_) | Self::Key(_) | Self::AllowedNobody(_) => false,
            Self::MissingTenant { .. }
            | Self::MissingParent { .. }
            | Self::Circle(_)
            | Self::MissingPlan { .. }
            | Self::Budget { .. } => true,
        }
    }

    /// Whether requests get 503 `misconfigured` because of it.
    pub fn is_misconfiguration(&self) -> bool {
        matches!(
            self,
            Self::MissingTenant { .. }
                | Self::MissingParent { .. }
                | Self::Circle(_)
                | Self::MissingPlan { .. }
        )
    }

    /// The kind, as metrics call it.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Tenant(_) => "tenant_twice",
            Self::Key(_) => "key_twice",
            Self::MissingTenant { .. } => "missing_tenant",
            Self::AllowedNobody(_) => "allowed_nobody",
            Self::MissingParent { .. } => "missing_parent",
            Self::Circle(_) => "circle",
            Self::MissingPlan { .. } => "missing_plan",
            Self::Budget { .. } => "budget_exceeded",
        }
    }

    /// All kinds.
    pub const WORDS: [&'static str; 8] = [
        "tenant_twice",
        "key_twice",
        "missing_tenant",
        "allowed_nobody",
        "missing_parent",
        "circle",
        "missing_plan",
        "budget_exceeded",
    ];
}

impl Policy {
    /// The clashes that there would be under these rules and that the policy in force does not have, or has
    /// less badly: missing plans, tenants and parents, and exceeded budgets. At most a hundred. Entries that
    /// both the file and the directory have are not among them: the file's are used.
    pub fn new_clashes(&self, active: &Self) -> Vec<Clash> {
        let mut clashes = self.for_people_of(active).all_clashes();
        clashes.retain(Clash::weighs);
        if !clashes.is_empty() {
            let known = active.all_clashes();
            let known: HashMap<_, _> = known.iter().map(|it| (it.subject(), it)).collect();
            clashes.retain(|clash| {
                let earlier = known.get(&clash.subject());
                earlier.is_none_or(|earlier| clash.is_worse_than(earlier))
            });
        }
        clashes.truncate(MOST);
        clashes
    }

    /// What the file and the directory say that does not go together, in some order of its own, at most a
    /// hundred of each kind. It looks at everybody: not for every request.
    pub fn clashes(&self) -> Vec<Clash> {
        let mut counts: HashMap<&str, usize> = HashMap::new();
        let mut clashes = self.all_clashes();
        clashes.retain(|clash| {
            let count = counts.entry(clash.word()).or_default();
            *count += 1;
            *count <= MOST
        });
        clashes
    }

    fn all_clashes(&self) -> Vec<Clash> {
        let people = &self.people;
        let tenants = people.hidden.keys().cloned().map(Clash::Tenant);
        let keys = self.rules.keys.keys();
        let keys = keys.filter(|hash| people.keys.get(*hash).is_some());
        let keys = keys.map(|hash| Clash::Key(crate::scope::hex(&hash[..6])));
        let all = people.tenants.iter();
        let lost = all.filter_map(|(id, tenant)| {
            // Those below it are lost with it, and not listed.
            let lost = tenant.lost.as_deref().filter(|lost| lost.tenant == *id)?;
            let tenant = id.clone();
            Some(match &lost.missing {
                Some(parent) => Clash::MissingParent {
                    tenant,
                    parent: parent.clone(),
                },
                None => Clash::Circle(tenant),
            })
        });
        let mut clashes: Vec<Clash> = tenants.chain(keys).collect();
        clashes.extend(self.missing_tenants());
        clashes.extend(self.allowed_nobodies());
        clashes.extend(lost);
        clashes.extend(self.missing_plans());
        clashes.extend(self.broken_budgets());
        clashes
    }

    /// The directory's keys that count: the file has not the same.
    fn keys_in_use(&self) -> impl Iterator<Item = &ApiKey> {
        let keys = self.people.keys.iter();
        let in_use = keys.filter(|(hash, _)| !self.rules.keys.contains_key(*hash));
        in_use.map(|(_, key)| &**key)
    }

    fn missing_tenants(&self) -> Vec<Clash> {
        let people = &self.people;
        let of_users = people.users.iter();
        let of_users = of_users.filter_map(|(_, user)| user.tenant.as_deref());
        let of_keys = self.keys_in_use().filter_map(|key| key.tenant.as_deref());
        let mut missing: BTreeMap<&str, usize> = BTreeMap::new();
        for tenant in of_users.chain(of_keys) {
            if people.tenants.get(tenant).is_none() {
                *missing.entry(tenant).or_default() += 1;
            }
        }
        let clash = |(tenant, entries): (&str, usize)| Clash::MissingTenant {
            tenant: tenant.into(),
            entries,
        };
        missing.into_iter().map(clash).collect()
    }

    fn allowed_nobodies(&self) -> BTreeSet<Clash> {
        let people = &self.people;
        let of_file = self.rules.allow.entries.iter();
        let of_directory = people.listed.values();
        let of_directory = of_directory.filter(|(list, _)| *list == List::Allow);
        let callers = of_file.chain(of_directory.map(|(_, caller)| caller));
        let hashes = callers.filter_map(|caller| match &caller.who {
            Listed::Key(hash) => Some(hash),
            _ => None,
        });
        let is_known =
            |hash: &[u8; 32]| self.rules.keys.contains_key(hash) || people.keys.get(hash).is_some();
        let gone = hashes.filter(|hash| !is_known(hash));
        gone.map(|hash| Clash::AllowedNobody(crate::scope::hex(&hash[..6])))
            .collect()
    }

    fn missing_plans(&self) -> Vec<Clash> {
        let people = &self.people;
        let tenants = people.tenants.iter();
        let of_tenants = tenants.filter_map(|(_, tenant)| tenant.entry.plan.as_deref());
        let users = people.users.iter();
        let of_users = users.filter_map(|(_, user)| user.plan.as_deref());
        let of_keys = self.keys_in_use().filter_map(|key| key.plan.as_deref());
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

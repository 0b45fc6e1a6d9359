use std::sync::{Arc, LazyLock};

use tollward_core::OnFailure;

use super::Origin;
use super::entry::{Boost, TenantEntry};
use super::limit::TenantLimit;
use crate::config::{ScopeWord, Sharing};
use crate::policy::{PolicyLimit, Strategy, TENANT_FAMILY};

/// A tenant, with what it and those above it make of its limits.
#[derive(Clone, Debug)]
pub struct Tenant {
    pub(super) id: Box<str>,
    pub(super) entry: TenantEntry,
    pub(super) origin: Origin,
    /// Its own plan or the nearest ancestor's, and whose it is.
    pub(crate) plan: Option<(Box<str>, Box<str>)>,
    /// Its own limit, within those that bind it.
    pub(crate) own: Option<Arc<PolicyLimit>>,
    /// The limits above it that bind it, upwards.
    bound: Arc<[Binding]>,
    /// The limits that bind its children: its own, then of those above.
    passed: Arc<[Binding]>,
    /// Why its requests are refused, if they are.
    pub(crate) barred: Option<Arc<Bar>>,
    /// Set if it, or a tenant above it, is not connected to the root.
    pub(crate) lost: Option<Arc<Lost>>,
}

/// A tenant that is not connected to the root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lost {
    pub(crate) tenant: Box<str>,
    /// The parent that it names and that does not exist; none if it would be its own ancestor.
    pub(crate) missing: Option<Box<str>>,
}

/// Why a tenant and those below it are refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Bar {
    /// This tenant is suspended.
    Suspended(Box<str>),
    /// The deny-list names it or one above it, for this reason.
    Denied(Box<str>),
}

/// What else is said of a tenant, beside its own entry.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Said<'a> {
    pub(super) boost: Option<Boost>,
    /// The reason for which a deny-list names it.
    pub(super) denied: Option<&'a str>,
    /// The directory has a tenant of this name too, and that is suspended.
    pub(super) twin_is_suspended: bool,
    /// It is not connected to the root: the parent that does not exist, or none for a circle.
    pub(super) lost: Option<Option<&'a str>>,
}

/// A limit that binds those below.
#[derive(Clone, Debug)]
struct Binding {
    limit: Arc<PolicyLimit>,
    /// Whatever lies between.
    enforced: bool,
}

/// The words that all limits of tenants have in common.
struct Words {
    family: Arc<str>,
    scope_text: Arc<str>,
    scope: Arc<[ScopeWord]>,
}

static WORDS: LazyLock<Words> = LazyLock::new(|| Words {
    family: TENANT_FAMILY.into(),
    scope_text: ScopeWord::Tenant.word().into(),
    scope: [ScopeWord::Tenant].into(),
});

const NAME: &str = "tenant:";

impl Tenant {
    /// One of which only the entry is known: [`Tenant::under`] makes a tenant of it.
    pub(super) fn unresolved(id: &str, entry: TenantEntry, origin: Origin) -> Self {
        Self {
            id: id.into(),
            entry,
            origin,
            plan: None,
            own: None,
            bound: Arc::default(),
            passed: Arc::default(),
            barred: None,
            lost: None,
        }
    }

    /// The same entry below `parent`; none for the root.
    pub(super) fn under(
        &self,
        parent: Option<&Self>,
        on_failure: OnFailure,
        said: Said<'_>,
    ) -> Self {
        let bound = parent.map_or_else(Arc::default, |parent| parent.passed.clone());
        let own = self
            .entry
            .limit
            .as_ref()
            .map(|limit| Arc::new(limit.level(&self.id, said.boost, &bound, on_failure)));
        let plan = self.entry.plan.as_ref();
        Self {
            plan: match plan {
                Some(plan) => Some((plan.clone(), self.id.clone())),
                None => parent.and_then(|parent| parent.plan.clone()),
            },
            passed: passed(own.as_ref(), self.entry.limit.as_deref(), &bound),
            own,
            bound,
            barred: self.bar(said).or_else(|| parent?.barred.clone()),
            lost: match said.lost {
                Some(missing) => Some(Arc::new(Lost {
                    tenant: self.id.clone(),
                    missing: missing.map(Box::from),
                })),
                None => parent.and_then(|parent| parent.lost.clone()),
            },
            ..self.clone()
        }
    }

    fn bar(&self, said: Said<'_>) -> Option<Arc<Bar>> {
        let is_suspended = self.entry.suspended || said.twin_is_suspended;
        match said.denied {
            Some(reason) => Some(Arc::new(Bar::Denied(reason.into()))),
            None => is_suspended.then(|| Arc::new(Bar::Suspended(self.id.clone()))),
        }
    }

    /// Its name.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// What was written of it.
    pub fn entry(&self) -> &TenantEntry {
        &self.entry
    }

    /// Whether it comes from the file.
    pub fn is_of_file(&self) -> bool {
        self.origin == Origin::File
    }

    /// Its plan or the nearest ancestor's, and whose it is.
    pub fn plan(&self) -> Option<(&str, &str)> {
        let plan = self.plan.as_ref();
        plan.map(|(plan, whose)| (&**plan, &**whose))
    }

    /// The limits that a request of it is charged by: its own, within those above, then those, upwards.
    pub fn levels(&self) -> impl Iterator<Item = &PolicyLimit> {
        let above = self.bound.iter().map(|binding| &*binding.limit);
        self.own.as_deref().into_iter().chain(above)
    }

    /// The tenant, itself or one above it, that is suspended and makes its requests be refused.
    pub fn suspended_by(&self) -> Option<&str> {
        match self.barred.as_deref()? {
            Bar::Suspended(tenant) => Some(tenant),
            Bar::Denied(_) => None,
        }
    }

    /// How many limits bind those below it.
    pub fn passes(&self) -> usize {
        self.passed.len()
    }
}

/// What binds the children of a tenant with this limit, which is bound itself.
fn passed(
    own: Option<&Arc<PolicyLimit>>,
    written: Option<&TenantLimit>,
    bound: &Arc<[Binding]>,
) -> Arc<[Binding]> {
    let (Some(own), Some(written)) = (own, written) else {
        return bound.clone();
    };
    let sharing = written.sharing();
    let own = written.binds_below().then(|| Binding {
        limit: own.clone(),
        enforced: sharing == Some(Sharing::Enforce),
    });
    // Only one that says `private` cuts what is inherited.
    let holds = |binding: &&Binding| binding.enforced || sharing != Some(Sharing::Private);
    let above = bound.iter().filter(holds).cloned();
    own.into_iter().chain(above).collect()
}

impl TenantLimit {
    /// As it is charged: boosted, and within the limits that bind it.
    fn level(
        &self,
        id: &str,
        boost: Option<Boost>,
        bound: &[Binding],
        on_failure: OnFailure,
    ) -> PolicyLimit {
        let own = match boost {
            Some(boost) => self.limit.thousandths(boost.thousandths()),
            None => self.limit,
        };
        let within = bound.iter().map(|binding| &*binding.limit);
        let within = within.filter(|above| self.is_comparable(above));
        PolicyLimit {
            name: format!("{NAME}{id}").into(),
            family: WORDS.family.clone(),
            limit: within.fold(own, |limit, above| limit.within(&above.limit)),
            strategy: self.strategy,
            scope_text: WORDS.scope_text.clone(),
            headers: self.headers,
            scope: WORDS.scope.clone(),
            cost: self.cost,
            shadow: self.shadow,
            on_failure: self.on_failure.unwrap_or(on_failure),
            when: self.when,
            origin: self.origin.clone(),
        }
    }

    /// Whether a token of the one is a token of the other: whether the limit above would refuse whatever
    /// is beyond it.
    fn is_comparable(&self, above: &PolicyLimit) -> bool {
        let refuses = above.strategy == Strategy::Reject && !above.shadow;
        let alike = above.strategy == self.strategy && above.shadow == self.shadow;
        (refuses || alike) && above.cost == self.cost && above.when == self.when
    }
}

impl PolicyLimit {
    /// The tenant whose limit it is.
    pub(crate) fn owner(&self) -> &str {
        self.name.strip_prefix(NAME).unwrap_or_default()
    }
}

use tollward_core::{Limit, OnFailure};

use crate::compile;
use crate::config::{BudgetMode, Fault, Sharing, When};
use crate::policy::{Origin, Strategy};

/// A tenant's limit as written, checked.
#[derive(Clone, Debug)]
pub struct TenantLimit {
    pub(crate) limit: Limit,
    pub(crate) strategy: Strategy,
    pub(crate) headers: bool,
    pub(crate) cost: u32,
    pub(crate) shadow: bool,
    /// None for what the store says.
    pub(crate) on_failure: Option<OnFailure>,
    pub(crate) when: When,
    /// None if the limit does not say.
    pub(crate) sharing: Option<Sharing>,
    pub(crate) budget: Budget,
    pub(crate) origin: Origin,
}

/// What a tenant's children may be given of its rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Whether and how it is given.
    pub mode: BudgetMode,
    /// All there is to be given, per window of the tenant's limit.
    pub total: u32,
    /// How much more than that, in thousandths: 1000 for no more.
    pub ratio: u32,
}

impl TenantLimit {
    /// Reads a `rate_limit` of a tenant, in the language of the configuration file.
    ///
    /// # Errors
    ///
    /// Every fault, with its place.
    pub fn parse(text: &str) -> Result<Self, Vec<Fault>> {
        compile::tenant_limit(text)
    }

    /// Reads a limit that was stored. A budget above the rate, which earlier versions stored, counts as the
    /// rate: a limit that is refused now would limit nobody.
    ///
    /// # Errors
    ///
    /// Every fault, with its place.
    pub fn stored(text: &str) -> Result<Self, Vec<Fault>> {
        compile::stored_tenant_limit(text)
    }

    /// The numbers.
    pub fn limit(&self) -> &Limit {
        &self.limit
    }

    /// Whether it binds the tenants below, as written. One that does not say binds nobody below, but does
    /// not keep the limits above it from binding them.
    pub fn sharing(&self) -> Option<Sharing> {
        self.sharing
    }

    /// Whether it binds the tenants below.
    pub fn binds_below(&self) -> bool {
        matches!(self.sharing, Some(Sharing::Inherit | Sharing::Enforce))
    }

    /// What happens to a request beyond it.
    pub fn strategy(&self) -> Strategy {
        self.strategy
    }

    /// Whether answers tell its state.
    pub fn headers(&self) -> bool {
        self.headers
    }

    /// What the cost of a request is multiplied by.
    pub fn cost(&self) -> u32 {
        self.cost
    }

    /// Whether it only counts what it would refuse.
    pub fn shadow(&self) -> bool {
        self.shadow
    }

    /// What holds while the shared counters cannot be reached; none for what the store says.
    pub fn on_failure(&self) -> Option<OnFailure> {
        self.on_failure
    }

    /// The callers that it applies to.
    pub fn when(&self) -> When {
        self.when
    }

    /// The factor, in thousandths, that made its capacity of its rate; none if the capacity was written
    /// otherwise.
    pub fn allowance(&self) -> Option<u32> {
        self.origin.allowance.as_ref().map(|(_, factor)| *factor)
    }

    /// What its children may be given.
    pub fn budget(&self) -> Budget {
        self.budget
    }
}

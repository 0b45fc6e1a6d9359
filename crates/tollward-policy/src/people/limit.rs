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
    pub(crate) sharing: Sharing,
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

    /// The numbers.
    pub fn limit(&self) -> &Limit {
        &self.limit
    }

    /// What those below have of it.
    pub fn sharing(&self) -> Sharing {
        self.sharing
    }

    /// What its children may be given.
    pub fn budget(&self) -> Budget {
        self.budget
    }
}

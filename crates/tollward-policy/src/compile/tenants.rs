use super::limits::origin;
use super::store::decided;
use super::{Compiler, word};
use crate::config::{
    self, BudgetMode, Fault, File, Place, RateLimit, ScopeWord, Sharing, Strategy, When,
};
use crate::people::{Budget, TenantLimit};

/// Reads a tenant's limit that is not in the file.
pub(crate) fn tenant_limit(text: &str) -> Result<TenantLimit, Vec<Fault>> {
    compiled(&config::read_limit(text.as_bytes())?)
}

/// The same of a limit that was stored by this version or an earlier one.
pub(crate) fn stored_tenant_limit(text: &str) -> Result<TenantLimit, Vec<Fault>> {
    let mut written = config::read_limit(text.as_bytes())?;
    let rate = written.sustained.rate.value;
    let budget = written.budget.as_mut();
    if let Some(total) = budget.and_then(|budget| budget.total.as_mut()) {
        total.value = total.value.min(rate);
    }
    compiled(&written)
}

fn compiled(written: &RateLimit) -> Result<TenantLimit, Vec<Fault>> {
    let reading = config::read_bytes(b"{}");
    let mut compiler = Compiler::default();
    let limit = reading
        .file
        .and_then(|empty| compiler.tenant_limit(written, &empty));
    match limit {
        Some(mut limit) if compiler.faults.is_empty() => {
            // No line of a file, and none to say on.
            limit.on_failure = word(written.on_failure.as_ref()).map(decided);
            limit.origin = Default::default();
            Ok(limit)
        }
        _ => Err(config::in_order(compiler.faults, 0)),
    }
}

impl Compiler {
    /// The limit of a tenant: of what a limit may be, what counts for all of its requests alike.
    pub(super) fn tenant_limit(&mut self, written: &RateLimit, file: &File) -> Option<TenantLimit> {
        self.check_tenant_scope(written);
        if let Some(degrade) = &written.degrade {
            self.fault(
                &degrade.place,
                "the limit of a tenant names no other upstream",
                "remove it: requests are then marked, and go where they would",
            );
        }
        let strategy = match word(written.strategy.as_ref()) {
            Some(Strategy::Degrade) if written.degrade.is_some() => crate::Strategy::Reject,
            _ => self.strategy(written, file),
        };
        let limit = self.numbers(written)?;
        let sharing = word(written.sharing.as_ref());
        Some(TenantLimit {
            limit,
            strategy,
            headers: word(written.response_headers.as_ref()).unwrap_or(true),
            cost: word(written.cost.as_ref()).unwrap_or(1),
            shadow: word(written.shadow.as_ref()).unwrap_or(false),
            on_failure: word(written.on_failure.as_ref()).map(decided),
            when: word(written.when.as_ref()).unwrap_or(When::Always),
            sharing,
            budget: self.budget(written, sharing),
            origin: origin(written),
        })
    }

    fn check_tenant_scope(&mut self, written: &RateLimit) {
        let Some(scope) = &written.scope else {
            return;
        };
        let words: Vec<ScopeWord> = scope.value.iter().map(|word| word.value).collect();
        if words != [ScopeWord::Tenant] {
            self.fault(
                &scope.place,
                "the limit of a tenant counts for the whole tenant",
                "remove `scope`; what counts for each of its users or routes is a plan's or a route's limit",
            );
        }
    }

    fn budget(&mut self, written: &RateLimit, sharing: Option<Sharing>) -> Budget {
        let rate = written.sustained.rate.value;
        let budget = written.budget.as_ref();
        let mode = word(budget.and_then(|it| it.mode.as_ref())).unwrap_or(BudgetMode::Unlimited);
        let total = budget.and_then(|it| it.total.as_ref());
        let ratio = budget.and_then(|it| it.overcommit_ratio.as_ref());
        if let (BudgetMode::Shared, Some(budget)) = (mode, budget) {
            if !matches!(sharing, Some(Sharing::Inherit | Sharing::Enforce)) {
                self.fault(
                    &budget.place,
                    "a shared budget that nobody can draw from",
                    "say `sharing: inherit` or `sharing: enforce` beside it",
                );
            }
            if let Some(total) = total.filter(|total| total.value != rate) {
                self.fault(
                    &total.place,
                    format!("a shared budget is the limit itself, which is {rate}"),
                    "remove `total`, or make it the same as `sustained.rate`",
                );
            }
            if let Some(ratio) = ratio.filter(|ratio| ratio.value != 1000) {
                self.fault(
                    &ratio.place,
                    "a shared budget is not allocated, so it cannot be overcommitted",
                    "remove `overcommit_ratio`, or say `mode: allocated`",
                );
            }
        }
        if let (BudgetMode::Allocated, Some(total)) = (mode, total.filter(|it| it.value > rate)) {
            self.fault(
                &total.place,
                format!(
                    "a budget of {} is more than the tenant's own rate, which is {rate}",
                    total.value
                ),
                "lower `total`, or raise `sustained.rate`; to give children more than there is, say \
                 `overcommit_ratio`",
            );
        }
        Budget {
            mode,
            total: word(total).unwrap_or(rate),
            ratio: word(ratio).unwrap_or(1000),
        }
    }

    /// Nobody is below a limit that is not a tenant's.
    pub(super) fn refuse_sharing(&mut self, written: &RateLimit) {
        let sharing: Option<&Place> = written.sharing.as_ref().map(|it| &it.place);
        let budget = written.budget.as_ref().map(|it| &it.place);
        for (place, field) in [(sharing, "sharing"), (budget, "budget")] {
            if let Some(place) = place {
                self.fault(
                    place,
                    format!("`{field}` on a limit that is not a tenant's"),
                    "remove it, or move the limit to `tenants`",
                );
            }
        }
    }
}

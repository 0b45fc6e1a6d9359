//! Whether what children are given fits what there is to give.

use serde::Serialize;
use serde_json::{Number, Value};
use tollward_directory::Edit;
use tollward_policy::config::BudgetMode;
use tollward_policy::{Allocation, Budget, Fit, Policy, ROOT, TenantLimit};
use utoipa::ToSchema;

use crate::doors::admin::failure::Failure;

/// Rates summed up by window: tokens, and seconds.
pub(super) type Rates = Vec<(u64, u32)>;

/// What of an allocated budget is given to children, all in the tenant's own window.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
#[schema(as = TenantBudget)]
pub(super) struct BudgetView {
    /// What the children were given together.
    #[schema(value_type = f64)]
    sum: Number,
    /// All there is to be given.
    budget: u32,
    /// How many times that may be given.
    #[schema(value_type = f64)]
    ratio: Number,
    /// What may still be given.
    #[schema(value_type = f64)]
    free: Number,
    /// The window that all of it is counted in, in seconds.
    window_secs: u32,
}

/// Something that was done, and is worth a thought.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub(super) struct Warning {
    /// `overcommitted`: the children of a tenant were given more than its budget, as they may be.
    reason: &'static str,
    /// The tenant whose budget it is.
    tenant: String,
    /// The arithmetic in words.
    detail: String,
    #[serde(flatten)]
    budget: BudgetView,
}

impl From<&Allocation> for BudgetView {
    fn from(allocation: &Allocation) -> Self {
        Self {
            sum: number(&allocation.sum()),
            budget: allocation.total(),
            ratio: number(&allocation.ratio()),
            free: number(&allocation.free()),
            window_secs: allocation.window_secs(),
        }
    }
}

/// A decimal as a number of JSON.
fn number(decimal: &str) -> Number {
    let fraction = || decimal.parse().ok().and_then(Number::from_f64);
    let whole = decimal.parse::<u64>().map(Number::from);
    whole.ok().or_else(fraction).unwrap_or_else(|| 0.into())
}

/// Judges a budget. Beyond what it may be given, nothing is done; beyond what there is, it is said.
pub(super) fn judge(tenant: &str, allocation: &Allocation) -> Result<Option<Warning>, Failure> {
    match allocation.fit() {
        Fit::Fits => Ok(None),
        Fit::Overcommitted => Ok(Some(Warning {
            reason: "overcommitted",
            tenant: tenant.to_owned(),
            detail: format!("The budget of {tenant:?} is overcommitted: {allocation}."),
            budget: allocation.into(),
        })),
        Fit::Exceeds => {
            let detail = format!(
                "The budget of {tenant:?} does not allow it: {allocation}. Ask for less, or raise its \
                 `budget.total` or `budget.overcommit_ratio`."
            );
            let budget = BudgetView::from(allocation);
            Err(Failure::conflict("budget_exceeded", detail)
                .with("tenant", tenant)
                .with("sum", Value::Number(budget.sum))
                .with("budget", budget.budget)
                .with("ratio", Value::Number(budget.ratio))
                .with("free", Value::Number(budget.free))
                .with("window_secs", budget.window_secs))
        }
    }
}

/// Whether a child asks for more of its parent than it has.
pub(super) fn asks_for_more(before: Option<(u64, u32)>, after: Option<(u64, u32)>) -> bool {
    let per_second = |given: Option<(u64, u32)>| given.unwrap_or((0, 1));
    let ((old, old_window), (new, new_window)) = (per_second(before), per_second(after));
    u128::from(new) * u128::from(old_window) > u128::from(old) * u128::from(new_window)
}

/// Whether a limit leaves less to be given to children than the one before. Without an allocated budget,
/// all that they want may be given.
pub(super) fn gives_less(before: Option<&TenantLimit>, after: &TenantLimit) -> bool {
    // Thousandths of tokens, and in how many seconds.
    let given = |limit: &TenantLimit| {
        let Budget { mode, total, ratio } = limit.budget();
        let most = u128::from(total) * u128::from(ratio);
        let window = u128::from(limit.limit().window().as_secs());
        (mode == BudgetMode::Allocated).then_some((most, window))
    };
    match (before.and_then(given), given(after)) {
        (_, None) => false,
        (None, Some(_)) => true,
        (Some((old, old_window)), Some((new, new_window))) => new * old_window < old * new_window,
    }
}

/// What the children of `parent` have, in the file and in the directory, without `except`.
pub(super) async fn given(
    parent: &str,
    except: Option<&str>,
    edit: &mut Edit,
    policy: &Policy,
) -> Result<Rates, Failure> {
    let stored = edit.allocated(parent, except).await?;
    Ok(with_file(stored, parent, except, policy))
}

/// The sums of the directory with those of the file. What the file hides does not count.
pub(super) fn with_file(
    stored: Vec<(i64, u32)>,
    parent: &str,
    except: Option<&str>,
    policy: &Policy,
) -> Rates {
    let is_child = |id: &str, above: Option<&str>| {
        id != ROOT && Some(id) != except && above.unwrap_or(ROOT) == parent
    };
    let mut sums: Rates = stored
        .into_iter()
        .map(|(rates, window)| (u64::try_from(rates).unwrap_or(0), window))
        .collect();
    for (id, entry) in policy.hidden_tenants() {
        let limit = entry.limit.as_deref();
        let limit = limit.filter(|_| is_child(id, entry.parent.as_deref()));
        let Some((rate, window)) = limit.map(TenantLimit::allotted) else {
            continue;
        };
        if let Some(sum) = sums.iter_mut().find(|(_, other)| *other == window) {
            sum.0 = sum.0.saturating_sub(rate);
        }
    }
    let written = policy
        .file_tenants()
        .filter(|(id, entry)| is_child(id, entry.parent.as_deref()))
        .filter_map(|(_, entry)| entry.limit.as_deref().map(TenantLimit::allotted));
    sums.extend(written);
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allocation(ratio: &str, others: &[(u64, u32)], child: (u64, u32)) -> Allocation {
        let limit = format!(
            "{{ sustained: {{ rate: 5000, window: minute }}, \
             budget: {{ mode: allocated, total: 5000, overcommit_ratio: {ratio} }} }}"
        );
        let parent = TenantLimit::parse(&limit).unwrap();
        Allocation::new(&parent, others.iter().copied(), Some(child)).unwrap()
    }

    #[test]
    fn the_arithmetic_of_the_reference() {
        let others = [(2000, 60), (1000, 60)];
        let refused = judge("partner", &allocation("1.0", &others, (3000, 60)));
        let problem = format!("{:?}", refused.unwrap_err());
        for words in ["budget_exceeded", "6000", "5000", "2000"] {
            assert!(problem.contains(words), "{problem}");
        }
        let warned = judge("partner", &allocation("1.5", &others, (3000, 60)));
        let warning = warned.unwrap().unwrap();
        assert_eq!(warning.budget.sum, 6000.into());
        assert_eq!(warning.budget.ratio, Number::from_f64(1.5).unwrap());
        assert_eq!(warning.budget.free, 4500.into());
        let fits = judge("partner", &allocation("1.0", &others, (2000, 60)));
        assert_eq!(fits.unwrap(), None);
    }

    #[test]
    fn more_is_told_from_less_in_any_window() {
        let minute = |rate| Some((rate, 60));
        assert!(asks_for_more(None, minute(1)));
        assert!(asks_for_more(minute(60), Some((2, 1))));
        assert!(!asks_for_more(minute(60), Some((1, 1))));
        assert!(!asks_for_more(minute(60), Some((3600, 3600))));
        assert!(!asks_for_more(minute(60), None));
        assert!(!asks_for_more(None, None));
    }

    #[test]
    fn what_is_left_to_be_given_is_told_from_more() {
        let limit = |rate, window, budget| {
            let text =
                format!("{{ sustained: {{ rate: {rate}, window: {window} }}, budget: {budget} }}");
            TenantLimit::parse(&text).unwrap()
        };
        let allocated = |total: u32, ratio: &str| {
            format!("{{ mode: allocated, total: {total}, overcommit_ratio: {ratio} }}")
        };
        let old = limit(100, "minute", allocated(60, "1.5"));
        let none = limit(100, "minute", "{ mode: unlimited }".to_owned());
        assert!(gives_less(None, &old));
        assert!(gives_less(Some(&none), &old));
        assert!(!gives_less(Some(&old), &none));
        assert!(!gives_less(Some(&old), &old));
        for (rate, window, total, ratio, less) in [
            (100, "minute", 59, "1.5", true),
            (100, "minute", 60, "1.4", true),
            (100, "minute", 90, "1.0", false),
            (60, "minute", 60, "1.5", false),
            (100, "second", 2, "1.0", false),
            (100, "second", 1, "1.0", true),
        ] {
            let new = limit(rate, window, allocated(total, ratio));
            assert_eq!(
                gives_less(Some(&old), &new),
                less,
                "{rate} {window} {total} {ratio}"
            );
        }
    }

    #[test]
    fn decimals_are_numbers() {
        assert_eq!(number("3000").to_string(), "3000");
        assert_eq!(number("0.125").to_string(), "0.125");
        assert_eq!(number("x").to_string(), "0");
    }
}

//! A tenant's `rate_limit`, as it is sent and shown.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tollward_core::Algorithm;
use tollward_policy::TenantLimit;
use tollward_policy::config::{BudgetMode, Fault};
use utoipa::ToSchema;
use utoipa::openapi::{Object, RefOr, Schema};

use crate::doors::admin::failure::Failure;

/// A limit in the language of the configuration file. Its schema is that of the file.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(transparent)]
pub(in crate::doors::admin) struct RateLimit(pub(in crate::doors::admin) Value);

impl utoipa::PartialSchema for RateLimit {
    fn schema() -> RefOr<Schema> {
        // What is written there replaces it, see `openapi`.
        Schema::Object(Object::new()).into()
    }
}

impl ToSchema for RateLimit {}

impl RateLimit {
    /// Reads it as the file is read.
    pub(super) fn checked(&self) -> Result<TenantLimit, Failure> {
        TenantLimit::parse(&self.0.to_string()).map_err(|faults| faulty(&faults))
    }

    /// As it would be written in a file.
    pub(super) fn of(limit: &TenantLimit) -> Self {
        let numbers = limit.limit();
        let mut written = json!({
            "sustained": {
                "rate": numbers.rate(),
                "window": format!("{}s", numbers.window().as_secs()),
            },
            "sharing": limit.sharing().word(),
        });
        match numbers.algorithm() {
            Algorithm::TokenBucket => written["burst"] = json!({ "capacity": numbers.capacity() }),
            Algorithm::SlidingWindow => written["algorithm"] = "sliding_window".into(),
        }
        let budget = limit.budget();
        written["budget"] = match budget.mode {
            BudgetMode::Allocated => json!({
                "mode": budget.mode.word(),
                "total": budget.total,
                "overcommit_ratio": f64::from(budget.ratio) / 1000.0,
            }),
            _ => json!({ "mode": budget.mode.word() }),
        };
        Self(written)
    }
}

/// All faults of a limit, each with its place.
pub(in crate::doors::admin) fn faulty(faults: &[Fault]) -> Failure {
    let errors = faults.iter().map(error).collect();
    let detail = match faults {
        [fault] => format!("`{}`: {}", fault.place.path, fault.message),
        faults => format!("The limit has {} faults.", faults.len()),
    };
    Failure::new(
        http::StatusCode::UNPROCESSABLE_ENTITY,
        "invalid_limit",
        detail,
    )
    .with("errors", Value::Array(errors))
}

fn error(fault: &Fault) -> Value {
    let hint = fault.hint.as_deref();
    json!({
        "place": &*fault.place.path,
        "message": fault.message,
        "hint": hint.unwrap_or("see the schema `RateLimit` in /admin/openapi.json"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_shown_reads_the_same() {
        for written in [
            json!({ "sustained": { "rate": 10 } }),
            json!({ "sustained": { "rate": 10, "window": "hour" }, "burst": { "capacity": 3 }, "sharing": "enforce" }),
            json!({ "algorithm": "sliding_window", "sustained": { "rate": 10, "window": "5m" } }),
            json!({
                "sustained": { "rate": 10, "window": "minute" },
                "sharing": "inherit",
                "budget": { "mode": "allocated", "total": 5, "overcommit_ratio": 1.25 },
            }),
            json!({ "sustained": { "rate": 10 }, "sharing": "inherit", "budget": { "mode": "shared" } }),
        ] {
            let limit = RateLimit(written).checked().unwrap();
            let again = RateLimit::of(&limit).checked().unwrap();
            assert_eq!(again.limit(), limit.limit());
            assert_eq!(again.sharing(), limit.sharing());
            assert_eq!(again.budget(), limit.budget());
        }
    }

    #[test]
    fn what_is_no_limit_is_refused() {
        for wrong in [
            json!(null),
            json!(5),
            json!("x: y"),
            json!([]),
            json!({}),
            json!({ "sustained": { "rate": 0 } }),
            json!({ "sustained": { "rate": "10" } }),
            json!({ "sustained": { "rate": 1.5 } }),
            json!({ "sustained": { "rate": 1e30 } }),
            json!({ "sustained": { "rate": 10 }, "brust": 1 }),
        ] {
            assert!(RateLimit(wrong.clone()).checked().is_err(), "{wrong}");
        }
    }
}

//! A tenant's `rate_limit`, as it is sent and shown.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tollward_core::{Algorithm, OnFailure};
use tollward_policy::config::{BudgetMode, Fault, When};
use tollward_policy::{Strategy, TenantLimit};
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

    /// As it would be written in a file: everything that it says, and no default that it does not say.
    pub(super) fn of(limit: &TenantLimit) -> Self {
        let numbers = limit.limit();
        let mut written = Map::new();
        let mut put = |name: &str, value: Value| _ = written.insert(name.to_owned(), value);
        put(
            "sustained",
            json!({ "rate": numbers.rate(), "window": format!("{}s", numbers.window().as_secs()) }),
        );
        match (numbers.algorithm(), limit.allowance()) {
            (Algorithm::SlidingWindow, _) => put("algorithm", "sliding_window".into()),
            (_, Some(factor)) => put("burst", json!({ "allowance": f64::from(factor) / 1000.0 })),
            (_, None) => put("burst", json!({ "capacity": numbers.capacity() })),
        }
        match limit.strategy() {
            Strategy::Reject => {}
            Strategy::Queue {
                max_wait,
                max_queue,
            } => {
                put("strategy", "queue".into());
                let max_wait = format!("{}ms", max_wait.as_millis());
                put(
                    "queue",
                    json!({ "max_wait": max_wait, "max_queue": max_queue }),
                );
            }
            // The limit of a tenant names no other upstream.
            Strategy::Degrade { .. } => put("strategy", "degrade".into()),
        }
        if limit.cost() != 1 {
            put("cost", limit.cost().into());
        }
        if limit.shadow() {
            put("shadow", true.into());
        }
        if !limit.headers() {
            put("response_headers", false.into());
        }
        if limit.when() != When::Always {
            put("when", limit.when().word().into());
        }
        if let Some(on_failure) = limit.on_failure() {
            let word = match on_failure {
                OnFailure::Local => "local",
                OnFailure::Open => "open",
                OnFailure::Closed => "closed",
            };
            put("on_failure", word.into());
        }
        if let Some(sharing) = limit.sharing() {
            put("sharing", sharing.word().into());
        }
        let budget = limit.budget();
        put(
            "budget",
            match budget.mode {
                BudgetMode::Allocated => json!({
                    "mode": budget.mode.word(),
                    "total": budget.total,
                    "overcommit_ratio": f64::from(budget.ratio) / 1000.0,
                }),
                _ => json!({ "mode": budget.mode.word() }),
            },
        );
        Self(Value::Object(written))
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
            json!({
                "sustained": { "rate": 10 }, "burst": { "allowance": 1.5 }, "cost": 2,
                "strategy": "queue", "queue": { "max_wait": "1500ms", "max_queue": 7 },
                "when": "authenticated", "on_failure": "closed", "response_headers": false,
            }),
            json!({ "sustained": { "rate": 10 }, "shadow": true, "on_failure": "open" }),
            json!({ "sustained": { "rate": 10 }, "strategy": "degrade", "on_failure": "local", "when": "anonymous" }),
        ] {
            let limit = RateLimit(written.clone()).checked().unwrap();
            let shown = RateLimit::of(&limit);
            // Nothing of what was written is left out.
            for name in written.as_object().unwrap().keys() {
                assert!(
                    shown.0.get(name).is_some(),
                    "{name} of {written} in {shown:?}"
                );
            }
            let again = shown.checked().unwrap();
            assert_eq!(format!("{again:?}"), format!("{limit:?}"), "{written}");
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

//! The policy of the larger measurements: examples/ai-api.yaml.

use anyhow::{anyhow, ensure};
use tollward_policy::{Policy, compile};

/// Buckets that a server holds if its configuration does not say.
pub(crate) const DEFAULT_MAX_BUCKETS: usize = 4_000_000;

/// Users among whom requests are spread.
pub(crate) const USERS: u32 = 1000;

pub(crate) const AS_SHIPPED: &str = include_str!("../../examples/ai-api.yaml");

/// The same with a free plan that is never exhausted.
pub(crate) fn generous() -> anyhow::Result<String> {
    let (rate, capacity) = ("{ rate: 10,", "{ capacity: 100 }");
    ensure!(
        AS_SHIPPED.contains(rate) && AS_SHIPPED.contains(capacity),
        "the free plan of examples/ai-api.yaml has changed"
    );
    Ok(AS_SHIPPED
        .replacen(rate, "{ rate: 1000000000,", 1)
        .replacen(capacity, "{ capacity: 1000000000 }", 1))
}

pub(crate) fn compiled(text: &str) -> anyhow::Result<Policy> {
    let compiled = compile(text.as_bytes());
    let compiled = compiled.map_err(|faults| anyhow!("the policy has {} faults", faults.len()))?;
    Ok(compiled.policy)
}

use std::fmt::Write;

use http::header::{
    ACCESS_CONTROL_EXPOSE_HEADERS, CACHE_CONTROL, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER,
};
use tollgate_engine::{Decision, LimitStatus};
use tollgate_policy::ResponseOptions;
use tollgate_policy::config::HeaderStyle;

const X_LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
const X_REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
const X_RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");
const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const RATELIMIT: HeaderName = HeaderName::from_static("ratelimit");
const EXPOSED: HeaderValue = HeaderValue::from_static(
    "X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset, \
     RateLimit-Policy, RateLimit, Retry-After",
);
/// The largest integer of a structured field.
const MAX_INTEGER: u64 = 999_999_999_999_999;

/// Writes what a decision tells a client: the state of its limits, and when to come again.
pub fn write_headers(decision: &Decision<'_>, options: &ResponseOptions, headers: &mut HeaderMap) {
    if !decision.allowed {
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if let Some(secs) = decision.retry_after_secs() {
            headers.insert(RETRY_AFTER, secs.into());
        }
    }
    let mut written = false;
    for style in &options.headers {
        written |= match style {
            HeaderStyle::XRateLimit => write_x_ratelimit(decision, options, headers),
            HeaderStyle::Ietf => write_ietf(decision, headers),
        };
    }
    if written && options.expose_headers {
        headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
    }
}

fn write_x_ratelimit(
    decision: &Decision<'_>,
    options: &ResponseOptions,
    headers: &mut HeaderMap,
) -> bool {
    let Some(status) = decision.shown().filter(|status| status.limit.headers) else {
        return false;
    };
    headers.insert(X_LIMIT, status.limit.shown(options.limit).into());
    headers.insert(X_REMAINING, status.remaining.into());
    headers.insert(X_RESET, decision.reset_at(status).into());
    true
}

/// `RateLimit-Policy` and `RateLimit` as lists of structured-field strings with parameters. Names hold
/// no quotes and no backslashes: the policy's compiler has seen to that.
fn write_ietf(decision: &Decision<'_>, headers: &mut HeaderMap) -> bool {
    let (mut policies, mut states) = (String::new(), String::new());
    for status in &decision.limits {
        if status.shadow || !status.limit.headers {
            continue;
        }
        let separator = if policies.is_empty() { "" } else { ", " };
        let (name, limit) = (&status.limit.name, &status.limit.limit);
        let fill = limit.fill_secs().clamp(1, MAX_INTEGER);
        let (left, secs) = (status.remaining, effective_secs(decision, status));
        // Writing to a string does not fail.
        let _ = write!(
            policies,
            "{separator}\"{name}\";q={};w={fill}",
            limit.capacity()
        );
        let _ = write!(states, "{separator}\"{name}\";r={left};t={secs}");
    }
    let (Ok(policies), Ok(states)) = (
        HeaderValue::try_from(policies),
        HeaderValue::try_from(states),
    ) else {
        return false;
    };
    if policies.is_empty() {
        return false;
    }
    headers.insert(POLICY, policies);
    headers.insert(RATELIMIT, states);
    true
}

/// When to come again, for a limit that refused; else when the limit is full.
fn effective_secs(decision: &Decision<'_>, status: &LimitStatus<'_>) -> u64 {
    let full = status.full_after_us.div_ceil(1_000_000);
    let secs = match decision.retry_after_secs() {
        Some(secs) if status.denied => secs,
        _ => full,
    };
    secs.min(MAX_INTEGER)
}

use serde_json::{Value, json};
use tollward_engine::Reason;
use tollward_policy::config::BodyStyle;

use crate::calendar::iso;
use crate::{Problem, Told, status};

impl Told<'_, '_> {
    /// The body of a refusal, and its media type. Only refusals for want of tokens have a style; all
    /// others are problems.
    pub fn refusal(&self) -> (&'static str, Value) {
        let limited = self.decision.reason == Some(Reason::Limit);
        match self.options.body {
            BodyStyle::Nested if limited => ("application/json", nested(self)),
            BodyStyle::Flat if limited => ("application/json", flat(self)),
            BodyStyle::OAuth if limited => ("application/json", oauth(self)),
            _ => (Problem::MEDIA_TYPE, self.problem().to_json()),
        }
    }

    /// The refusal as a problem.
    pub fn problem(&self) -> Problem {
        problem(self)
    }
}

fn nested(told: &Told<'_, '_>) -> Value {
    let shown = Shown::of(told);
    json!({ "error": {
        "code": "RATE_LIMIT_EXCEEDED",
        "message": format!("Rate limit exceeded. {}", shown.advice()),
        "retryAfter": shown.retry_after,
        "limit": shown.limit,
        "remaining": shown.remaining,
        "resetAt": shown.reset_at,
    }})
}

fn flat(told: &Told<'_, '_>) -> Value {
    let shown = Shown::of(told);
    json!({
        "error": "Rate limit exceeded",
        "message": format!("Too many requests. {}", shown.advice()),
        "limit": shown.limit,
        "remaining": shown.remaining,
        "resetAt": shown.reset_at,
    })
}

fn oauth(told: &Told<'_, '_>) -> Value {
    let retry_after = told.retry_after_secs();
    json!({
        "error": "rate_limit_exceeded",
        "error_description": format!("Too many requests. {}", advice(retry_after)),
        "retry_after": retry_after,
    })
}

fn problem(told: &Told<'_, '_>) -> Problem {
    let decision = told.decision;
    let status = status(decision);
    let violated = || -> Value {
        let names = decision.limits.iter().filter(|it| it.refuses());
        names.map(|it| &*it.limit.name).collect()
    };
    match decision.reason {
        Some(Reason::Limit) => Problem::new(
            status,
            format!("Too many requests. {}", advice(told.retry_after_secs())),
        )
        .with(
            "type",
            "https://iana.org/assignments/http-problem-types#quota-exceeded",
        )
        .with("violated-policies", violated()),
        Some(Reason::CostExceedsCapacity) => Problem::new(
            status,
            "The request costs more than a limit holds, so it can never be admitted. Ask for less.",
        )
        .with("violated-policies", violated()),
        // Two refusals of one status, told apart as the decision API tells them apart.
        Some(reason @ Reason::Denied) => {
            Problem::new(status, "Access is denied.").with("reason", reason.word())
        }
        Some(reason @ Reason::Suspended) => Problem::new(
            status,
            "The account or the API key is suspended. Ask the operator of this service.",
        )
        .with("reason", reason.word()),
        _ => Problem::new(
            status,
            "Limits cannot be checked right now. Try again shortly.",
        ),
    }
}

/// What the styled bodies tell of the limit that binds.
struct Shown {
    retry_after: Option<u64>,
    limit: Option<u32>,
    remaining: Option<u32>,
    reset_at: Option<String>,
}

impl Shown {
    fn of(told: &Told<'_, '_>) -> Self {
        let shown = told.decision.shown();
        Self {
            retry_after: told.retry_after_secs(),
            limit: shown.map(|it| it.limit.shown(told.options.limit)),
            remaining: shown.map(|it| it.remaining),
            reset_at: shown.map(|it| iso(told.decision.reset_at(it))),
        }
    }

    fn advice(&self) -> String {
        advice(self.retry_after)
    }
}

fn advice(retry_after: Option<u64>) -> String {
    match retry_after {
        Some(1) => "Retry after 1 second.".into(),
        Some(secs) => format!("Retry after {secs} seconds."),
        None => "Retry later.".into(),
    }
}

//! What is only ever added to: the audit trail, usage, answers that are remembered.

/// One event of the audit trail.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditEvent {
    /// Its number, given when it is written; greater ones were written later.
    pub id: i64,
    /// When it happened, in Unix milliseconds.
    pub at: i64,
    /// What happened, such as `rate_limit_exceeded`.
    pub event: String,
    /// How bad that is.
    pub severity: String,
    /// Who did it, if it was a change.
    pub actor: Option<String>,
    /// From where.
    pub address: Option<String>,
    /// Whom or what it concerns.
    pub identifier: Option<String>,
    /// The scope of the limit.
    pub scope: Option<String>,
    /// The route.
    pub route: Option<String>,
    /// The limit's name.
    pub limit: Option<String>,
    /// When to try again, in milliseconds from then.
    pub retry_after_ms: Option<i64>,
    /// How often, since the event of this kind before it.
    pub count: i64,
    /// What was there before, as JSON.
    pub before: Option<String>,
    /// What was there after it, as JSON.
    pub after: Option<String>,
    /// The node that tells it.
    pub node: String,
}

/// Which events are asked for: those that all of it is true of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditFilter {
    /// Of this name.
    pub event: Option<String>,
    /// Done by this one.
    pub actor: Option<String>,
    /// Concerning this one.
    pub identifier: Option<String>,
    /// From then on, in Unix milliseconds.
    pub since_ms: Option<i64>,
    /// Before then, in Unix milliseconds.
    pub until_ms: Option<i64>,
}

/// How much time one roll-up is of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Granularity {
    /// 60 s.
    #[default]
    Minute,
    /// 3600 s.
    Hour,
    /// 86 400 s, by the calendar of UTC.
    Day,
}

impl Granularity {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Minute, Self::Hour, Self::Day];

    /// Its length, in seconds.
    pub const fn secs(self) -> i64 {
        match self {
            Self::Minute => 60,
            Self::Hour => 3600,
            Self::Day => 86_400,
        }
    }
}

/// What callers of one tenant and plan did on one route in one span of time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UsageRow {
    /// How long the span is.
    pub granularity: Granularity,
    /// When it begins, in Unix seconds.
    pub start: i64,
    /// The tenant; empty if there is none.
    pub tenant: String,
    /// The plan; empty if there is none.
    pub plan: String,
    /// The route; empty if there is none.
    pub route: String,
    /// Requests, refused ones too.
    pub requests: i64,
    /// Requests that were refused.
    pub refusals: i64,
    /// Tokens taken.
    pub tokens: i64,
    /// Errors of the upstream.
    pub errors: i64,
}

/// Which roll-ups are asked for: those that all of it is true of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UsageFilter {
    /// Of this length.
    pub granularity: Granularity,
    /// Of this tenant.
    pub tenant: Option<String>,
    /// Of this plan.
    pub plan: Option<String>,
    /// On this route.
    pub route: Option<String>,
    /// That begin then or later, in Unix seconds.
    pub since: Option<i64>,
    /// That begin before then, in Unix seconds.
    pub until: Option<i64>,
}

/// An answer that is given again when the same is asked again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Remembered {
    /// The caller's key for it.
    pub key: String,
    /// Who asked. The keys of one are not those of another.
    pub actor: String,
    /// Tells whether the same is asked.
    pub fingerprint: String,
    /// The answer's status.
    pub status: u16,
    /// The answer's body. No secret is in it.
    pub body: String,
    /// When it was given, in Unix milliseconds.
    pub created_at: i64,
}

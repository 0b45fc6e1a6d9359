use smallvec::SmallVec;
use tollward_core::Timestamp;
use tollward_policy::{LimitId, PolicyLimit};
use tollward_store as store;

/// The answer to a request: plain data that every door renders.
#[derive(Clone, Debug)]
pub struct Decision<'p> {
    /// Whether the request may go on.
    pub allowed: bool,
    /// What is to be done.
    pub action: Action,
    /// Why, when that is not simply that there is enough left.
    pub reason: Option<Reason>,
    /// The limit to show: the one that binds, or the one nearest to it. An index of `limits`.
    pub binding: Option<usize>,
    /// When this request would be admitted by all its limits, in microseconds from `at`; none if it is
    /// now, or if it never would be. If it is to wait in the queue, for how long: its tokens are taken.
    pub wait_us: Option<u64>,
    /// The limit that had too little left and let it through to be served more cheaply. An index of
    /// `limits`.
    pub degraded: Option<usize>,
    /// Where it was decided.
    pub source: Source,
    /// When, by the clock that decisions are made by.
    pub now: Timestamp,
    /// When, by the calendar.
    pub at: Timestamp,
    /// The state of every limit of the request, in the order of its charges.
    pub limits: SmallVec<[LimitStatus<'p>; 4]>,
}

/// What is to be done with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Let it through.
    Allow,
    /// Refuse it.
    Deny,
    /// Let it through without looking at limits.
    Bypass,
    /// Let it through after [`Decision::wait_us`].
    Queue,
    /// Let it through, to be served more cheaply.
    Degrade,
}

/// Why a request was decided so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// A limit refused it.
    Limit,
    /// It costs more than one of its limits can ever hold.
    CostExceedsCapacity,
    /// Its route is denied to all, or the deny-list names the caller.
    Denied,
    /// The caller's API key, user or tenant is suspended.
    Suspended,
    /// The allow-list names the caller.
    AllowList,
    /// Its route is open to all.
    OpenRoute,
    /// Enforcement is off.
    EnforcementOff,
    /// The store could not decide.
    StoreUnavailable,
}

/// Where a decision was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// By counters in this process.
    Memory,
    /// By the counters in Redis.
    Redis,
    /// By this node's share of the limits, for want of Redis.
    Local,
    /// By nobody, for want of Redis.
    Open,
    /// By a refusal of Redis that still holds.
    Remembered,
    /// By no counter at all.
    None,
}

/// One limit after the decision.
#[derive(Clone, Copy, Debug)]
pub struct LimitStatus<'p> {
    /// The limit.
    pub limit: &'p PolicyLimit,
    /// Its place in the policy.
    pub id: LimitId,
    /// The tokens asked of it.
    pub cost: u64,
    /// Whole tokens left.
    pub remaining: u32,
    /// Microseconds until it is full again.
    pub full_after_us: u64,
    /// It would not admit the request.
    pub denied: bool,
    /// It does not count: what it denies is let through.
    pub shadow: bool,
    /// It is empty, and lets the request through to be served more cheaply.
    pub degrades: bool,
    /// How long it makes the request wait in its queue, in microseconds.
    pub queued_us: u64,
}

impl LimitStatus<'_> {
    /// Whether the request is refused because of it.
    pub fn refuses(&self) -> bool {
        self.denied && !self.shadow && !self.degrades
    }
}

impl<'p> Decision<'p> {
    /// The limit to show.
    pub fn shown(&self) -> Option<&LimitStatus<'p>> {
        self.limits.get(self.binding?)
    }

    /// Whole seconds to wait, rounded up, at least 1.
    pub fn retry_after_secs(&self) -> Option<u64> {
        self.wait_us.map(|wait| wait.div_ceil(1_000_000).max(1))
    }

    /// Milliseconds to wait, rounded up.
    pub fn retry_after_ms(&self) -> Option<u64> {
        self.wait_us.map(|wait| wait.div_ceil(1000).max(1))
    }

    /// When a limit is full again: Unix seconds, rounded up.
    pub fn reset_at(&self, status: &LimitStatus<'_>) -> u64 {
        self.at.saturating_add(status.full_after_us).ceil_secs()
    }
}

impl Action {
    /// As it is written in answers.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Deny => "deny",
            Self::Bypass => "bypass",
            Self::Queue => "queue",
            Self::Degrade => "degrade",
        }
    }
}

impl Reason {
    /// Whether the request is refused whatever its limits are: in shadow too.
    pub const fn is_ban(self) -> bool {
        matches!(self, Self::Denied | Self::Suspended)
    }

    /// As it is written in answers.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Limit => "limit",
            Self::CostExceedsCapacity => "cost_exceeds_capacity",
            Self::Denied => "denied",
            Self::Suspended => "suspended",
            Self::AllowList => "allow_list",
            Self::OpenRoute => "open_route",
            Self::EnforcementOff => "enforcement_off",
            Self::StoreUnavailable => "store_unavailable",
        }
    }
}

impl From<store::Source> for Source {
    fn from(source: store::Source) -> Self {
        match source {
            store::Source::Memory => Self::Memory,
            store::Source::Redis => Self::Redis,
            store::Source::Local => Self::Local,
            store::Source::Open => Self::Open,
            store::Source::Remembered => Self::Remembered,
        }
    }
}

impl Source {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Memory,
        Self::Redis,
        Self::Local,
        Self::Open,
        Self::Remembered,
        Self::None,
    ];

    /// As it is written in answers.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Redis => "redis",
            Self::Local => "local",
            Self::Open => "open",
            Self::Remembered => "remembered",
            Self::None => "none",
        }
    }
}

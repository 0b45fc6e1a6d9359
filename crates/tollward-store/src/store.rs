use std::fmt;
use std::future::Future;
use std::pin::Pin;

use tollward_core::{Charge, Judgement, Level, Timestamp};

/// Keeps what was spent, and decides by it.
pub trait Store: Send + Sync {
    /// Applies every charge or none, as if at one instant: concurrent callers see some serial order.
    /// Answers whether the request is admitted, and writes what each bucket said to `outcomes`, which
    /// is as long as `charges`.
    ///
    /// The request is admitted if every charge that is not `shadow` is. A refused request writes
    /// nothing (but see [`Level::stepped_back`]). A shadow charge is taken only if the request is
    /// admitted and the charge itself would be.
    fn apply<'a>(
        &'a self,
        charges: &'a [Charge<'a>],
        outcomes: &'a mut [Outcome],
        mode: Mode,
        now: Timestamp,
    ) -> Reply<'a, Verdict>;

    /// Gives back charges that [`Store::apply`] took at `charged_at`: never more than was spent. Charges
    /// that were not taken (a shadow that would have refused) are not to be among them.
    fn credit<'a>(
        &'a self,
        charges: &'a [Charge<'a>],
        charged_at: Timestamp,
        now: Timestamp,
    ) -> Reply<'a, ()>;

    /// Forgets what was spent of the buckets of these charges: they are full afterwards. Costs and limits
    /// do not matter. A bucket that several keys share stays as it is: what it would get, others have spent.
    ///
    /// After an error some may be full and others not. It does no harm to do it again.
    fn reset<'a>(&'a self, charges: &'a [Charge<'a>], now: Timestamp) -> Reply<'a, ()>;
}

/// Whether an admitted request is charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Decide and take the tokens.
    Charge,
    /// Decide only.
    Peek,
}

/// A store's answer: at once, or after a round trip.
pub enum Reply<'a, T> {
    /// It is known already.
    Now(Result<T, StoreError>),
    /// It takes I/O.
    Later(Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>),
}

impl<T> Reply<'_, T> {
    /// The answer, waiting only if the store has to.
    pub async fn wait(self) -> Result<T, StoreError> {
        match self {
            Self::Now(answer) => answer,
            Self::Later(answer) => answer.await,
        }
    }
}

/// The decision over all charges of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Whether every charge that counts was admitted. If not, none was taken.
    pub admitted: bool,
    /// Who decided.
    pub source: Source,
}

/// Where a decision was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// In this process, which holds the counters.
    Memory,
    /// By the counters in Redis.
    Redis,
    /// By this node's share of the limits: the shared counters could not be reached.
    Local,
    /// By nobody: the shared counters could not be reached, and the limits say to let go.
    Open,
    /// In this process, by a refusal of Redis that still holds.
    Remembered,
}

/// One bucket after the decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// What this bucket said, whatever the others did.
    pub judgement: Judgement,
    /// Whole tokens left.
    pub remaining: u32,
    /// Microseconds until it is full again.
    pub full_after_us: u64,
    /// Whether its state is known at all. If not, nothing was asked of it and the rest means nothing.
    pub known: bool,
}

impl Outcome {
    /// The outcome of a bucket that nobody asked.
    pub const UNKNOWN: Self = Self {
        judgement: Judgement::Admit,
        remaining: 0,
        full_after_us: 0,
        known: false,
    };

    /// The outcome of a bucket that stands at `level` after it said `judgement`.
    #[inline(always)]
    pub fn new(judgement: Judgement, level: &Level) -> Self {
        Self {
            judgement,
            remaining: level.remaining(),
            full_after_us: level.full_after_us(),
            known: true,
        }
    }
}

impl Default for Outcome {
    /// An outcome not written yet: the strictest.
    fn default() -> Self {
        Self {
            judgement: Judgement::Never,
            remaining: 0,
            full_after_us: 0,
            known: true,
        }
    }
}

/// Why a store could not decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreError {
    /// It cannot be reached or did not answer in time. Whether the charges were taken is unknown, so
    /// they must not be sent again.
    Unavailable,
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unavailable => f.write_str("the store did not answer"),
        }
    }
}

impl std::error::Error for StoreError {}

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// What is counted of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// Requests let through, with this limit the nearest to binding.
    Allowed,
    /// Requests refused because of this limit.
    Denied,
    /// Requests let through that this limit, in shadow, would have refused.
    ShadowDenied,
    /// Requests that this limit made wait.
    Queued,
    /// Requests that this limit let through to be served more cheaply.
    Degraded,
}

impl Count {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Allowed,
        Self::Denied,
        Self::ShadowDenied,
        Self::Queued,
        Self::Degraded,
    ];

    /// As it is written in metrics.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::Denied => "denied",
            Self::ShadowDenied => "shadow_denied",
            Self::Queued => "queued",
            Self::Degraded => "degraded",
        }
    }
}

/// Counters that many threads add to without meeting: each thread has a cache line to itself, or
/// shares it with few.
#[derive(Debug, Default)]
pub struct Tally {
    stripes: [Stripe; STRIPES],
}

const STRIPES: usize = 16;

#[derive(Debug, Default)]
#[repr(align(64))]
struct Stripe([AtomicU64; Count::ALL.len()]);

impl Tally {
    /// Adds one.
    #[inline]
    pub fn add(&self, count: Count) {
        let stripe = &self.stripes[STRIPE.with(|stripe| *stripe)];
        stripe.0[count as usize].fetch_add(1, Relaxed);
    }

    /// The sum over all threads.
    pub fn sum(&self, count: Count) -> u64 {
        let of = |stripe: &Stripe| stripe.0[count as usize].load(Relaxed);
        self.stripes.iter().map(of).sum()
    }
}

static THREADS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static STRIPE: usize = THREADS.fetch_add(1, Relaxed) % STRIPES;
}

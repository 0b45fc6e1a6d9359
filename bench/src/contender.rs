//! Two limiters that do the same work: given a text, decide now.

use std::hint::black_box;
use std::num::NonZeroU32;
use std::time::Duration;

use governor::{DefaultKeyedRateLimiter, Quota};
use tollward_core::{Charge, Key, Limit, OnFailure, Window};
use tollward_engine::{Clock, SystemClock};
use tollward_store::{MemoryStore, Mode, Outcome, Reply, Store};

use crate::keys::Keys;

/// A limiter under load.
pub(crate) trait Contender: Sync {
    /// Decides about one token of this key's bucket, or buckets.
    #[expect(clippy::ptr_arg, reason = "governor's key is a String")]
    fn decide(&self, key: &String) -> bool;
}

/// What happens to most requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Load {
    /// There always is a token. Buckets are never full either: a full one holds nothing, and might be
    /// kept at no cost.
    Admitted,
    /// One token an hour, and that is spent.
    Refused,
}

impl Load {
    pub(crate) const ALL: [Self; 2] = [Self::Admitted, Self::Refused];

    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Admitted => "admitted",
            Self::Refused => "refused",
        }
    }

    /// Tokens to take from a new bucket, so that it is in this state for as long as a run may last.
    fn first_cost(self) -> NonZeroU32 {
        match self {
            Self::Admitted => const { NonZeroU32::new(100_000).unwrap() },
            Self::Refused => NonZeroU32::MIN,
        }
    }

    fn limit(self) -> Limit {
        match self {
            Self::Admitted => {
                const { valid(Limit::token_bucket(100, Window::SECOND, 4_000_000_000)) }
            }
            Self::Refused => const { valid(Limit::token_bucket(1, Window::HOUR, 1)) },
        }
    }

    fn quota(self) -> Quota {
        let (period, burst) = match self {
            Self::Admitted => (Duration::from_millis(10), 4_000_000_000),
            Self::Refused => (Duration::from_secs(3600), 1),
        };
        let burst = NonZeroU32::new(burst).unwrap_or(NonZeroU32::MIN);
        Quota::with_period(period).map_or(Quota::per_hour(burst), |quota| quota.allow_burst(burst))
    }
}

const fn valid(limit: Result<Limit, tollward_core::InvalidLimit>) -> Limit {
    match limit {
        Ok(limit) => limit,
        Err(_) => panic!("not a limit"),
    }
}

/// Tollward's memory store, asked with N limits at once for the same caller.
pub(crate) struct Tollward<const N: usize> {
    store: MemoryStore,
    clock: SystemClock,
    limit: Limit,
}

const NAMES: [&str; 4] = ["limit:per-user", "limit:daily", "limit:search", "plan:free"];
const FAMILIES: [&str; 4] = ["per-user", "daily", "search", "plan"];

impl<const N: usize> Tollward<N> {
    /// A store in which every key has its buckets.
    pub(crate) fn new(load: Load, keys: u32, max_buckets: usize) -> Self {
        let this = Self {
            store: MemoryStore::new(max_buckets),
            clock: SystemClock::new(),
            limit: load.limit(),
        };
        let mut all = Keys::new(keys, 0);
        for index in 0..keys {
            this.take(all.at(index), load.first_cost().get().into());
        }
        this
    }

    #[inline]
    fn take(&self, key: &str, cost: u64) -> bool {
        let charges: [Charge<'_>; N] = std::array::from_fn(|i| Charge {
            name: NAMES[i],
            limit: &self.limit,
            key: Key {
                family: FAMILIES[i],
                scope: key.as_bytes(),
            },
            cost,
            shadow: false,
            on_failure: OnFailure::Local,
        });
        let mut outcomes = [Outcome::default(); N];
        let now = self.clock.now();
        let reply = self.store.apply(&charges, &mut outcomes, Mode::Charge, now);
        let admitted = matches!(reply, Reply::Now(Ok(verdict)) if verdict.admitted);
        drop(reply);
        black_box(&outcomes);
        admitted
    }
}

impl<const N: usize> Contender for Tollward<N> {
    #[inline]
    fn decide(&self, key: &String) -> bool {
        self.take(key, 1)
    }
}

/// As many of governor's limiters, asked one after the other: not all or nothing.
pub(crate) struct Governor<const N: usize> {
    limiters: [DefaultKeyedRateLimiter<String>; N],
}

impl<const N: usize> Governor<N> {
    pub(crate) fn new(load: Load, keys: u32) -> Self {
        let limiters = std::array::from_fn(|_| DefaultKeyedRateLimiter::keyed(load.quota()));
        let mut all = Keys::new(keys, 0);
        for index in 0..keys {
            for limiter in &limiters {
                let _ = limiter.check_key_n(all.at(index), load.first_cost());
            }
        }
        Self { limiters }
    }
}

impl<const N: usize> Contender for Governor<N> {
    #[inline]
    fn decide(&self, key: &String) -> bool {
        let mut admitted = true;
        for limiter in &self.limiters {
            let answer = limiter.check_key(key);
            admitted &= black_box(&answer).is_ok();
        }
        admitted
    }
}

/// Decides nothing: what making the key costs.
pub(crate) struct Nobody;

impl Contender for Nobody {
    #[inline]
    fn decide(&self, key: &String) -> bool {
        black_box(key);
        true
    }
}

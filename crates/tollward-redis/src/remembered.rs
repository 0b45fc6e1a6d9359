//! Refusals that still hold: a caller that hammers on is refused without asking Redis each time.

use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tollward_core::{Charge, Judgement, Key, State, Timestamp};
use tollward_store::{Mode, Outcome};

/// How long a bucket is remembered as it was last seen. A refusal that lasts longer is asked for again,
/// so a reset, or tokens given back elsewhere, are noticed by then on every node.
const MAX_AGE_US: u64 = 250_000;
const SHARDS: usize = 16;
const PLACES: usize = 1024;

/// Buckets of requests that were refused, in a table of fixed size.
pub(crate) struct Remembered {
    shards: Vec<Mutex<Vec<Option<Entry>>>>,
    hasher: foldhash::quality::RandomState,
    /// When the last entry was made: long ago, and there is nothing to look for.
    latest_us: AtomicU64,
}

#[derive(Clone, Copy)]
struct Entry {
    hash: u64,
    state: Option<State>,
    /// When it was so, by the clock that decided.
    at: Timestamp,
    /// When it was asked for, by this node's clock.
    asked: Timestamp,
}

impl Remembered {
    pub(crate) fn new() -> Self {
        let shard = || Mutex::new(vec![None; PLACES]);
        Self {
            shards: (0..SHARDS).map(|_| shard()).collect(),
            hasher: foldhash::quality::RandomState::default(),
            latest_us: AtomicU64::new(0),
        }
    }

    /// Remembers a bucket of a refused request.
    pub(crate) fn note(&self, key: Key<'_>, state: Option<State>, at: Timestamp, asked: Timestamp) {
        let (hash, mut shard, place) = self.place(key);
        shard[place] = Some(Entry {
            hash,
            state,
            at,
            asked,
        });
        self.latest_us.fetch_max(asked.as_micros(), Relaxed);
    }

    /// Forgets a bucket.
    pub(crate) fn forget(&self, key: Key<'_>) {
        let (hash, mut shard, place) = self.place(key);
        if shard[place].is_some_and(|entry| entry.hash == hash) {
            shard[place] = None;
        }
    }

    /// Whether a request is sure to be refused. If so, writes what is known of its buckets to
    /// `outcomes`.
    ///
    /// What is spent of a bucket only grows, but by time, so what was seen of it is the best that it can
    /// be. (Given back and reset buckets are the exception: that is what the age is for.)
    pub(crate) fn refuses(
        &self,
        charges: &[Charge<'_>],
        outcomes: &mut [Outcome],
        mode: Mode,
        now: Timestamp,
    ) -> bool {
        let latest = Timestamp::from_micros(self.latest_us.load(Relaxed));
        // A peek is to see the truth.
        if mode == Mode::Peek || now.micros_since(latest) >= MAX_AGE_US {
            return false;
        }
        let mut refused = false;
        for (charge, outcome) in charges.iter().zip(outcomes) {
            *outcome = Outcome::UNKNOWN;
            if !charge.shadow && charge.cost > charge.limit.capacity().into() {
                // Never: that is the answer then, and Redis knows the rest of it.
                return false;
            }
            let Some(entry) = self.find(charge.key, now) else {
                continue;
            };
            // The moment of the question came before that of the decision, so this is never late.
            let then = entry.at.saturating_add(now.micros_since(entry.asked));
            let level = charge.limit.level(entry.state, then);
            let judgement = level.judge(charge.cost);
            *outcome = Outcome::new(judgement, &level);
            refused |= !charge.shadow && matches!(judgement, Judgement::Refuse { .. });
        }
        refused
    }

    fn find(&self, key: Key<'_>, now: Timestamp) -> Option<Entry> {
        let (hash, shard, place) = self.place(key);
        shard[place].filter(|entry| {
            entry.hash == hash && now >= entry.asked && now.micros_since(entry.asked) < MAX_AGE_US
        })
    }

    #[expect(
        clippy::cast_possible_truncation,
        reason = "some bits of a hash are as good as others"
    )]
    fn place(&self, key: Key<'_>) -> (u64, MutexGuard<'_, Vec<Option<Entry>>>, usize) {
        let hash = self.hasher.hash_one(key);
        let shard = &self.shards[(hash >> 48) as usize % SHARDS];
        let shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
        (hash, shard, hash as usize % PLACES)
    }
}

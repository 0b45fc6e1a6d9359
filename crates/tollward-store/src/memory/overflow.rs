use std::collections::HashMap;

use tollward_core::{Level, Limit, State, Timestamp};

/// The shared buckets of a table that is full of live ones.
///
/// Callers in a lane are limited together: each is judged by its own limit, all by what they spent
/// together, and the lane refills at the slowest rate of theirs. So sharing only ever makes a limit
/// tighter. There are as many lanes as there are families of limits in the policy, times `lanes`.
#[derive(Debug)]
pub(super) struct Overflow {
    shared: HashMap<Lane, Shared>,
    lanes: u64,
    next_sweep: Timestamp,
    /// Charges decided on a shared bucket since the start.
    pub(super) counted: u64,
}

/// The hash of a key's family, and the lane that the key's fingerprint falls into.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Lane {
    family: u64,
    lane: u64,
}

#[derive(Debug)]
struct Shared {
    state: State,
    slowest: Limit,
    full_at: Timestamp,
}

const SWEEP_EVERY_US: u64 = 1_000_000;

impl Overflow {
    /// Nothing shared yet; `lanes` buckets for each family when there is.
    pub(super) fn new(lanes: usize) -> Self {
        Self {
            shared: HashMap::new(),
            lanes: lanes.max(1) as u64,
            next_sweep: Timestamp::default(),
            counted: 0,
        }
    }

    pub(super) fn lane(&self, family: u64, fingerprint: u64) -> Lane {
        // The lower half seats a bucket in the table and the highest bits choose its shard.
        Lane {
            family,
            lane: (fingerprint >> 32) % self.lanes,
        }
    }

    /// What the lane has spent by now, for a caller with this limit.
    pub(super) fn read(&mut self, lane: Lane, limit: &Limit, now: Timestamp) -> Option<State> {
        let shared = self.shared.get_mut(&lane)?;
        let level = slower(shared.slowest, *limit).level(Some(shared.state), now);
        if level.stepped_back() {
            // Or time would stand still for the lane until the clock has caught up.
            shared.state = shared.state.stepped_back_to(now);
            shared.full_at = now.saturating_add(
                shared
                    .slowest
                    .level(Some(shared.state), now)
                    .full_after_us(),
            );
        }
        level.state()
    }

    /// Keeps what the lane has spent after a caller was charged, until it is full again.
    pub(super) fn write(&mut self, lane: Lane, after: &Level) {
        let Some(state) = after.state() else {
            self.shared.remove(&lane);
            return;
        };
        let limit = *after.limit();
        let slowest = match self.shared.get(&lane) {
            Some(shared) => slower(shared.slowest, limit),
            None => limit,
        };
        let full_after_us = slowest.level(Some(state), state.at).full_after_us();
        let shared = Shared {
            state,
            slowest,
            full_at: state.at.saturating_add(full_after_us),
        };
        self.shared.insert(lane, shared);
    }

    /// Forgets the lanes that are full again; looks for them once a second.
    pub(super) fn sweep(&mut self, now: Timestamp) {
        // A clock that was stepped back must not put the next look off until it has caught up.
        if (1..=SWEEP_EVERY_US).contains(&self.next_sweep.micros_since(now)) {
            return;
        }
        self.next_sweep = now.saturating_add(SWEEP_EVERY_US);
        self.shared.retain(|_, shared| shared.full_at > now);
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.shared.is_empty()
    }

    /// The lanes that are not full again.
    pub(super) fn live(&self, now: Timestamp) -> usize {
        let live = |shared: &&Shared| shared.full_at > now;
        self.shared.values().filter(live).count()
    }
}

/// The one that refills more slowly.
fn slower(one: Limit, other: Limit) -> Limit {
    let parts = |a: &Limit, b: &Limit| u64::from(a.rate()) * u64::from(b.window().as_secs());
    if parts(&one, &other) <= parts(&other, &one) {
        one
    } else {
        other
    }
}

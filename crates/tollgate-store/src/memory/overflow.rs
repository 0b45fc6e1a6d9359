use std::collections::HashMap;

use tollgate_core::{State, Timestamp};

/// Lanes of one limit: its newcomers share this many buckets while the table is full.
const LANES: u64 = 256;

/// The shared buckets of a table that is full of live ones.
///
/// Every limit has its own lanes, so sharing only ever makes a limit tighter: two callers in a lane
/// together get what one of them would have had alone. Bounded by the number of limits in the policy.
#[derive(Debug, Default)]
pub(super) struct Overflow {
    lanes: HashMap<Lane, (State, Timestamp)>,
    next_sweep: Timestamp,
}

const SWEEP_EVERY_US: u64 = 1_000_000;

/// A limit's name, hashed, and the lane that a key's fingerprint falls into.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Lane {
    limit: u64,
    lane: u64,
}

impl Lane {
    pub(super) fn of(limit: u64, fingerprint: u64) -> Self {
        Self {
            limit,
            lane: (fingerprint >> 32) % LANES,
        }
    }
}

impl Overflow {
    pub(super) fn read(&self, lane: Lane) -> Option<State> {
        self.lanes.get(&lane).map(|(state, _)| *state)
    }

    /// Keeps the state until the bucket is full again.
    pub(super) fn write(&mut self, lane: Lane, state: Option<State>, full_after_us: u64) {
        match state {
            Some(state) => {
                let full_at = state.at.saturating_add(full_after_us);
                self.lanes.insert(lane, (state, full_at));
            }
            None => {
                self.lanes.remove(&lane);
            }
        }
    }

    /// Forgets the lanes that are full again; looks for them once a second.
    pub(super) fn sweep(&mut self, now: Timestamp) {
        if now < self.next_sweep {
            return;
        }
        self.next_sweep = now.saturating_add(SWEEP_EVERY_US);
        self.lanes.retain(|_, (_, full_at)| *full_at > now);
    }

    pub(super) fn len(&self) -> usize {
        self.lanes.len()
    }
}

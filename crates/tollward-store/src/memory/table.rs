use tollward_core::Timestamp;

use super::slot::Slot;

/// An open-addressed table of buckets with linear probing, which grows up to a bound.
///
/// A slot once used is never emptied, only taken over when its bucket is full again: so a search may
/// stop at the first empty slot, and there always is one, because not all are ever used.
#[derive(Debug)]
pub(super) struct Table {
    slots: Vec<Slot>,
    used: usize,
    max_slots: usize,
    next_sweep: Timestamp,
}

/// Used slots per slot at which a table grows: four in five.
const GROWING_LOAD: (usize, usize) = (4, 5);
/// Used slots per slot of a table that may not grow any more: seven in eight.
const FULL_LOAD: (usize, usize) = (7, 8);
/// The size of a table that holds anything: large enough that a thousand callers spread over all shards
/// hardly ever meet.
const FIRST_SLOTS: usize = 64;
const MIN_SLOTS: usize = 16;
/// A table that is full of live buckets looks for dead ones at most this often.
const SWEEP_EVERY_US: u64 = 1_000_000;

impl Table {
    /// An empty table for up to `max_buckets` live buckets.
    pub(super) fn new(max_buckets: usize) -> Self {
        let max_slots = max_buckets
            .saturating_mul(FULL_LOAD.1)
            .div_ceil(FULL_LOAD.0);
        Self {
            slots: Vec::new(),
            used: 0,
            max_slots: max_slots.max(MIN_SLOTS),
            next_sweep: Timestamp::default(),
        }
    }

    /// Where the bucket of this fingerprint is.
    #[inline]
    pub(super) fn find(&self, fingerprint: u64) -> Option<usize> {
        if self.slots.is_empty() {
            return None;
        }
        let mut at = home(fingerprint, self.slots.len());
        loop {
            let slot = &self.slots[at];
            if slot.fingerprint == fingerprint {
                return Some(at);
            }
            if slot.is_empty() {
                return None;
            }
            at = after(at, self.slots.len());
        }
    }

    #[inline]
    pub(super) fn slot(&self, at: usize) -> &Slot {
        &self.slots[at]
    }

    #[inline]
    pub(super) fn slot_mut(&mut self, at: usize) -> &mut Slot {
        &mut self.slots[at]
    }

    /// Makes room for a bucket that [`Table::find`] did not find, so that [`Table::insert`] succeeds.
    /// False if the table is full of live buckets.
    pub(super) fn make_room(&mut self, fingerprint: u64, now: Timestamp) -> bool {
        self.vacancy(fingerprint, now).is_some()
            || (self.rebuild(now) && self.vacancy(fingerprint, now).is_some())
    }

    /// Takes a place for a bucket that is not in the table; none if there is no room.
    pub(super) fn insert(&mut self, fingerprint: u64, now: Timestamp) -> Option<usize> {
        if !self.make_room(fingerprint, now) {
            return None;
        }
        let at = self.vacancy(fingerprint, now)?;
        if self.slots[at].is_empty() {
            self.used += 1;
        }
        self.slots[at] = Slot::taken(fingerprint);
        Some(at)
    }

    pub(super) fn bytes(&self) -> usize {
        self.slots.capacity() * size_of::<Slot>()
    }

    pub(super) fn live(&self, now: Timestamp) -> usize {
        let live = |slot: &&Slot| !slot.is_empty() && !slot.is_spare(now);
        self.slots.iter().filter(live).count()
    }

    /// The first place on the fingerprint's way that may be taken.
    fn vacancy(&self, fingerprint: u64, now: Timestamp) -> Option<usize> {
        if self.slots.is_empty() {
            return None;
        }
        let mut at = home(fingerprint, self.slots.len());
        while !self.slots[at].is_empty() {
            if self.slots[at].is_spare(now) {
                return Some(at);
            }
            at = after(at, self.slots.len());
        }
        (self.used < self.max_used()).then_some(at)
    }

    /// Moves the live buckets to a new table, larger if they fill this one and it may grow. False if
    /// that gained nothing.
    fn rebuild(&mut self, now: Timestamp) -> bool {
        // A clock that was stepped back must not put the next look off until it has caught up.
        let soon = (1..=SWEEP_EVERY_US).contains(&self.next_sweep.micros_since(now));
        if self.slots.len() == self.max_slots && soon {
            return false;
        }
        self.next_sweep = now.saturating_add(SWEEP_EVERY_US);
        if self.slots.len() == self.max_slots {
            for slot in &mut self.slots {
                slot.follow_clock(now);
            }
        }
        let live = self.live(now);
        let mut len = self.slots.len();
        if live * 4 >= self.max_used() * 3 {
            len = (len + len / 2).max(FIRST_SLOTS).min(self.max_slots);
        }
        if len == self.slots.len() && live == self.used {
            return false;
        }
        let old = std::mem::replace(&mut self.slots, vec![Slot::default(); len]);
        self.used = 0;
        for slot in old {
            if !slot.is_empty() && !slot.is_spare(now) {
                self.reseat(slot);
            }
        }
        true
    }

    fn max_used(&self) -> usize {
        let slots = self.slots.len();
        let (used, of) = if slots == self.max_slots {
            FULL_LOAD
        } else {
            GROWING_LOAD
        };
        slots * used / of
    }

    fn reseat(&mut self, slot: Slot) {
        let mut at = home(slot.fingerprint, self.slots.len());
        while !self.slots[at].is_empty() {
            at = after(at, self.slots.len());
        }
        self.slots[at] = slot;
        self.used += 1;
    }
}

/// Scales the fingerprint's low half to the table, so that its size need not be a power of two.
#[inline]
fn home(fingerprint: u64, slots: usize) -> usize {
    (((fingerprint & 0xffff_ffff) * slots as u64) >> 32) as usize
}

#[inline]
fn after(at: usize, slots: usize) -> usize {
    if at + 1 == slots { 0 } else { at + 1 }
}

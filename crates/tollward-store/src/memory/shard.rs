use tollward_core::{Charge, Level, State, Timestamp};

use super::overflow::{Lane, Overflow};
use super::table::Table;

/// A part of the buckets, behind one lock: a table, and the buckets that its newcomers share while it
/// is full of live ones.
#[derive(Debug)]
pub(super) struct Shard {
    pub(super) table: Table,
    /// Apart, so that a shard with its lock is one cache line.
    pub(super) overflow: Box<Overflow>,
}

/// Where a bucket is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// In the table, or about to be.
    Table,
    /// In a lane of the overflow.
    Lane(Lane),
}

impl Shard {
    pub(super) fn new(max_buckets: usize, lanes: usize) -> Self {
        Self {
            table: Table::new(max_buckets),
            overflow: Box::new(Overflow::new(lanes)),
        }
    }

    /// Where the bucket of a charge is, or will be, and what it has spent.
    ///
    /// A newcomer that gets a place in the table starts with what its lane has spent: it may have been
    /// in it.
    pub(super) fn look(
        &mut self,
        print: u64,
        family: u64,
        charge: &Charge<'_>,
        now: Timestamp,
    ) -> (Place, Option<State>) {
        if let Some(at) = self.table.find(print) {
            return (Place::Table, self.table.slot(at).read());
        }
        let room = self.table.make_room(print, now);
        if room && self.overflow.is_empty() {
            return (Place::Table, None);
        }
        self.overflow.sweep(now);
        let lane = self.overflow.lane(family, print);
        let state = self.overflow.read(lane, charge.limit, now);
        if room {
            (Place::Table, state)
        } else {
            self.overflow.counted += 1;
            (Place::Lane(lane), state)
        }
    }

    /// Forgets what a bucket has spent. One that is shared is left alone: whoever is reset gets a place of
    /// its own, if there is room, and keeps it until another needs it.
    pub(super) fn reset(&mut self, print: u64, now: Timestamp) {
        let found = self.table.find(print);
        if found.is_none() && self.overflow.is_empty() {
            return;
        }
        if let Some(at) = found.or_else(|| self.table.insert(print, now)) {
            self.table.slot_mut(at).write(None, 0);
        }
    }

    /// Keeps the level `after`, in which the tokens `taken` are gone that were there before.
    pub(super) fn write(
        &mut self,
        place: Place,
        print: u64,
        family: u64,
        after: &Level,
        taken: u64,
        now: Timestamp,
    ) {
        if let Place::Lane(lane) = place {
            return self.overflow.write(lane, after);
        }
        let found = self.table.find(print);
        if let Some(at) = found.or_else(|| self.table.insert(print, now)) {
            let slot = self.table.slot_mut(at);
            slot.write(after.state(), after.full_after_us());
            return;
        }
        // Another charge of this request took the last place.
        self.overflow.counted += 1;
        let lane = self.overflow.lane(family, print);
        let spent = self.overflow.read(lane, after.limit(), now);
        let shared = after.limit().level(spent, now).charge(taken);
        self.overflow.write(lane, &shared);
    }
}

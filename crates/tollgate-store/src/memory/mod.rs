//! Buckets in this process.
//!
//! The table is split into shards, each behind a lock of its own. A request locks the shards of all its
//! buckets, in the order of the shards, decides, writes and lets go: so requests that share a bucket
//! happen one after the other, and no two can wait for each other. A bucket is known by a seeded 64-bit
//! hash of its key; two keys of the same hash would share one, which is tighter, never looser.

mod overflow;
mod slot;
mod table;
#[cfg(test)]
mod tests;

use std::hash::{BuildHasher, Hasher, RandomState};
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use foldhash::{SharedSeed, quality::FoldHasher};
use smallvec::SmallVec;
use tollgate_core::{Charge, Judgement, Key, Level, State, Timestamp};

use self::overflow::{Lane, Overflow};
use self::table::Table;
use crate::store::{Mode, Outcome, Outcomes, Reply, Store, Verdict};
use crate::sync::{Mutex, MutexGuard, lock};

/// The exact store of one process, in bounded memory.
///
/// A bucket takes 32 bytes, and at most 40 are held for each of `max_buckets`. A bucket that is full
/// again holds no information, so its place is reused at once. While the table is full of live
/// buckets, newcomers share the buckets of an overflow, 256 for each limit, by the hash of their key:
/// they are limited together, those who have a bucket keep it, and nobody's spending is forgotten.
/// When room returns, a newcomer's own bucket starts with what its shared one had spent.
pub struct MemoryStore {
    shards: Box<[Shard]>,
    shard_shift: u32,
    max_buckets: usize,
    seed: u64,
    shared_seed: SharedSeed,
    overflow: Mutex<Overflow>,
    /// Lanes in use, to be read without the lock: it changes only under the shard lock of a key that
    /// the change is about.
    overflow_lanes: AtomicUsize,
    overflowed: AtomicU64,
}

/// A lock per two cache lines, so that neighbours do not disturb each other.
#[repr(align(128))]
struct Shard(Mutex<Table>);

/// What a [`MemoryStore`] holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// Buckets that are not full again.
    pub buckets: usize,
    /// The most that the table may hold.
    pub max_buckets: usize,
    /// Bytes held by the table.
    pub bytes: usize,
    /// Shared buckets in use because the table was full.
    pub overflow_lanes: usize,
    /// Charges decided on a shared bucket since the start.
    pub overflowed: u64,
}

impl MemoryStore {
    /// A store for up to `max_buckets` live buckets. Memory is taken as they come.
    pub fn new(max_buckets: usize) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        Self::with_shards(
            max_buckets,
            (cores * 16).next_power_of_two().clamp(64, 1024),
        )
    }

    /// Like [`MemoryStore::new`], with this many shards, rounded up to a power of two.
    pub fn with_shards(max_buckets: usize, shards: usize) -> Self {
        let shards = shards.next_power_of_two().clamp(1, 1 << 16);
        let per_shard = max_buckets.div_ceil(shards);
        let entropy = RandomState::new();
        Self {
            shards: (0..shards)
                .map(|_| Shard(Mutex::new(Table::new(per_shard))))
                .collect(),
            shard_shift: 63 - shards.trailing_zeros(),
            max_buckets,
            seed: entropy.hash_one(0u8),
            shared_seed: SharedSeed::from_u64(entropy.hash_one(1u8)),
            overflow: Mutex::new(Overflow::default()),
            overflow_lanes: AtomicUsize::new(0),
            overflowed: AtomicU64::new(0),
        }
    }

    /// Counts what is held. Walks the table: for metrics, not for requests.
    pub fn usage(&self, now: Timestamp) -> Usage {
        let mut usage = Usage {
            buckets: 0,
            max_buckets: self.max_buckets,
            bytes: 0,
            overflow_lanes: lock(&self.overflow).len(),
            overflowed: self.overflowed.load(Relaxed),
        };
        for shard in &self.shards {
            let table = lock(&shard.0);
            usage.buckets += table.live(now);
            usage.bytes += table.bytes();
        }
        usage
    }

    /// The common case, a single bucket that is in the table; none if it is not.
    #[inline]
    fn decide_found(&self, charge: &Charge<'_>, mode: Mode, now: Timestamp) -> Option<Verdict> {
        let print = self.fingerprint(charge.key);
        let mut table = lock(&self.shards[self.shard_of(print)].0);
        let at = table.find(print)?;
        let level = charge.limit.level(table.slot(at).read(), now);
        let judgement = level.judge(charge.cost);
        let after = settle(
            &level,
            judgement,
            charge,
            judgement == Judgement::Admit,
            mode,
        );
        if let Some(after) = &after {
            table
                .slot_mut(at)
                .write(after.state(), after.full_after_us());
        }
        drop(table);
        Some(Verdict {
            admitted: charge.shadow || judgement == Judgement::Admit,
            outcomes: Outcomes::from_iter([Outcome::new(judgement, &after.unwrap_or(level))]),
        })
    }

    fn decide(&self, charges: &[Charge<'_>], mode: Mode, now: Timestamp) -> Verdict {
        let mut held = self.hold(charges);
        let mut seats: SmallVec<[Seat; 8]> = SmallVec::new();
        for (index, charge) in charges.iter().enumerate() {
            let (place, state) = held.look(index, charge, now);
            // The same bucket may stand twice in one request: the second sees what the first takes.
            let earlier = seats.iter().rev().find(|seat| seat.place == place);
            let level = match earlier {
                Some(seat) if seat.judgement == Judgement::Admit => charge
                    .limit
                    .level(seat.level.charge(seat.cost).state(), now),
                Some(seat) => charge.limit.level(seat.level.state(), now),
                None => charge.limit.level(state, now),
            };
            seats.push(Seat {
                place,
                level,
                cost: charge.cost,
                judgement: level.judge(charge.cost),
            });
        }
        let admitted = charges
            .iter()
            .zip(&seats)
            .all(|(charge, seat)| charge.shadow || seat.judgement == Judgement::Admit);
        let mut outcomes = Outcomes::new();
        for (charge, seat) in charges.iter().zip(&seats) {
            let after = settle(&seat.level, seat.judgement, charge, admitted, mode);
            if let Some(after) = &after {
                held.write(seat.place, charge, after, now);
            }
            outcomes.push(Outcome::new(seat.judgement, &after.unwrap_or(seat.level)));
        }
        Verdict { admitted, outcomes }
    }

    fn give_back(&self, charges: &[Charge<'_>], charged_at: Timestamp, now: Timestamp) {
        let mut held = self.hold(charges);
        for (index, charge) in charges.iter().enumerate() {
            let (place, state) = held.look(index, charge, now);
            if state.is_some() {
                let after = charge
                    .limit
                    .level(state, now)
                    .credit(charge.cost, charged_at);
                held.write(place, charge, &after, now);
            }
        }
    }

    /// Locks the shards of these charges, each once and in order.
    fn hold(&self, charges: &[Charge<'_>]) -> Held<'_> {
        let prints: SmallVec<[u64; 8]> = charges
            .iter()
            .map(|charge| self.fingerprint(charge.key))
            .collect();
        let mut shards: SmallVec<[usize; 8]> =
            prints.iter().map(|print| self.shard_of(*print)).collect();
        shards.sort_unstable();
        shards.dedup();
        Held {
            store: self,
            prints,
            tables: shards
                .into_iter()
                .map(|shard| (shard, lock(&self.shards[shard].0)))
                .collect(),
            overflow: None,
        }
    }

    #[inline]
    fn fingerprint(&self, key: Key<'_>) -> u64 {
        let mut hasher = FoldHasher::with_seed(self.seed, &self.shared_seed);
        hasher.write_usize(key.family.len());
        hasher.write(key.family.as_bytes());
        hasher.write(key.scope);
        // 0 marks an empty slot.
        hasher.finish().max(1)
    }

    fn hash_name(&self, name: &str) -> u64 {
        let mut hasher = FoldHasher::with_seed(self.seed, &self.shared_seed);
        hasher.write(name.as_bytes());
        hasher.finish()
    }

    /// The highest bits choose the shard; the table uses the lower half.
    #[inline]
    fn shard_of(&self, print: u64) -> usize {
        (print >> 1 >> self.shard_shift) as usize
    }
}

impl Store for MemoryStore {
    fn apply<'a>(
        &'a self,
        charges: &'a [Charge<'a>],
        mode: Mode,
        now: Timestamp,
    ) -> Reply<'a, Verdict> {
        let found = match charges {
            [charge] => self.decide_found(charge, mode, now),
            _ => None,
        };
        Reply::Now(Ok(found.unwrap_or_else(|| self.decide(charges, mode, now))))
    }

    fn credit<'a>(
        &'a self,
        charges: &'a [Charge<'a>],
        charged_at: Timestamp,
        now: Timestamp,
    ) -> Reply<'a, ()> {
        self.give_back(charges, charged_at, now);
        Reply::Now(Ok(()))
    }
}

/// The level to keep, if it is to be written at all.
#[inline]
fn settle(
    level: &Level,
    judgement: Judgement,
    charge: &Charge<'_>,
    admitted: bool,
    mode: Mode,
) -> Option<Level> {
    if mode == Mode::Peek {
        None
    } else if admitted && judgement == Judgement::Admit && charge.cost > 0 {
        Some(level.charge(charge.cost))
    } else {
        level.stepped_back().then_some(*level)
    }
}

/// A charge that has been judged.
struct Seat {
    place: Place,
    level: Level,
    cost: u64,
    judgement: Judgement,
}

/// Where a bucket is kept.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// In the table of a held shard.
    Table { held: usize, print: u64 },
    /// In a lane of the overflow.
    Lane(Lane),
}

/// The locks of one request. The overflow's is the last in the order.
struct Held<'a> {
    store: &'a MemoryStore,
    prints: SmallVec<[u64; 8]>,
    tables: SmallVec<[(usize, MutexGuard<'a, Table>); 8]>,
    overflow: Option<MutexGuard<'a, Overflow>>,
}

impl<'a> Held<'a> {
    /// Where the bucket of this charge is, or will be, and what it has spent.
    fn look(
        &mut self,
        index: usize,
        charge: &Charge<'_>,
        now: Timestamp,
    ) -> (Place, Option<State>) {
        let print = self.prints[index];
        let shard = self.store.shard_of(print);
        let held = self
            .tables
            .binary_search_by_key(&shard, |(shard, _)| *shard)
            .unwrap_or_default();
        let place = Place::Table { held, print };
        let table = &mut self.tables[held].1;
        if let Some(at) = table.find(print) {
            return (place, table.slot(at).read());
        }
        let room = table.make_room(print, now);
        if room && self.store.overflow_lanes.load(Relaxed) == 0 {
            return (place, None);
        }
        let lane = Lane::of(self.store.hash_name(charge.name), print);
        let state = self.swept_overflow(now).read(lane);
        if room {
            (place, state)
        } else {
            self.store.overflowed.fetch_add(1, Relaxed);
            (Place::Lane(lane), state)
        }
    }

    fn write(&mut self, place: Place, charge: &Charge<'_>, after: &Level, now: Timestamp) {
        match place {
            Place::Table { held, print } => {
                let table = &mut self.tables[held].1;
                match table.find(print).or_else(|| table.insert(print, now)) {
                    Some(at) => table
                        .slot_mut(at)
                        .write(after.state(), after.full_after_us()),
                    // Another charge of this request took the last place.
                    None => {
                        let lane = Lane::of(self.store.hash_name(charge.name), print);
                        let shared = charge.limit.level(self.swept_overflow(now).read(lane), now);
                        self.write_lane(lane, &shared.charge(charge.cost), now);
                    }
                }
            }
            Place::Lane(lane) => self.write_lane(lane, after, now),
        }
    }

    fn write_lane(&mut self, lane: Lane, after: &Level, now: Timestamp) {
        let store = self.store;
        let overflow = self.swept_overflow(now);
        overflow.write(lane, after.state(), after.full_after_us());
        store.overflow_lanes.store(overflow.len(), Relaxed);
    }

    fn swept_overflow(&mut self, now: Timestamp) -> &mut Overflow {
        let store = self.store;
        let overflow = self.overflow.get_or_insert_with(|| lock(&store.overflow));
        overflow.sweep(now);
        store.overflow_lanes.store(overflow.len(), Relaxed);
        overflow
    }
}

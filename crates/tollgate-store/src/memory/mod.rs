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

use std::array;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use foldhash::{SharedSeed, quality::FoldHasher};
use smallvec::SmallVec;
use tollgate_core::{Charge, Judgement, Key, Level, State, Timestamp};

use self::overflow::{Lane, Overflow};
use self::table::Table;
use crate::store::{Mode, Outcome, Reply, Source, Store, Verdict};
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

    /// The common case: a few buckets, all different and all in the table; none if it is not that.
    #[inline]
    fn decide_few<const N: usize>(
        &self,
        charges: &[Charge<'_>; N],
        outcomes: &mut [Outcome; N],
        mode: Mode,
        now: Timestamp,
    ) -> Option<Verdict> {
        let prints: [u64; N] = array::from_fn(|i| self.fingerprint(charges[i].key));
        // A shard is a range of fingerprints, so this is the order of the locks too.
        let mut order: [usize; N] = array::from_fn(|i| i);
        order.sort_unstable_by_key(|i| prints[*i]);
        let mut tables: [Option<MutexGuard<'_, Table>>; N] = [const { None }; N];
        let mut owner = [0; N];
        for rank in 0..N {
            let (this, last) = (order[rank], order[rank.saturating_sub(1)]);
            let shard = self.shard_of(prints[this]);
            if rank > 0 && prints[this] == prints[last] {
                return None;
            } else if rank > 0 && shard == self.shard_of(prints[last]) {
                owner[this] = owner[last];
            } else {
                owner[this] = this;
                tables[this] = Some(lock(&self.shards[shard].0));
            }
        }
        // All searches before the first decision: their cache misses overlap.
        let mut slots = [0; N];
        for i in 0..N {
            slots[i] = tables[owner[i]].as_ref()?.find(prints[i])?;
        }
        let mut admitted = true;
        for i in 0..N {
            let state = tables[owner[i]].as_ref()?.slot(slots[i]).read();
            let judgement = charges[i].limit.level(state, now).judge(charges[i].cost);
            outcomes[i].judgement = judgement;
            admitted &= charges[i].shadow || judgement == Judgement::Admit;
        }
        for i in 0..N {
            let slot = tables[owner[i]].as_mut()?.slot_mut(slots[i]);
            let (charge, judgement) = (&charges[i], outcomes[i].judgement);
            let level = charge.limit.level(slot.read(), now);
            let after = settle(&level, judgement, charge, admitted, mode);
            outcomes[i] = Outcome::new(judgement, &after.unwrap_or(level));
            if let Some(after) = after {
                slot.write(after.state(), outcomes[i].full_after_us);
            }
        }
        Some(verdict(admitted))
    }

    #[inline]
    fn decide_slice<const N: usize>(
        &self,
        charges: &[Charge<'_>],
        outcomes: &mut [Outcome],
        mode: Mode,
        now: Timestamp,
    ) -> Option<Verdict> {
        self.decide_few::<N>(
            charges.try_into().ok()?,
            outcomes.try_into().ok()?,
            mode,
            now,
        )
    }

    #[cold]
    fn decide(
        &self,
        charges: &[Charge<'_>],
        outcomes: &mut [Outcome],
        mode: Mode,
        now: Timestamp,
    ) -> Verdict {
        let mut held = self.hold(charges);
        let mut seats: SmallVec<[Seat; 8]> = SmallVec::new();
        let mut admitted = true;
        for (index, charge) in charges.iter().enumerate() {
            let (place, state) = held.look(index, charge, now);
            let level = match seats.iter().rev().find(|seat| seat.place == place) {
                None => charge.limit.level(state, now),
                // The same bucket stands twice in one request: the second sees what the first takes.
                Some(seat) => charge.limit.level(seat.after().state(), now),
            };
            let judgement = level.judge(charge.cost);
            admitted &= charge.shadow || judgement == Judgement::Admit;
            seats.push(Seat {
                place,
                level,
                judgement,
                cost: charge.cost,
            });
        }
        for ((charge, seat), outcome) in charges.iter().zip(&seats).zip(outcomes) {
            match settle(&seat.level, seat.judgement, charge, admitted, mode) {
                Some(after) => {
                    *outcome = Outcome::new(seat.judgement, &after);
                    held.write(seat.place, charge, &after, now);
                }
                None => *outcome = Outcome::new(seat.judgement, &seat.level),
            }
        }
        verdict(admitted)
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

    /// Locks the shards of these charges, each once and in order, and looks for their buckets.
    fn hold(&self, charges: &[Charge<'_>]) -> Held<'_> {
        let mut buckets: SmallVec<[Bucket; 8]> = SmallVec::new();
        let mut shards: SmallVec<[usize; 8]> = SmallVec::new();
        for charge in charges {
            let print = self.fingerprint(charge.key);
            let shard = self.shard_of(print);
            buckets.push(Bucket {
                print,
                shard,
                table: 0,
                slot: None,
            });
            shards.push(shard);
        }
        shards.sort_unstable();
        shards.dedup();
        let tables: SmallVec<[MutexGuard<'_, Table>; 8]> = shards
            .iter()
            .map(|shard| lock(&self.shards[*shard].0))
            .collect();
        for bucket in &mut buckets {
            bucket.table = shards
                .iter()
                .position(|shard| *shard == bucket.shard)
                .unwrap_or_default();
            bucket.slot = tables[bucket.table].find(bucket.print);
        }
        Held {
            store: self,
            buckets,
            tables,
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

    fn lane(&self, charge: &Charge<'_>, print: u64) -> Lane {
        let mut hasher = FoldHasher::with_seed(self.seed, &self.shared_seed);
        hasher.write(charge.name.as_bytes());
        Lane::of(hasher.finish(), print)
    }

    /// The highest bits choose the shard; the table uses the lower half.
    #[inline]
    fn shard_of(&self, print: u64) -> usize {
        (print >> 1 >> self.shard_shift) as usize
    }
}

impl Store for MemoryStore {
    #[inline]
    fn apply<'a>(
        &'a self,
        charges: &'a [Charge<'a>],
        outcomes: &'a mut [Outcome],
        mode: Mode,
        now: Timestamp,
    ) -> Reply<'a, Verdict> {
        let few = match charges.len() {
            1 => self.decide_slice::<1>(charges, outcomes, mode, now),
            2 => self.decide_slice::<2>(charges, outcomes, mode, now),
            3 => self.decide_slice::<3>(charges, outcomes, mode, now),
            4 => self.decide_slice::<4>(charges, outcomes, mode, now),
            5 => self.decide_slice::<5>(charges, outcomes, mode, now),
            6 => self.decide_slice::<6>(charges, outcomes, mode, now),
            _ => None,
        };
        if let Some(verdict) = few {
            return Reply::Now(Ok(verdict));
        }
        Reply::Now(Ok(self.decide(charges, outcomes, mode, now)))
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

fn verdict(admitted: bool) -> Verdict {
    Verdict {
        admitted,
        source: Source::Memory,
    }
}

/// A charge that has been judged.
struct Seat {
    place: Place,
    level: Level,
    judgement: Judgement,
    cost: u64,
}

impl Seat {
    /// Where the bucket stands if the request is admitted.
    fn after(&self) -> Level {
        if self.judgement == Judgement::Admit {
            self.level.charge(self.cost)
        } else {
            self.level
        }
    }
}

/// Where a bucket is kept.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// In its shard's table, or about to be.
    Table(Bucket),
    /// In a lane of the overflow.
    Lane(Lane),
}

/// A bucket of the table, with where it was last seen.
#[derive(Clone, Copy)]
struct Bucket {
    print: u64,
    shard: usize,
    table: usize,
    slot: Option<usize>,
}

impl PartialEq for Bucket {
    fn eq(&self, other: &Self) -> bool {
        self.print == other.print
    }
}

impl Eq for Bucket {}

/// The locks of one request. The overflow's is the last in the order.
struct Held<'a> {
    store: &'a MemoryStore,
    buckets: SmallVec<[Bucket; 8]>,
    tables: SmallVec<[MutexGuard<'a, Table>; 8]>,
    overflow: Option<MutexGuard<'a, Overflow>>,
}

impl Held<'_> {
    /// Where the bucket of this charge is, or will be, and what it has spent.
    #[inline]
    fn look(
        &mut self,
        index: usize,
        charge: &Charge<'_>,
        now: Timestamp,
    ) -> (Place, Option<State>) {
        let bucket = self.buckets[index];
        let table = &self.tables[bucket.table];
        match table.find_near(bucket.slot, bucket.print) {
            Some(at) => (Place::Table(bucket), table.slot(at).read()),
            None => self.look_for_room(bucket, charge, now),
        }
    }

    #[cold]
    fn look_for_room(
        &mut self,
        bucket: Bucket,
        charge: &Charge<'_>,
        now: Timestamp,
    ) -> (Place, Option<State>) {
        let room = self.tables[bucket.table].make_room(bucket.print, now);
        if room && self.store.overflow_lanes.load(Relaxed) == 0 {
            return (Place::Table(bucket), None);
        }
        let lane = self.store.lane(charge, bucket.print);
        let state = self.overflow(now).read(lane);
        if room {
            (Place::Table(bucket), state)
        } else {
            self.store.overflowed.fetch_add(1, Relaxed);
            (Place::Lane(lane), state)
        }
    }

    #[inline]
    fn write(&mut self, place: Place, charge: &Charge<'_>, after: &Level, now: Timestamp) {
        let (state, full_after_us) = (after.state(), after.full_after_us());
        let bucket = match place {
            Place::Table(bucket) => bucket,
            Place::Lane(lane) => return self.overflow(now).write(lane, state, full_after_us),
        };
        let table = &mut self.tables[bucket.table];
        let found = table.find_near(bucket.slot, bucket.print);
        match found.or_else(|| table.insert(bucket.print, now)) {
            Some(at) => table.slot_mut(at).write(state, full_after_us),
            // Another charge of this request took the last place.
            None => {
                let lane = self.store.lane(charge, bucket.print);
                let overflow = self.overflow(now);
                let shared = charge
                    .limit
                    .level(overflow.read(lane), now)
                    .charge(charge.cost);
                overflow.write(lane, shared.state(), shared.full_after_us());
            }
        }
    }

    fn overflow(&mut self, now: Timestamp) -> &mut Overflow {
        let store = self.store;
        let overflow = self.overflow.get_or_insert_with(|| lock(&store.overflow));
        overflow.sweep(now);
        overflow
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        if let Some(overflow) = &self.overflow {
            self.store.overflow_lanes.store(overflow.len(), Relaxed);
        }
    }
}

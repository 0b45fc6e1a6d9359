//! Buckets in this process.
//!
//! They are split into shards, each behind a lock of its own. A request locks the shards of all its
//! buckets, in the order of the shards, decides, writes and lets go: so requests that share a bucket
//! happen one after the other, and no two can wait for each other. A bucket is known by a seeded 64-bit
//! hash of its key; two keys of the same hash would share one, which is tighter, never looser.

mod judge;
mod overflow;
mod shard;
mod slot;
mod table;
#[cfg(test)]
mod tests;

use std::array;
use std::hash::Hasher;
use std::num::NonZeroUsize;

use foldhash::{SharedSeed, quality::FoldHasher};
use smallvec::SmallVec;
use tollward_core::{Charge, Judgement, Key, Level, Timestamp};

use self::judge::{judge, settle, takes};
use self::shard::{Place, Shard};
use crate::store::{Mode, Outcome, Reply, Source, Store, Verdict};
use crate::sync::{Mutex, MutexGuard, lock, seeds};

/// The exact store of one process, in bounded memory.
///
/// A bucket takes 32 bytes, and at most 40 are held for each of `max_buckets`. A bucket that is full
/// again holds no information, so its place is reused at once. While the table is full of live
/// buckets, newcomers share the buckets of an overflow, 256 for each family of limits, by the hash of their
/// key: they are limited together, those who have a bucket keep it, and nobody's spending is
/// forgotten. When room returns, a newcomer's own bucket starts with what its shared one had spent.
///
/// A reset empties a shared bucket for nobody. Where there is room it moves the caller into a bucket of
/// its own, which is full; where there is none, the caller shares on.
pub struct MemoryStore {
    shards: Box<[Padded]>,
    shard_shift: u32,
    max_buckets: usize,
    seed: u64,
    shared_seed: SharedSeed,
}

/// A lock and what it guards in one cache line, so that neighbours do not disturb each other.
#[repr(align(64))]
struct Padded(Mutex<Shard>);

/// Shared buckets of one family of limits, in all shards together.
const LANES: usize = 256;
/// So that every shard has at least one of them.
const MAX_SHARDS: usize = LANES;
/// The bits of a fingerprint that choose among so many shards.
const SHARD_BITS: u64 = !(u64::MAX >> MAX_SHARDS.trailing_zeros());

/// What a [`MemoryStore`] holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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
        let shards = (cores * 16).next_power_of_two().clamp(64, MAX_SHARDS);
        // A small store is not split so far that the smallest tables hold more than its bound.
        let shards = shards.min((max_buckets / 16).max(1).next_power_of_two());
        Self::with_shards(max_buckets, shards)
    }

    /// Like [`MemoryStore::new`], with this many shards, rounded up to a power of two.
    pub fn with_shards(max_buckets: usize, shards: usize) -> Self {
        let shards = shards.next_power_of_two().clamp(1, MAX_SHARDS);
        let per_shard = max_buckets.div_ceil(shards);
        let lanes = LANES / shards;
        let [seed, shared_seed] = seeds();
        Self {
            shards: (0..shards)
                .map(|_| Padded(Mutex::new(Shard::new(per_shard, lanes))))
                .collect(),
            shard_shift: 63 - shards.trailing_zeros(),
            max_buckets,
            seed,
            shared_seed: SharedSeed::from_u64(shared_seed),
        }
    }

    /// Counts what is held. Walks the table: for metrics, not for requests.
    pub fn usage(&self, now: Timestamp) -> Usage {
        let mut usage = Usage {
            max_buckets: self.max_buckets,
            ..Usage::default()
        };
        for shard in &self.shards {
            let shard = lock(&shard.0);
            usage.buckets += shard.table.live(now);
            usage.bytes += shard.table.bytes();
            usage.overflow_lanes += shard.overflow.live(now);
            usage.overflowed += shard.overflow.counted;
        }
        usage
    }

    /// The most common case: one bucket, which is in the table; none if it is not.
    #[inline]
    fn decide_one(
        &self,
        charge: &Charge<'_>,
        outcome: &mut Outcome,
        mode: Mode,
        now: Timestamp,
    ) -> Option<Verdict> {
        let print = self.fingerprint(charge.key);
        let mut shard = lock(&self.shards[self.shard_of(print)].0);
        let at = shard.table.find(print)?;
        let slot = shard.table.slot_mut(at);
        let judged = judge(slot, charge, now);
        let admitted = charge.shadow || judged.0 == Judgement::Admit;
        *outcome = settle(slot, judged, charge, admitted, mode, now);
        Some(verdict(admitted))
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
        let prints = self.fingerprints(charges);
        let ranked = ranked(&prints);
        let mut shards: [Option<MutexGuard<'_, Shard>>; N] = [const { None }; N];
        let mut owner = [0; N];
        for rank in 0..N {
            let (this, last) = (ranked[rank], ranked[rank.saturating_sub(1)]);
            let shard = self.shard_of(this);
            let index = (this & INDEX) as usize;
            if rank > 0 && (this ^ last) <= INDEX {
                return None;
            } else if rank > 0 && shard == self.shard_of(last) {
                owner[index] = owner[(last & INDEX) as usize];
            } else {
                owner[index] = rank;
                shards[rank] = Some(lock(&self.shards[shard].0));
            }
        }
        // All searches before the first decision: their cache misses overlap.
        let mut slots = [0; N];
        for i in 0..N {
            slots[i] = shards[owner[i]].as_ref()?.table.find(prints[i])?;
        }
        let mut admitted = true;
        for i in 0..N {
            let slot = shards[owner[i]].as_ref()?.table.slot(slots[i]);
            let (judgement, _) = judge(slot, &charges[i], now);
            outcomes[i].judgement = judgement;
            admitted &= charges[i].shadow || judgement == Judgement::Admit;
        }
        for i in 0..N {
            let slot = shards[owner[i]].as_mut()?.table.slot_mut(slots[i]);
            // Reckoned again, which is quicker than to keep it.
            let level = slot.narrow_level(charges[i].limit, now);
            let judged = (outcomes[i].judgement, level);
            outcomes[i] = settle(slot, judged, &charges[i], admitted, mode, now);
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
        let (charges, outcomes) = (charges.try_into().ok()?, outcomes.try_into().ok()?);
        self.decide_few::<N>(charges, outcomes, mode, now)
    }

    /// Any request: with many buckets, new ones, or the same one twice.
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
            let bucket = held.buckets[index];
            let shard = &mut held.shards[bucket.held];
            let (place, state) = shard.look(bucket.print, bucket.family, charge, now);
            let before = charge.limit.level(state, now);
            let mut seat = Seat {
                bucket,
                place,
                before,
                level: before,
                judgement: Judgement::Admit,
                charge: *charge,
            };
            // The same bucket stands twice in one request: the second sees what the first takes.
            if let Some(earlier) = seats.iter().rev().find(|it| it.precedes(&seat)) {
                seat.level = charge.limit.level(earlier.after().state(), now);
            }
            seat.judgement = seat.level.judge(charge.cost);
            admitted &= charge.shadow || seat.judgement == Judgement::Admit;
            seats.push(seat);
        }
        for (seat, outcome) in seats.iter().zip(outcomes) {
            let (charge, judgement) = (&seat.charge, seat.judgement);
            let takes = takes(judgement, charge, admitted, mode);
            let (after, taken) = if takes {
                (seat.after(), charge.cost)
            } else if admitted && mode == Mode::Charge {
                (seat.level, 0)
            } else {
                (seat.before, 0)
            };
            *outcome = Outcome::new(judgement, &after);
            if takes || (mode == Mode::Charge && after.stepped_back()) {
                let Bucket {
                    print,
                    family,
                    held: at,
                } = seat.bucket;
                held.shards[at].write(seat.place, print, family, &after, taken, now);
            }
        }
        verdict(admitted)
    }

    fn give_back(&self, charges: &[Charge<'_>], charged_at: Timestamp, now: Timestamp) {
        let mut held = self.hold(charges);
        for (bucket, charge) in held.buckets.iter().zip(charges) {
            let table = &mut held.shards[bucket.held].table;
            // Only to a bucket of its own: what a shared one would get, others have spent.
            if let Some(at) = table.find(bucket.print) {
                let slot = table.slot_mut(at);
                let level = charge.limit.level(slot.read(), now);
                let after = level.credit(charge.cost, charged_at);
                slot.write(after.state(), after.full_after_us());
            }
        }
    }

    fn forget(&self, charges: &[Charge<'_>], now: Timestamp) {
        let mut held = self.hold(charges);
        for bucket in &held.buckets {
            held.shards[bucket.held].reset(bucket.print, now);
        }
    }

    /// Locks the shards of these charges, each once and in order.
    fn hold(&self, charges: &[Charge<'_>]) -> Held<'_> {
        let prints: SmallVec<[u64; 8]> = charges
            .iter()
            .map(|charge| self.fingerprint(charge.key))
            .collect();
        let mut order: SmallVec<[usize; 8]> =
            prints.iter().map(|print| self.shard_of(*print)).collect();
        order.sort_unstable();
        order.dedup();
        let position = |shard| order.iter().position(|other| *other == shard);
        Held {
            buckets: charges
                .iter()
                .zip(&prints)
                .map(|(charge, print)| Bucket {
                    print: *print,
                    family: self.hash_family(charge.key.family),
                    held: position(self.shard_of(*print)).unwrap_or_default(),
                })
                .collect(),
            shards: order
                .iter()
                .map(|shard| lock(&self.shards[*shard].0))
                .collect(),
        }
    }

    /// The hash of a key.
    #[inline]
    fn fingerprint(&self, key: Key<'_>) -> u64 {
        self.fingerprint_in(self.hash_scope(key.scope), key.family)
    }

    /// The fingerprints of a few keys. Where one has the scope of the one before, that is hashed once.
    #[inline(always)]
    fn fingerprints<const N: usize>(&self, charges: &[Charge<'_>; N]) -> [u64; N] {
        let mut last: (&[u8], u64) = (&[], 0);
        array::from_fn(|i| {
            let key = charges[i].key;
            if i == 0 || !std::ptr::eq(key.scope, last.0) {
                last = (key.scope, self.hash_scope(key.scope));
            }
            self.fingerprint_in(last.1, key.family)
        })
    }

    #[inline]
    fn hash_scope(&self, scope: &[u8]) -> u64 {
        let mut hasher = self.hasher();
        hasher.write(scope);
        hasher.finish()
    }

    /// The highest bits choose the shard and come from the scope alone: the buckets of one caller are in
    /// one shard, and a request that charges several of them takes one lock.
    #[inline]
    fn fingerprint_in(&self, scope: u64, family: &str) -> u64 {
        let mut hasher = self.hasher();
        hasher.write_u64(scope);
        hasher.write(family.as_bytes());
        // 0 marks an empty slot.
        (scope & SHARD_BITS | hasher.finish() & !SHARD_BITS).max(1)
    }

    #[inline]
    fn hasher(&self) -> FoldHasher<'_> {
        FoldHasher::with_seed(self.seed, &self.shared_seed)
    }

    fn hash_family(&self, family: &str) -> u64 {
        let mut hasher = self.hasher();
        hasher.write(family.as_bytes());
        hasher.finish()
    }

    /// The highest bits of a fingerprint. The table uses the lower half.
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
        if let ([charge], [outcome]) = (charges, &mut *outcomes)
            && let Some(verdict) = self.decide_one(charge, outcome, mode, now)
        {
            return Reply::Now(Ok(verdict));
        }
        let few = match charges.len() {
            2 => self.decide_slice::<2>(charges, outcomes, mode, now),
            3 => self.decide_slice::<3>(charges, outcomes, mode, now),
            4 => self.decide_slice::<4>(charges, outcomes, mode, now),
            5 => self.decide_slice::<5>(charges, outcomes, mode, now),
            6 => self.decide_slice::<6>(charges, outcomes, mode, now),
            _ => None,
        };
        Reply::Now(Ok(match few {
            Some(verdict) => verdict,
            None => self.decide(charges, outcomes, mode, now),
        }))
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

    fn reset<'a>(&'a self, charges: &'a [Charge<'a>], now: Timestamp) -> Reply<'a, ()> {
        self.forget(charges, now);
        Reply::Now(Ok(()))
    }
}

/// The bits of a rank that hold an index.
const INDEX: u64 = 7;

/// Fingerprints in ascending order, each with its index in place of the lowest bits. A shard is a range
/// of fingerprints, so this is the order of the locks too. No branches: they could not be foreseen.
#[inline(always)]
fn ranked<const N: usize>(prints: &[u64; N]) -> [u64; N] {
    let mut ranked: [u64; N] = array::from_fn(|i| prints[i] & !INDEX | i as u64);
    for end in (1..N).rev() {
        for i in 0..end {
            let (low, high) = (ranked[i].min(ranked[i + 1]), ranked[i].max(ranked[i + 1]));
            (ranked[i], ranked[i + 1]) = (low, high);
        }
    }
    ranked
}

fn verdict(admitted: bool) -> Verdict {
    Verdict {
        admitted,
        source: Source::Memory,
    }
}

/// The locks of one request, and where its buckets are behind them.
struct Held<'a> {
    buckets: SmallVec<[Bucket; 8]>,
    shards: SmallVec<[MutexGuard<'a, Shard>; 8]>,
}

#[derive(Clone, Copy)]
struct Bucket {
    print: u64,
    family: u64,
    /// The index of its shard among those held.
    held: usize,
}

/// A charge that has been judged.
struct Seat<'a> {
    bucket: Bucket,
    place: Place,
    /// The bucket as the request found it.
    before: Level,
    /// The same, less what earlier charges of the request take from it.
    level: Level,
    judgement: Judgement,
    charge: Charge<'a>,
}

impl Seat<'_> {
    /// Takes from the same bucket as a later one, which has to reckon with it. What counts does not reckon
    /// with what is only counted.
    fn precedes(&self, later: &Self) -> bool {
        let same = match (self.place, later.place) {
            (Place::Table, Place::Table) => self.bucket.print == later.bucket.print,
            (one, other) => one == other && self.bucket.held == later.bucket.held,
        };
        same && (later.charge.shadow || !self.charge.shadow)
    }

    /// Where the bucket stands if the request is admitted.
    fn after(&self) -> Level {
        if self.judgement == Judgement::Admit {
            self.level.charge(self.charge.cost)
        } else {
            self.level
        }
    }
}

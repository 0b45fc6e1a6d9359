//! Sums by key that many threads add to, and one takes away.

use std::hash::{BuildHasher, Hash};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use foldhash::quality::RandomState;
use hashbrown::HashTable;

/// A key as it is looked up: borrowed from a request.
pub(super) trait Lookup: Hash {
    /// The same, as it is kept.
    type Key;

    /// Whether it is this one.
    fn is(&self, key: &Self::Key) -> bool;

    /// What is kept of it.
    fn to_key(&self) -> Self::Key;
}

/// Sums by key. Threads meet only over keys that they do not see often: each has rows of its own, and what
/// has no room there is added to rows that all share. Every addition is taken exactly once.
pub(super) struct Table<K, V> {
    hasher: RandomState,
    /// By thread.
    own: [Shard<K, V>; SHARDS],
    /// By key.
    common: [Shard<K, V>; SHARDS],
    /// How many rows are in `common`.
    rows: AtomicUsize,
    max_rows: usize,
}

const SHARDS: usize = 16;
/// How many rows a thread has to itself.
const OWN_ROWS: usize = 512;

/// Two lines apart, for processors that fetch lines in pairs.
#[repr(align(128))]
struct Shard<K, V>(Mutex<HashTable<Row<K, V>>>);

struct Row<K, V> {
    hash: u64,
    key: K,
    value: V,
}

impl<K, V: Default> Table<K, V> {
    /// A table with room for at least so many keys.
    pub(super) fn new(max_rows: usize) -> Self {
        Self {
            hasher: RandomState::default(),
            own: std::array::from_fn(|_| Shard::new()),
            common: std::array::from_fn(|_| Shard::new()),
            rows: AtomicUsize::new(0),
            max_rows,
        }
    }

    /// Changes the value of a key, which is the default if it has none yet. False if there is no room for
    /// another.
    pub(super) fn change<L: Lookup<Key = K>>(&self, key: &L, change: impl Fn(&mut V)) -> bool {
        let hash = self.hasher.hash_one(key);
        let own = &self.own[SHARD.with(|shard| *shard)];
        own.change(hash, key, &change, |rows| rows < OWN_ROWS)
            || self.change_common(hash, key, &change, || self.makes_room())
    }

    /// As [`Table::change`], for a key that there is always room for.
    pub(super) fn insist<L: Lookup<Key = K>>(&self, key: &L, change: impl Fn(&mut V)) {
        let hash = self.hasher.hash_one(key);
        self.change_common(hash, key, &change, || {
            self.rows.fetch_add(1, Relaxed);
            true
        });
    }

    /// Takes everything away. A key may come several times, for threads know nothing of each other.
    pub(super) fn take(&self) -> Vec<(K, V)> {
        let mut taken = Vec::new();
        for shard in &self.own {
            taken.extend(shard.take(|_| {}));
        }
        for shard in &self.common {
            taken.extend(shard.take(|rows| {
                self.rows.fetch_sub(rows, Relaxed);
            }));
        }
        let rows = taken.into_iter().flatten();
        rows.map(|row| (row.key, row.value)).collect()
    }

    fn change_common<L: Lookup<Key = K>>(
        &self,
        hash: u64,
        key: &L,
        change: &impl Fn(&mut V),
        room: impl FnOnce() -> bool,
    ) -> bool {
        // The lowest bits and the highest choose a place within the shard.
        let shard = &self.common[(hash >> 32) as usize % SHARDS];
        shard.change(hash, key, change, |_| room())
    }

    /// Counts another row of `common`, if there may be one.
    fn makes_room(&self) -> bool {
        let has_room = self.rows.fetch_add(1, Relaxed) < self.max_rows;
        if !has_room {
            self.rows.fetch_sub(1, Relaxed);
        }
        has_room
    }
}

impl<K, V: Default> Shard<K, V> {
    fn new() -> Self {
        Self(Mutex::new(HashTable::new()))
    }

    /// `room` is asked, with the number of rows, whether there may be another.
    #[inline]
    fn change<L: Lookup<Key = K>>(
        &self,
        hash: u64,
        key: &L,
        change: &impl Fn(&mut V),
        room: impl FnOnce(usize) -> bool,
    ) -> bool {
        let mut rows = self.lock();
        if let Some(row) = rows.find_mut(hash, |row| key.is(&row.key)) {
            change(&mut row.value);
            return true;
        }
        if !room(rows.len()) {
            return false;
        }
        let mut value = V::default();
        change(&mut value);
        let key = key.to_key();
        rows.insert_unique(hash, Row { hash, key, value }, |row| row.hash);
        true
    }

    /// Takes all rows, and tells how many those are before anybody can add another. Whoever adds waits for
    /// no more than that.
    fn take(&self, tell: impl FnOnce(usize)) -> Option<HashTable<Row<K, V>>> {
        let length = self.lock().len();
        // There will be as many again.
        let fresh = HashTable::with_capacity(length);
        let mut rows = self.lock();
        tell(rows.len());
        Some(std::mem::replace(&mut *rows, fresh)).filter(|rows| !rows.is_empty())
    }

    fn lock(&self) -> MutexGuard<'_, HashTable<Row<K, V>>> {
        // What is under this lock is whole at every step.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

static THREADS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static SHARD: usize = THREADS.fetch_add(1, Relaxed) % SHARDS;
}

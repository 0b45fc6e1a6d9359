//! When API keys were last used.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tollward_core::Timestamp;

use super::table::{Lookup, Table};

/// Keys that are noted between two writes, and keys that wait for the directory.
const MAX_KEYS: usize = 100_000;
/// Keys that are written at once.
const BATCH: usize = 500;
/// Keys that are known to be noted already: as many as two bytes can tell apart.
const RECENT: usize = 1 << 16;

/// Takes down the use of a key about once a minute.
pub(super) struct Touches {
    /// Marks of keys that were noted, each in the place that its hash says. One that is overwritten by
    /// another is noted again, which does no harm.
    recent: Box<[AtomicU64]>,
    keys: Table<KeyHash, u64>,
    dropped: AtomicU64,
}

/// The SHA-256 of a key.
pub(super) type KeyHash = [u8; 32];

impl Lookup for KeyHash {
    type Key = Self;

    fn is(&self, key: &Self) -> bool {
        self == key
    }

    fn to_key(&self) -> Self {
        *self
    }
}

impl Touches {
    pub(super) fn new() -> Self {
        Self {
            recent: (0..RECENT).map(|_| AtomicU64::new(0)).collect(),
            keys: Table::new(MAX_KEYS),
            dropped: AtomicU64::new(0),
        }
    }

    /// A key was used.
    #[inline]
    pub(super) fn touch(&self, key: &KeyHash, at: Timestamp) {
        // A hash is as good as random, and nobody can try hashes of keys that are not known.
        let [one, other, .., a, b, c, d, e, f, g, h] = *key;
        let recent = &self.recent[usize::from(u16::from_le_bytes([one, other]))];
        let mark = u64::from_le_bytes([a, b, c, d, e, f, g, h]);
        let mark = mark.wrapping_add(at.as_micros() / 60_000_000);
        if recent.load(Relaxed) != mark {
            recent.store(mark, Relaxed);
            self.note(key, at);
        }
    }

    #[cold]
    fn note(&self, key: &KeyHash, at: Timestamp) {
        let at_ms = at.as_micros() / 1000;
        let noted = self.keys.change(key, |last| *last = at_ms.max(*last));
        if !noted {
            self.dropped.fetch_add(1, Relaxed);
        }
    }

    /// Takes what was noted since the last time: keys, each with the Unix milliseconds of its last use.
    pub(super) fn take(&self) -> Vec<(KeyHash, u64)> {
        self.keys.take()
    }

    /// Uses that were not noted for want of room.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped.load(Relaxed)
    }
}

/// What was taken and is not yet written: of each key the last use.
pub(super) struct Untold {
    keys: BTreeMap<KeyHash, i64>,
    max_keys: usize,
}

impl Untold {
    pub(super) fn new() -> Self {
        Self {
            keys: BTreeMap::new(),
            max_keys: MAX_KEYS,
        }
    }

    /// Takes keys over, and says how many there was no room for.
    pub(super) fn add(&mut self, keys: Vec<(KeyHash, u64)>) -> u64 {
        let mut dropped = 0;
        for (key, at_ms) in keys {
            let at_ms = i64::try_from(at_ms).unwrap_or(i64::MAX);
            if self.keys.len() >= self.max_keys && !self.keys.contains_key(&key) {
                dropped += 1;
                continue;
            }
            let last = self.keys.entry(key).or_default();
            *last = at_ms.max(*last);
        }
        dropped
    }

    /// What is to be written next; nothing if all is written.
    pub(super) fn batch(&self) -> Vec<(KeyHash, i64)> {
        let keys = self.keys.iter().take(BATCH);
        keys.map(|(key, at_ms)| (*key, *at_ms)).collect()
    }

    /// The last batch is written, or given up.
    pub(super) fn written(&mut self) {
        for _ in 0..BATCH {
            self.keys.pop_first();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use tollward_engine::Clock;
    use tollward_testkit::clock::ManualClock;

    fn key(number: u64) -> KeyHash {
        let mut hash = [0; 32];
        for word in hash.chunks_mut(8) {
            word.copy_from_slice(&number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes());
        }
        hash
    }

    #[test]
    fn a_key_is_noted_once_a_minute() {
        let (touches, clock) = (Touches::new(), ManualClock::new());
        let start_ms = ManualClock::START_SECS * 1000;
        for _ in 0..1000 {
            touches.touch(&key(1), clock.now());
        }
        assert_eq!(touches.take(), [(key(1), start_ms)]);
        clock.advance(Duration::from_secs(59));
        touches.touch(&key(1), clock.now());
        assert_eq!(touches.take(), []);
        clock.advance(Duration::from_secs(1));
        touches.touch(&key(1), clock.now());
        touches.touch(&key(2), clock.now());
        let mut taken = touches.take();
        taken.sort_unstable();
        let mut expected = [(key(1), start_ms + 60_000), (key(2), start_ms + 60_000)];
        expected.sort_unstable();
        assert_eq!(taken, expected);
    }

    #[test]
    fn what_is_not_written_is_kept_with_the_last_use() {
        let mut untold = Untold::new();
        untold.max_keys = 2;
        assert_eq!(untold.add(vec![(key(1), 5), (key(2), 6)]), 0);
        assert_eq!(untold.add(vec![(key(1), 9), (key(2), 4), (key(3), 1)]), 1);
        let mut batch = untold.batch();
        batch.sort_by_key(|(_, at_ms)| *at_ms);
        assert_eq!(batch, [(key(2), 6), (key(1), 9)]);
        untold.written();
        assert_eq!(untold.batch(), []);
    }

    #[test]
    fn more_keys_than_there_is_room_for_are_counted() {
        let (touches, clock) = (Touches::new(), ManualClock::new());
        for number in 0..150_000 {
            touches.touch(&key(number), clock.now());
        }
        let noted = touches.take().len() as u64;
        assert!(noted >= MAX_KEYS as u64);
        assert_eq!(noted + touches.dropped(), 150_000);
    }
}

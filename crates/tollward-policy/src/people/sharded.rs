use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;

type Seed = foldhash::quality::RandomState;

/// A map that is cheap to copy, and whose copies share what did not change: a change copies one part in
/// a thousand.
#[derive(Clone, Debug)]
pub(super) struct Sharded<K, V> {
    shards: Arc<[Arc<HashMap<K, V, Seed>>]>,
    seed: Seed,
    length: usize,
}

const SHARDS: usize = 1024;

impl<K, V> Default for Sharded<K, V> {
    fn default() -> Self {
        // All are the same one until something is put into them.
        let empty = Arc::new(HashMap::with_hasher(Seed::default()));
        Self {
            shards: std::iter::repeat_n(empty, SHARDS).collect(),
            seed: Seed::default(),
            length: 0,
        }
    }
}

impl<K: Hash + Eq, V> Sharded<K, V> {
    pub(super) fn get<Q>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        if self.length == 0 {
            return None;
        }
        self.shards[self.shard(key)].get(key)
    }

    pub(super) fn len(&self) -> usize {
        self.length
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.shards.iter().flat_map(|shard| shard.iter())
    }

    fn shard<Q: Hash + ?Sized>(&self, key: &Q) -> usize {
        // Its remainder: the maps below look at other bits, of another seed.
        usize::try_from(self.seed.hash_one(key) % SHARDS as u64).unwrap_or(0)
    }
}

impl<K: Hash + Eq + Clone, V: Clone> Sharded<K, V> {
    pub(super) fn insert(&mut self, key: K, value: V) -> Option<V> {
        let shard = self.shard(&key);
        let before = Arc::make_mut(&mut Arc::make_mut(&mut self.shards)[shard]).insert(key, value);
        self.length += usize::from(before.is_none());
        before
    }

    pub(super) fn remove<Q>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.get(key)?;
        let shard = self.shard(key);
        let before = Arc::make_mut(&mut Arc::make_mut(&mut self.shards)[shard]).remove(key);
        self.length -= usize::from(before.is_some());
        before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_do_not_see_each_other_and_share_what_is_alike() {
        let mut first = Sharded::default();
        for number in 0..10_000_u32 {
            assert_eq!(first.insert(number, number), None);
        }
        let mut second = first.clone();
        assert_eq!(second.insert(7, 70), Some(7));
        assert_eq!(second.remove(&8), Some(8));
        assert_eq!(second.remove(&8), None);
        assert_eq!((first.get(&7), first.get(&8)), (Some(&7), Some(&8)));
        assert_eq!((second.get(&7), second.get(&8)), (Some(&70), None));
        assert_eq!((first.len(), second.len()), (10_000, 9_999));
        assert_eq!(second.iter().count(), 9_999);
        let pairs = first.shards.iter().zip(second.shards.iter());
        let copied = pairs.filter(|(one, other)| !Arc::ptr_eq(one, other));
        assert!((1..=2).contains(&copied.count()));
    }
}

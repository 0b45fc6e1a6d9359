//! Two newcomers of one request, and a single place left for them.

use tollward_core::{Charge, Key, Limit, OnFailure, Timestamp, Window};

use crate::store::{Mode, Outcome};
use crate::{MemoryStore, sync::lock};

const START: Timestamp = Timestamp::from_micros(1_766_016_000_000_000);
const HOUR_US: u64 = 3_600_000_000;

struct Shop {
    store: MemoryStore,
    limit: Limit,
}

impl Shop {
    /// One table of fourteen places, with this many of them taken.
    fn with_taken(places: u64) -> Self {
        let shop = Self {
            store: MemoryStore::with_shards(1, 1),
            limit: Limit::token_bucket(1, Window::HOUR, 10).unwrap(),
        };
        for n in 0..places {
            assert!(shop.apply(&[n], 1, Mode::Charge, START).0);
        }
        shop
    }

    fn with_charges<T>(&self, keys: &[u64], cost: u64, f: impl FnOnce(&[Charge<'_>]) -> T) -> T {
        let scopes: Vec<_> = keys.iter().map(|key| key.to_be_bytes()).collect();
        let charge = |scope| Charge {
            name: "test",
            limit: &self.limit,
            key: Key {
                family: "test",
                scope,
            },
            cost,
            shadow: false,
            on_failure: OnFailure::Local,
        };
        let charges: Vec<_> = scopes
            .iter()
            .map(|scope| charge(scope.as_slice()))
            .collect();
        f(&charges)
    }

    fn apply(&self, keys: &[u64], cost: u64, mode: Mode, now: Timestamp) -> (bool, Vec<Outcome>) {
        self.with_charges(keys, cost, |charges| {
            let mut outcomes = vec![Outcome::default(); keys.len()];
            let verdict = self.store.decide(charges, &mut outcomes, mode, now);
            (verdict.admitted, outcomes)
        })
    }

    /// A peek at each, one by one.
    fn look(&self, keys: &[u64], now: Timestamp) -> Vec<Vec<Outcome>> {
        let peek = |key| self.apply(&[key], 1, Mode::Peek, now).1;
        keys.iter().copied().map(peek).collect()
    }

    /// Two keys that both find the one place that is free.
    fn two_newcomers(&self, now: Timestamp) -> [u64; 2] {
        let room = |key: &u64| {
            self.with_charges(&[*key], 1, |charges| {
                let print = self.store.fingerprint(charges[0].key);
                lock(&self.store.shards[0].0).table.make_room(print, now)
            })
        };
        let mut found = (1_000..9_000).filter(room);
        [found.next().unwrap(), found.next().unwrap()]
    }
}

#[test]
fn both_are_charged() {
    let shop = Shop::with_taken(13);
    let newcomers = shop.two_newcomers(START);
    assert!(shop.apply(&newcomers, 4, Mode::Charge, START).0);
    for seen in shop.look(&newcomers, START) {
        assert_eq!(seen[0].remaining, 6);
    }
    let usage = shop.store.usage(START);
    assert_eq!((usage.buckets, usage.overflow_lanes), (14, 1));
    assert_eq!(usage.overflowed, 1 + 1, "the charge and the peek");
    // Both in turn, until they are empty.
    assert!(shop.apply(&newcomers, 6, Mode::Charge, START).0);
    assert!(!shop.apply(&newcomers, 1, Mode::Charge, START).0);
}

/// The clock was stepped back and the request is refused: its buckets are moved to the new time, and no
/// token is taken.
#[test]
fn a_refusal_takes_nothing() {
    let shop = Shop::with_taken(14);
    for key in 1_000..9_000 {
        shop.apply(&[key], 10, Mode::Charge, START);
    }
    // A place falls free in all times, because its bucket is given back what it spent.
    shop.with_charges(&[0], 1, |charges| {
        shop.store.give_back(charges, START, START)
    });
    let earlier = Timestamp::from_micros(START.as_micros() - HOUR_US);
    let newcomers = shop.two_newcomers(earlier);
    let before = shop.look(&newcomers, earlier);
    assert!(!shop.apply(&newcomers, 1, Mode::Charge, earlier).0);
    assert_eq!(shop.look(&newcomers, earlier), before);
}

/// Giving back never takes.
#[test]
fn a_credit_takes_nothing() {
    let shop = Shop::with_taken(14);
    for key in 1_000..9_000 {
        shop.apply(&[key], 5, Mode::Charge, START);
    }
    shop.with_charges(&[0], 1, |charges| {
        shop.store.give_back(charges, START, START)
    });
    let newcomers = shop.two_newcomers(START);
    let before = shop.look(&newcomers, START);
    shop.with_charges(&newcomers, 2, |charges| {
        shop.store.give_back(charges, START, START);
    });
    for (now, before) in shop.look(&newcomers, START).iter().zip(before) {
        assert!(now[0].remaining >= before[0].remaining);
    }
}

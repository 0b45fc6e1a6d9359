//! A few threads with a few requests each, and every way it may end.

use std::collections::HashSet;
use std::sync::Arc;

use shuttle::thread;
use tollward_core::{Charge, Key, Limit, OnFailure, Timestamp, Window};
use tollward_store::{MemoryStore, Mode, Outcome, Store};
use tollward_testkit::conformance::{Model, START, at_once};

/// Requests of some threads on a fresh store.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scene {
    pub(crate) shards: usize,
    /// How many buckets have spent something before: these are found at once, others are new.
    pub(crate) known: u64,
    /// Buckets that fill the table before; they are full again after a minute.
    pub(crate) crowd: u64,
    pub(crate) capacity: u32,
    pub(crate) threads: Vec<Vec<Vec<Ask>>>,
}

/// One charge.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ask {
    pub(crate) key: u64,
    pub(crate) cost: u64,
    pub(crate) shadow: bool,
    /// When the request comes (the first charge's counts).
    pub(crate) after_secs: u64,
}

pub(crate) fn ask(key: u64, cost: u64) -> Ask {
    Ask {
        key,
        cost,
        shadow: false,
        after_secs: 0,
    }
}

/// What was admitted, thread by thread, and what every bucket has left.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Ending {
    verdicts: Vec<Vec<bool>>,
    left: Vec<u32>,
}

const KEYS: u64 = 8;
/// Buckets of another limit, which nobody asks for.
const CROWD: u64 = 1_000;

impl Scene {
    /// Plays it on threads.
    pub(crate) fn play(scene: &Arc<Self>) -> Ending {
        let store = Arc::new(scene.store());
        let threads: Vec<_> = (0..scene.threads.len())
            .map(|number| {
                let (scene, store) = (Arc::clone(scene), Arc::clone(&store));
                thread::spawn(move || {
                    let requests = scene.threads[number].iter();
                    requests
                        .map(|asks| scene.ask(&store, asks))
                        .collect::<Vec<bool>>()
                })
            })
            .collect();
        let verdicts = threads.into_iter().map(|one| one.join().unwrap());
        Ending {
            verdicts: verdicts.collect(),
            left: scene.left(&store),
        }
    }

    /// Every ending of a serial order, by the model.
    pub(crate) fn serial_endings(&self) -> HashSet<Ending> {
        assert_eq!(self.crowd, 0, "the model knows no overflow");
        self.orders()
            .iter()
            .map(|order| {
                let mut model = Model::default();
                let mut apply = |asks: &[Ask], mode| {
                    self.with_charges(asks, |charges| model.apply(charges, mode, moment(asks)))
                };
                for key in 0..self.known {
                    apply(&[ask(key, 1)], Mode::Charge);
                }
                let verdicts = self.in_order(order, |asks| apply(asks, Mode::Charge).0);
                let left = |key| apply(&[ask(key, 0)], Mode::Peek).1[0].remaining;
                let left = (0..KEYS).map(left).collect();
                Ending { verdicts, left }
            })
            .collect()
    }

    /// Every ending of a serial order, by the store itself.
    pub(crate) fn serial_endings_of_the_store(&self) -> HashSet<Ending> {
        self.orders()
            .iter()
            .map(|order| {
                let store = self.store();
                let verdicts = self.in_order(order, |asks| self.ask(&store, asks));
                let left = self.left(&store);
                Ending { verdicts, left }
            })
            .collect()
    }

    /// A store as the threads find it.
    fn store(&self) -> MemoryStore {
        let room = if self.crowd > 0 { 1 } else { 10_000 };
        let store = MemoryStore::with_shards(room, self.shards);
        for key in 0..self.known {
            assert!(self.ask(&store, &[ask(key, 1)]));
        }
        let crowd = Limit::token_bucket(1, Window::MINUTE, 1_000).unwrap();
        for key in CROWD..CROWD + self.crowd {
            let scope = key.to_be_bytes();
            let charge = Charge {
                name: "crowd",
                limit: &crowd,
                key: Key {
                    family: "crowd",
                    scope: &scope,
                },
                cost: 1,
                shadow: false,
                on_failure: OnFailure::Local,
            };
            let mut outcomes = [Outcome::default()];
            let _ = store.apply(&[charge], &mut outcomes, Mode::Charge, START);
        }
        store
    }

    fn ask(&self, store: &MemoryStore, asks: &[Ask]) -> bool {
        self.apply(store, asks, Mode::Charge).0
    }

    fn left(&self, store: &MemoryStore) -> Vec<u32> {
        let left = |key| self.apply(store, &[ask(key, 0)], Mode::Peek).1[0].remaining;
        (0..KEYS).map(left).collect()
    }

    fn apply(&self, store: &MemoryStore, asks: &[Ask], mode: Mode) -> (bool, Vec<Outcome>) {
        self.with_charges(asks, |charges| {
            let mut outcomes = vec![Outcome::default(); charges.len()];
            let reply = store.apply(charges, &mut outcomes, mode, moment(asks));
            let verdict = at_once(reply.wait()).unwrap();
            (verdict.admitted, outcomes)
        })
    }

    fn with_charges<T>(&self, asks: &[Ask], f: impl FnOnce(&[Charge<'_>]) -> T) -> T {
        let limit = Limit::token_bucket(1, Window::HOUR, self.capacity).unwrap();
        let scopes: Vec<_> = asks.iter().map(|one| one.key.to_be_bytes()).collect();
        let mut charges = Vec::new();
        for (one, scope) in asks.iter().zip(&scopes) {
            charges.push(Charge {
                name: "scene",
                limit: &limit,
                key: Key {
                    family: "scene",
                    scope,
                },
                cost: one.cost,
                shadow: one.shadow,
                on_failure: OnFailure::Local,
            });
        }
        f(&charges)
    }

    /// Every order of the requests that keeps each thread's own: as a list of thread numbers.
    fn orders(&self) -> Vec<Vec<usize>> {
        let left: Vec<usize> = self.threads.iter().map(Vec::len).collect();
        let mut orders = Vec::new();
        extend(&mut Vec::new(), left, &mut orders);
        orders
    }

    fn in_order(&self, order: &[usize], mut ask: impl FnMut(&[Ask]) -> bool) -> Vec<Vec<bool>> {
        let mut verdicts = vec![Vec::new(); self.threads.len()];
        for thread in order {
            let next = verdicts[*thread].len();
            let verdict = ask(&self.threads[*thread][next]);
            verdicts[*thread].push(verdict);
        }
        verdicts
    }
}

fn extend(order: &mut Vec<usize>, left: Vec<usize>, orders: &mut Vec<Vec<usize>>) {
    if left.iter().all(|count| *count == 0) {
        orders.push(order.clone());
    }
    for thread in 0..left.len() {
        if left[thread] > 0 {
            let mut rest = left.clone();
            rest[thread] -= 1;
            order.push(thread);
            extend(order, rest, orders);
            order.pop();
        }
    }
}

fn moment(asks: &[Ask]) -> Timestamp {
    let secs = asks.first().map_or(0, |one| one.after_secs);
    START.saturating_add(secs * 1_000_000)
}

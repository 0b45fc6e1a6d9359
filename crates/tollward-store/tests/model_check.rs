//! Every schedule of a few small requests ends as if they had come one after the other.
//!
//! Under the feature `model-check` the store's locks are those of the shuttle model checker, which runs
//! three threads in thousands of random, priority-driven and (where they are few) all schedules. It
//! fails on a deadlock by itself; the rest is checked here: the answers and the buckets left are those
//! of some serial order. (Atomics are not modelled: shuttle sees them in one order.)
//!
//! `cargo test -p tollward-store --features model-check --test model_check`

#![cfg(feature = "model-check")]
// Clippy knows the test functions as tests, but not the functions they share.
#![allow(clippy::unwrap_used)]

#[path = "model_check/scene.rs"]
mod scene;

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use scene::{Ask, Ending, Scene, ask};
use shuttle::{check_dfs, check_pct, check_random};

const RANDOM: usize = 2_000;
const PCT: usize = 2_000;

/// Random and priority schedules of the scene, against the serial orders by the model.
fn check(scene: Scene) {
    let endings = Arc::new(scene.serial_endings());
    assert!(
        endings.len() > 1,
        "the order makes no difference: a dull scene"
    );
    check_against(scene, endings);
}

fn check_against(scene: Scene, endings: Arc<HashSet<Ending>>) {
    let scene = Arc::new(scene);
    let run = move || {
        let ending = Scene::play(&scene);
        assert!(
            endings.contains(&ending),
            "no serial order ends so: {ending:?}"
        );
    };
    check_random(run.clone(), RANDOM);
    check_pct(run, PCT, 3);
}

/// All schedules.
fn check_all(scene: Scene) {
    let endings = scene.serial_endings();
    let (scene, count) = (Arc::new(scene), Arc::new(Mutex::new(0_u64)));
    let counted = Arc::clone(&count);
    check_dfs(
        move || {
            let ending = Scene::play(&scene);
            assert!(
                endings.contains(&ending),
                "no serial order ends so: {ending:?}"
            );
            *counted.lock().unwrap() += 1;
        },
        None,
    );
    assert!(*count.lock().unwrap() > 1);
}

/// Buckets in a ring: every thread locks two, each in another order.
fn ring(shards: usize) -> Scene {
    let pair = |a, b| vec![ask(a, 1), ask(b, 1)];
    Scene {
        shards,
        capacity: 2,
        known: 3,
        threads: vec![
            vec![pair(0, 1), pair(1, 0)],
            vec![pair(1, 2), pair(2, 1)],
            vec![pair(2, 0), pair(0, 2)],
        ],
        ..Scene::default()
    }
}

#[test]
fn pairs_in_a_ring() {
    for shards in [1, 2, 4] {
        check(ring(shards));
        check(Scene {
            known: 0,
            ..ring(shards)
        });
    }
}

/// All buckets in all orders, with costs that fit only some of the requests.
#[test]
fn triples_in_any_order() {
    let of = |order: [u64; 3], cost| order.map(|key| ask(key, cost)).to_vec();
    for (shards, known) in [(1, 3), (2, 0), (4, 2), (4, 3)] {
        check(Scene {
            shards,
            known,
            capacity: 5,
            threads: vec![
                vec![of([0, 1, 2], 2), of([1, 2, 0], 1)],
                vec![of([2, 1, 0], 3)],
                vec![of([1, 0, 2], 1), of([2, 0, 1], 2), of([0, 2, 1], 1)],
            ],
            ..Scene::default()
        });
    }
}

/// A refusal by one bucket never makes another request lose: all or nothing, with a bucket that is asked
/// for too much, one in shadow, one named twice and more of them than the fast path takes.
#[test]
fn refusals_among_others() {
    let shadow = |key, cost| Ask {
        shadow: true,
        ..ask(key, cost)
    };
    check(Scene {
        shards: 4,
        known: 4,
        capacity: 4,
        threads: vec![
            vec![vec![ask(0, 1), ask(1, 3)], vec![ask(1, 1), shadow(2, 4)]],
            vec![
                vec![ask(1, 1), ask(0, 2), ask(1, 1)],
                vec![ask(3, 5), ask(0, 1)],
            ],
            vec![(0..8).rev().map(|key| ask(key, 1)).collect()],
        ],
        ..Scene::default()
    });
}

#[test]
fn all_schedules_of_two_requests() {
    for shards in [1, 2, 4] {
        for known in [0, 2] {
            check_all(Scene {
                shards,
                known,
                capacity: 1,
                threads: vec![
                    vec![vec![ask(0, 1), ask(1, 1)]],
                    vec![vec![ask(1, 1), ask(0, 1)]],
                ],
                ..Scene::default()
            });
        }
    }
}

#[test]
fn all_schedules_of_three_requests() {
    check_all(Scene {
        shards: 4,
        known: 3,
        capacity: 1,
        threads: vec![
            vec![vec![ask(0, 1), ask(1, 1)]],
            vec![vec![ask(1, 1), ask(2, 1)]],
            vec![vec![ask(2, 1), ask(0, 1)]],
        ],
        ..Scene::default()
    });
}

/// Newcomers of a full table share buckets, so what is right is what the store does serially.
fn check_overflow(scene: Scene) {
    let endings = Arc::new(Mutex::new(HashSet::new()));
    let (found, serial) = (Arc::clone(&endings), scene.clone());
    check_random(
        move || *found.lock().unwrap() = serial.serial_endings_of_the_store(),
        1,
    );
    let endings = std::mem::take(&mut *endings.lock().unwrap());
    assert!(
        endings.len() > 1,
        "the order makes no difference: a dull scene"
    );
    check_against(scene, Arc::new(endings));
}

/// Six keys that have no bucket of their own.
#[test]
fn newcomers_of_a_full_table() {
    for shards in [1, 2] {
        let pair = |a, b| vec![ask(a, 1), ask(b, 1)];
        check_overflow(Scene {
            shards,
            crowd: 60,
            capacity: 2,
            threads: vec![
                vec![pair(0, 1), pair(2, 3)],
                vec![pair(3, 0), pair(1, 4)],
                vec![pair(4, 2), pair(0, 3)],
            ],
            ..Scene::default()
        });
    }
}

/// Some requests come when the crowd's buckets are full again: newcomers move from the shared bucket to
/// one of their own while others still use it.
#[test]
fn newcomers_while_room_returns() {
    let later = |asks: Vec<Ask>| -> Vec<Ask> {
        let later = |one| Ask {
            after_secs: 90,
            ..one
        };
        asks.into_iter().map(later).collect()
    };
    for shards in [1, 2] {
        let pair = |a, b| vec![ask(a, 2), ask(b, 1)];
        check_overflow(Scene {
            shards,
            crowd: 60,
            capacity: 4,
            threads: vec![
                vec![pair(0, 1), later(pair(1, 0))],
                vec![pair(1, 2), later(pair(2, 0))],
                vec![later(pair(0, 2)), later(pair(2, 1))],
            ],
            ..Scene::default()
        });
    }
}

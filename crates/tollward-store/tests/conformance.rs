//! The memory store keeps every promise of a store.

#![cfg(not(feature = "model-check"))]

use tollward_store::{MemoryStore, Store};
use tollward_testkit::conformance::{Pay, START, Till, at_once, bucket};

/// With room for all, on tables that grow and reuse their places.
mod roomy {
    use super::*;

    fn on(case: impl AsyncFnOnce(&dyn Store)) {
        at_once(case(&MemoryStore::new(100_000)));
    }

    tollward_testkit::store_conformance!(on);
}

/// Everything behind one lock and in one table.
mod one_shard {
    use super::*;

    fn on(case: impl AsyncFnOnce(&dyn Store)) {
        at_once(case(&MemoryStore::with_shards(100_000, 1)));
    }

    tollward_testkit::store_conformance!(on);
}

/// A shadow charge takes nothing from a bucket that another charge of its request needs.
#[test]
fn a_shadow_on_the_same_bucket_refuses_nothing() {
    let store = MemoryStore::new(1_000);
    let till = Till::open(&store);
    let limit = bucket(1, 60, 7);
    let (real, shadow) = (Pay::new(limit, 0, 5), Pay::new(limit, 0, 5).in_shadow());
    assert!(at_once(till.peek(&[real, shadow], START)).admitted);
    assert!(at_once(till.peek(&[shadow, real], START)).admitted);
}

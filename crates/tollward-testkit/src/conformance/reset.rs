//! Forgetting what was spent.

use tollward_core::Judgement;
use tollward_store::Store;

use super::till::{Pay, START, Till, bucket, sliding};

/// Whatever was spent, and whatever cost and limit it is reset with.
pub async fn makes_a_bucket_full(store: &dyn Store) {
    for limit in [bucket(1, 60, 10), sliding(10, 60)] {
        let till = Till::open(store);
        till.take(limit, 0, 10, START).await;
        let refused = till.take(limit, 0, 1, START).await;
        assert!(matches!(refused.judgement, Judgement::Refuse { .. }));
        // Twice in one call, by another limit and at a cost that it would never admit.
        let pays = [Pay::new(limit, 0, 0), Pay::new(bucket(3, 1, 3), 0, 4)];
        till.reset(&pays, START).await;
        let full = till.peek(&[Pay::new(limit, 0, 1)], START).await.outcomes[0];
        assert_eq!((full.remaining, full.full_after_us), (10, 0));
        // And it is a bucket like any other again.
        assert_eq!(till.take(limit, 0, 10, START).await.remaining, 0);
        let refused = till.take(limit, 0, 1, START).await;
        assert!(matches!(refused.judgement, Judgement::Refuse { .. }));
    }
}

/// Only the buckets that are named, however many there are.
pub async fn leaves_other_buckets_alone(store: &dyn Store) {
    const BUCKETS: u64 = 60;
    let till = Till::open(store);
    let limit = bucket(1, 60, 10);
    let pays: Vec<Pay> = (0..BUCKETS).map(|key| Pay::new(limit, key, 4)).collect();
    for pay in &pays {
        till.take(limit, pay.key, pay.cost, START).await;
    }
    let even: Vec<Pay> = pays.iter().step_by(2).copied().collect();
    till.reset(&even, START).await;
    for key in 0..BUCKETS {
        let left = if key % 2 == 0 { 10 } else { 6 };
        assert_eq!(till.left(limit, key, START).await, left, "bucket {key}");
    }
    till.reset(&[], START).await;
    assert_eq!(till.left(limit, 1, START).await, 6);
}

/// Who has spent nothing has nothing to be forgotten, and gains nothing.
pub async fn of_an_unknown_bucket_does_nothing(store: &dyn Store) {
    let till = Till::open(store);
    let limit = bucket(1, 60, 10);
    for _ in 0..2 {
        till.reset(&[Pay::new(limit, 0, 1)], START).await;
        assert_eq!(till.left(limit, 0, START).await, 10);
    }
    assert_eq!(till.take(limit, 0, 10, START).await.remaining, 0);
    let refused = till.take(limit, 0, 1, START).await;
    assert_eq!(
        refused.judgement,
        Judgement::Refuse {
            wait_us: 60_000_000
        }
    );
}

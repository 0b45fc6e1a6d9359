//! Giving back what was taken.

use tollward_store::Store;

use super::till::{Pay, START, Till, bucket, sliding};

/// Every bucket of the request gets its cost back, and only that.
pub async fn gives_back_what_was_taken(store: &dyn Store) {
    let till = Till::open(store);
    let (tokens, windows) = (bucket(1, 60, 10), sliding(10, 60));
    let pays = [Pay::new(tokens, 0, 3), Pay::new(windows, 1, 4)];
    till.charge(&pays, START).await;
    till.charge(&pays, START).await;
    till.credit(&pays, START, START.saturating_add(1_000_000))
        .await;
    let later = START.saturating_add(1_000_000);
    assert_eq!(till.left(tokens, 0, later).await, 7);
    assert_eq!(till.left(windows, 1, later).await, 6);
}

/// A bucket is never more than full.
pub async fn never_more_than_was_spent(store: &dyn Store) {
    for limit in [bucket(1, 60, 10), sliding(10, 60)] {
        let till = Till::open(store);
        till.take(limit, 0, 5, START).await;
        for _ in 0..3 {
            till.credit(&[Pay::new(limit, 0, 4)], START, START).await;
        }
        assert_eq!(till.left(limit, 0, START).await, 10);
        assert_eq!(till.take(limit, 0, 10, START).await.remaining, 0);
    }
}

/// What has faded from a sliding window is not given back out of what was taken since.
pub async fn of_a_faded_window_gives_nothing(store: &dyn Store) {
    let till = Till::open(store);
    let limit = sliding(10, 60);
    till.take(limit, 0, 5, START).await;
    let later = START.saturating_add(120_000_000);
    till.take(limit, 0, 7, later).await;
    till.credit(&[Pay::new(limit, 0, 5)], START, later).await;
    assert_eq!(till.left(limit, 0, later).await, 3);
}

/// Crediting somebody who spent nothing gives nothing.
pub async fn creates_no_bucket(store: &dyn Store) {
    let till = Till::open(store);
    let limit = bucket(1, 60, 10);
    till.credit(&[Pay::new(limit, 0, 5)], START, START).await;
    assert_eq!(till.left(limit, 0, START).await, 10);
    assert_eq!(till.take(limit, 0, 10, START).await.remaining, 0);
}

//! Charges that never refuse.

use tollward_core::Judgement;
use tollward_store::Store;

use super::till::{Pay, START, Till, bucket};

/// An empty shadow bucket says that it would refuse, and the request passes.
pub async fn never_refuses(store: &dyn Store) {
    let till = Till::open(store);
    let (real, shadow) = (bucket(1, 60, 10), bucket(1, 60, 2));
    let pays = [Pay::new(shadow, 0, 1).in_shadow(), Pay::new(real, 1, 1)];
    for step in 0..10 {
        let answer = till.charge(&pays, START).await;
        assert!(answer.admitted);
        let admits = answer.outcomes[0].judgement == Judgement::Admit;
        assert_eq!(admits, step < 2);
    }
    assert!(!till.charge(&pays, START).await.admitted);
    let alone = till.charge(&[pays[0]], START).await;
    assert!(alone.admitted, "also when there is no other charge");
}

/// A request that another limit refuses takes nothing from a shadow bucket.
pub async fn charged_only_with_the_request(store: &dyn Store) {
    let till = Till::open(store);
    let (real, shadow) = (bucket(1, 60, 3), bucket(1, 60, 10));
    let pays = [Pay::new(shadow, 0, 1).in_shadow(), Pay::new(real, 1, 1)];
    for _ in 0..8 {
        till.charge(&pays, START).await;
    }
    assert_eq!(till.left(shadow, 0, START).await, 7);
}

/// What a shadow bucket would have refused is not taken from it either.
pub async fn charged_only_if_it_admits(store: &dyn Store) {
    let till = Till::open(store);
    let (real, shadow) = (bucket(1, 60, 100), bucket(1, 60, 5));
    let pays = [Pay::new(real, 0, 3), Pay::new(shadow, 1, 3).in_shadow()];
    for _ in 0..4 {
        assert!(till.charge(&pays, START).await.admitted);
    }
    assert_eq!(till.left(real, 0, START).await, 88);
    assert_eq!(till.left(shadow, 1, START).await, 2);
    // No debt was run up: three tokens are there a minute later.
    let minute = START.saturating_add(60_000_000);
    assert!(till.charge(&pays, minute).await.admitted);
    assert_eq!(till.left(shadow, 1, minute).await, 0);
}

/// A cost beyond a shadow's capacity is reported and refuses nothing.
pub async fn never_cost_in_shadow(store: &dyn Store) {
    let till = Till::open(store);
    let (real, shadow) = (bucket(1, 60, 100), bucket(1, 60, 5));
    let pays = [Pay::new(real, 0, 6), Pay::new(shadow, 1, 6).in_shadow()];
    let answer = till.charge(&pays, START).await;
    assert!(answer.admitted);
    assert_eq!(answer.judgements(), [Judgement::Admit, Judgement::Never]);
    assert_eq!(answer.remaining(), [94, 5]);
}

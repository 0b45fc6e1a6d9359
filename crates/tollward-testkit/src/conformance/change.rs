//! What is spent stays spent when the limit changes.

use tollward_core::Judgement;
use tollward_store::Store;

use super::till::{START, Till, bucket, sliding};

/// Raising a capacity gives what it was raised by; what is below zero is kept as debt.
pub async fn capacity_raised_and_lowered(store: &dyn Store) {
    let till = Till::open(store);
    let of = |capacity| bucket(1, 60, capacity);
    till.take(of(100), 0, 80, START).await;
    assert_eq!(till.left(of(150), 0, START).await, 70);
    assert_eq!(till.left(of(50), 0, START).await, 0);
    let refused = till.take(of(50), 0, 1, START).await;
    // 30 of debt and the one asked for.
    let wait_us = 31 * 60_000_000;
    assert_eq!(refused.judgement, Judgement::Refuse { wait_us });
    assert_eq!(till.left(of(100), 0, START).await, 20, "there and back");
    till.take(of(150), 0, 70, START).await;
    assert_eq!(till.left(of(100), 0, START).await, 0);
    let ten_minutes = START.saturating_add(600_000_000);
    assert_eq!(till.left(of(150), 0, ten_minutes).await, 10);
}

/// The time since the last touch refills at the rate that is in force now.
pub async fn rate_changed(store: &dyn Store) {
    let till = Till::open(store);
    let (slow, fast) = (bucket(1, 60, 100), bucket(10, 60, 100));
    till.take(slow, 0, 100, START).await;
    let minute = START.saturating_add(60_000_000);
    assert_eq!(till.left(slow, 0, minute).await, 1);
    assert_eq!(till.left(fast, 0, minute).await, 10);
    till.take(fast, 0, 5, minute).await;
    assert_eq!(
        till.left(slow, 0, minute).await,
        5,
        "touched, it is settled"
    );
}

/// Tokens are tokens, whatever the window; a fraction is rounded against the caller.
pub async fn window_changed(store: &dyn Store) {
    let till = Till::open(store);
    let (second, minute, odd) = (bucket(7, 1, 50), bucket(7, 60, 50), bucket(7, 13, 50));
    till.take(second, 0, 30, START).await;
    for limit in [minute, odd, second] {
        assert_eq!(till.left(limit, 0, START).await, 20);
    }
    // A third of a second gives back 2 1/3 tokens: 27 2/3 are spent.
    let third = START.saturating_add(333_334);
    till.take(second, 0, 1, third).await;
    for limit in [minute, odd, second] {
        assert_eq!(till.left(limit, 0, third).await, 21);
        let (one_too_many, fits) = (22, 21);
        let said = till
            .peek(&[super::Pay::new(limit, 0, one_too_many)], third)
            .await;
        assert!(!said.admitted);
        assert!(
            till.peek(&[super::Pay::new(limit, 0, fits)], third)
                .await
                .admitted
        );
    }
}

/// A bucket's spending counts whole in a sliding window, and the other way round.
pub async fn algorithm_changed(store: &dyn Store) {
    let till = Till::open(store);
    let (tokens, windows) = (bucket(60, 60, 100), sliding(100, 60));
    till.take(tokens, 0, 40, START).await;
    assert_eq!(till.left(windows, 0, START).await, 60);
    till.take(windows, 0, 60, START).await;
    assert_eq!(till.left(windows, 0, START).await, 0);
    assert_eq!(till.left(tokens, 0, START).await, 0);
    let later = START.saturating_add(10_000_000);
    assert_eq!(till.left(tokens, 0, later).await, 10);
}

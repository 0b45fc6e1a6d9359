//! The sliding window.

use tollward_core::Judgement;
use tollward_store::Store;

use super::till::{START, Till, sliding};

const SECOND_US: u64 = 1_000_000;

/// The rate is the capacity of a window.
pub async fn admits_its_rate_in_a_window(store: &dyn Store) {
    let till = Till::open(store);
    let limit = sliding(60, 60);
    for second in 0..60 {
        let outcome = till
            .take(limit, 0, 1, START.saturating_add(second * SECOND_US))
            .await;
        assert_eq!(outcome.judgement, Judgement::Admit);
    }
    let refused = till
        .take(limit, 0, 1, START.saturating_add(59 * SECOND_US))
        .await;
    assert_ne!(refused.judgement, Judgement::Admit);
    let never = till
        .take(limit, 0, 61, START.saturating_add(59 * SECOND_US))
        .await;
    assert_eq!(never.judgement, Judgement::Never);
}

/// The older window counts by what is left of it.
pub async fn older_window_fades(store: &dyn Store) {
    let till = Till::open(store);
    let limit = sliding(60, 60);
    till.take(limit, 0, 60, START).await;
    for (second, left) in [
        (0, 0),
        (59, 0),
        (60, 0),
        (61, 1),
        (75, 15),
        (119, 59),
        (120, 60),
    ] {
        let now = START.saturating_add(second * SECOND_US);
        assert_eq!(till.left(limit, 0, now).await, left, "at {second}");
    }
    // A quarter into the next window, 15 are free; taken there, they count whole until it ends.
    let quarter = START.saturating_add(75 * SECOND_US);
    assert_eq!(till.take(limit, 0, 15, quarter).await.remaining, 0);
    let end = START.saturating_add(119 * SECOND_US);
    assert_eq!(till.left(limit, 0, end).await, 44);
}

/// A refused request is admitted at the microsecond it was told, not one earlier.
pub async fn wait_is_exact(store: &dyn Store) {
    let limit = sliding(7, 10);
    for cost in 1..=7 {
        let till = Till::open(store);
        till.take(limit, 0, 3, START.saturating_add(1)).await;
        till.take(limit, 0, 4, START.saturating_add(2 * SECOND_US))
            .await;
        let from = START.saturating_add(3 * SECOND_US);
        let Judgement::Refuse { wait_us } = till.take(limit, 0, cost, from).await.judgement else {
            panic!("the window is full");
        };
        let early = till
            .take(limit, 0, cost, from.saturating_add(wait_us - 1))
            .await;
        assert_eq!(early.judgement, Judgement::Refuse { wait_us: 1 });
        let punctual = till
            .take(limit, 0, cost, from.saturating_add(wait_us))
            .await;
        assert_eq!(punctual.judgement, Judgement::Admit);
    }
}

/// Nothing counts any more when the window after the next begins.
pub async fn full_after_two_windows(store: &dyn Store) {
    let till = Till::open(store);
    let limit = sliding(10, 60);
    let at = START.saturating_add(20 * SECOND_US);
    assert_eq!(
        till.take(limit, 0, 1, at).await.full_after_us,
        100 * SECOND_US
    );
    let last = START.saturating_add(120 * SECOND_US - 1);
    assert_eq!(till.left(limit, 0, last).await, 9);
    assert_eq!(till.left(limit, 0, last.saturating_add(1)).await, 10);
}

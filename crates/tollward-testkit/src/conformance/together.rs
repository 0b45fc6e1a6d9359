//! Several limits in one request: all or nothing.

use tollward_core::Judgement;
use tollward_store::Store;

use super::till::{Pay, START, Till, bucket};

/// A request without charges is admitted.
pub async fn no_charges_are_admitted(store: &dyn Store) {
    let answer = Till::open(store).charge(&[], START).await;
    assert!(answer.admitted && answer.outcomes.is_empty());
}

/// The first limit keeps every token when the second refuses, and says that it would have admitted.
pub async fn second_limit_refuses(store: &dyn Store) {
    let till = Till::open(store);
    let (wide, tight) = (bucket(1, 60, 100), bucket(1, 60, 2));
    let both = [Pay::new(wide, 0, 1), Pay::new(tight, 1, 1)];
    for taken in 1..=2 {
        let answer = till.charge(&both, START).await;
        assert!(answer.admitted);
        assert_eq!(answer.remaining(), [100 - taken, 2 - taken]);
    }
    for _ in 0..10 {
        let answer = till.charge(&both, START).await;
        assert!(!answer.admitted);
        let wait_us = 60_000_000;
        let said = [Judgement::Admit, Judgement::Refuse { wait_us }];
        assert_eq!(answer.judgements(), said);
        assert_eq!(answer.remaining(), [98, 0]);
    }
    assert_eq!(till.left(wide, 0, START).await, 98);
}

/// A cost beyond one capacity refuses the request and changes nothing, whatever the others say.
pub async fn never_among_others_changes_nothing(store: &dyn Store) {
    let till = Till::open(store);
    let limit = bucket(1, 60, 5);
    // The bucket 0 admits, 1 is empty, 2 is asked for too much.
    till.take(limit, 1, 5, START).await;
    till.take(limit, 2, 1, START).await;
    let pays = [
        Pay::new(limit, 0, 1),
        Pay::new(limit, 1, 1),
        Pay::new(limit, 2, 6),
    ];
    let said = [
        Judgement::Admit,
        Judgement::Refuse {
            wait_us: 60_000_000,
        },
        Judgement::Never,
    ];
    for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0]] {
        let answer = till.charge(&order.map(|i| pays[i]), START).await;
        assert!(!answer.admitted);
        assert_eq!(answer.judgements(), order.map(|i| said[i]));
        assert_eq!(answer.remaining(), order.map(|i| [5, 0, 4][i]));
    }
}

/// The same charges in another order give the same answers and leave the same buckets.
pub async fn order_does_not_matter(store: &dyn Store) {
    let limits = [
        bucket(3, 1, 9),
        bucket(5, 60, 20),
        bucket(1, 1, 4),
        super::sliding(12, 60),
    ];
    let orders = [[0, 1, 2, 3], [3, 2, 1, 0], [2, 0, 3, 1], [1, 3, 0, 2]];
    let mut answers = Vec::new();
    for order in orders {
        let till = Till::open(store);
        let mut run = Vec::new();
        for step in 0..20 {
            let costs = [3, 2, 1, 2];
            let pays = order.map(|i| Pay::new(limits[i], i as u64, costs[i]));
            let answer = till
                .charge(&pays, START.saturating_add(step * 300_000))
                .await;
            let mut sorted = order
                .iter()
                .copied()
                .zip(answer.outcomes)
                .collect::<Vec<_>>();
            sorted.sort_by_key(|(i, _)| *i);
            run.push((answer.admitted, sorted));
        }
        answers.push(run);
    }
    assert!(answers[0].iter().any(|(admitted, _)| *admitted));
    assert!(answers[0].iter().any(|(admitted, _)| !*admitted));
    assert!(answers.windows(2).all(|pair| pair[0] == pair[1]));
}

/// A bucket named twice in one request pays for both, or the request is refused.
pub async fn same_bucket_twice(store: &dyn Store) {
    let till = Till::open(store);
    let limit = bucket(1, 60, 10);
    let pays = [Pay::new(limit, 0, 3), Pay::new(limit, 0, 2)];
    for _ in 0..2 {
        assert!(till.charge(&pays, START).await.admitted);
    }
    assert_eq!(till.left(limit, 0, START).await, 0);
    // Two charges of 6 would each fit into 10 by itself.
    let twice = [Pay::new(limit, 1, 6), Pay::new(limit, 1, 6)];
    let answer = till.charge(&twice, START).await;
    assert!(!answer.admitted);
    assert_eq!(
        answer.outcomes[1].judgement,
        Judgement::Refuse {
            wait_us: 120_000_000
        },
        "when both would be admitted"
    );
    assert_eq!(till.left(limit, 1, START).await, 10);
}

/// A refused request, and a peek, report a bucket that is named twice as it stands: nothing was taken.
pub async fn same_bucket_twice_untouched_when_refused(store: &dyn Store) {
    let till = Till::open(store);
    let limit = bucket(1, 60, 10);
    let twice = [Pay::new(limit, 0, 6), Pay::new(limit, 0, 6)];
    assert_eq!(till.charge(&twice, START).await.remaining(), [10, 10]);
    let twice = [Pay::new(limit, 0, 3), Pay::new(limit, 0, 3)];
    assert_eq!(till.peek(&twice, START).await.remaining(), [10, 10]);
}

/// A dozen limits are one decision.
pub async fn twelve_charges(store: &dyn Store) {
    let till = Till::open(store);
    let capacity = |i: u64| 20 + u32::try_from(i).unwrap_or(0);
    let pays: Vec<Pay> = (0..12)
        .map(|i| Pay::new(bucket(1, 3_600, capacity(i)), i, 1 + i % 3))
        .collect();
    let mut admitted = 0;
    while till.charge(&pays, START).await.admitted {
        admitted += 1;
    }
    // The bucket 2 holds 22 and pays 3 a time.
    assert_eq!(admitted, 7);
    for pay in &pays {
        let spent = u32::try_from(pay.cost * admitted).unwrap_or(u32::MAX);
        let left = till.left(pay.limit, pay.key, START).await;
        assert_eq!(left, pay.limit.capacity() - spent);
    }
}

/// With any number of charges, the refusal of the last one leaves all others alone, known or new.
pub async fn many_charges_refused_by_the_last(store: &dyn Store) {
    let limit = bucket(1, 3_600, 5);
    for count in 2..=12 {
        let till = Till::open(store);
        till.take(limit, count, 5, START).await;
        // Every other bucket has been touched before.
        for key in (0..count).step_by(2) {
            till.take(limit, key, 1, START).await;
        }
        let mut pays: Vec<Pay> = (0..count).map(|key| Pay::new(limit, key, 1)).collect();
        pays.push(Pay::new(limit, count, 1));
        let answer = till.charge(&pays, START).await;
        assert!(!answer.admitted);
        for key in 0..count {
            let left = if key % 2 == 0 { 4 } else { 5 };
            assert_eq!(till.left(limit, key, START).await, left);
        }
    }
}

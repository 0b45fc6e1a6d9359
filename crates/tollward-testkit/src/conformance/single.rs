//! One token bucket by itself.

use tollward_core::{Charge, Judgement, Key, OnFailure, Timestamp};
use tollward_store::{Mode, Outcome, Store};

use super::till::{Pay, START, Till, bucket};

/// A bucket that was never touched is full.
pub async fn new_bucket_is_full(store: &dyn Store) {
    let till = Till::open(store);
    let answer = till.peek(&[Pay::new(bucket(1, 1, 7), 0, 1)], START).await;
    assert!(answer.admitted);
    let full = Outcome {
        known: true,
        judgement: Judgement::Admit,
        remaining: 7,
        full_after_us: 0,
    };
    assert_eq!(answer.outcomes, [full]);
}

/// As many tokens as the capacity, and not one more.
pub async fn drains_exactly(store: &dyn Store) {
    let till = Till::open(store);
    let limit = bucket(10, 1, 100);
    for taken in 1..=100 {
        let outcome = till.take(limit, 0, 1, START).await;
        assert_eq!(outcome.judgement, Judgement::Admit);
        assert_eq!(outcome.remaining, 100 - taken);
        assert_eq!(outcome.full_after_us, u64::from(taken) * 100_000);
    }
    let outcome = till.take(limit, 0, 1, START).await;
    assert_eq!(outcome.judgement, Judgement::Refuse { wait_us: 100_000 });
    assert_eq!(outcome.remaining, 0);
}

/// A token returns at its microsecond, not one earlier.
pub async fn refills_exactly(store: &dyn Store) {
    let till = Till::open(store);
    // A token takes 142_857 1/7 microseconds.
    let limit = bucket(7, 1, 3);
    till.take(limit, 0, 3, START).await;
    for (at, left) in [
        (142_857, 0),
        (142_858, 1),
        (285_714, 1),
        (285_715, 2),
        (428_571, 2),
        (428_572, 3),
        (9_000_000, 3),
    ] {
        let now = START.saturating_add(at);
        assert_eq!(till.left(limit, 0, now).await, left, "at {at}");
    }
    let early = till.take(limit, 0, 2, START.saturating_add(285_714)).await;
    assert_eq!(early.judgement, Judgement::Refuse { wait_us: 1 });
    let punctual = till.take(limit, 0, 2, START.saturating_add(285_715)).await;
    assert_eq!(punctual.judgement, Judgement::Admit);
}

/// Asking often neither gains nor loses a token: 1 per second, polled every 100 µs for 3 s.
pub async fn polling_gains_nothing(store: &dyn Store) {
    let till = Till::open(store);
    let limit = bucket(1, 1, 5);
    let mut admitted = 0;
    for tick in 0..=30_000 {
        let outcome = till
            .take(limit, 0, 1, START.saturating_add(tick * 100))
            .await;
        admitted += u32::from(outcome.judgement == Judgement::Admit);
    }
    assert_eq!(admitted, 5 + 3);
}

/// A cost of 0 is admitted also by an empty bucket, says how it stands and changes nothing.
pub async fn cost_zero_is_free(store: &dyn Store) {
    let till = Till::open(store);
    let limit = bucket(1, 60, 5);
    assert_eq!(till.take(limit, 0, 0, START).await.remaining, 5);
    till.take(limit, 0, 5, START).await;
    let outcome = till.take(limit, 0, 0, START).await;
    assert_eq!(outcome.judgement, Judgement::Admit);
    assert_eq!(outcome.remaining, 0);
    assert_eq!(outcome.full_after_us, 300_000_000);
    assert_eq!(till.left(limit, 0, START).await, 0);
}

/// The whole capacity at once.
pub async fn cost_of_the_whole_capacity(store: &dyn Store) {
    let till = Till::open(store);
    let limit = bucket(5, 1, 5);
    let outcome = till.take(limit, 0, 5, START).await;
    assert_eq!(
        (outcome.judgement, outcome.remaining),
        (Judgement::Admit, 0)
    );
    let again = till.take(limit, 0, 5, START).await;
    assert_eq!(again.judgement, Judgement::Refuse { wait_us: 1_000_000 });
}

/// One more than the capacity is never admitted, by a full bucket or another, and changes nothing.
pub async fn cost_beyond_capacity_is_never(store: &dyn Store) {
    let till = Till::open(store);
    let limit = bucket(5, 1, 5);
    for cost in [6, u64::from(u32::MAX), u64::MAX] {
        let outcome = till.take(limit, 0, cost, START).await;
        assert_eq!(
            (outcome.judgement, outcome.remaining),
            (Judgement::Never, 5)
        );
    }
    till.take(limit, 0, 3, START).await;
    let outcome = till.take(limit, 0, 6, START).await;
    assert_eq!(
        (outcome.judgement, outcome.remaining),
        (Judgement::Never, 2)
    );
    assert_eq!(till.left(limit, 0, START).await, 2);
}

/// The largest capacity, the slowest rate and the longest window.
pub async fn widest_numbers(store: &dyn Store) {
    let till = Till::open(store);
    let limit = bucket(1, 366 * 86_400, u32::MAX);
    let most = u64::from(u32::MAX);
    let outcome = till.take(limit, 0, most, START).await;
    assert_eq!(
        (outcome.judgement, outcome.remaining),
        (Judgement::Admit, 0)
    );
    let year = 366 * 86_400 * 1_000_000;
    // The time to full does not fit in 64 bits.
    assert_eq!(outcome.full_after_us, u64::MAX);
    let refused = till.take(limit, 0, 1, START).await;
    assert_eq!(refused.judgement, Judgement::Refuse { wait_us: year });
    let later = START.saturating_add(year);
    assert_eq!(till.left(limit, 0, later).await, 1);
    assert_eq!(
        till.left(limit, 0, Timestamp::from_micros(later.as_micros() - 1))
            .await,
        0
    );
}

/// A peek answers as a charge would, and the bucket stays as it was.
pub async fn peek_writes_nothing(store: &dyn Store) {
    let till = Till::open(store);
    let limit = bucket(1, 60, 5);
    for _ in 0..3 {
        let answer = till.peek(&[Pay::new(limit, 0, 5)], START).await;
        assert!(answer.admitted);
        assert_eq!(answer.remaining(), [5]);
    }
    till.take(limit, 0, 4, START).await;
    for cost in [1, 2, 5, 6] {
        let answer = till.peek(&[Pay::new(limit, 0, cost)], START).await;
        assert_eq!(answer.admitted, cost == 1);
        assert_eq!(answer.remaining(), [1]);
    }
}

/// However often a caller is refused, the moment it is admitted does not move.
pub async fn refusal_writes_nothing(store: &dyn Store) {
    let till = Till::open(store);
    let limit = bucket(1, 1, 2);
    till.take(limit, 0, 2, START).await;
    for tick in 0..1_000 {
        let before = till
            .peek(&[Pay::new(limit, 0, 0)], START.saturating_add(tick * 1_000))
            .await;
        let outcome = till
            .take(limit, 0, 1, START.saturating_add(tick * 1_000))
            .await;
        let wait_us = 1_000_000 - tick * 1_000;
        assert_eq!(outcome.judgement, Judgement::Refuse { wait_us });
        let after = till
            .peek(&[Pay::new(limit, 0, 0)], START.saturating_add(tick * 1_000))
            .await;
        assert_eq!(before, after);
    }
    let outcome = till
        .take(limit, 0, 1, START.saturating_add(1_000_000))
        .await;
    assert_eq!(outcome.judgement, Judgement::Admit);
}

/// Keys are any bytes of any length, and no two of them share a bucket, however they are put together.
pub async fn keys_are_told_apart(store: &dyn Store) {
    let unique = Till::open(store).with_charges(&[Pay::new(bucket(1, 1, 1), 0, 1)], |charges| {
        charges[0].key.family.to_owned()
    });
    let (ab, abc) = (format!("{unique}:ab"), format!("{unique}:abc"));
    let long = [b'x'; 5_000];
    let mut longer = long;
    longer[4_999] = b'y';
    let keys: [(&str, &[u8]); 10] = [
        (&ab, b"cd"),
        (&abc, b"d"),
        (&ab, b""),
        (&abc, b""),
        (&ab, b"\0"),
        (&ab, b"\0\0"),
        (&ab, b"cd\r\n{}"),
        (&ab, b"\xff\xfe"),
        (&ab, &long),
        (&ab, &longer),
    ];
    let limit = bucket(1, 3_600, 1);
    for admitted in [true, false] {
        for (family, scope) in keys {
            let charge = Charge {
                name: &unique,
                limit: &limit,
                key: Key { family, scope },
                cost: 1,
                shadow: false,
                on_failure: OnFailure::Local,
            };
            let mut outcomes = [Outcome::default()];
            let charges = [charge];
            let reply = store.apply(&charges, &mut outcomes, Mode::Charge, START);
            let verdict = reply.wait().await.map(|verdict| verdict.admitted);
            assert_eq!(verdict, Ok(admitted), "{:?}", charges[0].key);
        }
    }
}

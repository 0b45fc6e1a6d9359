//! A clock that steps back refills nothing and locks nobody out.

use tollward_core::{CLOCK_SLACK_US, Judgement, Timestamp};
use tollward_store::Store;

use super::till::{Pay, START, Till, bucket, sliding};

const HOUR_US: u64 = 3_600_000_000;

fn back(from: Timestamp, micros: u64) -> Timestamp {
    Timestamp::from_micros(from.as_micros() - micros)
}

/// Within the slack no time has passed, and nothing is gained by going to and fro.
pub async fn small_steps_back_are_the_same_moment(store: &dyn Store) {
    for limit in [bucket(10, 1, 10), sliding(10, 60)] {
        let till = Till::open(store);
        till.take(limit, 0, 9, START).await;
        for step in [1, 1_000, CLOCK_SLACK_US] {
            assert_eq!(till.left(limit, 0, back(START, step)).await, 1);
        }
        let taken = till.take(limit, 0, 1, back(START, CLOCK_SLACK_US)).await;
        assert_eq!(taken.judgement, Judgement::Admit);
        for step in [CLOCK_SLACK_US, 500_000, 0] {
            let refused = till.take(limit, 0, 1, back(START, step)).await;
            assert_ne!(refused.judgement, Judgement::Admit);
        }
    }
    // The wait counts from the caller's clock.
    let till = Till::open(store);
    let limit = bucket(10, 1, 1);
    till.take(limit, 0, 1, START).await;
    let refused = till.take(limit, 0, 1, back(START, 300_000)).await;
    assert_eq!(refused.judgement, Judgement::Refuse { wait_us: 400_000 });
}

/// After a long step back the spending stands and time goes on from there.
pub async fn an_hour_back_refills_nothing_and_goes_on(store: &dyn Store) {
    let till = Till::open(store);
    let limit = bucket(1, 1, 10);
    till.take(limit, 0, 8, START).await;
    let earlier = back(START, HOUR_US);
    assert_eq!(till.left(limit, 0, earlier).await, 2);
    let taken = till.take(limit, 0, 2, earlier).await;
    assert_eq!(taken.judgement, Judgement::Admit);
    let refused = till.take(limit, 0, 1, earlier).await;
    assert_eq!(refused.judgement, Judgement::Refuse { wait_us: 1_000_000 });
    let next = till
        .take(limit, 0, 1, earlier.saturating_add(1_000_000))
        .await;
    assert_eq!(next.judgement, Judgement::Admit);
}

/// Also a caller that is only ever refused is admitted again, at the time it was told.
pub async fn refusal_after_a_step_back_goes_on_too(store: &dyn Store) {
    for limit in [bucket(1, 1, 10), sliding(10, 60)] {
        let till = Till::open(store);
        till.take(limit, 0, 10, START).await;
        let earlier = back(START, HOUR_US);
        let refused = till.take(limit, 0, 1, earlier).await;
        let Judgement::Refuse { wait_us } = refused.judgement else {
            panic!("{refused:?}");
        };
        let (early, punctual) = (wait_us - 1, wait_us);
        let refused = till.take(limit, 0, 1, earlier.saturating_add(early)).await;
        assert_eq!(refused.judgement, Judgement::Refuse { wait_us: 1 });
        let taken = till
            .take(limit, 0, 1, earlier.saturating_add(punctual))
            .await;
        assert_eq!(taken.judgement, Judgement::Admit);
    }
    // The same for a request with a bucket that admits: neither is charged, both go on.
    let till = Till::open(store);
    let limit = bucket(1, 1, 10);
    let pays = [Pay::new(limit, 0, 1), Pay::new(limit, 1, 1)];
    till.take(limit, 0, 5, START).await;
    till.take(limit, 1, 10, START).await;
    let earlier = back(START, HOUR_US);
    let answer = till.charge(&pays, earlier).await;
    assert_eq!((answer.admitted, answer.remaining()), (false, vec![5, 0]));
    let answer = till.charge(&pays, earlier.saturating_add(1_000_000)).await;
    assert_eq!((answer.admitted, answer.remaining()), (true, vec![5, 0]));
}

/// A peek from the past does not move the bucket there.
pub async fn peek_after_a_step_back_writes_nothing(store: &dyn Store) {
    let till = Till::open(store);
    let limit = bucket(1, 1, 10);
    till.take(limit, 0, 10, START).await;
    let answer = till
        .peek(&[Pay::new(limit, 0, 1)], back(START, HOUR_US))
        .await;
    assert!(!answer.admitted);
    assert_eq!(till.left(limit, 0, START).await, 0);
    assert_eq!(
        till.left(limit, 0, START.saturating_add(1_000_000)).await,
        1
    );
}

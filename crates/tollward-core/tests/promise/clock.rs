//! A clock that goes back refills nothing and locks nobody out.

use tollward_core::{CLOCK_SLACK_US, Judgement, Limit, Window};

use crate::pair::at;
use crate::spans::take;

const NOW: u64 = 1_766_000_000_000_000;
const HOUR_US: u64 = 3_600_000_000;

#[test]
fn a_bucket_goes_on_from_an_hour_earlier() {
    let limit = Limit::token_bucket(1, Window::SECOND, 5).unwrap();
    let mut state = None;
    assert_eq!(take(&limit, &mut state, 5, NOW), 5);

    let back = NOW - HOUR_US;
    let level = limit.level(state, at(back));
    assert!(level.stepped_back());
    assert_eq!(level.remaining(), 0);
    assert_eq!(level.judge(1), Judgement::Refuse { wait_us: 1_000_000 });
    assert_eq!(level.full_after_us(), 5_000_000);

    // The refusal is kept, so time goes on: a token a second, neither more nor less.
    assert_eq!(take(&limit, &mut state, 1, back), 0);
    let admitted = (1..=600).map(|i| take(&limit, &mut state, 1, back + i * 100_000));
    assert_eq!(admitted.sum::<u64>(), 60);
}

#[test]
fn a_sliding_window_goes_on_from_an_hour_earlier() {
    let limit = Limit::sliding_window(10, Window::MINUTE).unwrap();
    let into_window = NOW % 60_000_000;
    let mut state = None;
    assert_eq!(take(&limit, &mut state, 10, NOW), 10);

    let back = NOW - HOUR_US;
    let level = limit.level(state, at(back));
    assert!(level.stepped_back());
    assert_eq!(level.remaining(), 0);
    // From the window's end the ten slide out, one in six seconds.
    let wait_us = 60_000_000 - into_window + 6_000_000;
    assert_eq!(level.judge(1), Judgement::Refuse { wait_us });
    assert_eq!(level.full_after_us(), 120_000_000 - into_window);

    assert_eq!(take(&limit, &mut state, 1, back), 0);
    assert_eq!(take(&limit, &mut state, 1, back + wait_us - 1), 0);
    assert_eq!(take(&limit, &mut state, 1, back + wait_us), 1);
}

#[test]
fn a_thousand_steps_back_refill_nothing_and_lock_nobody_out() {
    for limit in [
        Limit::token_bucket(1, Window::MINUTE, 10).unwrap(),
        Limit::sliding_window(10, Window::MINUTE).unwrap(),
    ] {
        let mut state = None;
        take(&limit, &mut state, 7, NOW);
        let mut now = NOW;
        for _ in 0..1_000 {
            now -= CLOCK_SLACK_US + 1;
            assert_eq!(limit.level(state, at(now)).remaining(), 3, "{limit:?}");
            assert_eq!(take(&limit, &mut state, 4, now), 0);
        }
        assert_eq!(take(&limit, &mut state, 3, now), 3);
    }
}

#[test]
fn within_the_slack_no_time_has_passed() {
    let limit = Limit::token_bucket(1, Window::SECOND, 5).unwrap();
    let mut state = None;
    take(&limit, &mut state, 5, NOW);
    for behind in [1, 500_000, CLOCK_SLACK_US] {
        let level = limit.level(state, at(NOW - behind));
        assert!(!level.stepped_back());
        let wait_us = 1_000_000 + behind;
        assert_eq!(level.judge(1), Judgement::Refuse { wait_us });
        assert_eq!(level.full_after_us(), 5_000_000 + behind);
        assert_eq!(level.state(), state);
    }
    assert!(
        limit
            .level(state, at(NOW - CLOCK_SLACK_US - 1))
            .stepped_back()
    );
}

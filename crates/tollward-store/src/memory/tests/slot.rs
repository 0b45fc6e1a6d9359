use tollward_core::{Spending, State, Timestamp, Window};
use tollward_testkit::conformance::Dice;

use crate::memory::slot::Slot;

const SECOND_US: u64 = 1_000_000;
/// The longest life that can be written down, in seconds; one more never ends.
const LONGEST: u64 = (1 << 25) - 2;

/// What is written is read, and the place is not given away before the bucket is full.
fn check(state: State, full_after_us: u64) {
    let mut slot = Slot::taken(0xfeed);
    // Whatever stood there before.
    slot.write(Some(any_state(&mut Dice::new(full_after_us))), u64::MAX);
    slot.write(Some(state), full_after_us);
    assert_eq!(slot.read(), Some(state));
    assert_eq!(slot.fingerprint, 0xfeed);
    let full_at = u128::from(state.at.as_micros()) + u128::from(full_after_us);
    let mut moments = vec![0, state.at.as_micros(), u64::MAX - 1, u64::MAX];
    if let Ok(full_at) = u64::try_from(full_at) {
        for step in [0, 1, SECOND_US - 1, SECOND_US, 2 * SECOND_US] {
            moments.extend([full_at.saturating_sub(step), full_at.saturating_add(step)]);
        }
    }
    for moment in moments {
        let spare = slot.is_spare(Timestamp::from_micros(moment));
        let full = u128::from(moment) >= full_at;
        assert!(
            full || !spare,
            "{state:?} full after {full_after_us}, at {moment}"
        );
        // And it is given away within a second of that, if its life could be written down.
        let surely = u128::from(moment) >= full_at + u128::from(SECOND_US);
        let written = full_after_us.div_ceil(SECOND_US) <= LONGEST;
        assert!(spare || !surely || !written, "{state:?} at {moment}");
    }
    slot.write(None, 0);
    assert_eq!(slot.read(), None);
    assert!(slot.is_spare(Timestamp::default()));
    assert!(!slot.is_empty());
}

#[test]
fn a_slot_is_half_a_cache_line() {
    assert_eq!(size_of::<Slot>(), 32);
    assert!(Slot::default().is_empty());
    assert_eq!(Slot::default().read(), None);
}

#[test]
fn extremes_come_back() {
    let moments = [
        0,
        1,
        SECOND_US,
        1_766_016_000_000_000,
        u64::MAX - 1,
        u64::MAX,
    ];
    let windows = [1, 2, 60, 86_400, (1 << 24) - 1, 1 << 24, 366 * 86_400];
    let lives = [
        0,
        1,
        SECOND_US - 1,
        SECOND_US,
        SECOND_US + 1,
        (LONGEST - 1) * SECOND_US,
        LONGEST * SECOND_US - 1,
        LONGEST * SECOND_US,
        LONGEST * SECOND_US + 1,
        (LONGEST + 1) * SECOND_US,
        (LONGEST + 2) * SECOND_US,
        u64::MAX,
    ];
    for at in moments {
        for window in windows.map(|secs| Window::from_secs(secs).unwrap()) {
            let most = u128::from(u32::MAX) * u128::from(window.as_micros());
            let buckets = [
                0,
                1,
                u128::from(u64::MAX).min(most),
                most / 2,
                most - 1,
                most,
            ]
            .map(|parts| Spending::Bucket { parts });
            let counts = [0, 1, 1 << 31, u32::MAX];
            let pairs = counts
                .map(|current| counts.map(|previous| Spending::Windows { current, previous }));
            for spending in buckets.into_iter().chain(pairs.into_iter().flatten()) {
                for life in lives {
                    let state = State {
                        at: Timestamp::from_micros(at),
                        window,
                        spending,
                    };
                    check(state, life);
                }
            }
        }
    }
}

#[test]
fn any_state_comes_back() {
    let mut dice = Dice::new(0x51_07);
    for _ in 0..200_000 {
        let state = any_state(&mut dice);
        let shift = dice.below(64);
        check(state, dice.word() >> shift);
    }
}

#[test]
fn a_life_too_long_does_not_end() {
    let state = any_state(&mut Dice::new(1));
    for (secs, ends) in [(LONGEST, true), (LONGEST + 1, false), (LONGEST + 9, false)] {
        let mut slot = Slot::taken(1);
        let state = State {
            at: Timestamp::from_micros(7),
            ..state
        };
        slot.write(Some(state), secs * SECOND_US);
        assert_eq!(slot.is_spare(Timestamp::from_micros(u64::MAX)), ends);
    }
}

/// Any state that the core can write: numbers of every length.
pub(super) fn any_state(dice: &mut Dice) -> State {
    let window = 1 + u32::try_from(dice.below(366 * 86_400)).unwrap();
    let window = Window::from_secs(window).unwrap();
    let most = u128::from(u32::MAX) * u128::from(window.as_micros());
    let wide = u128::from(dice.word()) << 64 | u128::from(dice.word());
    let (bits, short) = (dice.below(78), |word: u64, shift: u64| {
        u32::try_from(word >> 32 >> shift).unwrap()
    });
    let spending = if dice.one_in(2) {
        Spending::Bucket {
            parts: (wide & ((1 << bits) - 1)).min(most),
        }
    } else {
        Spending::Windows {
            current: short(dice.word(), dice.below(33)),
            previous: short(dice.word(), dice.below(33)),
        }
    };
    let shift = dice.below(64);
    State {
        at: Timestamp::from_micros(dice.word() >> shift),
        window,
        spending,
    }
}

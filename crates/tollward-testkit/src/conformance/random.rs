//! A long random run, against the model.

use std::collections::HashMap;

use tollward_core::{Limit, State, Timestamp};
use tollward_store::{Mode, Store};

use super::dice::Dice;
use super::model::Model;
use super::till::{Answer, Pay, START, Till, bucket, sliding};

const REQUESTS: u64 = 60_000;
const KEYS: u64 = 200;

/// Requests of one to eight charges over 200 buckets, now and then with a changed limit, in a time that
/// goes both ways: every verdict and every outcome is the model's.
pub async fn serial_run_agrees_with_the_model(store: &dyn Store) {
    let mut run = Run::new(0x7011_6a7e);
    let till = Till::open(store);
    let mut admitted = 0;
    for step in 0..REQUESTS {
        run.pass_time();
        let pays = run.pays();
        let mode = if run.dice.one_in(10) {
            Mode::Peek
        } else {
            Mode::Charge
        };
        let (expected, outcomes) =
            till.with_charges(&pays, |charges| run.model.apply(charges, mode, run.now));
        let expected = Answer {
            admitted: expected,
            outcomes,
        };
        let answer = match mode {
            Mode::Charge => till.charge(&pays, run.now).await,
            Mode::Peek => till.peek(&pays, run.now).await,
        };
        assert_eq!(
            answer, expected,
            "request {step} at {:?}: {pays:?}",
            run.now
        );
        admitted += u64::from(answer.admitted);
        run.note(&till, &pays);
        if answer.admitted && mode == Mode::Charge && run.dice.one_in(20) {
            let later = run.now.saturating_add(run.dice.below(200_000));
            let taken: Vec<Pay> = pays.iter().copied().filter(|pay| !pay.shadow).collect();
            till.with_charges(&taken, |charges| run.model.credit(charges, run.now, later));
            till.credit(&taken, run.now, later).await;
            run.now = later;
            run.see();
            run.note(&till, &taken);
        }
    }
    let share = admitted * 100 / REQUESTS;
    assert!((20..=80).contains(&share), "{share} % admitted: a dull run");
}

struct Run {
    dice: Dice,
    model: Model,
    now: Timestamp,
    /// What was written last to each bucket.
    written: HashMap<u64, Written>,
    /// How often each bucket was replaced by a new one.
    turns: HashMap<u64, u64>,
}

struct Written {
    state: State,
    /// By which limit, and when it is full again by that one.
    limit: Limit,
    full_at: Timestamp,
    /// It was seen full since, so that a store may have forgotten it.
    may_be_gone: bool,
}

impl Run {
    fn new(seed: u64) -> Self {
        Self {
            dice: Dice::new(seed),
            model: Model::default(),
            now: START,
            written: HashMap::new(),
            turns: HashMap::new(),
        }
    }

    fn pass_time(&mut self) {
        let now = self.now.as_micros();
        let dice = &mut self.dice;
        self.now = Timestamp::from_micros(match dice.below(2_000) {
            0 => now - 3_600_000_000,
            1 => now + 3_600_000_000,
            2..50 => now - dice.below(1_500_000),
            50..60 => now + dice.below(9_000_000),
            60..800 => now,
            _ => now + dice.below(20_000),
        });
        self.see();
    }

    fn see(&mut self) {
        for written in self.written.values_mut() {
            written.may_be_gone |= written.full_at <= self.now;
        }
    }

    fn pays(&mut self) -> Vec<Pay> {
        let count = 1 + self.dice.below(8);
        let mut pays: Vec<Pay> = Vec::new();
        for _ in 0..count {
            let number = self.dice.below(KEYS);
            let other = if self.dice.one_in(50) {
                self.dice.word()
            } else {
                number
            };
            let (limit, key) = match pays.iter().find(|pay| pay.key % KEYS == number) {
                Some(twin) => (twin.limit, twin.key),
                None => (limit_of(other), self.key(number, limit_of(other))),
            };
            let most = u64::from(limit.capacity());
            let cost = match self.dice.below(40) {
                0 => most + self.dice.below(2),
                1..4 => 0,
                4..20 => 1 + self.dice.below(most),
                _ => 1,
            };
            let pay = Pay::new(limit, key, cost);
            // Whether a shadow may take from a bucket what another charge of its request needs there
            // is not promised.
            let twice = pays.iter().any(|other| other.key == key);
            let shadow = self.dice.one_in(12) && !twice;
            let mixed = pays.iter().any(|other| other.key == key && other.shadow);
            if !mixed {
                pays.push(if shadow { pay.in_shadow() } else { pay });
            }
        }
        pays
    }

    /// A store may forget a bucket that was full again at some moment it has seen, or keep it. Where that
    /// makes a difference (the clock went back before that moment, or another limit now reads the
    /// state), a new bucket takes the number.
    fn key(&mut self, number: u64, limit: Limit) -> u64 {
        let turn = self.turns.entry(number).or_default();
        let key = |turn: u64| number + turn * KEYS;
        if let Some(written) = self.written.get(&key(*turn)) {
            let differs = self.now < written.full_at || written.limit != limit;
            if written.may_be_gone && differs {
                self.written.remove(&key(*turn));
                *turn += 1;
            }
        }
        key(*turn)
    }

    /// Notes what was written.
    fn note(&mut self, till: &Till<'_>, pays: &[Pay]) {
        for pay in pays {
            let state = till.with_charges(&[*pay], |charges| self.model.state(charges[0].key));
            let known = self.written.get(&pay.key).map(|written| written.state);
            match state {
                Some(state) if Some(state) != known => {
                    let full_after_us = pay.limit.level(Some(state), state.at).full_after_us();
                    let full_at = state.at.saturating_add(full_after_us);
                    let written = Written {
                        state,
                        limit: pay.limit,
                        full_at,
                        may_be_gone: full_at <= self.now,
                    };
                    self.written.insert(pay.key, written);
                }
                Some(_) => {}
                None => {
                    self.written.remove(&pay.key);
                }
            }
        }
    }
}

fn limit_of(word: u64) -> Limit {
    match word % 8 {
        0 => bucket(10, 1, 20),
        1 => bucket(20, 60, 5),
        2 => bucket(7, 13, 9),
        3 => sliding(10, 10),
        4 => bucket(1_000, 3_600, 40),
        5 => sliding(2, 1),
        6 => bucket(1, 1, 3),
        _ => bucket(50_000, 86_400, 100),
    }
}

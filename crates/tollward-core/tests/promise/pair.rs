//! The core and the oracle side by side, fed with the same requests.

use num_bigint::BigInt;
use num_rational::Ratio;
use tollward_core::{Algorithm, Judgement, Level, Limit, Spending, State, Timestamp, Window};
use tollward_testkit::oracle::{Answer, Counting, Oracle, Reading, Rule, Tokens};

/// What both hold of one key, and by how much the core may hold more.
///
/// The core rounds what is spent up when the window's length or the algorithm changes, and when a
/// sliding window's clock is stepped back: to a part of a token for a bucket, to a token for a sliding
/// window. What it holds too much after that can only shrink, so it always is less than the sum of
/// those units; while there is none, both agree exactly. The core decides what is admitted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pair {
    pub(crate) state: Option<State>,
    oracle: Oracle,
    /// The sum of the units that have been rounded to since the bucket was last full.
    rounded: Option<Tokens>,
}

/// What a step came to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outcome {
    pub(crate) judgement: Judgement,
    pub(crate) remaining: u32,
    pub(crate) full_after_us: u64,
    pub(crate) exact: bool,
    pub(crate) stepped_back: bool,
}

impl Pair {
    /// Both holding what `state` says.
    pub(crate) fn of(state: State) -> Self {
        let (at, secs) = (state.at.as_micros(), state.window.as_secs());
        Self {
            state: Some(state),
            oracle: match state.spending {
                Spending::Bucket { .. } => Oracle::bucket(at, secs, spent(&state)),
                Spending::Windows { current, previous } => {
                    Oracle::windows(at, secs, previous, current)
                }
            },
            rounded: None,
        }
    }

    /// Judges `cost` at `now` on both sides, compares all they say, and keeps what a store would.
    pub(crate) fn step(&mut self, limit: &Limit, cost: u64, now: u64) -> Result<Outcome, String> {
        let level = limit.level(self.state, at(now));
        let reading = self.oracle.read(&rule(limit), now);
        let rounded = self.rounded_by(limit, &level);
        let before = self.clone();
        self.compare(&level, &reading, rounded.as_ref(), cost)
            .and_then(|outcome| {
                self.keep(&level, reading, rounded, cost);
                self.promises_hold(limit, cost, now, outcome.judgement)?;
                Ok(outcome)
            })
            .map_err(|what| {
                format!("{what}\n  limit {limit:?}\n  cost {cost}, now {now}\n  before: {before:?}")
            })
    }

    fn rounded_by(&self, limit: &Limit, level: &Level) -> Option<Tokens> {
        let Some(state) = self.state else {
            return self.rounded.clone();
        };
        let was_bucket = matches!(state.spending, Spending::Bucket { .. });
        let rounds = match limit.algorithm() {
            Algorithm::TokenBucket => state.window != limit.window(),
            Algorithm::SlidingWindow => {
                was_bucket || state.window != limit.window() || level.stepped_back()
            }
        };
        if !rounds {
            return self.rounded.clone();
        }
        let unit = match limit.algorithm() {
            Algorithm::TokenBucket => tokens(1, limit.window()),
            Algorithm::SlidingWindow => Ratio::from_integer(BigInt::from(1)),
        };
        Some(match &self.rounded {
            Some(sum) => sum + unit,
            None => unit,
        })
    }

    fn compare(
        &self,
        level: &Level,
        reading: &Reading,
        rounded: Option<&Tokens>,
        cost: u64,
    ) -> Result<Outcome, String> {
        let judgement = level.judge(cost);
        let outcome = Outcome {
            judgement,
            remaining: level.remaining(),
            full_after_us: level.full_after_us(),
            exact: rounded.is_none(),
            stepped_back: level.stepped_back(),
        };
        let answer = reading.judge(cost);
        let (remaining, full_after) = (reading.remaining(), capped(reading.full_after_us()));
        let state = level.state();
        let agree = if let Some(rounded) = rounded {
            let spent = state.map_or_else(|| Ratio::from_integer(BigInt::ZERO), |s| spent(&s));
            spent >= *reading.spent()
                && spent < plus(reading.spent(), rounded)
                && not_looser(judgement, answer)
                && u128::from(outcome.remaining) <= remaining
                && Ratio::from_integer(BigInt::from(remaining))
                    <= rounded.ceil() + BigInt::from(outcome.remaining)
                && outcome.full_after_us >= full_after
        } else {
            judgement == expected(answer)
                && u128::from(outcome.remaining) == remaining
                && outcome.full_after_us == full_after
                && state.is_none() == reading.is_full()
                && state.is_none_or(|state| is_exactly(&state, reading.spent()))
        };
        let same_clock = outcome.stepped_back == reading.stepped_back()
            && self.oracle.at() == self.state.map(|state| state.at.as_micros());
        if agree && same_clock {
            return Ok(outcome);
        }
        Err(format!(
            "the core says {outcome:?}\n  the oracle {answer:?}, remaining {remaining}, full after \
             {full_after}, stepped back {}, spent {}\n  the core holds {state:?}, rounded by less than \
             {rounded:?}",
            reading.stepped_back(),
            reading.spent(),
        ))
    }

    fn keep(&mut self, level: &Level, reading: Reading, rounded: Option<Tokens>, cost: u64) {
        (self.state, self.oracle) = match level.judge(cost) {
            Judgement::Admit => (level.charge(cost).state(), reading.charge(cost).keep()),
            _ if level.stepped_back() => (level.state(), reading.keep()),
            _ => return,
        };
        self.rounded = rounded;
        if self.state.is_none() {
            self.oracle = Oracle::default();
            self.rounded = None;
        }
    }

    /// A wait is exact, and so is the time to full, as the core itself sees it then.
    fn promises_hold(
        &self,
        limit: &Limit,
        cost: u64,
        now: u64,
        judgement: Judgement,
    ) -> Result<(), String> {
        if let Judgement::Refuse { wait_us } = judgement
            && let Some(then) = moment_after(now, wait_us)
        {
            if limit.level(self.state, at(then)).judge(cost) != Judgement::Admit {
                return Err(format!("not admitted after the wait of {wait_us} us"));
            }
            if limit.level(self.state, at(then - 1)).judge(cost) == Judgement::Admit {
                return Err(format!("admitted before the wait of {wait_us} us"));
            }
        }
        let full_after = limit.level(self.state, at(now)).full_after_us();
        if let Some(then) = moment_after(now, full_after) {
            if limit.level(self.state, at(then)).state().is_some() {
                return Err(format!("not full after {full_after} us"));
            }
            if full_after > 0 && limit.level(self.state, at(then - 1)).state().is_none() {
                return Err(format!("full before {full_after} us"));
            }
        }
        Ok(())
    }
}

/// `micros` as a timestamp.
pub(crate) fn at(micros: u64) -> Timestamp {
    Timestamp::from_micros(micros)
}

/// The oracle's words for `limit`.
pub(crate) fn rule(limit: &Limit) -> Rule {
    Rule {
        counting: match limit.algorithm() {
            Algorithm::TokenBucket => Counting::Bucket,
            Algorithm::SlidingWindow => Counting::Windows,
        },
        rate: limit.rate(),
        window_secs: limit.window().as_secs(),
        capacity: limit.capacity(),
    }
}

/// What the core must say where the oracle says `answer`: a wait beyond 64 bits saturates.
pub(crate) fn expected(answer: Answer) -> Judgement {
    match answer {
        Answer::Admit => Judgement::Admit,
        Answer::Refuse { wait_us } => Judgement::Refuse {
            wait_us: capped(wait_us),
        },
        Answer::Never => Judgement::Never,
    }
}

/// The tokens that a state says are spent, at its moment.
pub(crate) fn spent(state: &State) -> Tokens {
    tokens(parts(state), state.window)
}

/// What a state says is spent, in parts of 1/window of a token.
fn parts(state: &State) -> u128 {
    match state.spending {
        Spending::Bucket { parts } => parts,
        Spending::Windows { current, previous } => {
            let length = state.window.as_micros();
            let left = length - state.at.as_micros() % length;
            u128::from(previous) * u128::from(left) + u128::from(current) * u128::from(length)
        }
    }
}

/// As `spent(state) == *tokens`, at less expense.
fn is_exactly(state: &State, tokens: &Tokens) -> bool {
    tokens.denom() * parts(state) == tokens.numer() * state.window.as_micros()
}

fn not_looser(judgement: Judgement, answer: Answer) -> bool {
    match (judgement, answer) {
        (Judgement::Admit, Answer::Admit)
        | (Judgement::Refuse { .. }, Answer::Admit)
        | (Judgement::Never, Answer::Never) => true,
        (Judgement::Refuse { wait_us }, Answer::Refuse { wait_us: least }) => {
            wait_us >= capped(least)
        }
        _ => false,
    }
}

// Reducing fractions would take most of the time, and comparing them does not need it.

fn tokens(parts: u128, window: Window) -> Tokens {
    Ratio::new_raw(BigInt::from(parts), BigInt::from(window.as_micros()))
}

fn plus(a: &Tokens, b: &Tokens) -> Tokens {
    let numerator = a.numer() * b.denom() + b.numer() * a.denom();
    Ratio::new_raw(numerator, a.denom() * b.denom())
}

fn capped(us: u128) -> u64 {
    u64::try_from(us).unwrap_or(u64::MAX)
}

/// The moment `us` after `now`, unless it, or the figure itself, is beyond the end of time.
fn moment_after(now: u64, us: u64) -> Option<u64> {
    if us == u64::MAX {
        None
    } else {
        now.checked_add(us)
    }
}

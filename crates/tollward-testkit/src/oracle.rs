//! What a limit promises, in exact fractions of unbounded integers.
//!
//! The oracle is slow, simple and written apart from the code it judges: it shares no type and no
//! constant with it. Nothing in it is rounded except the three figures that are whole by definition:
//! a wait, a time to full, and the tokens that remain.
//!
//! An [`Oracle`] holds what one key has spent. [`Oracle::read`] brings it to a moment under a
//! [`Rule`]; the [`Reading`] answers, and [`Reading::keep`] makes it the oracle's new state. Whether to
//! keep it is the caller's choice, as it is a store's: after an admission, and after a refusal only if
//! the clock was stepped back. A store drops a full bucket; [`Oracle::default`] is what it has then.

use num_bigint::{BigInt, Sign};
use num_rational::Ratio;

/// An exact number of tokens.
pub type Tokens = Ratio<BigInt>;

/// A timestamp this far behind the last one, or less, is the same moment.
pub const SLACK_US: u64 = 1_000_000;

/// How a rule counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counting {
    /// A token bucket.
    Bucket,
    /// Two fixed windows aligned to the epoch, the older weighted by what is left of it.
    Windows,
}

/// A limit, in plain numbers. None of them is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// How it counts.
    pub counting: Counting,
    /// Tokens per window.
    pub rate: u32,
    /// The window in seconds.
    pub window_secs: u32,
    /// The most that can be spent at once; for [`Counting::Windows`] the rate.
    pub capacity: u32,
}

impl Rule {
    fn window_us(&self) -> u64 {
        u64::from(self.window_secs) * 1_000_000
    }
}

/// What one key has spent, as of its last touch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Oracle(Option<Held>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Held {
    at: u64,
    window_us: u64,
    spent: Spent,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Spent {
    Bucket(Tokens),
    Windows { previous: Tokens, current: Tokens },
}

impl Oracle {
    /// A key that has `spent` tokens of a bucket, as of `at`.
    pub fn bucket(at: u64, window_secs: u32, spent: Tokens) -> Self {
        Self::holding(at, window_secs, Spent::Bucket(spent.reduced()))
    }

    /// A key that has taken `current` tokens in the fixed window that holds `at`, and `previous` in
    /// the one before.
    pub fn windows(at: u64, window_secs: u32, previous: u32, current: u32) -> Self {
        let (previous, current) = (whole(previous.into()), whole(current.into()));
        Self::holding(at, window_secs, Spent::Windows { previous, current })
    }

    fn holding(at: u64, window_secs: u32, spent: Spent) -> Self {
        Self(Some(Held {
            at,
            window_us: u64::from(window_secs) * 1_000_000,
            spent,
        }))
    }

    /// What is held, under `rule` at `now`.
    pub fn read(&self, rule: &Rule, now: u64) -> Reading {
        let Some(held) = &self.0 else {
            return Reading::new(rule, now, now, Spent::of(rule.counting, whole(0)));
        };
        let spent = held.carried_into(rule);
        if now >= held.at {
            Reading::new(rule, now, now, spent.after(rule, held.at, now))
        } else if held.at - now <= SLACK_US {
            Reading::new(rule, now, held.at, spent)
        } else {
            let counts = spent.tokens_at(held.at, rule.window_us());
            Reading {
                stepped_back: true,
                ..Reading::new(rule, now, now, Spent::of(rule.counting, counts))
            }
        }
    }

    /// The moment of the last touch, if anything is held.
    pub fn at(&self) -> Option<u64> {
        self.0.as_ref().map(|held| held.at)
    }
}

impl Held {
    /// What is held at its own moment, in the form that `rule` counts in.
    fn carried_into(&self, rule: &Rule) -> Spent {
        match (&self.spent, rule.counting) {
            (Spent::Bucket(_), Counting::Bucket) => self.spent.clone(),
            (Spent::Windows { .. }, Counting::Windows) if self.window_us == rule.window_us() => {
                self.spent.clone()
            }
            _ => Spent::of(rule.counting, self.spent.tokens_at(self.at, self.window_us)),
        }
    }
}

impl Spent {
    fn of(counting: Counting, tokens: Tokens) -> Self {
        match counting {
            Counting::Bucket => Self::Bucket(tokens),
            Counting::Windows => Self::Windows {
                previous: whole(0),
                current: tokens,
            },
        }
    }

    /// What counts as spent at `at`, the moment this is of.
    fn tokens_at(&self, at: u64, window_us: u64) -> Tokens {
        match self {
            Self::Bucket(spent) => spent.clone(),
            Self::Windows { previous, current } if is_0(previous) => current.clone(),
            Self::Windows { previous, current } => {
                let left = unreduced((window_us - at % window_us).into(), window_us.into());
                plus(&times(previous, &left), current).reduced()
            }
        }
    }

    /// What is left of this, which is of the moment `from`, at the later moment `to`.
    fn after(self, rule: &Rule, from: u64, to: u64) -> Self {
        match self {
            Self::Bucket(spent) => {
                let refilled = u128::from(rule.rate) * u128::from(to - from);
                let refilled = unreduced(-BigInt::from(refilled), rule.window_us().into());
                Self::Bucket(at_least_0(plus(&spent, &refilled)).reduced())
            }
            Self::Windows { previous, current } => {
                let passed = to / rule.window_us() - from / rule.window_us();
                let (previous, current) = match passed {
                    0 => (previous, current),
                    1 => (current, whole(0)),
                    _ => (whole(0), whole(0)),
                };
                Self::Windows { previous, current }
            }
        }
    }
}

/// What the oracle says of a cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It is admitted.
    Admit,
    /// It is refused, and first admitted this many whole microseconds after the reading's `now`.
    Refuse {
        /// At least 1.
        wait_us: u128,
    },
    /// It is more than the capacity.
    Never,
}

/// What is held, under one rule at one moment.
#[derive(Clone, Debug)]
pub struct Reading {
    rule: Rule,
    /// What the clock says.
    now: u64,
    /// Up to when time has been applied: later than `now` within the slack.
    moment: u64,
    spent: Spent,
    /// What of it counts at `moment`.
    counts: Tokens,
    stepped_back: bool,
}

impl Reading {
    fn new(rule: &Rule, now: u64, moment: u64, spent: Spent) -> Self {
        Self {
            rule: *rule,
            now,
            moment,
            counts: spent.tokens_at(moment, rule.window_us()),
            spent,
            stepped_back: false,
        }
    }

    /// Is `cost` admitted, and if not, when?
    pub fn judge(&self, cost: u64) -> Answer {
        let capacity = u64::from(self.rule.capacity);
        if cost > capacity {
            return Answer::Never;
        }
        // Admitted while no more than this is spent. A cost of 0 is free, whatever is owed.
        let room = BigInt::from(capacity - cost);
        if cost == 0 || !exceeds(&self.counts, &room) {
            return Answer::Admit;
        }
        Answer::Refuse {
            wait_us: self.until_spent_is(&room),
        }
    }

    /// This, and `cost` spent at this moment.
    pub fn charge(mut self, cost: u64) -> Self {
        match &mut self.spent {
            Spent::Bucket(tokens)
            | Spent::Windows {
                current: tokens, ..
            } => {
                *tokens += BigInt::from(cost);
            }
        }
        self.counts += BigInt::from(cost);
        self
    }

    /// Whole tokens left.
    pub fn remaining(&self) -> u128 {
        // The floor of what is left is the capacity without the ceiling of what is spent.
        u128::from(self.rule.capacity).saturating_sub(natural(&self.counts.ceil()))
    }

    /// Whole microseconds from `now` until nothing is spent.
    pub fn full_after_us(&self) -> u128 {
        if self.is_full() {
            return 0;
        }
        self.until_spent_is(&BigInt::ZERO)
    }

    /// Is nothing spent?
    pub fn is_full(&self) -> bool {
        is_0(&self.counts)
    }

    /// What counts as spent.
    pub fn spent(&self) -> &Tokens {
        &self.counts
    }

    /// Was the clock further behind the last touch than the slack?
    pub fn stepped_back(&self) -> bool {
        self.stepped_back
    }

    /// This as the new state.
    pub fn keep(self) -> Oracle {
        Oracle(Some(Held {
            at: self.moment,
            window_us: self.rule.window_us(),
            spent: self.spent,
        }))
    }

    /// Whole microseconds from `now` until no more than `room` is spent, which is less than now.
    fn until_spent_is(&self, room: &BigInt) -> u128 {
        let window_us = BigInt::from(self.rule.window_us());
        let from_moment = match &self.spent {
            Spent::Bucket(spent) => {
                let per_token = unreduced(window_us, BigInt::from(self.rule.rate));
                times(&without(spent, room), &per_token).ceil()
            }
            Spent::Windows { previous, current } => {
                // Within a window what counts falls in a straight line, from the sum of both to the
                // current one alone, which then is the previous one of the window that follows.
                let (edge, excess, falling) = if exceeds(current, room) {
                    (window_us.clone(), without(current, room), current)
                } else {
                    let counted = plus(previous, current);
                    (BigInt::ZERO, without(&counted, room), previous)
                };
                let share = unreduced(
                    excess.numer() * falling.denom(),
                    excess.denom() * falling.numer(),
                );
                let into_window = self.moment % self.rule.window_us();
                let fallen = times(&share, &Ratio::from_integer(window_us)).ceil();
                fallen + edge - BigInt::from(into_window)
            }
        };
        natural(&from_moment) + u128::from(self.moment - self.now)
    }
}

fn whole(n: u64) -> Tokens {
    Ratio::from_integer(BigInt::from(n))
}

fn is_0(n: &Tokens) -> bool {
    n.numer().sign() == Sign::NoSign
}

fn at_least_0(n: Tokens) -> Tokens {
    if n.numer().sign() == Sign::Minus {
        whole(0)
    } else {
        n
    }
}

fn exceeds(n: &Tokens, room: &BigInt) -> bool {
    *n.numer() > n.denom() * room
}

#[allow(
    clippy::expect_used,
    reason = "an oracle that is wrong should stop the test"
)]
fn natural(n: &Tokens) -> u128 {
    u128::try_from(n.to_integer()).expect("neither negative nor beyond 2^128")
}

// A fraction that is only rounded need not be in its lowest terms, and finding those is what takes
// the time. What is kept is always reduced.

fn unreduced(numerator: BigInt, denominator: BigInt) -> Tokens {
    Ratio::new_raw(numerator, denominator)
}

fn plus(a: &Tokens, b: &Tokens) -> Tokens {
    let numerator = a.numer() * b.denom() + b.numer() * a.denom();
    unreduced(numerator, a.denom() * b.denom())
}

fn without(a: &Tokens, b: &BigInt) -> Tokens {
    unreduced(a.numer() - b * a.denom(), a.denom().clone())
}

fn times(a: &Tokens, b: &Tokens) -> Tokens {
    unreduced(a.numer() * b.numer(), a.denom() * b.denom())
}

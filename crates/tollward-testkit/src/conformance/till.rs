use std::hash::{BuildHasher, RandomState};

use tollward_core::{Charge, Judgement, Key, Limit, OnFailure, Timestamp, Window};
use tollward_store::{Mode, Outcome, Store};

/// A moment to begin at: the start of a minute, an hour and a day.
pub const START: Timestamp = Timestamp::from_micros(1_766_016_000_000_000);

/// A store as one case uses it: with keys of its own.
pub struct Till<'s> {
    store: &'s dyn Store,
    family: String,
}

/// One charge: a limit, the number of a bucket, a cost.
#[derive(Clone, Copy, Debug)]
pub struct Pay {
    /// The limit.
    pub limit: Limit,
    /// The number of the bucket.
    pub key: u64,
    /// The tokens asked.
    pub cost: u64,
    /// Never refuse.
    pub shadow: bool,
}

impl Pay {
    /// A charge that counts.
    pub fn new(limit: Limit, key: u64, cost: u64) -> Self {
        Self {
            limit,
            key,
            cost,
            shadow: false,
        }
    }

    /// The same, but it never refuses.
    #[must_use]
    pub fn in_shadow(self) -> Self {
        Self {
            shadow: true,
            ..self
        }
    }
}

/// What a store said to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The verdict.
    pub admitted: bool,
    /// One for each charge.
    pub outcomes: Vec<Outcome>,
}

impl Answer {
    /// The whole tokens that each bucket has left.
    pub fn remaining(&self) -> Vec<u32> {
        self.outcomes.iter().map(|one| one.remaining).collect()
    }

    /// What each bucket said.
    pub fn judgements(&self) -> Vec<Judgement> {
        self.outcomes.iter().map(|one| one.judgement).collect()
    }
}

impl<'s> Till<'s> {
    /// A till with keys that nobody else has, in this run or another.
    pub fn open(store: &'s dyn Store) -> Self {
        Self {
            store,
            family: format!("conformance:{:016x}", RandomState::new().hash_one(0u8)),
        }
    }

    /// Asks for all these charges at `now`, and takes them.
    pub async fn charge(&self, pays: &[Pay], now: Timestamp) -> Answer {
        self.apply(pays, Mode::Charge, now).await
    }

    /// Asks, and takes nothing.
    pub async fn peek(&self, pays: &[Pay], now: Timestamp) -> Answer {
        self.apply(pays, Mode::Peek, now).await
    }

    /// Takes `cost` from one bucket.
    pub async fn take(&self, limit: Limit, key: u64, cost: u64, now: Timestamp) -> Outcome {
        let answer = self.charge(&[Pay::new(limit, key, cost)], now).await;
        let outcome = answer.outcomes[0];
        assert_eq!(answer.admitted, outcome.judgement == Judgement::Admit);
        outcome
    }

    /// Whole tokens left, by a peek.
    pub async fn left(&self, limit: Limit, key: u64, now: Timestamp) -> u32 {
        let answer = self.peek(&[Pay::new(limit, key, 0)], now).await;
        assert!(answer.admitted, "a cost of 0 is always admitted");
        answer.outcomes[0].remaining
    }

    /// Gives back.
    pub async fn credit(&self, pays: &[Pay], charged_at: Timestamp, now: Timestamp) {
        let scopes = scopes(pays);
        let charges = charges(&self.family, pays, &scopes);
        let answer = self.store.credit(&charges, charged_at, now).wait().await;
        assert_eq!(answer, Ok(()));
    }

    /// Makes the buckets of these charges full.
    pub async fn reset(&self, pays: &[Pay], now: Timestamp) {
        let scopes = scopes(pays);
        let charges = charges(&self.family, pays, &scopes);
        assert_eq!(self.store.reset(&charges, now).wait().await, Ok(()));
    }

    /// Runs `f` on these charges as the store would see them.
    pub fn with_charges<T>(&self, pays: &[Pay], f: impl FnOnce(&[Charge<'_>]) -> T) -> T {
        f(&charges(&self.family, pays, &scopes(pays)))
    }

    async fn apply(&self, pays: &[Pay], mode: Mode, now: Timestamp) -> Answer {
        let scopes = scopes(pays);
        let charges = charges(&self.family, pays, &scopes);
        let mut outcomes = vec![Outcome::default(); pays.len()];
        match self
            .store
            .apply(&charges, &mut outcomes, mode, now)
            .wait()
            .await
        {
            Ok(verdict) => Answer {
                admitted: verdict.admitted,
                outcomes,
            },
            Err(error) => panic!("{error}"),
        }
    }
}

/// A token bucket; panics if the numbers do not make one.
pub fn bucket(rate: u32, window_secs: u32, capacity: u32) -> Limit {
    match Window::from_secs(window_secs).map(|w| Limit::token_bucket(rate, w, capacity)) {
        Some(Ok(limit)) => limit,
        _ => panic!("no limit: {rate} in {window_secs} s, {capacity}"),
    }
}

/// A sliding window; panics if the numbers do not make one.
pub fn sliding(rate: u32, window_secs: u32) -> Limit {
    match Window::from_secs(window_secs).map(|w| Limit::sliding_window(rate, w)) {
        Some(Ok(limit)) => limit,
        _ => panic!("no limit: {rate} in {window_secs} s"),
    }
}

fn scopes(pays: &[Pay]) -> Vec<[u8; 8]> {
    pays.iter().map(|pay| pay.key.to_be_bytes()).collect()
}

fn charges<'a>(family: &'a str, pays: &'a [Pay], scopes: &'a [[u8; 8]]) -> Vec<Charge<'a>> {
    let charge = |(pay, scope): (&'a Pay, &'a [u8; 8])| Charge {
        name: family,
        limit: &pay.limit,
        key: Key { family, scope },
        cost: pay.cost,
        shadow: pay.shadow,
        on_failure: OnFailure::Local,
    };
    pays.iter().zip(scopes).map(charge).collect()
}

//! Single buckets, for whoever operates the service: how full they are, and making them full.

use std::fmt;

use tollward_core::{Algorithm, Charge, Timestamp};
use tollward_policy::{Facts, KeyText, OwnedKey, PolicyLimit, Rejection};
use tollward_store::{Mode, Outcome, StoreError};

use crate::decision::Source;
use crate::engine::{Active, Engine};
use crate::judged::remaining;

/// One bucket as a limit sees it.
#[derive(Clone, Debug)]
pub struct BucketStatus<'p> {
    /// The bucket, as `explain` prints it.
    pub key: String,
    /// The limit.
    pub limit: &'p PolicyLimit,
    /// How full it is; none if nobody can tell because Redis is away and the limit is `open`.
    pub level: Option<BucketLevel>,
    /// Who said so.
    pub source: Source,
}

/// How full a bucket is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BucketLevel {
    /// Whole tokens left.
    pub remaining: u32,
    /// Microseconds until it is full again.
    pub full_after_us: u64,
}

/// Why buckets could not be seen or reset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BucketError {
    /// The facts make no request.
    Rejected(Rejection),
    /// No limit of the policy has this name for such a request, or counts in buckets of this family.
    NoLimit(String),
    /// The store did not answer. A reset may have been done, and may be repeated.
    Unavailable,
}

impl fmt::Display for BucketError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rejected(rejection) => rejection.fmt(f),
            Self::NoLimit(family) => {
                write!(f, "no limit of the configuration counts in `{family}`")
            }
            Self::Unavailable => StoreError::Unavailable.fmt(f),
        }
    }
}

impl std::error::Error for BucketError {}

impl From<Rejection> for BucketError {
    fn from(rejection: Rejection) -> Self {
        Self::Rejected(rejection)
    }
}

impl From<StoreError> for BucketError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Unavailable => Self::Unavailable,
        }
    }
}

impl Engine {
    /// The buckets that a request with these facts is charged to, in the order of its charges. If it is not
    /// limited at all (its route or the allow-list says so, or enforcement is off), those it would be
    /// charged to otherwise.
    ///
    /// # Errors
    ///
    /// The facts make no sense under the policy, or the store does not answer.
    pub async fn inspect<'p>(
        &self,
        active: &'p Active,
        facts: &Facts<'_>,
    ) -> Result<Vec<BucketStatus<'p>>, BucketError> {
        let charges = active.policy().request(facts)?.charges();
        let rows = charges.iter().map(|(_, limit, charge)| (limit, charge));
        self.peek(rows.collect(), self.clock().now()).await
    }

    /// The buckets of these keys, each as every limit sees it that counts there: a bucket of a plan has one
    /// row for each plan.
    ///
    /// # Errors
    ///
    /// A key is no limit's, or the store does not answer.
    pub async fn inspect_keys<'p>(
        &self,
        active: &'p Active,
        keys: &[OwnedKey],
    ) -> Result<Vec<BucketStatus<'p>>, BucketError> {
        let now = self.clock().now();
        let mut buckets = Vec::with_capacity(keys.len());
        for key in keys {
            let rows: Vec<Row<'_, '_>> = active.policy().charges_to(key.key()).collect();
            if rows.is_empty() {
                return Err(BucketError::NoLimit(key.family.clone()));
            }
            // Key by key: all of them at once could take a store longer than it has.
            buckets.extend(self.peek(rows, now).await?);
        }
        Ok(buckets)
    }

    /// Makes all buckets full that [`Engine::inspect`] shows: also those that the caller shares with
    /// others, such as that of a limit for all.
    ///
    /// # Errors
    ///
    /// The facts make no sense under the policy, or the store does not answer.
    pub async fn reset(&self, active: &Active, facts: &Facts<'_>) -> Result<(), BucketError> {
        let charges = active.policy().request(facts)?.charges();
        let charges: Vec<Charge<'_>> = charges.iter().map(|(_, _, charge)| charge).collect();
        Ok(self
            .store
            .reset(&charges, self.clock().now())
            .wait()
            .await?)
    }

    /// Makes the buckets of these keys full; if one is no limit's, none.
    ///
    /// # Errors
    ///
    /// A key is no limit's, or the store does not answer.
    pub async fn reset_keys(&self, active: &Active, keys: &[OwnedKey]) -> Result<(), BucketError> {
        let charge = |key| {
            let mut charges = active.policy().charges_to(OwnedKey::key(key));
            let first = charges.next().map(|(_, charge)| charge);
            first.ok_or_else(|| BucketError::NoLimit(key.family.clone()))
        };
        let charges = keys.iter().map(charge).collect::<Result<Vec<_>, _>>()?;
        Ok(self
            .store
            .reset(&charges, self.clock().now())
            .wait()
            .await?)
    }

    /// Gives tokens back to the buckets that [`Engine::inspect`] shows, or only to that of the limit with
    /// this name: up to what is spent of them. The names of those that were given some.
    ///
    /// # Errors
    ///
    /// The facts make no sense under the policy, it has no such limit for them, or the store does not
    /// answer: then it may have been done, and doing it again may give twice.
    pub async fn grant(
        &self,
        active: &Active,
        facts: &Facts<'_>,
        limit: Option<&str>,
        tokens: u32,
    ) -> Result<Vec<String>, BucketError> {
        let charges = active.policy().request(facts)?.charges();
        let named = charges
            .iter()
            .filter(|(_, it, _)| limit.is_none_or(|name| *it.name == *name));
        let given: Vec<Charge<'_>> = named
            .map(|(_, _, charge)| Charge {
                cost: tokens.into(),
                ..charge
            })
            .collect();
        if let (true, Some(name)) = (given.is_empty(), limit) {
            return Err(BucketError::NoLimit(name.to_owned()));
        }
        let now = self.clock().now();
        let slides = |charge: &&Charge<'_>| charge.limit.algorithm() == Algorithm::SlidingWindow;
        let sliding: Vec<Charge<'_>> = given.iter().filter(slides).copied().collect();
        let before = self.left(&sliding, now).await?;
        self.store.credit(&given, now, now).wait().await?;
        let after = self.left(&sliding, now).await?;
        // What is given back to a sliding window was spent in the present one; the rest, in the one before.
        for (charge, (before, after)) in sliding.iter().zip(before.into_iter().zip(after)) {
            let cost = charge
                .cost
                .saturating_sub(after.saturating_sub(before).into());
            let window = charge.limit.window().as_micros();
            let earlier = Timestamp::from_micros(now.as_micros().saturating_sub(window));
            let rest = [Charge { cost, ..*charge }];
            self.store.credit(&rest, earlier, now).wait().await?;
        }
        Ok(given.iter().map(|charge| charge.name.to_owned()).collect())
    }

    /// The whole tokens that are left for each charge.
    async fn left(&self, charges: &[Charge<'_>], now: Timestamp) -> Result<Vec<u32>, BucketError> {
        if charges.is_empty() {
            return Ok(Vec::new());
        }
        let free = charges.iter().map(|charge| Charge { cost: 0, ..*charge });
        let free: Vec<Charge<'_>> = free.collect();
        let mut outcomes = vec![Outcome::default(); free.len()];
        let asked = self.store.apply(&free, &mut outcomes, Mode::Peek, now);
        asked.wait().await?;
        Ok(outcomes.iter().map(|outcome| outcome.remaining).collect())
    }

    /// What the store says to charges of nothing.
    async fn peek<'p>(
        &self,
        rows: Vec<Row<'p, '_>>,
        now: Timestamp,
    ) -> Result<Vec<BucketStatus<'p>>, BucketError> {
        let free = rows.iter().map(|(_, charge)| Charge { cost: 0, ..*charge });
        let charges: Vec<Charge<'_>> = free.collect();
        let mut outcomes = vec![Outcome::default(); charges.len()];
        let asked = self.store.apply(&charges, &mut outcomes, Mode::Peek, now);
        let source = asked.wait().await?.source.into();
        let rows = rows.into_iter().zip(outcomes);
        let status = |((limit, charge), outcome): (Row<'p, '_>, Outcome)| BucketStatus {
            key: KeyText(charge.key).to_string(),
            limit,
            level: outcome.known.then_some(BucketLevel {
                remaining: remaining(limit, &charge, &outcome),
                full_after_us: outcome.full_after_us,
            }),
            source,
        };
        Ok(rows.map(status).collect())
    }
}

/// A limit and the charge to be asked about.
type Row<'p, 'a> = (&'p PolicyLimit, Charge<'a>);

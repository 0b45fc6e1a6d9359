//! Changing what a request was charged, after the fact.

use smallvec::SmallVec;
use tollward_core::{Charge, Limit, Timestamp};
use tollward_policy::{Charges, OwnedCharges};
use tollward_store::{Mode, Outcome, StoreError};

use crate::decision::Decision;
use crate::engine::{Active, Engine};

/// What an admitted request has paid. It belongs to the policy that it was made under.
///
/// It counts in tokens of the request: the cost that was asked for times the route's `cost`. Each limit
/// charges so many tokens times the limit's own `cost`, which converts them into the unit of that limit.
#[derive(Clone, Debug)]
pub struct Receipt {
    charges: OwnedCharges,
    /// Of the charges, those that were taken: not a shadow that would have refused.
    taken: SmallVec<[bool; 4]>,
    /// The tokens that were charged when the request was decided.
    first: u64,
    /// The tokens that are paid by now.
    tokens: u64,
    at: Timestamp,
}

impl Receipt {
    /// What was paid by a request with these charges that was decided so; none if it is nothing that could
    /// ever be changed.
    pub fn new(decision: &Decision<'_>, charges: &Charges<'_>) -> Option<Self> {
        if charges.is_empty() || !decision.allowed {
            return None;
        }
        let limits = &decision.limits;
        let is_taken = |id| limits.iter().any(|it| it.id == id && !it.denied);
        Some(Self {
            taken: charges.iter().map(|(id, _, _)| is_taken(id)).collect(),
            first: charges.tokens(),
            tokens: charges.tokens(),
            charges: charges.to_owned(),
            at: decision.now,
        })
    }

    /// The tokens that are paid: what was asked for times the route's cost, or what
    /// [`change_to`](Self::change_to) said last.
    pub fn tokens(&self) -> u64 {
        self.tokens
    }

    /// Makes the request cost `tokens` in the end, and returns the change that [`Engine::settle`] has to
    /// make for that.
    ///
    /// The number is absolute: it replaces what the request cost so far, and the route's `cost` does not
    /// multiply it, not even a `cost` of 0. A limit's own `cost` does multiply it for that limit.
    #[must_use]
    pub fn change_to(&mut self, tokens: u64) -> Change {
        let change = Change {
            receipt: self.clone(),
            tokens,
        };
        self.tokens = tokens;
        change
    }

    /// What a limit that charges `unit` for one token has been paid once the request costs `tokens`.
    ///
    /// No bucket can hold a debt beyond `u32::MAX`, so what one request pays to one limit is capped: at
    /// the room above the limit's capacity, or at what the limit admitted in the first place. The cap
    /// is the same whenever it is asked for, so that exactly what was charged is given back.
    fn paid(&self, limit: &Limit, unit: u64, tokens: u64) -> u64 {
        let room = u64::from(u32::MAX - limit.capacity());
        let cap = room.max(unit.saturating_mul(self.first));
        unit.saturating_mul(tokens).min(cap)
    }
}

/// A change of what was paid, to be given to [`Engine::settle`].
#[derive(Clone, Debug)]
pub struct Change {
    receipt: Receipt,
    tokens: u64,
}

impl Engine {
    /// Charges or gives back the difference. What is to be paid after the fact is taken whether or not
    /// there is enough left: it becomes a debt, which later requests wait for. Only a sliding window, which
    /// knows no debts, takes it if there is enough, or not at all. See [`Receipt::change_to`] for the unit.
    ///
    /// # Errors
    ///
    /// The store did not answer. What is owed may or may not have been charged.
    pub async fn settle(&self, active: &Active, change: &Change) -> Result<(), StoreError> {
        let Change { receipt, tokens } = change;
        if *tokens == receipt.tokens {
            return Ok(());
        }
        let charges = receipt.charges.units(active.policy());
        let taken = charges.zip(&receipt.taken).filter(|(_, taken)| **taken);
        let charges: SmallVec<[(Limit, Charge<'_>); 4]> = taken
            .map(|((_, limit, unit), _)| {
                let paid = |tokens| receipt.paid(&limit.limit, unit.cost, tokens);
                let cost = paid(*tokens).abs_diff(paid(receipt.tokens));
                (limit.limit.with_room(u32::MAX), Charge { cost, ..unit })
            })
            .collect();
        let now = self.clock().now();
        if *tokens < receipt.tokens {
            let list: SmallVec<[Charge<'_>; 4]> = charges.iter().map(|(_, it)| *it).collect();
            return self.store.credit(&list, receipt.at, now).wait().await;
        }
        let list: SmallVec<[Charge<'_>; 4]> = charges
            .iter()
            .map(|(roomy, charge)| Charge {
                limit: roomy,
                // One that has no room for it, such as a sliding window, must not keep the others from theirs.
                shadow: true,
                ..*charge
            })
            .collect();
        let mut outcomes: SmallVec<[Outcome; 4]> = SmallVec::new();
        outcomes.resize(list.len(), Outcome::default());
        let charged = self.store.apply(&list, &mut outcomes, Mode::Charge, now);
        charged.wait().await.map(drop)
    }
}

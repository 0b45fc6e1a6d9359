//! Changing what a request was charged, after the fact.

use smallvec::SmallVec;
use tollward_core::{Charge, Limit, Timestamp};
use tollward_policy::{Charges, OwnedCharges};
use tollward_store::{Mode, Outcome, StoreError};

use crate::decision::Decision;
use crate::engine::{Active, Engine};

/// What an admitted request has paid. It belongs to the policy that it was made under.
#[derive(Clone, Debug)]
pub struct Receipt {
    charges: OwnedCharges,
    /// Of the charges, those that were taken: not a shadow that would have refused.
    taken: SmallVec<[bool; 4]>,
    /// The cost that is paid by now, before any route or limit multiplies it.
    cost: u32,
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
            cost: charges.asked(),
            charges: charges.to_owned(),
            at: decision.now,
        })
    }

    /// The cost that is paid.
    pub fn cost(&self) -> u32 {
        self.cost
    }

    /// Makes the paid cost another, and says what has to be done for that.
    #[must_use]
    pub fn change_to(&mut self, cost: u32) -> Change {
        let change = Change {
            receipt: self.clone(),
            cost,
        };
        self.cost = cost;
        change
    }
}

/// A change of what was paid, to be given to [`Engine::settle`].
#[derive(Clone, Debug)]
pub struct Change {
    receipt: Receipt,
    cost: u32,
}

impl Engine {
    /// Charges or gives back the difference. What is to be paid after the fact is taken whether or not
    /// there is enough left: it becomes a debt, which later requests wait for. Only a sliding window, which
    /// knows no debts, takes it if there is enough, or not at all.
    ///
    /// # Errors
    ///
    /// The store did not answer. What is owed may or may not have been charged.
    pub async fn settle(&self, active: &Active, change: &Change) -> Result<(), StoreError> {
        let Change { receipt, cost } = change;
        let more = cost.checked_sub(receipt.cost);
        let difference = u64::from(cost.abs_diff(receipt.cost));
        if difference == 0 {
            return Ok(());
        }
        let charges = receipt.charges.units(active.policy());
        let taken = charges.zip(&receipt.taken).filter(|(_, taken)| **taken);
        let charges: SmallVec<[(Limit, Charge<'_>); 4]> = taken
            .map(|((_, limit, unit), _)| {
                // What is more than any number of tokens is that number.
                let most = u32::MAX - limit.limit.capacity();
                let cost = unit.cost.saturating_mul(difference).min(most.into());
                (limit.limit.with_room(u32::MAX), Charge { cost, ..unit })
            })
            .collect();
        let now = self.clock().now();
        if more.is_none() {
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

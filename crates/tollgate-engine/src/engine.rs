use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use arc_swap::{ArcSwap, Guard};
use smallvec::{SmallVec, smallvec};
use tollgate_core::{Charge, Judgement, Timestamp};
use tollgate_policy::{Bypass, Charges, Facts, Policy, Rejection, Treatment};
use tollgate_store::{Mode, Outcome, Store};

use crate::clock::Clock;
use crate::counters::{Count, Tally};
use crate::decision::{Action, Decision, LimitStatus, Reason, Source};

/// Decides.
pub struct Engine {
    active: ArcSwap<Active>,
    pub(crate) store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    /// Requests that no limit concerned, and those refused or let through whatever the limits.
    unlimited: Tally,
    sources: [AtomicU64; Source::ALL.len()],
}

/// A policy in force, and what was counted of its limits.
#[derive(Debug)]
pub struct Active {
    policy: Policy,
    tallies: Vec<Arc<Tally>>,
}

impl Active {
    /// The policy.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Each limit's name with its counts.
    pub fn tallies(&self) -> impl Iterator<Item = (&str, &Tally)> {
        let names = self.policy.limits().iter().map(|limit| &*limit.name);
        names.zip(self.tallies.iter().map(|tally| &**tally))
    }
}

/// A store that does not answer is worth another try soon.
const STORE_RETRY_US: u64 = 1_000_000;

impl Engine {
    /// An engine that decides by this policy until another replaces it.
    pub fn new(policy: Policy, store: Arc<dyn Store>, clock: Arc<dyn Clock>) -> Self {
        let tallies = policy.limits().iter().map(|_| Arc::default()).collect();
        Self {
            active: ArcSwap::from_pointee(Active { policy, tallies }),
            store,
            clock,
            unlimited: Tally::default(),
            sources: Default::default(),
        }
    }

    /// The policy in force now. Decisions made with it borrow from it; let go of it soon.
    pub fn active(&self) -> Guard<Arc<Active>> {
        self.active.load()
    }

    /// Puts another policy in force, at once and for all decisions that begin from now on. What was
    /// spent and counted under a limit's name goes on.
    pub fn replace(&self, policy: Policy) {
        let old = self.active.load();
        let known: BTreeMap<&str, &Arc<Tally>> = old
            .policy
            .limits()
            .iter()
            .map(|limit| &*limit.name)
            .zip(&old.tallies)
            .collect();
        let tallies = policy
            .limits()
            .iter()
            .map(|limit| {
                known
                    .get(&*limit.name)
                    .map_or_else(Arc::default, |it| (*it).clone())
            })
            .collect();
        self.active.store(Arc::new(Active { policy, tallies }));
    }

    /// The clock that decisions are made by.
    pub fn clock(&self) -> &dyn Clock {
        &*self.clock
    }

    /// Counts of the requests whose answer came from no limit.
    pub fn unlimited(&self) -> &Tally {
        &self.unlimited
    }

    /// Decisions that came from this source.
    pub fn sources(&self, source: Source) -> u64 {
        self.sources[source as usize].load(Relaxed)
    }

    /// Decides about a request, and takes its tokens if it is admitted.
    ///
    /// With a store in this process it answers without waiting.
    ///
    /// # Errors
    ///
    /// The facts make no sense under the policy. Nothing was charged.
    pub async fn check<'p>(
        &self,
        active: &'p Active,
        facts: &Facts<'_>,
        mode: Mode,
    ) -> Result<Decision<'p>, Rejection> {
        let now = self.clock.now();
        let request = active.policy.request(facts)?;
        let decision = match request.treatment {
            Treatment::Limited => self.charge(&request.charges(), mode, now).await,
            Treatment::Denied => self.without_limits(Action::Deny, Some(Reason::Denied), now),
            Treatment::Bypassed(why) => {
                let reason = match why {
                    Bypass::AllowList(_) => Reason::AllowList,
                    Bypass::Route => Reason::OpenRoute,
                    Bypass::EnforcementOff => Reason::EnforcementOff,
                };
                self.without_limits(Action::Bypass, Some(reason), now)
            }
        };
        self.observe(active, &decision, mode);
        Ok(decision)
    }

    async fn charge<'p>(&self, charges: &Charges<'p>, mode: Mode, now: Timestamp) -> Decision<'p> {
        if charges.is_empty() {
            return self.without_limits(Action::Allow, None, now);
        }
        let list: SmallVec<[Charge<'_>; 4]> = charges.iter().map(|(_, _, charge)| charge).collect();
        let mut outcomes: SmallVec<[Outcome; 4]> = smallvec![Outcome::default(); list.len()];
        match self
            .store
            .apply(&list, &mut outcomes, mode, now)
            .wait()
            .await
        {
            Ok(verdict) => {
                let source = verdict.source.into();
                decided(charges, &outcomes, source, self.clock.calendar(now))
            }
            Err(_) => Decision {
                wait_us: Some(STORE_RETRY_US),
                ..self.without_limits(Action::Deny, Some(Reason::StoreUnavailable), now)
            },
        }
    }

    fn without_limits<'p>(
        &self,
        action: Action,
        reason: Option<Reason>,
        now: Timestamp,
    ) -> Decision<'p> {
        Decision {
            allowed: action != Action::Deny,
            action,
            reason,
            binding: None,
            wait_us: None,
            source: Source::None,
            at: self.clock.calendar(now),
            limits: SmallVec::new(),
        }
    }

    fn observe(&self, active: &Active, decision: &Decision<'_>, mode: Mode) {
        if mode == Mode::Peek {
            return;
        }
        self.sources[decision.source as usize].fetch_add(1, Relaxed);
        let tally = match decision.shown() {
            Some(status) => &active.tallies[status.id],
            None => &self.unlimited,
        };
        tally.add(if decision.allowed {
            Count::Allowed
        } else {
            Count::Denied
        });
        for status in &decision.limits {
            if decision.allowed && status.shadow && status.denied {
                active.tallies[status.id].add(Count::ShadowDenied);
            }
        }
    }
}

/// The decision that a store's outcomes amount to.
fn decided<'p>(
    charges: &Charges<'p>,
    outcomes: &[Outcome],
    source: Source,
    at: Timestamp,
) -> Decision<'p> {
    let mut limits = SmallVec::new();
    let mut nearest: Option<(usize, u64)> = None;
    let mut longest: Option<(usize, u64)> = None;
    let mut never: Option<usize> = None;
    for ((id, limit, charge), outcome) in charges.iter().zip(outcomes) {
        if !outcome.known {
            continue;
        }
        let index = limits.len();
        limits.push(LimitStatus {
            limit,
            id,
            cost: charge.cost,
            remaining: outcome.remaining,
            full_after_us: outcome.full_after_us,
            denied: outcome.judgement != Judgement::Admit,
            shadow: charge.shadow,
        });
        if charge.shadow {
            continue;
        }
        match outcome.judgement {
            Judgement::Admit => {
                let more = u64::from(outcome.remaining) / charge.cost.max(1);
                if nearest.is_none_or(|(_, least)| more < least) {
                    nearest = Some((index, more));
                }
            }
            Judgement::Refuse { wait_us } => {
                if longest.is_none_or(|(_, longest)| wait_us > longest) {
                    longest = Some((index, wait_us));
                }
            }
            Judgement::Never => never = never.or(Some(index)),
        }
    }
    let (reason, binding, wait_us) = match (never, longest) {
        (Some(index), _) => (Some(Reason::CostExceedsCapacity), Some(index), None),
        (None, Some((index, wait))) => (Some(Reason::Limit), Some(index), Some(wait)),
        (None, None) => (None, nearest.map(|(index, _)| index), None),
    };
    Decision {
        allowed: reason.is_none(),
        action: if reason.is_none() {
            Action::Allow
        } else {
            Action::Deny
        },
        reason,
        binding,
        wait_us,
        source,
        at,
        limits,
    }
}

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::{ArcSwap, Guard};
use smallvec::{SmallVec, smallvec};
use tollward_core::{Charge, Timestamp};
use tollward_policy::config::Enforcement;
use tollward_policy::{
    Bypass, Change, Charges, Denial, Facts, LimitId, Policy, Rejection, Request, TENANT_FAMILY,
    Treatment,
};
use tollward_store::{Mode, Outcome, Store};

use crate::clock::Clock;
use crate::counters::{Count, Tally};
use crate::decision::{Action, Decision, Reason, Source};
use crate::judged::Judged;
use crate::observer::Observer;

/// Decides.
pub struct Engine {
    active: ArcSwap<Active>,
    /// Held by whoever makes a new policy of the one in force.
    changing: Mutex<()>,
    pub(crate) store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    observer: Option<Arc<dyn Observer>>,
    /// Requests that no limit concerned, and those refused or let through whatever the limits.
    unlimited: Tally,
    sources: [AtomicU64; Source::ALL.len()],
}

/// A policy in force, and what was counted of its limits.
#[derive(Debug)]
pub struct Active {
    policy: Policy,
    tallies: Tallies,
}

/// What was counted of each limit of the rules, and last of all those of tenants together.
type Tallies = Arc<[Arc<Tally>]>;

impl Active {
    /// The policy.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Each limit's name with its counts. The limits of all tenants are counted together, as `tenant`.
    pub fn tallies(&self) -> impl Iterator<Item = (&str, &Tally)> {
        names(&self.policy).zip(self.tallies.iter().map(|tally| &**tally))
    }

    fn tally(&self, id: LimitId) -> &Tally {
        let last = self.tallies.len().saturating_sub(1);
        &self.tallies[id.min(last)]
    }
}

/// A store that does not answer is worth another try soon.
const STORE_RETRY_US: u64 = 1_000_000;

impl Engine {
    /// An engine that decides by this policy until another replaces it.
    pub fn new(policy: Policy, store: Arc<dyn Store>, clock: Arc<dyn Clock>) -> Self {
        let tallies = names(&policy).map(|_| Arc::default()).collect();
        Self {
            active: ArcSwap::from_pointee(Active { policy, tallies }),
            changing: Mutex::default(),
            store,
            clock,
            observer: None,
            unlimited: Tally::default(),
            sources: Default::default(),
        }
    }

    /// Tells an observer of everything that is decided and charged.
    #[must_use]
    pub fn observed_by(self, observer: Arc<dyn Observer>) -> Self {
        let observer = Some(observer);
        Self { observer, ..self }
    }

    /// The policy in force now. Decisions made with it borrow from it; let go of it soon.
    pub fn active(&self) -> Guard<Arc<Active>> {
        self.active.load()
    }

    /// Puts another policy in force, at once and for all decisions that begin from now on, for the people
    /// that are known by now. What was spent and counted under a limit's name goes on.
    pub fn replace(&self, policy: Policy) {
        let _changing = self.changing();
        let old = self.active.load();
        let policy = policy.for_people_of(&old.policy);
        let known: BTreeMap<&str, &Arc<Tally>> = names(&old.policy).zip(&*old.tallies).collect();
        let tally = |name| {
            known
                .get(name)
                .map_or_else(Arc::default, |it| (*it).clone())
        };
        let tallies = names(&policy).map(tally).collect();
        self.active.store(Arc::new(Active { policy, tallies }));
    }

    /// Puts changes of people in force, all of them at once. It takes as long as there are changes, not
    /// as there are people, unless one concerns a tenant with others below it.
    pub fn change(&self, changes: Vec<Change>) {
        let _changing = self.changing();
        let old = self.active.load();
        self.active.store(Arc::new(Active {
            policy: old.policy.with(changes),
            tallies: old.tallies.clone(),
        }));
    }

    /// Tells the policy what time it is: API keys end by that. To be called about once a second by whoever
    /// has keys that expire and no [directory](tollward_policy::Change) that does it.
    pub fn tell_time(&self) {
        let secs = self.clock.calendar(self.clock.now()).as_micros() / 1_000_000;
        self.change(vec![Change::Time(secs)]);
    }

    fn changing(&self) -> MutexGuard<'_, ()> {
        // Nothing is left half done by whoever died with it.
        self.changing.lock().unwrap_or_else(PoisonError::into_inner)
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
        let request = active.policy.request(facts)?;
        let charges = request.payable();
        Ok(self.decide(active, &request, charges.as_ref(), mode).await)
    }

    /// As [`Engine::check`], for a request whose facts were read under `active`'s policy already, and
    /// which has these charges to pay: those of [`Request::payable`]. Whoever may have to change them
    /// afterwards makes a [`Receipt`](crate::Receipt) of both.
    pub async fn decide<'p>(
        &self,
        active: &'p Active,
        request: &Request<'p, '_>,
        charges: Option<&Charges<'p>>,
        mode: Mode,
    ) -> Decision<'p> {
        let now = self.clock.now();
        let decision = match (charges, request.treatment) {
            (Some(charges), _) => self.charge(active, charges, mode, now).await,
            (None, Treatment::Bypassed(why)) => {
                let reason = match why {
                    Bypass::AllowList(_) => Reason::AllowList,
                    Bypass::Route => Reason::OpenRoute,
                    Bypass::EnforcementOff => Reason::EnforcementOff,
                };
                self.without_limits(Action::Bypass, Some(reason), now)
            }
            (None, Treatment::Denied(why)) => {
                let reason = match why {
                    Denial::Route | Denial::DenyList(_) => Reason::Denied,
                    Denial::Suspended(_) => Reason::Suspended,
                };
                self.without_limits(Action::Deny, Some(reason), now)
            }
            // Limits apply, but no charges were given: refused, to be on the safe side.
            (None, Treatment::Limited) => {
                self.without_limits(Action::Deny, Some(Reason::Denied), now)
            }
        };
        self.observe(active, &decision, mode);
        if let (Some(observer), Mode::Charge) = (&self.observer, mode) {
            observer.decided(request, &decision);
        }
        decision
    }

    /// Counts a wrong key against an address, and decides whether it may go on guessing. Nobody else's
    /// bucket is touched, but unknown addresses share one.
    pub async fn wrong_key<'p>(
        &self,
        active: &'p Active,
        ip: impl Into<Option<IpAddr>>,
    ) -> Decision<'p> {
        let ip = ip.into();
        let now = self.clock.now();
        let charges = active.policy.wrong_key_charges(ip);
        let decision = self.charge(active, &charges, Mode::Charge, now).await;
        self.observe(active, &decision, Mode::Charge);
        if let Some(observer) = &self.observer {
            observer.guessed(&active.policy, ip, &decision);
        }
        decision
    }

    async fn charge<'p>(
        &self,
        active: &'p Active,
        charges: &Charges<'p>,
        mode: Mode,
        now: Timestamp,
    ) -> Decision<'p> {
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
                let degrades = active.policy.enforcement() != Enforcement::Shadow;
                let judged = Judged::new(charges, &outcomes, mode, degrades);
                judged.decision(verdict.source.into(), now, self.clock.calendar(now))
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
            degraded: None,
            source: Source::None,
            now,
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
            Some(status) => active.tally(status.id),
            None => &self.unlimited,
        };
        tally.add(match decision.action {
            Action::Allow | Action::Bypass => Count::Allowed,
            Action::Deny => Count::Denied,
            Action::Queue => Count::Queued,
            Action::Degrade => Count::Degraded,
        });
        for status in &decision.limits {
            if decision.allowed && status.shadow && status.denied {
                active.tally(status.id).add(Count::ShadowDenied);
            }
            // Unless that was counted above.
            if decision.action == Action::Queue && status.degrades {
                active.tally(status.id).add(Count::Degraded);
            }
        }
    }
}

/// The names that limits are counted under.
fn names(policy: &Policy) -> impl Iterator<Item = &str> {
    let names = policy.limits().iter().map(|limit| &*limit.name);
    names.chain([TENANT_FAMILY])
}

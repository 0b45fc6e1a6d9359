//! What this node decides by itself while a server is away, and what it owes Redis for it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use smallvec::SmallVec;
use tollward_core::{Charge, Limit, Spending, State, Timestamp};
use tollward_store::{MemoryStore, Mode, Outcome, Reply, Store, StoreError, Verdict};

use crate::key::KeyName;

/// This node's share of every limit, in memory.
pub(crate) struct Local {
    memory: MemoryStore,
    /// The nodes that share the limits: as many as were last seen.
    nodes: AtomicU32,
    debts: Mutex<HashMap<KeyName, Debt, foldhash::quality::RandomState>>,
    /// Debts that are being made good: no longer in the map, and not settled yet.
    on_their_way: AtomicUsize,
}

/// What was spent of one bucket without Redis.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Debt {
    /// The limit it was spent under, whole.
    pub(crate) limit: Limit,
    /// What is still outstanding, by this node's share of the limit.
    state: Option<State>,
    share: Limit,
    /// When the first and the last of it were spent, by this node's clock.
    spent: (Timestamp, Timestamp),
}

/// The most buckets whose debts are kept.
const MAX_DEBTS: usize = 100_000;

impl Local {
    pub(crate) fn new(max_buckets: usize) -> Self {
        Self {
            memory: MemoryStore::new(max_buckets),
            nodes: AtomicU32::new(1),
            debts: Mutex::default(),
            on_their_way: AtomicUsize::new(0),
        }
    }

    pub(crate) fn nodes(&self) -> u32 {
        self.nodes.load(Relaxed)
    }

    pub(crate) fn set_nodes(&self, nodes: u32) {
        self.nodes.store(nodes.max(1), Relaxed);
    }

    /// The buckets in memory.
    pub(crate) fn memory(&self) -> &MemoryStore {
        &self.memory
    }

    /// Decides by this node's shares.
    pub(crate) fn apply(
        &self,
        charges: &[Charge<'_>],
        outcomes: &mut [Outcome],
        mode: Mode,
        now: Timestamp,
    ) -> Result<Verdict, StoreError> {
        let shares = self.shares(charges);
        let charges = shared(charges, &shares);
        now_or_never(self.memory.apply(&charges, outcomes, mode, now))
    }

    /// Gives back what [`Local::apply`] took.
    pub(crate) fn credit(&self, charges: &[Charge<'_>], charged_at: Timestamp, now: Timestamp) {
        let shares = self.shares(charges);
        let charges = shared(charges, &shares);
        // Memory does not fail.
        let _ = now_or_never(self.memory.credit(&charges, charged_at, now));
    }

    fn shares(&self, charges: &[Charge<'_>]) -> SmallVec<[Limit; 4]> {
        let nodes = self.nodes();
        let share = |charge: &Charge<'_>| charge.limit.share(nodes);
        charges.iter().map(share).collect()
    }

    /// Takes note of what was spent here and is to be made good in Redis. False if there is no room.
    pub(crate) fn owe(&self, key: KeyName, limit: &Limit, cost: u64, now: Timestamp) -> bool {
        self.add_debt(key, limit, cost, (now, now), now)
    }

    /// Takes note of `cost` of a debt that could not be made good, on top of what is owed since. False if
    /// there is no room.
    pub(crate) fn owe_again(&self, key: KeyName, debt: &Debt, cost: u64, now: Timestamp) -> bool {
        self.add_debt(key, &debt.limit, cost, debt.spent, now)
    }

    fn add_debt(
        &self,
        key: KeyName,
        limit: &Limit,
        cost: u64,
        spent: (Timestamp, Timestamp),
        now: Timestamp,
    ) -> bool {
        let share = limit.share(self.nodes());
        let mut debts = self.debts();
        if debts.len() >= MAX_DEBTS && !debts.contains_key(&key) {
            return false;
        }
        let debt = debts.entry(key).or_insert(Debt {
            limit: *limit,
            state: None,
            share,
            spent,
        });
        debt.limit = *limit;
        debt.share = share;
        debt.spent = (debt.spent.0.min(spent.0), debt.spent.1.max(spent.1));
        debt.state = share.level(debt.state, now).charge(cost).state();
        true
    }

    /// Gives back a charge that was taken here at `charged_at` and is still owed: the debt becomes smaller
    /// by it, never less than nothing, and the share gets its tokens back. False, and nothing is changed, if
    /// no debt is from that time: the charge was taken in Redis, or it has been made good there.
    pub(crate) fn give_back(
        &self,
        key: &KeyName,
        charge: &Charge<'_>,
        charged_at: Timestamp,
        now: Timestamp,
    ) -> bool {
        {
            let mut debts = self.debts();
            let Some(debt) = debts.get_mut(key).filter(|it| it.is_from(charged_at)) else {
                return false;
            };
            // A debt of nothing is kept: others who are part of it must find it too.
            let level = debt.share.level(debt.state, now);
            debt.state = level.credit(charge.cost, charged_at).state();
        }
        self.credit(std::slice::from_ref(charge), charged_at, now);
        true
    }

    /// Takes up to `most` of the debts that `wanted` picks. To be followed by [`Local::arrived`].
    pub(crate) fn take_debts(
        &self,
        most: usize,
        wanted: impl Fn(&KeyName) -> bool,
    ) -> Vec<(KeyName, Debt)> {
        let mut debts = self.debts();
        let keys = debts.keys().filter(|key| wanted(key)).take(most);
        let keys: Vec<KeyName> = keys.copied().collect();
        self.on_their_way.fetch_add(keys.len(), Relaxed);
        keys.into_iter()
            .filter_map(|key| Some((key, debts.remove(&key)?)))
            .collect()
    }

    /// So many debts that were taken are settled, owed again, or given up.
    pub(crate) fn arrived(&self, debts: usize) {
        self.on_their_way.fetch_sub(debts, Relaxed);
    }

    /// Buckets that something is owed to.
    pub(crate) fn debt_count(&self) -> usize {
        let debts = self.debts();
        debts.len() + self.on_their_way.load(Relaxed)
    }

    /// Forgets what one bucket has spent here.
    pub(crate) fn forgive(&self, key: &KeyName) {
        self.debts().remove(key);
    }

    fn debts(&self) -> MutexGuard<'_, HashMap<KeyName, Debt, foldhash::quality::RandomState>> {
        self.debts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Debt {
    /// Whether something that was spent at this moment is part of it.
    fn is_from(&self, moment: Timestamp) -> bool {
        (self.spent.0..=self.spent.1).contains(&moment)
    }

    /// Whole tokens that are outstanding, rounded up; at most one capacity of the limit.
    pub(crate) fn tokens(&self, now: Timestamp) -> u64 {
        let Some(state) = self.share.level(self.state, now).state() else {
            return 0;
        };
        let tokens = match state.spending {
            Spending::Bucket { parts } => parts.div_ceil(u128::from(state.window.as_micros())),
            Spending::Windows { current, previous } => u128::from(current) + u128::from(previous),
        };
        u64::try_from(tokens)
            .unwrap_or(u64::MAX)
            .min(self.limit.capacity().into())
    }
}

fn shared<'a>(charges: &[Charge<'a>], shares: &'a [Limit]) -> SmallVec<[Charge<'a>; 4]> {
    let with = |(charge, limit): (&Charge<'a>, &'a Limit)| Charge { limit, ..*charge };
    charges.iter().zip(shares).map(with).collect()
}

/// The answer of a store that does not wait.
fn now_or_never<T>(reply: Reply<'_, T>) -> Result<T, StoreError> {
    match reply {
        Reply::Now(answer) => answer,
        Reply::Later(_) => Err(StoreError::Unavailable),
    }
}

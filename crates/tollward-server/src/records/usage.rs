//! Who used how much of what: sums by tenant, plan and route.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tollward_core::Timestamp;
use tollward_directory::{Granularity, UsageRow};
use tollward_engine::Decision;
use tollward_policy::Request;

use super::table::{Lookup, Table};

/// Rows that are kept between two writes, and rows that wait for the directory. What is beyond is one row
/// for all.
const MAX_ROWS: usize = 100_000;
/// The tenant of that row.
const OTHER: &str = "(other)";
/// Rows that are written at once: each of them is a minute's, an hour's and a day's.
const BATCH: usize = 500;

/// What is summed up until somebody takes it.
pub(super) struct Usage {
    rows: Table<Packed, Sums>,
    misplaced: AtomicU64,
}

/// Whose row, and of which minute since the epoch.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Who<'a> {
    pub(super) minute: u64,
    pub(super) tenant: Cow<'a, str>,
    pub(super) plan: Cow<'a, str>,
    pub(super) route: Cow<'a, str>,
}

/// The same in one piece: a row that was not looked at for a while is fetched in few steps.
pub(super) struct Packed {
    minute: u64,
    /// Tenant, plan and route, one behind the other.
    names: Box<str>,
    /// Where the plan begins, and where the route does.
    starts: (usize, usize),
}

/// What is summed up of requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sums {
    pub(super) requests: u64,
    pub(super) refusals: u64,
    pub(super) tokens: u64,
    pub(super) errors: u64,
}

impl Usage {
    pub(super) fn new() -> Self {
        Self::with_room(MAX_ROWS)
    }

    fn with_room(rows: usize) -> Self {
        Self {
            rows: Table::new(rows),
            misplaced: AtomicU64::new(0),
        }
    }

    /// A request was decided about.
    #[inline]
    pub(super) fn decided(&self, request: &Request<'_, '_>, decision: &Decision<'_>) {
        let tenant = request.known_tenant_id();
        let who = Who::new(decision.at, tenant, request.plan(), request.route());
        let admitted = decision.allowed;
        self.add(
            who,
            Sums {
                requests: 1,
                refusals: u64::from(!admitted),
                tokens: if admitted { request.tokens() } else { 0 },
                errors: 0,
            },
        );
    }

    /// Adds to a row, or to that for all others if there is no room for it.
    pub(super) fn add(&self, who: Who<'_>, sums: Sums) {
        if !self.rows.change(&who, |row| row.add(&sums)) {
            self.misplaced.fetch_add(sums.requests, Relaxed);
            self.rows.insist(&who.other(), |row| row.add(&sums));
        }
    }

    /// Takes everything that was added since the last time.
    pub(super) fn take(&self) -> Vec<(Who<'static>, Sums)> {
        let rows = self.rows.take().into_iter();
        rows.map(|(who, sums)| (who.unpacked(), sums)).collect()
    }

    /// Requests that were counted, but not where they belong.
    pub(super) fn misplaced(&self) -> u64 {
        self.misplaced.load(Relaxed)
    }
}

impl<'a> Who<'a> {
    pub(super) fn new(
        at: Timestamp,
        tenant: Option<&'a str>,
        plan: Option<&'a str>,
        route: Option<&'a str>,
    ) -> Self {
        let [tenant, plan, route] =
            [tenant, plan, route].map(|name| Cow::Borrowed(name.unwrap_or_default()));
        Self {
            minute: at.as_micros() / 60_000_000,
            tenant,
            plan,
            route,
        }
    }

    fn other(&self) -> Who<'static> {
        Who {
            minute: self.minute,
            tenant: Cow::Borrowed(OTHER),
            plan: Cow::Borrowed(""),
            route: Cow::Borrowed(""),
        }
    }
}

impl Lookup for Who<'_> {
    type Key = Packed;

    #[inline]
    fn is(&self, key: &Packed) -> bool {
        let (tenant, plan, route) = key.parts();
        self.minute == key.minute
            && *self.tenant == *tenant
            && *self.plan == *plan
            && *self.route == *route
    }

    fn to_key(&self) -> Packed {
        let plan = self.tenant.len();
        Packed {
            minute: self.minute,
            names: [&*self.tenant, &*self.plan, &*self.route].concat().into(),
            starts: (plan, plan + self.plan.len()),
        }
    }
}

impl Packed {
    fn parts(&self) -> (&str, &str, &str) {
        let (plan, route) = self.starts;
        let part = |range| self.names.get(range).unwrap_or_default();
        (
            part(0..plan),
            part(plan..route),
            part(route..self.names.len()),
        )
    }

    fn unpacked(&self) -> Who<'static> {
        let (tenant, plan, route) = self.parts();
        let owned = |name: &str| Cow::Owned(name.to_owned());
        Who {
            minute: self.minute,
            tenant: owned(tenant),
            plan: owned(plan),
            route: owned(route),
        }
    }
}

impl Sums {
    #[inline]
    pub(super) fn add(&mut self, other: &Self) {
        self.requests = self.requests.saturating_add(other.requests);
        self.refusals = self.refusals.saturating_add(other.refusals);
        self.tokens = self.tokens.saturating_add(other.tokens);
        self.errors = self.errors.saturating_add(other.errors);
    }
}

/// What was taken and is not yet written. While the directory is away, rows of one minute become one.
pub(super) struct Unwritten {
    rows: BTreeMap<Who<'static>, Sums>,
    max_rows: usize,
    /// What is being written, until it is known to be.
    batch: Vec<UsageRow>,
    /// The requests of the batch.
    requests: u64,
}

impl Unwritten {
    pub(super) fn new() -> Self {
        Self::with_room(MAX_ROWS)
    }

    fn with_room(max_rows: usize) -> Self {
        Self {
            rows: BTreeMap::new(),
            max_rows,
            batch: Vec::new(),
            requests: 0,
        }
    }

    /// Takes rows over, and says how many requests were counted where they do not belong, for want of room.
    pub(super) fn add(&mut self, rows: Vec<(Who<'static>, Sums)>) -> u64 {
        let mut misplaced = 0;
        for (mut who, sums) in rows {
            if self.rows.len() >= self.max_rows && !self.rows.contains_key(&who) {
                who = who.other();
                misplaced += sums.requests;
            }
            self.rows.entry(who).or_default().add(&sums);
        }
        misplaced
    }

    /// What is to be written next; nothing if all is written. It stays the same until
    /// [`Unwritten::written`], and rows are in the same order on every node, so that none waits for another
    /// in a circle.
    pub(super) fn batch(&mut self) -> &[UsageRow] {
        if self.batch.is_empty() {
            let mut spans: BTreeMap<(Granularity, i64, Who<'static>), Sums> = BTreeMap::new();
            self.requests = 0;
            for _ in 0..BATCH {
                let Some((mut who, sums)) = self.rows.pop_first() else {
                    break;
                };
                self.requests = self.requests.saturating_add(sums.requests);
                let at = number(who.minute.saturating_mul(60));
                who.minute = 0;
                for granularity in Granularity::ALL {
                    let start = at - at % granularity.secs();
                    let span = spans.entry((granularity, start, who.clone()));
                    span.or_default().add(&sums);
                }
            }
            let rows = spans.into_iter();
            self.batch = rows.map(|(span, sums)| usage_row(span, sums)).collect();
        }
        &self.batch
    }

    /// The batch is written, or given up: there will be another. Says how many requests it was of.
    pub(super) fn written(&mut self) -> u64 {
        self.batch = Vec::new();
        std::mem::take(&mut self.requests)
    }

    /// Requests that are in no database yet.
    pub(super) fn requests(&self) -> u64 {
        let waiting = self.rows.values().map(|sums| sums.requests).sum::<u64>();
        waiting.saturating_add(self.requests)
    }
}

fn usage_row((granularity, start, who): (Granularity, i64, Who<'_>), sums: Sums) -> UsageRow {
    UsageRow {
        granularity,
        start,
        tenant: who.tenant.into_owned(),
        plan: who.plan.into_owned(),
        route: who.route.into_owned(),
        requests: number(sums.requests),
        refusals: number(sums.refusals),
        tokens: number(sums.tokens),
        errors: number(sums.errors),
    }
}

/// As databases have it.
fn number(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;

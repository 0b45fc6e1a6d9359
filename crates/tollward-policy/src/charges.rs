//! What a request has to pay.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;
use tollward_core::{Charge, Key, Limit};

use crate::config::{Enforcement, ScopeWord};
use crate::people::{Boosted, Tenant};
use crate::policy::{LimitId, Policy, PolicyLimit, Strategy};
use crate::request::Request;
use crate::scope::{self, Caller, CallerIp, Identity, ScopeBytes};

/// The charges of a request, with the bytes of their keys.
#[derive(Debug)]
pub struct Charges<'p> {
    /// The limits of the rules, raised if the caller has a boost.
    rules: &'p [PolicyLimit],
    tenant: Option<&'p Arc<Tenant>>,
    boost: Option<&'p Boosted>,
    enforced: bool,
    /// The limit of each item.
    limits: SmallVec<[&'p PolicyLimit; 4]>,
    owned: Items,
}

/// Charges that outlive the borrow of their policy. They mean nothing to another policy.
#[derive(Clone, Debug)]
pub struct OwnedCharges {
    items: Items,
    tenant: Option<Arc<Tenant>>,
    boost: Option<Boosted>,
}

#[derive(Clone, Debug)]
struct Items {
    /// On the stack for as many as most requests have; more would only be moved about.
    list: SmallVec<[Item; 4]>,
    bytes: ScopeBytes,
    /// The tokens that the request costs before any limit multiplies them.
    tokens: u64,
}

#[derive(Clone, Copy, Debug)]
struct Item {
    id: LimitId,
    /// What is charged: the plain limit, or a larger one for those who may wait.
    limit: Limit,
    cost: u64,
    /// What this limit charges for one token of the request.
    unit: u64,
    shadow: bool,
    scope: (usize, usize),
}

impl Item {
    fn charge<'a>(&'a self, limit: &'a PolicyLimit, bytes: &'a [u8]) -> Charge<'a> {
        Charge {
            name: &limit.name,
            limit: &self.limit,
            key: Key {
                family: &limit.family,
                scope: bytes.get(self.scope.0..self.scope.1).unwrap_or_default(),
            },
            cost: self.cost,
            shadow: self.shadow,
            on_failure: limit.on_failure,
        }
    }
}

impl<'p> Charges<'p> {
    pub(crate) fn new(policy: &'p Policy, tokens: u64) -> Self {
        Self::of(policy, tokens, None, None)
    }

    /// Charges of a caller of this tenant, with this boost.
    pub(crate) fn of(
        policy: &'p Policy,
        tokens: u64,
        tenant: Option<&'p Arc<Tenant>>,
        boost: Option<&'p Boosted>,
    ) -> Self {
        Self {
            rules: boost.map_or(&policy.rules.limits, |boost| &boost.limits),
            tenant,
            boost,
            enforced: policy.enforcement() != Enforcement::Shadow,
            limits: SmallVec::new(),
            owned: Items {
                list: SmallVec::new(),
                bytes: ScopeBytes::new(),
                tokens,
            },
        }
    }

    /// Adds a charge by a limit of the rules.
    pub(crate) fn push(&mut self, id: LimitId, request: &Request<'p, '_>) {
        let limit = &self.rules[id];
        let scope = match (self.limits.last(), self.owned.list.last()) {
            // The same words have the same values: the same bytes do for both.
            (Some(last), Some(item)) if last.scope == limit.scope => item.scope,
            _ => self.encode(&limit.scope, request),
        };
        self.add(id, limit, scope);
    }

    /// Adds the charges by the limits of the caller's tenant, then those above it that bind it.
    pub(crate) fn push_tenants(&mut self, request: &Request<'p, '_>) {
        let Some(tenant) = self.tenant else {
            return;
        };
        for (level, limit) in tenant.levels().enumerate() {
            if request.concerns(limit) {
                let start = self.owned.bytes.len();
                let owner = limit.owner().as_bytes();
                scope::push_value(Identity::Tenant, owner, &mut self.owned.bytes);
                let scope = (start, self.owned.bytes.len());
                self.add(self.rules.len() + level, limit, scope);
            }
        }
    }

    fn add(&mut self, id: LimitId, limit: &'p PolicyLimit, scope: (usize, usize)) {
        let unit = u64::from(limit.cost);
        let cost = unit.saturating_mul(self.owned.tokens);
        let enforced = self.enforced;
        self.limits.push(limit);
        self.owned.list.push(Item {
            id,
            limit: match limit.strategy {
                Strategy::Queue {
                    max_wait,
                    max_queue,
                } if enforced => with_overdraft(&limit.limit, cost, max_wait, max_queue),
                _ => limit.limit,
            },
            cost,
            unit,
            shadow: match limit.strategy {
                _ if limit.shadow || !enforced => true,
                // What can never be admitted is refused all the same.
                Strategy::Degrade { .. } => cost <= limit.limit.capacity().into(),
                Strategy::Reject | Strategy::Queue { .. } => false,
            },
            scope,
        });
    }

    fn encode(&mut self, words: &[ScopeWord], request: &Request<'p, '_>) -> (usize, usize) {
        let bytes = &mut self.owned.bytes;
        let start = bytes.len();
        let (route, upstream) = (request.route(), request.upstream_name());
        for word in words {
            scope::encode(*word, &request.caller, route, upstream, bytes);
        }
        (start, bytes.len())
    }

    /// Whether there is nothing to pay.
    pub fn is_empty(&self) -> bool {
        self.owned.list.is_empty()
    }

    /// The charges with the limits they come from.
    ///
    /// A limit with [`Strategy::Queue`] is charged in a larger bucket, in which there is room for those
    /// who wait: they have been admitted once no more is spent than [`PolicyLimit::limit`] holds. One with
    /// [`Strategy::Degrade`] is charged as a shadow limit. Neither is so for a cost above the capacity,
    /// which is never admitted, nor while enforcement is `shadow`.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (LimitId, &'p PolicyLimit, Charge<'_>)> {
        let items = self.owned.list.iter().zip(&self.limits);
        items.map(|(item, limit)| (item.id, *limit, item.charge(limit, &self.owned.bytes)))
    }

    /// The tokens that the request costs: the cost asked for times the route's, before a limit's own
    /// `cost` multiplies them.
    pub fn tokens(&self) -> u64 {
        self.owned.tokens
    }

    /// The same, without the borrow.
    pub fn to_owned(&self) -> OwnedCharges {
        OwnedCharges {
            items: self.owned.clone(),
            tenant: self.tenant.cloned(),
            boost: self.boost.cloned(),
        }
    }
}

impl OwnedCharges {
    /// As [`Charges::iter`], but each with what its limit charges for one token of the request, which is the
    /// limit's own `cost`. `policy` is the one that they were made with.
    pub fn units<'a>(
        &'a self,
        policy: &'a Policy,
    ) -> impl Iterator<Item = (LimitId, &'a PolicyLimit, Charge<'a>)> {
        let boost = self.boost.as_ref();
        let rules = boost.map_or(&policy.rules.limits[..], |boost| &boost.limits);
        let limit = move |id: LimitId| match id.checked_sub(rules.len()) {
            None => rules.get(id),
            Some(level) => self.tenant.as_ref()?.levels().nth(level),
        };
        self.items.list.iter().filter_map(move |item| {
            let limit = limit(item.id)?;
            let cost = item.unit;
            let charge = item.charge(limit, &self.items.bytes);
            Some((item.id, limit, Charge { cost, ..charge }))
        })
    }
}

impl Policy {
    /// What a wrong API key costs the address that it came from, by the limit `wrong_keys`.
    ///
    /// It holds whatever the file says of enforcement: no right key is ever kept out by it. Unknown
    /// addresses share one bucket.
    pub fn wrong_key_charges(&self, ip: impl Into<Option<IpAddr>>) -> Charges<'_> {
        let mut charges = Charges::new(self, 1);
        let rules = &self.rules;
        let Some(limit) = rules.limits.get(rules.wrong_keys) else {
            return charges;
        };
        let caller = Caller {
            ip: ip.into().map(|ip| CallerIp::new(ip, rules.ipv6_prefix)),
            ..Caller::default()
        };
        let bytes = &mut charges.owned.bytes;
        scope::encode(ScopeWord::Ip, &caller, None, None, bytes);
        let scope = (0, bytes.len());
        charges.limits.push(limit);
        charges.owned.list.push(Item {
            id: rules.wrong_keys,
            limit: limit.limit,
            cost: 1,
            unit: 1,
            shadow: false,
            scope,
        });
        charges
    }
}

/// The limit with room for those who wait: what refills within `max_wait`, and no more than `max_queue`
/// requests of this cost.
fn with_overdraft(limit: &Limit, cost: u64, max_wait: Duration, max_queue: u32) -> Limit {
    let capacity = limit.capacity();
    if cost > capacity.into() {
        return *limit;
    }
    let window = u128::from(limit.window().as_micros());
    let refill = u128::from(limit.rate()) * max_wait.as_micros() / window;
    let queued = u128::from(max_queue) * u128::from(cost);
    let overdraft = u32::try_from(refill.min(queued)).unwrap_or(u32::MAX);
    limit.with_room(capacity.saturating_add(overdraft))
}

//! What a request has to pay.

use std::net::IpAddr;
use std::time::Duration;

use smallvec::SmallVec;
use tollgate_core::{Charge, Key, Limit};

use crate::config::{Enforcement, ScopeWord};
use crate::policy::{LimitId, Policy, PolicyLimit, Strategy};
use crate::request::Request;
use crate::scope::{self, Caller, CallerIp, ScopeBytes};

/// The charges of a request, with the bytes of their keys.
#[derive(Debug)]
pub struct Charges<'p> {
    policy: &'p Policy,
    owned: OwnedCharges,
}

/// Charges that outlive the borrow of their policy. They mean nothing to another policy.
#[derive(Clone, Debug)]
pub struct OwnedCharges {
    /// On the stack for as many as most requests have; more would only be moved about.
    items: SmallVec<[Item; 4]>,
    bytes: ScopeBytes,
    /// The cost that was asked for.
    asked: u32,
}

#[derive(Clone, Copy, Debug)]
struct Item {
    id: LimitId,
    /// What is charged: the plain limit, or a larger one for those who may wait.
    limit: Limit,
    cost: u64,
    /// The cost, had 1 been asked for.
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
    pub(crate) fn new(policy: &'p Policy, asked: u32) -> Self {
        Self {
            policy,
            owned: OwnedCharges {
                items: SmallVec::new(),
                bytes: ScopeBytes::new(),
                asked,
            },
        }
    }

    pub(crate) fn push(&mut self, id: LimitId, request: &Request<'p, '_>) {
        let limit = &self.policy.limits[id];
        let scope = match self.owned.items.last() {
            // The same words have the same values: the same bytes do for both.
            Some(last) if self.policy.limits[last.id].scope == limit.scope => last.scope,
            _ => self.encode(&limit.scope, request),
        };
        let by_route = request.route.map_or(1, |route| route.cost);
        let unit = u64::from(by_route) * u64::from(limit.cost);
        let cost = unit.saturating_mul(self.owned.asked.into());
        let enforced = self.policy.enforcement != Enforcement::Shadow;
        self.owned.items.push(Item {
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
        self.owned.items.is_empty()
    }

    /// The charges with the limits they come from.
    ///
    /// A limit with [`Strategy::Queue`] is charged in a larger bucket, in which there is room for those
    /// who wait: they have been admitted once no more is spent than [`PolicyLimit::limit`] holds. One with
    /// [`Strategy::Degrade`] is charged as a shadow limit. Neither is so for a cost above the capacity,
    /// which is never admitted, nor while enforcement is `shadow`.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (LimitId, &'p PolicyLimit, Charge<'_>)> {
        self.owned.items.iter().map(|item| {
            let limit = &self.policy.limits[item.id];
            (item.id, limit, item.charge(limit, &self.owned.bytes))
        })
    }

    /// The cost that was asked for, before any route or limit multiplies it.
    pub fn asked(&self) -> u32 {
        self.owned.asked
    }

    /// The same, without the borrow.
    pub fn to_owned(&self) -> OwnedCharges {
        self.owned.clone()
    }
}

impl OwnedCharges {
    /// As [`Charges::iter`], but each with the cost that it would have, had 1 been asked for. `policy` is the
    /// one that they were made with.
    pub fn units<'a>(
        &'a self,
        policy: &'a Policy,
    ) -> impl Iterator<Item = (LimitId, &'a PolicyLimit, Charge<'a>)> {
        self.items.iter().filter_map(|item| {
            let limit = policy.limits.get(item.id)?;
            let cost = item.unit;
            let charge = item.charge(limit, &self.bytes);
            Some((item.id, limit, Charge { cost, ..charge }))
        })
    }
}

impl Policy {
    /// What a wrong API key costs the address that it came from, by the limit `wrong_keys`.
    ///
    /// It holds whatever the file says of enforcement: no right key is ever kept out by it.
    pub fn wrong_key_charges(&self, ip: IpAddr) -> Charges<'_> {
        let mut charges = Charges::new(self, 1);
        let Some(limit) = self.limits.get(self.wrong_keys) else {
            return charges;
        };
        let caller = Caller {
            ip: Some(CallerIp::new(ip, self.ipv6_prefix)),
            ..Caller::default()
        };
        let bytes = &mut charges.owned.bytes;
        scope::encode(ScopeWord::Ip, &caller, None, None, bytes);
        let scope = (0, bytes.len());
        charges.owned.items.push(Item {
            id: self.wrong_keys,
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

//! Facts into charges.

use std::fmt;

use sha2::{Digest, Sha256};
use smallvec::SmallVec;
use tollgate_core::{Charge, Key};

use crate::config::{Enforcement, ScopeWord, When};
use crate::facts::Facts;
use crate::path::{self, PathFault};
use crate::policy::{Access, LimitId, Plan, Policy, PolicyLimit, ROOT, Route};
use crate::router;
use crate::scope::{self, Caller, CallerIp, ScopeBytes};

/// Why facts make no request: the caller's mistake, not a decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rejection {
    /// Nobody has this API key.
    UnknownKey,
    /// There is no such plan.
    UnknownPlan(Box<str>),
    /// There is no such tenant, and unknown ones are to be refused.
    UnknownTenant(Box<str>),
    /// The request names one tenant or user, and its API key another.
    KeyMismatch(&'static str),
    /// The path is ambiguous or not a path.
    Path(PathFault),
    /// The method is not one.
    Method,
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownKey => f.write_str("the API key is not known"),
            Self::UnknownPlan(plan) => write!(f, "there is no plan {plan:?}"),
            Self::UnknownTenant(tenant) => write!(f, "there is no tenant {tenant:?}"),
            Self::KeyMismatch(what) => write!(f, "the API key belongs to another {what}"),
            Self::Path(fault) => fault.fmt(f),
            Self::Method => f.write_str("the method is not an HTTP method"),
        }
    }
}

impl std::error::Error for Rejection {}

/// What is to be done with a request, before any counter is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Treatment<'p> {
    /// Its charges decide.
    Limited,
    /// Its route is denied to all.
    Denied,
    /// It is let through, nothing is charged.
    Bypassed(Bypass<'p>),
}

/// Why a request is not limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bypass<'p> {
    /// The allow-list names the caller, for this reason.
    AllowList(&'p str),
    /// The route is open to all.
    Route,
    /// Enforcement is off.
    EnforcementOff,
}

/// Facts that were found to make sense under a policy.
#[derive(Clone, Debug)]
pub struct Request<'p, 'f> {
    pub(crate) policy: &'p Policy,
    pub(crate) caller: Caller<'f>,
    pub(crate) route: Option<&'p Route>,
    pub(crate) plan: Option<PlanChoice<'p>>,
    pub(crate) cost: u32,
    /// What is to be done with it.
    pub treatment: Treatment<'p>,
}

/// The plan that applies, and who said so.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlanChoice<'p> {
    pub(crate) plan: &'p Plan,
    pub(crate) name: &'p str,
    pub(crate) from: PlanFrom<'p>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PlanFrom<'p> {
    Request,
    Key,
    /// The tenant of this name: the caller's, or an ancestor.
    Tenant(&'p str),
    Default,
}

/// The charges of a request, with the bytes of their keys.
#[derive(Debug)]
pub struct Charges<'p> {
    /// On the stack for as many as most requests have; more would only be moved about.
    items: SmallVec<[Item<'p>; 4]>,
    bytes: ScopeBytes,
}

#[derive(Debug)]
struct Item<'p> {
    id: LimitId,
    limit: &'p PolicyLimit,
    cost: u64,
    shadow: bool,
    scope: (usize, usize),
}

impl Policy {
    /// Reads facts: who calls, which route and plan apply, and whether limits do at all.
    pub fn request<'p: 'f, 'f>(&'p self, facts: &Facts<'f>) -> Result<Request<'p, 'f>, Rejection> {
        let given = |fact: Option<&'f str>| fact.filter(|text| !text.is_empty());
        let hash: Option<[u8; 32]> =
            given(facts.api_key).map(|secret| Sha256::digest(secret.as_bytes()).into());
        let key = hash.and_then(|hash| self.keys.get(&hash));
        let allowed_key = hash.and_then(|hash| self.allow.keys.get(&hash).map(|reason| &**reason));
        if hash.is_some() && key.is_none() && allowed_key.is_none() {
            return Err(Rejection::UnknownKey);
        }
        let caller = Caller {
            tenant: agree(
                given(facts.tenant),
                key.and_then(|key| key.tenant.as_deref()),
            )
            .ok_or(Rejection::KeyMismatch("tenant"))?,
            user: agree(given(facts.user), key.and_then(|key| key.user.as_deref()))
                .ok_or(Rejection::KeyMismatch("user"))?,
            client: given(facts.client),
            api_key: hash,
            ip: facts.ip.map(|ip| CallerIp::new(ip, self.ipv6_prefix)),
        };
        if let Some(tenant) = caller.tenant
            && self.refuse_unknown_tenants
            && !self.tenants.contains_key(tenant)
        {
            return Err(Rejection::UnknownTenant(tenant.into()));
        }
        let route = self.route(given(facts.path), given(facts.method))?;
        let key_plan = key.and_then(|key| key.plan.as_deref());
        let plan = self.plan(given(facts.plan), key_plan, caller.tenant)?;
        Ok(Request {
            policy: self,
            treatment: self.treatment(facts, &caller, allowed_key, route),
            caller,
            route,
            plan,
            cost: facts.cost,
        })
    }

    fn route<'p>(
        &'p self,
        path: Option<&str>,
        method: Option<&str>,
    ) -> Result<Option<&'p Route>, Rejection> {
        if method.is_some_and(|method| !router::is_method(method)) {
            return Err(Rejection::Method);
        }
        let Some(path) = path else {
            return Ok(None);
        };
        let path = path::comparable(path, self.paths).map_err(Rejection::Path)?;
        let stricter = |one, other| self.stricter(one, other);
        let find = |segments: &[&str]| self.router.find(segments, method, &stricter);
        let route = find(&path::segments(&path));
        if path::may_be_read_otherwise(&path) {
            for (reading, fault) in path::other_readings(&path) {
                if find(&reading) != route {
                    return Err(Rejection::Path(fault));
                }
            }
        }
        Ok(route.map(|route| &self.routes[route]))
    }

    fn plan<'p>(
        &'p self,
        asked: Option<&str>,
        key: Option<&str>,
        tenant: Option<&str>,
    ) -> Result<Option<PlanChoice<'p>>, Rejection> {
        // A tenant that is not known is a child of the root.
        let known = |tenant| self.tenants.get(tenant).or_else(|| self.tenants.get(ROOT));
        let of_tenant = || known(tenant?)?.plan.as_ref();
        let chosen = if let Some(name) = asked {
            Some((name, PlanFrom::Request))
        } else if let Some(name) = key {
            Some((name, PlanFrom::Key))
        } else if let Some((name, whose)) = of_tenant() {
            Some((&**name, PlanFrom::Tenant(whose)))
        } else {
            let default = self.anonymous_plan.as_deref();
            default.map(|name| (name, PlanFrom::Default))
        };
        let Some((name, from)) = chosen else {
            return Ok(None);
        };
        match self.plans.get_key_value(name) {
            Some((name, plan)) => Ok(Some(PlanChoice { plan, name, from })),
            None => Err(Rejection::UnknownPlan(name.into())),
        }
    }

    fn treatment<'p>(
        &'p self,
        facts: &Facts<'_>,
        caller: &Caller<'_>,
        allowed_key: Option<&'p str>,
        route: Option<&'p Route>,
    ) -> Treatment<'p> {
        let allow = &self.allow;
        let by_net = |ip| allow.nets.iter().find(|(net, _)| scope::covers(net, ip));
        let reason = allowed_key
            .or_else(|| allow.users.get(caller.user?).map(|reason| &**reason))
            .or_else(|| allow.tenants.get(caller.tenant?).map(|reason| &**reason))
            .or_else(|| by_net(facts.ip?).map(|(_, reason)| &**reason));
        match route.map_or(Access::Limited, |route| route.access) {
            Access::Denied => Treatment::Denied,
            _ if self.enforcement == Enforcement::Off => {
                Treatment::Bypassed(Bypass::EnforcementOff)
            }
            Access::Bypass => Treatment::Bypassed(Bypass::Route),
            Access::Limited => match reason {
                Some(reason) => Treatment::Bypassed(Bypass::AllowList(reason)),
                None => Treatment::Limited,
            },
        }
    }
}

/// What is given, if the key does not say otherwise.
fn agree<'f>(given: Option<&'f str>, key: Option<&'f str>) -> Option<Option<&'f str>> {
    match (given, key) {
        (Some(given), Some(key)) if given != key => None,
        (given, key) => Some(key.or(given)),
    }
}

impl<'p> Request<'p, '_> {
    /// The charges, in the order in which ties between limits are resolved.
    pub fn charges(&self) -> Charges<'p> {
        let mut charges = Charges {
            items: SmallVec::new(),
            bytes: ScopeBytes::new(),
        };
        let (policy, route) = (self.policy, self.route);
        let of_plan = self.plan.map_or(&[][..], |choice| &choice.plan.limits);
        let of_route = route.map_or(&[][..], |route| &route.limits);
        for id in policy.common.iter().chain(of_plan).chain(of_route) {
            let limit = &policy.limits[*id];
            if self.concerns(limit) {
                charges.push(*id, limit, self);
            }
        }
        charges
    }

    fn concerns(&self, limit: &PolicyLimit) -> bool {
        let caller = &self.caller;
        let anonymous =
            caller.api_key.is_none() && caller.user.is_none() && caller.client.is_none();
        let when = match limit.when {
            When::Always => true,
            When::Anonymous => anonymous,
            When::Authenticated => !anonymous,
        };
        when && (caller.ip.is_some() || *limit.scope != [ScopeWord::Ip])
    }
}

impl<'p> Charges<'p> {
    fn push(&mut self, id: LimitId, limit: &'p PolicyLimit, request: &Request<'p, '_>) {
        let scope = match self.items.last() {
            // The same words have the same values: the same bytes do for both.
            Some(last) if last.limit.scope == limit.scope => last.scope,
            _ => self.encode(&limit.scope, request),
        };
        let by_route = request.route.map_or(1, |route| route.cost);
        self.items.push(Item {
            id,
            limit,
            cost: u64::from(request.cost)
                .saturating_mul(by_route.into())
                .saturating_mul(limit.cost.into()),
            shadow: limit.shadow || request.policy.enforcement == Enforcement::Shadow,
            scope,
        });
    }

    fn encode(&mut self, words: &[ScopeWord], request: &Request<'p, '_>) -> (usize, usize) {
        let start = self.bytes.len();
        let route = request.route.map(|route| &*route.name);
        for word in words {
            scope::encode(*word, &request.caller, route, &mut self.bytes);
        }
        (start, self.bytes.len())
    }

    /// Whether there is nothing to pay.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// The charges with the limits they come from.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (LimitId, &'p PolicyLimit, Charge<'_>)> {
        self.items.iter().map(|item| {
            let charge = Charge {
                name: &item.limit.name,
                limit: &item.limit.limit,
                key: Key {
                    family: &item.limit.family,
                    scope: &self.bytes[item.scope.0..item.scope.1],
                },
                cost: item.cost,
                shadow: item.shadow,
                on_failure: item.limit.on_failure,
            };
            (item.id, item.limit, charge)
        })
    }
}

//! Facts into charges.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use crate::charges::Charges;
use crate::config::{Enforcement, ScopeWord, When};
use crate::facts::Facts;
use crate::identity::Anonymous;
use crate::path::{self, PathFault, Segments};
use crate::people::{AllowList, ApiKey, Boosted, Tenant};
use crate::policy::{Access, Plan, Policy, PolicyLimit, Route, Rules, hash_of};
use crate::router::{self, RouteId};
use crate::scope::{Caller, CallerIp};

/// Why facts make no request: the caller's mistake, not a decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rejection {
    /// Nobody has this API key.
    UnknownKey,
    /// Whether anybody has this API key cannot be told: what is known is too old to go by.
    Unverifiable,
    /// There is no such plan.
    UnknownPlan(Box<str>),
    /// There is no such tenant, and unknown ones are to be refused.
    UnknownTenant(Box<str>),
    /// Nothing proves who calls, and such callers are to be refused.
    Anonymous,
    /// The request names one tenant, user or client, and its API key another.
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
            Self::Unverifiable => f.write_str(
                "API keys cannot be verified: the directory has been out of reach for too long",
            ),
            Self::Anonymous => {
                f.write_str("nothing proves who calls: an API key, a user or a client is needed")
            }
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
    pub(crate) upstream: Option<usize>,
    pub(crate) path: Option<Cow<'f, str>>,
    pub(crate) plan: Option<PlanChoice<'p>>,
    pub(crate) key: Option<&'p ApiKey>,
    pub(crate) tenant: Option<&'p Arc<Tenant>>,
    pub(crate) boost: Option<&'p Boosted>,
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
    User,
    /// The tenant of this name: the caller's, or an ancestor.
    Tenant(&'p str),
    Default,
}

/// What is known of who calls.
struct Known<'p> {
    key: Option<&'p ApiKey>,
    user_plan: Option<&'p str>,
    tenant: Option<&'p Arc<Tenant>>,
}

/// What a path leads to.
#[derive(Default)]
struct Found<'f> {
    route: Option<RouteId>,
    upstream: Option<usize>,
    path: Option<Cow<'f, str>>,
}

impl Policy {
    /// Reads facts: who calls, which route and plan apply, and whether limits do at all.
    pub fn request<'p: 'f, 'f>(&'p self, facts: &Facts<'f>) -> Result<Request<'p, 'f>, Rejection> {
        let given = |fact: Option<&'f str>| fact.filter(|text| !text.is_empty());
        let hash = given(facts.api_key).map(hash_of);
        let (key, allowed_key) = match &hash {
            Some(hash) => self.people.credential(&self.rules, hash)?,
            None => (None, None),
        };
        let caller = Caller {
            tenant: agree(
                given(facts.tenant),
                key.and_then(|key| key.tenant.as_deref()),
            )
            .ok_or(Rejection::KeyMismatch("tenant"))?,
            user: agree(given(facts.user), key.and_then(|key| key.user.as_deref()))
                .ok_or(Rejection::KeyMismatch("user"))?,
            client: agree(
                given(facts.client),
                key.and_then(|key| key.client.as_deref()),
            )
            .ok_or(Rejection::KeyMismatch("client"))?,
            api_key: hash,
            ip: facts.ip.map(|ip| CallerIp::new(ip, self.rules.ipv6_prefix)),
        };
        if self.rules.identity.anonymous == Anonymous::Reject && caller.is_anonymous() {
            return Err(Rejection::Anonymous);
        }
        let tenant = caller.tenant.and_then(|tenant| self.people.tenant(tenant));
        if let Some(name) = caller.tenant
            && self.rules.refuse_unknown_tenants
            && tenant.is_none()
        {
            return Err(Rejection::UnknownTenant(name.into()));
        }
        let found = self
            .rules
            .find(given(facts.path), facts.path_is_kept, given(facts.method))?;
        let route = found.route.map(|route| &self.rules.routes[route]);
        let known = Known {
            key,
            user_plan: caller.user.and_then(|user| self.people.user_plan(user)),
            tenant,
        };
        Ok(Request {
            policy: self,
            treatment: self.treatment(facts, &caller, allowed_key, route),
            plan: self.plan(given(facts.plan), &known, caller.tenant.is_some())?,
            boost: self.people.boost(caller.user, caller.tenant),
            caller,
            route,
            upstream: found.upstream,
            path: found.path,
            key,
            // One that is not known is a child of the root, and so is who has none: that buys nothing.
            tenant: tenant.or_else(|| self.people.stranger()),
            cost: facts.cost,
        })
    }

    fn plan<'p>(
        &'p self,
        asked: Option<&str>,
        known: &Known<'p>,
        has_tenant: bool,
    ) -> Result<Option<PlanChoice<'p>>, Rejection> {
        let of_tenant = || {
            let tenant = known.tenant.or_else(|| self.people.stranger());
            tenant.filter(|_| has_tenant)?.plan.as_ref()
        };
        let chosen = if let Some(name) = asked {
            Some((name, PlanFrom::Request))
        } else if let Some(name) = known.key.and_then(|key| key.plan.as_deref()) {
            Some((name, PlanFrom::Key))
        } else if let Some(name) = known.user_plan {
            Some((name, PlanFrom::User))
        } else if let Some((name, whose)) = of_tenant() {
            Some((&**name, PlanFrom::Tenant(whose)))
        } else {
            let default = self.rules.anonymous_plan.as_deref();
            default.map(|name| (name, PlanFrom::Default))
        };
        let Some((name, from)) = chosen else {
            return Ok(None);
        };
        match self.rules.plans.get_key_value(name) {
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
        let own_ip = facts.ip.filter(|_| !facts.ip_is_proxy);
        let reason = || {
            let file = &self.rules.allow;
            let allows = |list: &'p AllowList| list.caller(caller.user, caller.tenant, own_ip);
            let of_directory = || allows(self.people.allow_list());
            allowed_key.or_else(|| allows(file)).or_else(of_directory)
        };
        match route.map_or(Access::Limited, |route| route.access) {
            Access::Denied => Treatment::Denied,
            _ if self.enforcement() == Enforcement::Off => {
                Treatment::Bypassed(Bypass::EnforcementOff)
            }
            Access::Bypass => Treatment::Bypassed(Bypass::Route),
            Access::Limited => match reason() {
                Some(reason) => Treatment::Bypassed(Bypass::AllowList(reason)),
                None => Treatment::Limited,
            },
        }
    }
}

impl Rules {
    fn find<'f>(
        &self,
        path: Option<&'f str>,
        path_is_kept: bool,
        method: Option<&str>,
    ) -> Result<Found<'f>, Rejection> {
        if method.is_some_and(|method| !router::is_method(method)) {
            return Err(Rejection::Method);
        }
        let Some(path) = path else {
            return Ok(Found::default());
        };
        let comparable = path::comparable(path, self.paths).map_err(Rejection::Path)?;
        let find = |segments: &[&str]| {
            let stricter = |one, other| self.stricter(one, other);
            let route = self.router.find(segments, method, |_| true, stricter);
            (route, self.upstream_of(route, segments, method))
        };
        let found = find(&path::segments(&comparable));
        if path::may_be_read_otherwise(&comparable) {
            for (reading, fault) in path::other_readings(&comparable) {
                if find(&reading) != found {
                    return Err(Rejection::Path(fault));
                }
            }
        }
        let differs = |reading: Segments<'_>| find(&reading) != found;
        if path_is_kept && path::kept_readings(&comparable).any(differs) {
            return Err(Rejection::Path(PathFault::Unresolved));
        }
        let forward = match comparable {
            // Nothing had to be rewritten to compare it, so nothing has to be to pass it on.
            Cow::Borrowed(plain) => path::resolved(Cow::Borrowed(plain)),
            Cow::Owned(_) => path::forwardable(path, self.paths).map_err(Rejection::Path)?,
        };
        Ok(Found {
            route: found.0,
            upstream: found.1,
            path: Some(forward),
        })
    }

    /// Whether requests for a path are for an upstream, or for a route that is denied to all.
    pub(crate) fn has_target(&self, method: &str, path: &str) -> Result<bool, Rejection> {
        let found = self.find(Some(path), false, Some(method))?;
        let access = found.route.map(|route| self.routes[route].access);
        Ok(found.upstream.is_some() || access == Some(Access::Denied))
    }

    /// The upstream of a path whose most specific route is known.
    fn upstream_of(
        &self,
        route: Option<RouteId>,
        segments: &[&str],
        method: Option<&str>,
    ) -> Option<usize> {
        let own = |route: RouteId| self.routes[route].upstream;
        let route = route.filter(|_| !self.upstreams.is_empty())?;
        own(route).or_else(|| {
            let has_one = |route| own(route).is_some();
            let costlier = |one, other| self.costlier_upstream(one, other);
            let next = self.router.find(segments, method, has_one, costlier);
            next.and_then(own)
        })
    }
}

/// What is given, if the key does not say otherwise.
fn agree<'f>(given: Option<&'f str>, key: Option<&'f str>) -> Option<Option<&'f str>> {
    match (given, key) {
        (Some(given), Some(key)) if given != key => None,
        (given, key) => Some(key.or(given)),
    }
}

impl<'p, 'f> Request<'p, 'f> {
    /// The tenant.
    pub fn tenant(&self) -> Option<&'f str> {
        self.caller.tenant
    }

    /// The user.
    pub fn user(&self) -> Option<&'f str> {
        self.caller.user
    }

    /// The client.
    pub fn client(&self) -> Option<&'f str> {
        self.caller.client
    }

    /// The plan that applies.
    pub fn plan(&self) -> Option<&'p str> {
        self.plan.map(|choice| choice.name)
    }

    /// The route that matched, as the policy names it.
    pub fn route(&self) -> Option<&'p str> {
        self.route.map(|route| &*route.name)
    }

    /// Where it goes, as an index of [`Policy::upstreams`]: where its route says, or else the next less
    /// specific one that does.
    pub fn upstream(&self) -> Option<usize> {
        self.upstream
    }

    pub(crate) fn upstream_name(&self) -> Option<&'p str> {
        let upstream = self.policy.upstreams().get(self.upstream?)?;
        Some(&upstream.name)
    }

    /// Whether nothing proves who calls: no API key, no user, no client.
    pub fn is_anonymous(&self) -> bool {
        self.caller.is_anonymous()
    }

    /// The path as it may be passed on: what was compared with the routes, its case and a slash at its end
    /// kept. No `//`, no `.` and `..`, escapes only of what is not unreserved and with upper-case digits,
    /// no query. None if no path was given.
    pub fn forward_path(&self) -> Option<&str> {
        self.path.as_deref()
    }

    /// The charges that decide about it; none if it is denied or let through whatever they are.
    pub fn payable(&self) -> Option<Charges<'p>> {
        match self.treatment {
            Treatment::Limited => Some(self.charges()),
            Treatment::Denied | Treatment::Bypassed(_) => None,
        }
    }

    /// The API key that proves who calls.
    pub fn api_key(&self) -> Option<&'p ApiKey> {
        self.key
    }

    /// The charges, in the order in which ties between limits are resolved.
    pub fn charges(&self) -> Charges<'p> {
        let (rules, route) = (&self.policy.rules, self.route);
        let mut charges = Charges::of(self.policy, self.cost, self.tenant, self.boost);
        let of_plan = self.plan.map_or(&[][..], |choice| &choice.plan.limits);
        let of_route = route.map_or(&[][..], |route| &route.limits);
        let of_upstream = self.upstream.and_then(|it| rules.upstream_limits.get(it));
        let of_upstream = of_upstream.map_or(&[][..], |limits| limits);
        let own = rules.common.iter().chain(of_plan).chain(of_route);
        for id in own.chain(of_upstream) {
            if self.concerns(&rules.limits[*id]) {
                charges.push(*id, self);
            }
        }
        charges.push_tenants(self);
        charges
    }

    pub(crate) fn concerns(&self, limit: &PolicyLimit) -> bool {
        let when = match limit.when {
            When::Always => true,
            When::Anonymous => self.is_anonymous(),
            When::Authenticated => !self.is_anonymous(),
        };
        when && (self.caller.ip.is_some() || *limit.scope != [ScopeWord::Ip])
    }
}

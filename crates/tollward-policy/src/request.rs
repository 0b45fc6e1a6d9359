//! Facts into charges.

use std::borrow::Cow;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use crate::charges::Charges;
use crate::config::{Enforcement, RouteAuth, ScopeWord, When};
use crate::facts::Facts;
use crate::identity::Anonymous;
use crate::matched::Matched;
use crate::path::PathFault;
use crate::people::{ApiKey, Bar, Boosted, CallerList, Credential, Tenant, UserEntry};
use crate::policy::{Access, Plan, Policy, PolicyLimit, Route, hash_of};
use crate::scope::{Caller, CallerIp};

/// Why facts make no request. Nothing is decided and nothing charged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rejection {
    /// Nobody has this API key.
    UnknownKey,
    /// Whether anybody has this API key cannot be told: what is known is too old to go by.
    Unverifiable,
    /// The request names a plan that does not exist.
    UnknownPlan(Box<str>),
    /// The request names a tenant that does not exist, and `identity.unknown_tenant` is `reject`.
    UnknownTenant(Box<str>),
    /// An entry of the directory names something that does not exist: the operator's mistake.
    Misconfigured(Misconfigured),
    /// The request has no credentials, and they are required.
    Anonymous,
    /// The request names one tenant, user or client, and its API key another.
    KeyMismatch(&'static str),
    /// The path is ambiguous or not a path.
    Path(PathFault),
    /// The method is not one.
    Method,
}

/// What an entry of the directory names though it does not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Misconfigured {
    /// The tenant of an API key or a user.
    Tenant(Box<str>),
    /// The plan of an API key, a user or a tenant.
    Plan(Box<str>),
    /// The parent of the caller's tenant, or of one above it.
    Parent(Box<str>),
    /// The caller's tenant is this one or below it, and this one would be its own ancestor.
    Circle(Box<str>),
}

impl fmt::Display for Misconfigured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tenant(name) => write!(f, "the caller's tenant {name:?} does not exist"),
            Self::Plan(name) => write!(f, "the caller's plan {name:?} does not exist"),
            Self::Circle(name) => write!(
                f,
                "the caller's tenant is at or below the tenant {name:?}, which would be its own ancestor"
            ),
            Self::Parent(name) => write!(
                f,
                "the caller's tenant is below the tenant {name:?}, which does not exist"
            ),
        }
    }
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownKey => f.write_str("the API key is not known"),
            Self::Unverifiable => f.write_str(
                "API keys cannot be verified: the directory has been out of reach for too long",
            ),
            Self::Anonymous => f.write_str(
                "the request has no credentials: an API key, a user or a client is needed",
            ),
            Self::UnknownPlan(plan) => write!(f, "there is no plan {plan:?}"),
            Self::UnknownTenant(tenant) => write!(f, "there is no tenant {tenant:?}"),
            Self::Misconfigured(what) => what.fmt(f),
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
    /// It is refused (403), nothing is charged.
    Denied(Denial<'p>),
    /// It is let through, nothing is charged.
    Bypassed(Bypass<'p>),
}

/// Why a request is refused whatever its limits are. It holds whatever `enforcement` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denial<'p> {
    /// The route says `deny: true`.
    Route,
    /// The deny-list names the caller, for this reason.
    DenyList(&'p str),
    /// The API key, the user, or this tenant is suspended.
    Suspended(Suspended<'p>),
}

/// What is suspended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Suspended<'p> {
    /// The API key.
    Key,
    /// The user.
    User,
    /// The caller's tenant or one above it, by its name.
    Tenant(&'p str),
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
    pub(crate) ip_is_unknown: bool,
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
#[derive(Clone, Copy)]
struct Known<'p> {
    credential: Option<Credential<'p>>,
    user: Option<&'p UserEntry>,
    tenant: Option<&'p Arc<Tenant>>,
}

impl<'p> Known<'p> {
    fn key(&self) -> Option<&'p ApiKey> {
        self.credential.map(|credential| credential.key)
    }

    /// The tenant that the file or the directory says the caller belongs to.
    fn written_tenant(&self) -> Option<&'p str> {
        let of_key = self.key().and_then(|key| key.tenant.as_deref());
        of_key.or_else(|| self.user?.tenant.as_deref())
    }
}

impl Policy {
    /// Reads facts: who calls, which route and plan apply, and whether limits do at all.
    ///
    /// # Errors
    ///
    /// The facts make no request: see [`Rejection`].
    pub fn request<'p: 'f, 'f>(&'p self, facts: &Facts<'f>) -> Result<Request<'p, 'f>, Rejection> {
        let matched = self.matched(facts.method, facts.path, facts.path_is_kept)?;
        self.request_on(matched, facts)
    }

    /// As [`Policy::request`], for a request whose route was looked up already: its `method` and `path` are
    /// not read again.
    ///
    /// # Errors
    ///
    /// The facts make no request: see [`Rejection`].
    pub fn request_on<'p: 'f, 'f>(
        &'p self,
        matched: Matched<'p, 'f>,
        facts: &Facts<'f>,
    ) -> Result<Request<'p, 'f>, Rejection> {
        let ip = facts.ip.map(|ip| CallerIp::new(ip, self.rules.ipv6_prefix));
        if let Some(reason) = facts.ip.and_then(|ip| self.denied_address(ip)) {
            // Such a caller is not even told whether its credentials are right.
            let caller = Caller {
                ip,
                ..Caller::default()
            };
            let treatment = Treatment::Denied(Denial::DenyList(reason));
            return Ok(self.assembled(matched, caller, None, treatment, facts));
        }
        let auth = matched.auth();
        let hash = given(facts.api_key).filter(|_| auth != Some(RouteAuth::None));
        let hash = hash.map(hash_of);
        let credential = match &hash {
            Some(hash) => Some(self.people.credential(&self.rules, hash)?),
            None => None,
        };
        let key = credential.map(|credential| credential.key);
        let user = agree(given(facts.user), key.and_then(|key| key.user.as_deref()))
            .ok_or(Rejection::KeyMismatch("user"))?;
        let mut known = Known {
            credential,
            user: user.and_then(|user| self.people.user(user)),
            tenant: None,
        };
        let tenant = agree(
            given(facts.tenant),
            key.and_then(|key| key.tenant.as_deref()),
        )
        .ok_or(Rejection::KeyMismatch("tenant"))?;
        let caller = Caller {
            tenant: tenant.or_else(|| known.written_tenant()),
            user,
            client: agree(
                given(facts.client),
                key.and_then(|key| key.client.as_deref()),
            )
            .ok_or(Rejection::KeyMismatch("client"))?,
            api_key: hash,
            is_authenticated: facts.is_authenticated,
            ip,
        };
        if caller.is_anonymous() && self.refuses_anonymous(auth) {
            return Err(Rejection::Anonymous);
        }
        known.tenant = caller.tenant.and_then(|name| self.people.tenant(name));
        if let Some(denial) = self.denial(matched.route, &caller, &known) {
            let treatment = Treatment::Denied(denial);
            // Only to be told: a plan that does not exist is no reason to answer otherwise.
            let plan = self.plan(given(facts.plan), &known, caller.tenant.is_some());
            return Ok(Request {
                plan: plan.unwrap_or(None),
                ..self.assembled(matched, caller, Some(known), treatment, facts)
            });
        }
        self.check_tenant(&caller, &known)?;
        let plan = self.plan(given(facts.plan), &known, caller.tenant.is_some())?;
        let treatment = self.treatment(facts, &caller, &known, matched.route);
        Ok(Request {
            plan,
            ..self.assembled(matched, caller, Some(known), treatment, facts)
        })
    }

    /// The request, without a plan.
    fn assembled<'p: 'f, 'f>(
        &'p self,
        matched: Matched<'p, 'f>,
        caller: Caller<'f>,
        known: Option<Known<'p>>,
        treatment: Treatment<'p>,
        facts: &Facts<'f>,
    ) -> Request<'p, 'f> {
        let tenant = known.and_then(|known| known.tenant);
        Request {
            policy: self,
            treatment,
            plan: None,
            boost: self.people.boost(caller.user, caller.tenant),
            caller,
            route: matched.route,
            upstream: matched.upstream,
            path: matched.path,
            key: known.and_then(|known| known.key()),
            // A caller without a tenant, or with an unknown one, is limited as a child of the root.
            tenant: tenant.or_else(|| self.people.stranger()),
            cost: facts.cost,
            ip_is_unknown: facts.ip_is_unknown,
        }
    }

    /// The reason for which a deny-list names an address: whoever calls from there is refused.
    pub fn denied_address(&self, ip: IpAddr) -> Option<&str> {
        let of_file = self.rules.deny.callers.address(Some(ip));
        of_file.or_else(|| self.people.deny_list().address(Some(ip)))
    }

    /// Whether a deny-list names any address.
    pub fn denies_addresses(&self) -> bool {
        self.rules.deny.callers.has_addresses() || self.people.deny_list().has_addresses()
    }

    fn refuses_anonymous(&self, auth: Option<RouteAuth>) -> bool {
        match auth {
            None => self.rules.identity.anonymous == Anonymous::Reject,
            Some(auth) => auth == RouteAuth::Required,
        }
    }

    /// A tenant that an entry names must exist; one that the request names may be required to.
    fn check_tenant(&self, caller: &Caller<'_>, known: &Known<'_>) -> Result<(), Rejection> {
        let Some(name) = caller.tenant else {
            return Ok(());
        };
        match known.tenant {
            Some(tenant) => match &tenant.lost {
                None => Ok(()),
                Some(lost) => Err(Rejection::Misconfigured(match &lost.missing {
                    Some(parent) => Misconfigured::Parent(parent.clone()),
                    None => Misconfigured::Circle(lost.tenant.clone()),
                })),
            },
            None if known.written_tenant() == Some(name) => {
                Err(Rejection::Misconfigured(Misconfigured::Tenant(name.into())))
            }
            None if self.rules.refuse_unknown_tenants => Err(Rejection::UnknownTenant(name.into())),
            None => Ok(()),
        }
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
        } else if let Some(name) = known.key().and_then(|key| key.plan.as_deref()) {
            Some((name, PlanFrom::Key))
        } else if let Some(name) = known.user.and_then(|user| user.plan.as_deref()) {
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
        match (self.rules.plans.get_key_value(name), from) {
            (Some((name, plan)), _) => Ok(Some(PlanChoice { plan, name, from })),
            (None, PlanFrom::Request) => Err(Rejection::UnknownPlan(name.into())),
            (None, _) => Err(Rejection::Misconfigured(Misconfigured::Plan(name.into()))),
        }
    }

    /// Why a request is refused whatever its limits are.
    fn denial<'p>(
        &'p self,
        route: Option<&'p Route>,
        caller: &Caller<'_>,
        known: &Known<'p>,
    ) -> Option<Denial<'p>> {
        if route.is_some_and(|route| route.access == Access::Denied) {
            return Some(Denial::Route);
        }
        let listed = |list: &'p CallerList| {
            let of_key = caller.api_key.as_ref().and_then(|hash| list.key(hash));
            let of_user = || list.user(caller.user);
            let of_client = || list.client(caller.client);
            // A tenant that exists knows itself whether it is denied, or one above it.
            let of_tenant = || list.tenant(caller.tenant.filter(|_| known.tenant.is_none()));
            of_key
                .or_else(of_user)
                .or_else(of_client)
                .or_else(of_tenant)
        };
        let listed = listed(&self.rules.deny.callers).or_else(|| listed(self.people.deny_list()));
        if let Some(reason) = listed {
            return Some(Denial::DenyList(reason));
        }
        if known.credential.is_some_and(|it| it.is_suspended) {
            return Some(Denial::Suspended(Suspended::Key));
        }
        if known.user.is_some_and(|user| user.suspended) {
            return Some(Denial::Suspended(Suspended::User));
        }
        // A caller without a tenant, or with an unknown one, is a child of the root. A user belongs to its own
        // tenant also where the request or its key names another.
        let named = known.tenant.or_else(|| self.people.stranger());
        let of_user = || self.people.tenant(known.user?.tenant.as_deref()?);
        let bar = named.and_then(|tenant| tenant.barred.as_deref());
        Some(match bar.or_else(|| of_user()?.barred.as_deref())? {
            Bar::Denied(reason) => Denial::DenyList(reason),
            Bar::Suspended(tenant) => Denial::Suspended(Suspended::Tenant(tenant)),
        })
    }

    fn treatment<'p>(
        &'p self,
        facts: &Facts<'_>,
        caller: &Caller<'_>,
        known: &Known<'p>,
        route: Option<&'p Route>,
    ) -> Treatment<'p> {
        let own_ip = facts.ip.filter(|_| !facts.ip_is_proxy);
        let allows = |list: &'p CallerList| {
            let of_user = list.user(caller.user);
            let of_client = || list.client(caller.client);
            let of_tenant = || list.tenant(caller.tenant);
            let by_name = of_user.or_else(of_client).or_else(of_tenant);
            by_name.or_else(|| list.address(own_ip))
        };
        let reason = || {
            let of_key = known.credential.and_then(|credential| credential.allowed);
            let of_file = || allows(&self.rules.allow.callers);
            let of_directory = || allows(self.people.allow_list());
            of_key.or_else(of_file).or_else(of_directory)
        };
        if self.enforcement() == Enforcement::Off {
            return Treatment::Bypassed(Bypass::EnforcementOff);
        }
        if route.is_some_and(|route| route.access == Access::Bypass) {
            return Treatment::Bypassed(Bypass::Route);
        }
        match reason() {
            Some(reason) => Treatment::Bypassed(Bypass::AllowList(reason)),
            None => Treatment::Limited,
        }
    }
}

/// A fact, if it is one: an empty text is none.
fn given(fact: Option<&str>) -> Option<&str> {
    fact.filter(|text| !text.is_empty())
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

    /// Whether its route asks for credentials; none where `identity.anonymous` decides.
    pub fn auth(&self) -> Option<RouteAuth> {
        self.route.and_then(|route| route.auth)
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

    /// Whether nothing proves who calls: no API key, no user, no client, nor
    /// [`Facts::is_authenticated`](crate::Facts::is_authenticated).
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
            Treatment::Denied(_) | Treatment::Bypassed(_) => None,
        }
    }

    /// The API key that proves who calls.
    pub fn api_key(&self) -> Option<&'p ApiKey> {
        self.key
    }

    /// The charges, in the order in which ties between limits are resolved.
    pub fn charges(&self) -> Charges<'p> {
        let (rules, route) = (&self.policy.rules, self.route);
        let mut charges = Charges::of(self.policy, self.tokens(), self.tenant, self.boost);
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
        let has_ip = self.caller.ip.is_some() || self.ip_is_unknown;
        when && (has_ip || *limit.scope != [ScopeWord::Ip])
    }
}

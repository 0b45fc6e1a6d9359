use std::collections::HashMap;

use ipnet::IpNet;
use tollgate_core::{Charge, Key, Limit, OnFailure};

use crate::config::{BodyStyle, Enforcement, HeaderStyle, LimitShown, Place, ScopeWord, When};
use crate::path::PathOptions;
use crate::router::{RouteId, Router};

/// Names the caller or the operator chose, hashed with a seed of this process.
pub(crate) type Names<T> = HashMap<Box<str>, T, foldhash::quality::RandomState>;
/// By the SHA-256 of an API key.
pub(crate) type ByHash<T> = HashMap<[u8; 32], T, foldhash::quality::RandomState>;

/// The root of the tenant tree. It is always there.
pub(crate) const ROOT: &str = "system";

/// A limit by its place in [`Policy::limits`].
pub type LimitId = usize;

/// A compiled configuration: everything a decision needs, checked once, read by many.
///
/// It is never changed; a new configuration is a new policy.
#[derive(Debug)]
pub struct Policy {
    pub(crate) limits: Vec<PolicyLimit>,
    /// The entries of `limits`, which concern every request.
    pub(crate) common: Vec<LimitId>,
    pub(crate) plans: Names<Plan>,
    pub(crate) anonymous_plan: Option<Box<str>>,
    pub(crate) router: Router,
    pub(crate) routes: Vec<Route>,
    pub(crate) tenants: Names<Tenant>,
    pub(crate) refuse_unknown_tenants: bool,
    pub(crate) keys: ByHash<ApiKey>,
    pub(crate) allow: AllowList,
    pub(crate) ipv6_prefix: u8,
    pub(crate) paths: PathOptions,
    pub(crate) enforcement: Enforcement,
    pub(crate) response: ResponseOptions,
}

/// A limit, and which requests it concerns.
#[derive(Debug)]
pub struct PolicyLimit {
    /// As it is reported: `plan:free`, `limit:per-ip`, `route:POST /v1/jobs`.
    pub name: Box<str>,
    /// As its buckets are named: the same, but `plan` for all plans, so that a caller who changes plan
    /// keeps what is spent.
    pub family: Box<str>,
    /// The numbers.
    pub limit: Limit,
    /// The words of the scope, as reported: `user`, `user,route`.
    pub scope_text: Box<str>,
    /// Whether answers tell its state.
    pub headers: bool,
    pub(crate) scope: Box<[ScopeWord]>,
    pub(crate) cost: u32,
    pub(crate) shadow: bool,
    pub(crate) on_failure: OnFailure,
    pub(crate) when: When,
    pub(crate) origin: Origin,
}

/// Where a limit's numbers were written.
#[derive(Debug)]
pub(crate) struct Origin {
    pub(crate) rate: Place,
    pub(crate) capacity: Option<Place>,
    pub(crate) allowance: Option<(Place, u32)>,
    pub(crate) cost: Option<Place>,
}

#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) limits: Vec<LimitId>,
}

#[derive(Debug)]
pub(crate) struct Route {
    /// The pattern in its canonical form.
    pub(crate) name: Box<str>,
    pub(crate) place: Place,
    pub(crate) cost: u32,
    pub(crate) limits: Vec<LimitId>,
    pub(crate) access: Access,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Access {
    /// `allow: true`: no limit applies.
    Bypass,
    Limited,
    /// `deny: true`: nobody gets through.
    Denied,
}

#[derive(Debug)]
pub(crate) struct Tenant {
    /// Its own plan or the nearest ancestor's, and whose it is.
    pub(crate) plan: Option<(Box<str>, Box<str>)>,
}

#[derive(Debug)]
pub(crate) struct ApiKey {
    pub(crate) tenant: Option<Box<str>>,
    pub(crate) user: Option<Box<str>>,
    pub(crate) plan: Option<Box<str>>,
}

/// Callers that are never limited, each with the reason given for it.
#[derive(Debug, Default)]
pub(crate) struct AllowList {
    pub(crate) nets: Vec<(IpNet, Box<str>)>,
    pub(crate) keys: ByHash<Box<str>>,
    pub(crate) users: Names<Box<str>>,
    pub(crate) tenants: Names<Box<str>>,
}

/// What answers look like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResponseOptions {
    /// The styles of headers, all of which are sent.
    pub headers: Vec<HeaderStyle>,
    /// The body of a refusal.
    pub body: BodyStyle,
    /// What is shown as the limit.
    pub limit: LimitShown,
    /// Whether pages in a browser may read the headers.
    pub expose_headers: bool,
}

impl Policy {
    /// All limits. The index of one is its [`LimitId`].
    pub fn limits(&self) -> &[PolicyLimit] {
        &self.limits
    }

    /// The limits that count in buckets of a key's family, with a charge of nothing to that key: several
    /// where each plan has one.
    pub fn charges_to<'p: 'a, 'a>(
        &'p self,
        key: Key<'a>,
    ) -> impl Iterator<Item = (&'p PolicyLimit, Charge<'a>)> {
        let limits = self.limits.iter();
        let of_family = limits.filter(move |limit| *limit.family == *key.family);
        of_family.map(move |limit| {
            let charge = Charge {
                name: &limit.name,
                limit: &limit.limit,
                key,
                cost: 0,
                shadow: limit.shadow || self.enforcement == Enforcement::Shadow,
                on_failure: limit.on_failure,
            };
            (limit, charge)
        })
    }

    /// What answers look like.
    pub fn response(&self) -> &ResponseOptions {
        &self.response
    }

    /// Whether limits refuse.
    pub fn enforcement(&self) -> Enforcement {
        self.enforcement
    }

    /// The stricter of two routes of one path: for a request whose method is not known.
    pub(crate) fn stricter(&self, one: RouteId, other: RouteId) -> RouteId {
        let strictness = |route: RouteId| {
            let route = &self.routes[route];
            (route.access, route.cost, route.limits.len())
        };
        if strictness(one) >= strictness(other) {
            one
        } else {
            other
        }
    }
}

impl PolicyLimit {
    /// The number shown as this limit.
    pub fn shown(&self, shown: LimitShown) -> u32 {
        match shown {
            LimitShown::Capacity => self.limit.capacity(),
            LimitShown::Rate => self.limit.rate(),
        }
    }
}

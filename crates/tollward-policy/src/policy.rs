use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use sha2::{Digest, Sha256};
use tollward_core::{Charge, Key, Limit, OnFailure};

use crate::config::{
    BodyStyle, Enforcement, HeaderStyle, LimitShown, Place, RouteAuth, ScopeWord, When,
};
use crate::cors::{CorsRules, RouteCors};
use crate::identity::IdentityOptions;
use crate::path::PathOptions;
use crate::people::{ApiKey, CallerList, ListedCaller, People, TenantEntry};
use crate::router::{RouteId, Router};
use crate::scope::{self, Identity};
use crate::upstream::Upstream;

/// Names the caller or the operator chose, hashed with a seed of this process.
pub(crate) type Names<T> = HashMap<Box<str>, T, foldhash::quality::RandomState>;
/// By the SHA-256 of an API key.
pub(crate) type ByHash<T> = HashMap<[u8; 32], T, foldhash::quality::RandomState>;

/// The root of the tenant tree. It is always there.
pub const ROOT: &str = "system";
/// What buckets of all tenants are named by, and their limits counted under.
pub const TENANT_FAMILY: &str = "tenant";

/// A limit by its place in [`Policy::limits`].
pub type LimitId = usize;

/// Everything a decision needs, checked once, read by many: the rules of a compiled configuration, and
/// the people that it and a directory know.
///
/// It is never changed; a new configuration, or other people, are a new policy. A clone costs next to
/// nothing.
#[derive(Clone, Debug)]
pub struct Policy {
    pub(crate) rules: Arc<Rules>,
    pub(crate) people: People,
}

/// What a configuration file says.
#[derive(Debug)]
pub(crate) struct Rules {
    pub(crate) limits: Vec<PolicyLimit>,
    /// The entries of `limits`, which concern every request.
    pub(crate) common: Vec<LimitId>,
    pub(crate) plans: Names<Plan>,
    pub(crate) anonymous_plan: Option<Box<str>>,
    pub(crate) identity: IdentityOptions,
    /// The limit that wrong API keys are charged to.
    pub(crate) wrong_keys: LimitId,
    pub(crate) upstreams: Vec<Arc<Upstream>>,
    /// The limits of each upstream.
    pub(crate) upstream_limits: Vec<Vec<LimitId>>,
    pub(crate) router: Router,
    pub(crate) routes: Vec<Route>,
    pub(crate) cors: CorsRules,
    pub(crate) tenants: Names<TenantEntry>,
    pub(crate) refuse_unknown_tenants: bool,
    pub(crate) keys: ByHash<ApiKey>,
    pub(crate) allow: FileList,
    pub(crate) deny: FileList,
    pub(crate) ipv6_prefix: u8,
    pub(crate) paths: PathOptions,
    pub(crate) enforcement: Enforcement,
    /// What holds for limits that do not say.
    pub(crate) on_failure: OnFailure,
    pub(crate) response: ResponseOptions,
}

/// A list of callers, as written and as looked up.
#[derive(Debug, Default)]
pub(crate) struct FileList {
    pub(crate) entries: Vec<ListedCaller>,
    pub(crate) callers: CallerList,
}

impl From<Vec<ListedCaller>> for FileList {
    fn from(entries: Vec<ListedCaller>) -> Self {
        Self {
            callers: entries.iter().collect(),
            entries,
        }
    }
}

/// A limit, and which requests it concerns.
#[derive(Clone, Debug)]
pub struct PolicyLimit {
    /// As it is reported: `plan:free`, `limit:per-ip`, `route:POST /v1/jobs`, `upstream:app`, `tenant:acme`.
    pub name: Box<str>,
    /// As its buckets are named: the same, but `plan` for all plans, so that a caller who changes plan
    /// keeps what is spent, and `tenant` for all tenants, of which there may be many.
    pub family: Arc<str>,
    /// The numbers.
    pub limit: Limit,
    /// What happens to a request beyond it.
    pub strategy: Strategy,
    /// The words of the scope, as reported: `user`, `user,route`.
    pub scope_text: Arc<str>,
    /// Whether answers tell its state.
    pub headers: bool,
    pub(crate) scope: Arc<[ScopeWord]>,
    pub(crate) cost: u32,
    pub(crate) shadow: bool,
    pub(crate) on_failure: OnFailure,
    pub(crate) when: When,
    pub(crate) origin: Origin,
}

/// What happens to a request beyond a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// It is refused.
    Reject,
    /// It waits in the order of arrival, and is refused if there is no room for it to wait.
    Queue {
        /// The longest wait.
        max_wait: Duration,
        /// The most requests that wait.
        max_queue: u32,
    },
    /// It is let through, uncharged and marked.
    Degrade {
        /// Where it goes instead, as an index of [`Policy::upstreams`]; none to go where it would.
        upstream: Option<usize>,
    },
}

/// Where a limit's numbers were written.
#[derive(Clone, Debug, Default)]
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
    /// Of [`Policy::upstreams`].
    pub(crate) upstream: Option<usize>,
    pub(crate) cors: RouteCors,
    pub(crate) access: Access,
    /// None where `identity.anonymous` decides.
    pub(crate) auth: Option<RouteAuth>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Access {
    /// `allow: true`: no limit applies.
    Bypass,
    Limited,
    /// `deny: true`: nobody gets through.
    Denied,
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
    /// The most that is added to the time of a retry, at random.
    pub jitter: Duration,
}

impl Policy {
    pub(crate) fn new(rules: Rules) -> Self {
        let rules = Arc::new(rules);
        Self {
            people: People::of(&rules),
            rules,
        }
    }

    /// The limits that are not tenants', the last of them `wrong_keys`. The index of one is its
    /// [`LimitId`]; those of tenants have higher ones.
    pub fn limits(&self) -> &[PolicyLimit] {
        &self.rules.limits
    }

    /// How many limits the file says: all but Tollward's own.
    pub fn written_limits(&self) -> usize {
        let of_tenants = self.rules.tenants.values();
        self.rules.wrong_keys + of_tenants.filter(|tenant| tenant.limit.is_some()).count()
    }

    /// The limits that count in buckets of a key's family, with a charge of nothing to that key: several
    /// where each plan has one.
    pub fn charges_to<'p: 'a, 'a>(
        &'p self,
        key: Key<'a>,
    ) -> impl Iterator<Item = (&'p PolicyLimit, Charge<'a>)> {
        let limits = self.rules.limits.iter();
        let of_family = limits.filter(move |limit| *limit.family == *key.family);
        of_family
            .chain(self.limit_of_tenant(key))
            .map(move |limit| {
                let charge = Charge {
                    name: &limit.name,
                    limit: &limit.limit,
                    key,
                    cost: 0,
                    shadow: limit.shadow || self.enforcement() == Enforcement::Shadow,
                    on_failure: limit.on_failure,
                };
                (limit, charge)
            })
    }

    /// The limit of the tenant that a bucket is.
    fn limit_of_tenant(&self, key: Key<'_>) -> Option<&PolicyLimit> {
        let is_tenant = *key.family == *TENANT_FAMILY;
        let mut values = scope::values(key.scope).filter(|_| is_tenant);
        let (identity, id) = values.next()?;
        let id = std::str::from_utf8(id).ok()?;
        let tenant = self.tenant(id).filter(|_| identity == Identity::Tenant)?;
        tenant.own.as_deref()
    }

    /// How doors that see whole requests tell who calls.
    pub fn identity(&self) -> &IdentityOptions {
        &self.rules.identity
    }

    /// Where admitted requests go.
    pub fn upstreams(&self) -> &[Arc<Upstream>] {
        &self.rules.upstreams
    }

    /// The names of the plans.
    pub fn plans(&self) -> impl Iterator<Item = &str> {
        self.rules.plans.keys().map(|name| &**name)
    }

    /// Whether there is such a plan.
    pub fn has_plan(&self, name: &str) -> bool {
        self.rules.plans.contains_key(name)
    }

    /// What answers look like.
    pub fn response(&self) -> &ResponseOptions {
        &self.rules.response
    }

    /// Whether limits refuse.
    pub fn enforcement(&self) -> Enforcement {
        self.people.enforcement.unwrap_or(self.rules.enforcement)
    }

    /// Whether limits refuse, as far as the file is concerned.
    pub fn file_enforcement(&self) -> Enforcement {
        self.rules.enforcement
    }
}

impl Rules {
    /// The stricter of two routes of one path: for a request whose method is not known.
    pub(crate) fn stricter(&self, one: RouteId, other: RouteId) -> RouteId {
        let strictness = |route: RouteId| {
            let limits = self.routes[route].limits.len() + self.limits_of_upstream(route);
            let route = &self.routes[route];
            (route.access, asks_for_proof(route.auth), route.cost, limits)
        };
        if strictness(one) >= strictness(other) {
            one
        } else {
            other
        }
    }

    /// That of two routes with an upstream of which the upstream has more limits: for a request whose
    /// method is not known.
    pub(crate) fn costlier_upstream(&self, one: RouteId, other: RouteId) -> RouteId {
        if self.limits_of_upstream(one) >= self.limits_of_upstream(other) {
            one
        } else {
            other
        }
    }

    /// How many limits the upstream has that a route names itself.
    fn limits_of_upstream(&self, route: RouteId) -> usize {
        let upstream = self.routes[route].upstream;
        let limits = upstream.and_then(|upstream| self.upstream_limits.get(upstream));
        limits.map_or(0, Vec::len)
    }
}

/// How much a route asks of callers, to compare two of them.
fn asks_for_proof(auth: Option<RouteAuth>) -> u8 {
    match auth {
        Some(RouteAuth::Required) => 3,
        None => 2,
        Some(RouteAuth::Optional) => 1,
        Some(RouteAuth::None) => 0,
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

/// By what an API key is known.
pub(crate) fn hash_of(secret: &str) -> [u8; 32] {
    Sha256::digest(secret.as_bytes()).into()
}

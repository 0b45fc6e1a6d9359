use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::uri::PathAndQuery;
use http::{Response, StatusCode};
use http_body_util::Full;
use tollward_core::Key;
use tollward_engine::{Action, Active, Decision, Engine, LimitStatus, Mode, Reason, Receipt};
use tollward_http::{
    LimitHeaders, Peer, Problem, Proofs, Told, challenge, client_ip, identify, locate, rejected,
};
use tollward_policy::{
    Anonymous, Charges, Denial, Facts, Matched, Policy, Rejection, Request, RouteAuth, Strategy,
    Treatment, Upstream,
};

use crate::frameworks;
use crate::hooks::Hooks;
use crate::line::{Errand, Lines};
use crate::toll::Toll;

/// Where a request is identified, decided about, and made to wait for its turn.
///
/// Cheap to clone: all clones are one gate.
#[derive(Clone)]
pub struct Gate {
    engine: Arc<Engine>,
    proofs: Arc<Proofs>,
    strangers: Strangers,
    /// Nothing is refused, made to wait or degraded for want of tokens.
    shadow: bool,
    /// A decision is made to its end though the caller has gone.
    finishes: bool,
    /// Whether requests come through only to be passed on to an upstream.
    routed: bool,
    timed: Option<Timed>,
    lines: Arc<Lines>,
    pub(crate) hooks: Arc<Hooks>,
}

/// What becomes of a caller of whom nothing is known, where the policy's `identity.anonymous` says
/// nothing about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strangers {
    /// It is limited like everybody.
    Admitted,
    /// It is asked who it is: 401.
    Refused,
}

/// A request that may go on.
#[derive(Debug)]
pub struct Admitted {
    /// What its answer has to tell of its limits.
    pub headers: LimitHeaders,
    /// The upstream that it is for; the cheaper one if it is to be served more cheaply.
    pub upstream: Option<Arc<Upstream>>,
    /// It is to be served more cheaply.
    pub degraded: bool,
    /// Its path in the form that was limited, and its query as it came; none if that is how it came.
    pub target: Option<PathAndQuery>,
    /// The caller's address.
    pub ip: Option<IpAddr>,
    /// The tenant.
    pub tenant: Option<Box<str>>,
    /// The plan.
    pub plan: Option<Box<str>>,
    /// The user.
    pub user: Option<Box<str>>,
    /// The route that matched, as the policy names it.
    pub route: Option<Box<str>>,
    /// What was decided.
    pub action: Action,
    /// What it was decided by: something else may be in force by now.
    pub active: Arc<Active>,
    /// What it paid; none for a gate whose requests are passed on.
    pub receipt: Option<Paid>,
}

type Timed = Arc<dyn Fn(u64) + Send + Sync>;

/// What was paid, and under what.
type Paid = Box<(Arc<Active>, Receipt)>;

/// A request that can be decided about.
struct Known<'p, 'f> {
    request: Request<'p, 'f>,
    /// What is passed on instead of the target that came.
    target: Option<PathAndQuery>,
    ip: Option<IpAddr>,
}

/// Why a request is not even decided about.
struct Unproven {
    problem: Problem,
    /// It may have been a guess at a secret.
    is_guess: bool,
}

impl Unproven {
    fn new(rejection: &Rejection) -> Self {
        Self {
            is_guess: *rejection == Rejection::UnknownKey,
            problem: rejected(rejection),
        }
    }
}

/// Whether a deny-list names the address of a request: its credentials are not even read.
fn is_denied(policy: &Policy, peer: Option<Peer>, head: &Parts) -> bool {
    policy.denies_addresses()
        && peer.is_some_and(|peer| {
            let ip = client_ip(policy.identity(), peer, &head.headers);
            policy.denied_address(ip).is_some()
        })
}

/// The answer to a request that may not go on.
type Refusal = Response<Full<Bytes>>;

impl Gate {
    /// A gate of which nothing is known but who decides.
    pub fn new(engine: Arc<Engine>) -> Self {
        Self {
            engine,
            proofs: Arc::default(),
            strangers: Strangers::Admitted,
            shadow: false,
            finishes: false,
            routed: false,
            timed: None,
            lines: Arc::default(),
            hooks: Arc::default(),
        }
    }

    /// The keys that tokens of users are checked with.
    #[must_use]
    pub fn proofs(self, proofs: Arc<Proofs>) -> Self {
        Self { proofs, ..self }
    }

    /// What becomes of strangers, unless the policy says so.
    #[must_use]
    pub fn strangers(self, strangers: Strangers) -> Self {
        Self { strangers, ..self }
    }

    /// Whether nothing is refused for want of tokens: it is decided, counted and told, and let through.
    #[must_use]
    pub fn shadow(self, shadow: bool) -> Self {
        Self { shadow, ..self }
    }

    /// Whether a decision is made to its end though the caller has gone: needed where half of one would
    /// have to be undone, as on a Redis Cluster.
    #[must_use]
    pub fn finishes(self, finishes: bool) -> Self {
        Self { finishes, ..self }
    }

    /// Whether requests are only let through to be passed on: one without an upstream is 404, and nobody
    /// asks for what was paid.
    #[must_use]
    pub fn routed(self, routed: bool) -> Self {
        Self { routed, ..self }
    }

    /// Who is told how long each decision took, in microseconds.
    #[must_use]
    pub fn timed(self, timed: Timed) -> Self {
        let timed = Some(timed);
        Self { timed, ..self }
    }

    /// What decides.
    pub fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// Lets a request through, maybe after a wait, or says why not.
    ///
    /// Dropped while it waits, its tokens are given back. A request without a peer is refused with 500,
    /// unless [`Gate::address`] says otherwise.
    ///
    /// # Errors
    ///
    /// The answer that its caller is to get instead.
    pub async fn admit(&self, peer: Option<Peer>, head: &Parts) -> Result<Admitted, Refusal> {
        if peer.is_none()
            && let Some(problem) = self.hooks.without_address()
        {
            return Err(self.hooks.refuse_undecided(&problem, head, |_| ()));
        }
        // What few requests need is boxed: all of them are moved about as large as they may get.
        let passage = if self.finishes {
            Box::pin(self.finish(peer, head)).await
        } else {
            self.decide(peer, head).await
        }?;
        if let Some(wait) = passage.wait {
            Box::pin(self.wait(wait)).await;
        }
        Ok(passage.admitted)
    }

    /// Decides to the end, whether or not anybody waits for it.
    async fn finish(&self, peer: Option<Peer>, head: &Parts) -> Result<Passage, Refusal> {
        let (gate, head) = (self.clone(), head.clone());
        let decided = tokio::spawn(async move { gate.decide(peer, &head).await });
        match decided.await {
            Ok(decided) => decided,
            Err(_) => Err(interrupted()),
        }
    }

    async fn decide(&self, peer: Option<Peer>, head: &Parts) -> Result<Passage, Refusal> {
        let engine = &self.engine;
        let active = engine.active();
        let (policy, identity) = (active.policy(), active.policy().identity());
        // What is passed on is limited by the path that is passed on. Who only asks serves the path as it
        // came, maybe in a nested router.
        let path = match self.routed {
            true => head.uri.path(),
            false => frameworks::path(head),
        };
        let matched = policy.matched(Some(head.method.as_str()), Some(path), !self.routed);
        let matched = match matched {
            Ok(matched) => matched,
            Err(rejection) => {
                let unproven = Unproven::new(&rejection);
                let refusal = self.unproven(&active, peer, head, unproven);
                return Err(Box::pin(refusal).await);
            }
        };
        // Only tokens have a time, and a clock is not read for nothing.
        let now = identity.jwt.as_ref().map_or(0, |_| self.unix_secs());
        let said = self.hooks.identity(head);
        let is_said = said.as_ref().is_some_and(|said| said.is_proven());
        let identified = match matched.auth() == Some(RouteAuth::None)
            || is_said
            || is_denied(policy, peer, head)
        {
            true => locate(identity, peer, head),
            false => identify(identity, &self.proofs, policy, peer, head, now),
        };
        let facts = identified.as_ref().map(|identified| {
            let mut facts = Facts {
                path: Some(path),
                path_is_kept: !self.routed,
                cost: self.hooks.cost(head),
                ..identified.facts()
            };
            if let Some(said) = &said {
                said.add_to(&mut facts);
            }
            facts
        });
        let without_plan = said.as_deref();
        let without_plan = without_plan.and_then(|said| self.hooks.without_plan(policy, said));
        let known = match (&facts, without_plan) {
            (Ok(facts), None) => self.known(policy, matched, facts, head),
            (Ok(_), Some(problem)) => Err(Unproven {
                is_guess: false,
                problem,
            }),
            (Err(failure), _) => Err(Unproven {
                is_guess: failure.is_guess(),
                problem: failure.problem(),
            }),
        };
        let known = match known {
            Ok(known) => known,
            Err(unproven) => {
                let refusal = self.unproven(&active, peer, head, unproven);
                return Err(Box::pin(refusal).await);
            }
        };
        let charges = known.request.payable();
        let decided = engine.decide(&active, &known.request, charges.as_ref(), Mode::Charge);
        let decision = decided.await;
        if let Some(timed) = &self.timed {
            timed(engine.clock().now().micros_since(decision.now));
        }
        if !decision.allowed && !self.overlooks(&decision) {
            let told = Told::new(&decision, policy.response());
            return Err(self.hooks.refuse(&told, head));
        }
        Ok(self.passage(&active, known, &decision, charges.as_ref()))
    }

    /// The request, if whoever calls is known well enough, and calls something that is there.
    fn known<'p: 'f, 'f>(
        &self,
        policy: &'p Policy,
        matched: Matched<'p, 'f>,
        facts: &Facts<'f>,
        head: &Parts,
    ) -> Result<Known<'p, 'f>, Unproven> {
        let request = policy.request_on(matched, facts);
        let request = request.map_err(|rejection| Unproven::new(&rejection))?;
        let strangers = match (request.auth(), policy.identity().anonymous) {
            (Some(RouteAuth::Required), _) => Strangers::Refused,
            (Some(RouteAuth::Optional | RouteAuth::None), _) => Strangers::Admitted,
            (None, Anonymous::Unsaid) => self.strangers,
            (None, Anonymous::Reject) => Strangers::Refused,
            (None, Anonymous::Allow | Anonymous::Plan) => Strangers::Admitted,
        };
        // Credentials would not help a caller on the deny-list.
        let is_listed = matches!(request.treatment, Treatment::Denied(Denial::DenyList(_)));
        let refused = |problem| {
            let is_guess = false;
            Err(Unproven { problem, is_guess })
        };
        if strangers == Strangers::Refused && request.is_anonymous() && !is_listed {
            return refused(rejected(&Rejection::Anonymous));
        }
        // What is closed is there, but it is closed.
        let is_open = !matches!(request.treatment, Treatment::Denied(_));
        if self.routed && is_open && request.upstream().is_none() {
            let detail = "Nothing is served under this path.";
            return refused(Problem::new(StatusCode::NOT_FOUND, detail));
        }
        let path = request.forward_path().filter(|_| self.routed);
        let target = match path.filter(|path| Some(*path) != facts.path) {
            None => None,
            // Written out, it may have become longer than a target can be.
            Some(path) => match target(path, head.uri.query()) {
                Some(target) => Some(target),
                None => {
                    let detail = "The path and the query are too long.";
                    return refused(Problem::new(StatusCode::URI_TOO_LONG, detail));
                }
            },
        };
        Ok(Known {
            request,
            target,
            ip: facts.ip,
        })
    }

    /// What is said to whoever does not prove who it is, or asks for what is not there. An address that
    /// has guessed at too many keys is told to stop.
    async fn unproven(
        &self,
        active: &Active,
        peer: Option<Peer>,
        head: &Parts,
        unproven: Unproven,
    ) -> Refusal {
        let policy = active.policy();
        let Unproven { problem, is_guess } = unproven;
        if is_guess {
            let ip = peer.map(|peer| client_ip(policy.identity(), peer, &head.headers));
            let decision = self.engine.wrong_key(active, ip).await;
            if !decision.allowed {
                let told = Told::new(&decision, policy.response());
                return self.hooks.refuse(&told, head);
            }
        }
        self.hooks.refuse_undecided(&problem, head, |response| {
            if problem.status == StatusCode::UNAUTHORIZED {
                challenge(policy.identity(), response.headers_mut());
            }
        })
    }

    /// Whether a refusal is only counted: in shadow, if it is one for want of tokens.
    fn overlooks(&self, decision: &Decision<'_>) -> bool {
        self.shadow && !decision.reason.is_some_and(Reason::is_ban)
    }

    fn unix_secs(&self) -> u64 {
        let clock = self.engine.clock();
        clock.calendar(clock.now()).as_micros() / 1_000_000
    }

    fn passage(
        &self,
        active: &Arc<Active>,
        known: Known<'_, '_>,
        decision: &Decision<'_>,
        charges: Option<&Charges<'_>>,
    ) -> Passage {
        let request = &known.request;
        // What would have been a refusal is let through in shadow, and not told to come again.
        let headers = match decision.allowed {
            true => LimitHeaders::of(decision, active.policy().response()),
            false => LimitHeaders::default(),
        };
        let receipt = || {
            let receipt = Receipt::new(decision, charges?)?;
            Some(Box::new((Arc::clone(active), receipt)))
        };
        let boxed = |text: Option<&str>| text.map(Box::from);
        let wait = match decision.action {
            Action::Queue if !self.shadow => Wait::of(&self.engine, decision, charges, receipt),
            _ => None,
        };
        let degraded = decision.degraded.filter(|_| !self.shadow);
        let degraded = degraded.and_then(|index| decision.limits.get(index));
        Passage {
            admitted: Admitted {
                headers,
                upstream: upstream(active.policy(), request, degraded),
                degraded: degraded.is_some(),
                target: known.target,
                ip: known.ip,
                tenant: boxed(request.tenant()),
                plan: boxed(request.plan()),
                user: boxed(request.user()),
                route: boxed(request.route()),
                action: decision.action,
                active: Arc::clone(active),
                receipt: if self.routed { None } else { receipt() },
            },
            wait,
        }
    }

    async fn wait(&self, mut wait: Box<Wait>) {
        let place = self.lines.join(Errand {
            key: Key {
                family: &wait.family,
                scope: &wait.scope,
            },
            due_us: wait.due_us,
            wait: wait.wait,
            at_least: wait.at_least,
            length_us: wait.length_us,
        });
        place.turn().await;
        wait.receipt = None;
    }
}

/// A path, and a query byte for byte; none if that is too long.
fn target(path: &str, query: Option<&str>) -> Option<PathAndQuery> {
    match query {
        Some(query) => PathAndQuery::try_from(format!("{path}?{query}")).ok(),
        None => PathAndQuery::try_from(path).ok(),
    }
}

/// The upstream of a request: a degrading limit's own, if it names one.
fn upstream(
    policy: &Policy,
    request: &Request<'_, '_>,
    degraded: Option<&LimitStatus<'_>>,
) -> Option<Arc<Upstream>> {
    let cheaper = degraded.and_then(|status| match status.limit.strategy {
        Strategy::Degrade { upstream } => upstream,
        Strategy::Reject | Strategy::Queue { .. } => None,
    });
    let upstream = cheaper.or_else(|| request.upstream())?;
    policy.upstreams().get(upstream).cloned()
}

/// A request on its way through.
struct Passage {
    admitted: Admitted,
    wait: Option<Box<Wait>>,
}

/// What a request waits for. If it leaves before its turn, which is before this has no receipt any more,
/// its tokens are given back.
struct Wait {
    engine: Arc<Engine>,
    /// When it is served, in microseconds of the clock that decides.
    due_us: u64,
    wait: Duration,
    /// The longest wait for any other bucket.
    at_least: Duration,
    /// The bucket.
    family: Box<str>,
    scope: Box<[u8]>,
    /// How long the tokens of this request take to come.
    length_us: u64,
    receipt: Option<Paid>,
}

impl Wait {
    fn of(
        engine: &Arc<Engine>,
        decision: &Decision<'_>,
        charges: Option<&Charges<'_>>,
        receipt: impl FnOnce() -> Option<Paid>,
    ) -> Option<Box<Self>> {
        let status = decision.shown()?;
        let (_, limit, charge) = charges?.iter().find(|(id, ..)| *id == status.id)?;
        let others = decision.limits.iter().filter(|it| it.id != status.id);
        let at_least = others.map(|it| it.queued_us).max().unwrap_or(0);
        let wait_us = decision.wait_us?;
        Some(Box::new(Self {
            engine: engine.clone(),
            due_us: decision.now.as_micros().saturating_add(wait_us),
            wait: Duration::from_micros(wait_us),
            at_least: Duration::from_micros(at_least),
            family: charge.key.family.into(),
            scope: charge.key.scope.into(),
            length_us: limit.limit.refill_us(charge.cost),
            receipt: receipt(),
        }))
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        if let Some(paid) = self.receipt.take() {
            let (active, receipt) = *paid;
            Toll::give_back(&self.engine, active, receipt);
        }
    }
}

/// The task that decided has died.
fn interrupted() -> Refusal {
    let mut response = Response::new(Full::default());
    *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
    response
}

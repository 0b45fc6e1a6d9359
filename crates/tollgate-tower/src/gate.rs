use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, Response, StatusCode};
use http_body_util::Full;
use tollgate_core::Key;
use tollgate_engine::{Action, Active, Decided, Decision, Engine, Mode, Receipt};
use tollgate_http::{
    Peer, Problem, Proofs, challenge, client_ip, identify, problem_response, refusal_response,
    rejected, write_headers,
};
use tollgate_policy::{
    Anonymous, Facts, Policy, PolicyLimit, Rejection, Request, Strategy, Treatment, Upstream,
};

use crate::line::Lines;
use crate::toll::Toll;

/// Where a request is identified, decided about, and made to wait for its turn.
///
/// Cheap to clone: all clones are one gate.
#[derive(Clone)]
pub struct Gate {
    inner: Arc<Inner>,
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

struct Inner {
    engine: Arc<Engine>,
    proofs: Arc<Proofs>,
    strangers: Strangers,
    /// Nothing is refused for want of tokens.
    shadow: bool,
    /// A decision is made to its end though the caller has gone.
    finishes: bool,
    /// Whether requests come through only to be passed on to an upstream.
    routed: bool,
    timed: Option<Timed>,
    lines: Lines,
}

/// A request that may go on.
#[derive(Debug)]
pub struct Admitted {
    /// What its answer has to tell of its limits.
    pub headers: HeaderMap,
    /// The upstream that it is for; the cheaper one if it is to be served more cheaply.
    pub upstream: Option<Arc<Upstream>>,
    /// It is to be served more cheaply.
    pub degraded: bool,
    /// Its path in the form that was limited, if that is not how it came.
    pub path: Option<Box<str>>,
    /// The caller's address.
    pub ip: Option<IpAddr>,
    /// The tenant.
    pub tenant: Option<Box<str>>,
    /// The plan.
    pub plan: Option<Box<str>>,
    /// The user.
    pub user: Option<Box<str>>,
    /// What was decided.
    pub action: Action,
    /// What it was decided by, if it had to wait: something else may be in force by now.
    pub waited_under: Option<Arc<Active>>,
    /// What it paid; none for a gate whose requests are passed on.
    pub receipt: Option<(Arc<Active>, Receipt)>,
}

type Timed = Arc<dyn Fn(u64) + Send + Sync>;

/// A peer of whom nothing is known: all of those are one.
const UNKNOWN: Peer = Peer {
    address: SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0),
    tls: false,
    relays: false,
};

/// The answer to a request that may not go on.
type Refusal = Response<Full<Bytes>>;

impl Gate {
    /// A gate of which nothing is known but who decides.
    pub fn new(engine: Arc<Engine>) -> Self {
        Self {
            inner: Arc::new(Inner {
                engine,
                proofs: Arc::default(),
                strangers: Strangers::Admitted,
                shadow: false,
                finishes: false,
                routed: false,
                timed: None,
                lines: Lines::default(),
            }),
        }
    }

    /// The keys that tokens of users are checked with.
    #[must_use]
    pub fn proofs(self, proofs: Arc<Proofs>) -> Self {
        self.with(|inner| inner.proofs = proofs)
    }

    /// What becomes of strangers, unless the policy says so.
    #[must_use]
    pub fn strangers(self, strangers: Strangers) -> Self {
        self.with(|inner| inner.strangers = strangers)
    }

    /// Whether nothing is refused for want of tokens: it is decided, counted and told, and let through.
    #[must_use]
    pub fn shadow(self, shadow: bool) -> Self {
        self.with(|inner| inner.shadow = shadow)
    }

    /// Whether a decision is made to its end though the caller has gone: needed where half of one would
    /// have to be undone, as on a Redis Cluster.
    #[must_use]
    pub fn finishes(self, finishes: bool) -> Self {
        self.with(|inner| inner.finishes = finishes)
    }

    /// Whether requests are only let through to be passed on: one without an upstream is 404, and nobody
    /// asks for what was paid.
    #[must_use]
    pub fn routed(self, routed: bool) -> Self {
        self.with(|inner| inner.routed = routed)
    }

    /// Who is told how long each decision took, in microseconds.
    #[must_use]
    pub fn timed(self, timed: Timed) -> Self {
        self.with(|inner| inner.timed = Some(timed))
    }

    /// A gate is made before it is used, so it has one owner; should it have more, they keep the old one.
    fn with(self, change: impl FnOnce(&mut Inner)) -> Self {
        let mut inner = Arc::try_unwrap(self.inner).unwrap_or_else(|shared| Inner {
            engine: shared.engine.clone(),
            proofs: shared.proofs.clone(),
            timed: shared.timed.clone(),
            lines: Lines::default(),
            ..*shared
        });
        change(&mut inner);
        Self {
            inner: Arc::new(inner),
        }
    }

    /// What decides.
    pub fn engine(&self) -> &Arc<Engine> {
        &self.inner.engine
    }

    /// Lets a request through, maybe after a wait, or says why not.
    ///
    /// Dropped while it waits, its tokens are given back.
    ///
    /// # Errors
    ///
    /// The answer that its caller is to get instead.
    pub async fn admit(&self, peer: Option<Peer>, head: &Parts) -> Result<Admitted, Refusal> {
        let peer = peer.unwrap_or(UNKNOWN);
        let passage = if self.inner.finishes {
            let (gate, head) = (self.clone(), head.clone());
            let decided = tokio::spawn(async move { gate.decide(peer, &head).await });
            match decided.await {
                Ok(decided) => decided,
                Err(_) => Err(interrupted()),
            }
        } else {
            self.decide(peer, head).await
        }?;
        match passage.wait {
            None => Ok(passage.admitted),
            Some(wait) => {
                self.wait(wait).await;
                Ok(passage.admitted)
            }
        }
    }

    async fn decide(&self, peer: Peer, head: &Parts) -> Result<Passage, Refusal> {
        let active = self.inner.engine.active();
        let (policy, identity) = (active.policy(), active.policy().identity());
        // Only tokens have a time, and a clock is not read for nothing.
        let now = identity.jwt.as_ref().map_or(0, |_| self.unix_secs());
        let proven = identify(identity, &self.inner.proofs, policy, peer, head, now);
        let identified = match proven {
            Ok(identified) => identified,
            Err(failure) => {
                let problem = failure.problem();
                let guess = failure.is_guess();
                return Err(self.unproven(&active, peer, head, &problem, guess).await);
            }
        };
        let facts = identified.facts();
        let request = match policy.request(&facts) {
            Ok(request) => request,
            Err(rejection) => {
                let guess = rejection == Rejection::UnknownKey;
                let problem = rejected(&rejection);
                return Err(self.unproven(&active, peer, head, &problem, guess).await);
            }
        };
        if let Err(problem) = self.known(policy, &request) {
            return Err(self.unproven(&active, peer, head, &problem, false).await);
        }
        let engine = &self.inner.engine;
        let decided = engine.decide(&active, &request, Mode::Charge).await;
        if let Some(timed) = &self.inner.timed {
            timed(engine.clock().now().micros_since(decided.now));
        }
        if !decided.decision.allowed && !self.inner.shadow {
            let response = refusal_response(&decided.decision, policy.response(), head);
            return Err(response);
        }
        Ok(self.passage(&active, &facts, &request, &decided))
    }

    /// Whether whoever calls is known well enough, and calls something that is there.
    fn known(&self, policy: &Policy, request: &Request<'_, '_>) -> Result<(), Problem> {
        let strangers = match policy.identity().anonymous {
            Anonymous::Unsaid => self.inner.strangers,
            Anonymous::Reject => Strangers::Refused,
            Anonymous::Allow | Anonymous::Plan => Strangers::Admitted,
        };
        if strangers == Strangers::Refused && request.is_anonymous() {
            return Err(rejected(&Rejection::Anonymous));
        }
        // What is closed is there, but it is closed.
        let is_open = request.treatment != Treatment::Denied;
        if self.inner.routed && is_open && request.upstream().is_none() {
            let detail = "Nothing is served under this path.";
            return Err(Problem::new(StatusCode::NOT_FOUND, detail));
        }
        Ok(())
    }

    /// What is said to whoever does not prove who it is, or asks for what is not there. An address that
    /// has guessed at too many keys is told to stop.
    async fn unproven(
        &self,
        active: &Active,
        peer: Peer,
        head: &Parts,
        problem: &Problem,
        guess: bool,
    ) -> Refusal {
        let policy = active.policy();
        if guess {
            let ip = client_ip(policy.identity(), peer, &head.headers);
            let decision = self.inner.engine.wrong_key(active, ip).await;
            if !decision.allowed && !self.inner.shadow {
                return refusal_response(&decision, policy.response(), head);
            }
        }
        let mut response = problem_response(problem, head);
        if problem.status == StatusCode::UNAUTHORIZED {
            challenge(policy.identity(), response.headers_mut());
        }
        response
    }

    fn unix_secs(&self) -> u64 {
        let clock = self.inner.engine.clock();
        clock.calendar(clock.now()).as_micros() / 1_000_000
    }

    fn passage(
        &self,
        active: &Arc<Active>,
        facts: &Facts<'_>,
        request: &Request<'_, '_>,
        decided: &Decided<'_>,
    ) -> Passage {
        let decision = &decided.decision;
        let mut headers = HeaderMap::new();
        // What would have been a refusal is let through in shadow, and not told to come again.
        if decision.allowed {
            write_headers(decision, active.policy().response(), &mut headers);
        }
        let receipt = || Some((Arc::clone(active), decided.receipt()?));
        let boxed = |text: Option<&str>| text.map(Box::from);
        let wait = Wait::of(&self.inner.engine, decided, receipt);
        Passage {
            admitted: Admitted {
                headers,
                upstream: upstream(active.policy(), request, decision),
                degraded: decision.degraded.is_some(),
                path: request
                    .forward_path()
                    .filter(|path| Some(*path) != facts.path)
                    .map(Box::from),
                ip: facts.ip,
                tenant: boxed(request.tenant()),
                plan: boxed(request.plan()),
                user: boxed(request.user()),
                action: decision.action,
                waited_under: wait.as_ref().map(|_| Arc::clone(active)),
                receipt: if self.inner.routed { None } else { receipt() },
            },
            wait,
        }
    }

    async fn wait(&self, mut wait: Wait) {
        let key = Key {
            family: &wait.family,
            scope: &wait.scope,
        };
        let place = self.inner.lines.join(key, wait.wait, wait.length_us);
        place.turn().await;
        wait.receipt = None;
    }
}

/// The upstream of a request: a degrading limit's own, if it names one.
fn upstream(
    policy: &Policy,
    request: &Request<'_, '_>,
    decision: &Decision<'_>,
) -> Option<Arc<Upstream>> {
    let degraded = decision
        .degraded
        .and_then(|index| decision.limits.get(index));
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
    wait: Option<Wait>,
}

/// What a request waits for. If it leaves before its turn, which is before this has no receipt any more,
/// its tokens are given back.
struct Wait {
    engine: Arc<Engine>,
    wait: Duration,
    /// The bucket.
    family: Box<str>,
    scope: Box<[u8]>,
    /// How long the tokens of this request take to come.
    length_us: u64,
    receipt: Option<(Arc<Active>, Receipt)>,
}

impl Wait {
    fn of(
        engine: &Arc<Engine>,
        decided: &Decided<'_>,
        receipt: impl FnOnce() -> Option<(Arc<Active>, Receipt)>,
    ) -> Option<Self> {
        let decision = &decided.decision;
        if decision.action != Action::Queue {
            return None;
        }
        let status = decision.shown()?;
        let mut charges = decided.charges.as_ref()?.iter();
        let (_, limit, charge) = charges.find(|(id, ..)| *id == status.id)?;
        Some(Self {
            engine: engine.clone(),
            wait: Duration::from_micros(decision.wait_us?),
            family: charge.key.family.into(),
            scope: charge.key.scope.into(),
            length_us: length_us(limit, charge.cost),
            receipt: receipt(),
        })
    }
}

/// How long a bucket takes to refill so much, in microseconds.
fn length_us(limit: &PolicyLimit, cost: u64) -> u64 {
    let window_us = u128::from(limit.limit.window().as_secs()) * 1_000_000;
    let length = u128::from(cost) * window_us / u128::from(limit.limit.rate().max(1));
    u64::try_from(length).unwrap_or(u64::MAX)
}

impl Drop for Wait {
    fn drop(&mut self) {
        if let Some((active, receipt)) = self.receipt.take() {
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

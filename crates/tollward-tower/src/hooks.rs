//! How a gate behaves where its owner says otherwise.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use bytes::Bytes;
use http::request::Parts;
use http::{Response, StatusCode};
use http_body_util::Full;
use tollward_http::{Problem, Told, problem_response};
use tollward_policy::Policy;

use crate::refusal::{Refusal, restyled};
use crate::{Gate, Identity};

/// What a gate does with a request whose peer address is unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Address {
    /// The gate refuses the request with 500, and logs once how to provide the address. The default:
    /// without addresses, limits by address would put all callers into one bucket, and the first caller
    /// to empty it would lock out the others.
    #[default]
    Required,
    /// The gate decides without the address. Nobody is a trusted proxy then, so forwarding headers are
    /// ignored. No limit is loosened: where a limit counts by address, for want of a better identity
    /// or because its scope is `ip`, **all callers without an address share one bucket**. So do their
    /// wrong API keys.
    ///
    /// Meant for services whose callers have no address, such as those on a Unix socket, or whose
    /// limits do not count by address.
    Unknown,
}

/// What the owner of a gate has said. Shared by its clones.
#[derive(Clone, Default)]
pub(crate) struct Hooks {
    address: Address,
    /// Whether a missing address has been logged.
    address_reported: Arc<AtomicBool>,
    /// Whether a missing plan has been logged.
    plan_reported: Arc<AtomicBool>,
    identify: Option<Arc<Identify>>,
    cost: Option<Arc<Cost>>,
    on_refusal: Option<Arc<OnRefusal>>,
}

type Identify = dyn Fn(&Parts) -> Identity + Send + Sync;
type Cost = dyn Fn(&Parts) -> u32 + Send + Sync;
type OnRefusal = dyn Fn(&Refusal<'_>, &Parts) -> Option<Response<Bytes>> + Send + Sync;

impl Gate {
    /// Sets what happens to a request whose peer address is unknown.
    #[must_use]
    pub fn address(mut self, address: Address) -> Self {
        Arc::make_mut(&mut self.hooks).address = address;
        self
    }

    /// Sets who says who calls, see [`RateLimitLayer::identify`](crate::RateLimitLayer::identify).
    #[must_use]
    pub fn identify<F>(mut self, identify: F) -> Self
    where
        F: Fn(&Parts) -> Identity + Send + Sync + 'static,
    {
        Arc::make_mut(&mut self.hooks).identify = Some(Arc::new(identify));
        self
    }

    /// Sets what requests cost, see [`RateLimitLayer::cost`](crate::RateLimitLayer::cost).
    #[must_use]
    pub fn cost<F>(mut self, cost: F) -> Self
    where
        F: Fn(&Parts) -> u32 + Send + Sync + 'static,
    {
        Arc::make_mut(&mut self.hooks).cost = Some(Arc::new(cost));
        self
    }

    /// Sets what refusals look like, see [`RateLimitLayer::on_refusal`](crate::RateLimitLayer::on_refusal).
    #[must_use]
    pub fn on_refusal<F, B>(mut self, respond: F) -> Self
    where
        F: Fn(&Refusal<'_>, &Parts) -> Option<Response<B>> + Send + Sync + 'static,
        B: Into<Bytes>,
    {
        let respond = move |refusal: &Refusal<'_>, head: &Parts| {
            respond(refusal, head).map(|response| response.map(B::into))
        };
        Arc::make_mut(&mut self.hooks).on_refusal = Some(Arc::new(respond));
        self
    }
}

impl Hooks {
    /// What is wrong with a request without an address; none if the owner has opted out. Logged the first
    /// time only: it is true of every request.
    pub(crate) fn without_address(&self) -> Option<Problem> {
        if self.address == Address::Unknown {
            return None;
        }
        if !self.address_reported.swap(true, Relaxed) {
            tracing::error!(
                "requests were refused with 500: the rate limiter was given no peer address. With axum, \
                 enable the feature `axum` of tollward-tower and serve with \
                 `into_make_service_with_connect_info::<SocketAddr>()`. With tonic, enable the feature \
                 `tonic`. Elsewhere, insert a `tollward_tower::Peer` into the extensions of each \
                 request. To do without addresses, say `.address(Address::Unknown)`."
            );
        }
        let detail =
            "The rate limiter was given no peer address. The log of the server says how to fix it.";
        let problem = Problem::new(StatusCode::INTERNAL_SERVER_ERROR, detail);
        Some(problem.with("reason", "no_address"))
    }

    /// Who calls, if the owner says so.
    pub(crate) fn identity<'h>(&self, head: &'h Parts) -> Option<Cow<'h, Identity>> {
        match &self.identify {
            Some(identify) => Some(Cow::Owned(identify(head))),
            None => head.extensions.get().map(Cow::Borrowed),
        }
    }

    /// What is wrong with an identity under a policy: a plan that is none. Logged the first time only.
    pub(crate) fn without_plan(&self, policy: &Policy, identity: &Identity) -> Option<Problem> {
        let plan = identity.chosen_plan()?;
        if policy.has_plan(plan) {
            return None;
        }
        if !self.plan_reported.swap(true, Relaxed) {
            tracing::error!(
                plan,
                "requests were refused with 500: the service chose a plan that the policy does not have"
            );
        }
        let detail = "The service chose a plan that its rate limits do not have.";
        let problem = Problem::new(StatusCode::INTERNAL_SERVER_ERROR, detail);
        Some(problem.with("reason", "misconfigured"))
    }

    /// The cost that a request asks for.
    pub(crate) fn cost(&self, head: &Parts) -> u32 {
        self.cost.as_ref().map_or(1, |cost| cost(head))
    }

    /// The answer to a request that was decided about and refused.
    pub(crate) fn refuse(&self, told: &Told<'_, '_>, head: &Parts) -> Response<Full<Bytes>> {
        let response = told.response(head);
        match &self.on_refusal {
            None => response,
            Some(respond) => {
                let problem = told.problem();
                let refusal = Refusal::decided(told, &problem, &response);
                match respond(&refusal, head) {
                    Some(own) => restyled(own, response.headers()),
                    None => response,
                }
            }
        }
    }

    /// The answer to a request that cannot be decided about. `complete` adds to the ordinary one.
    pub(crate) fn refuse_undecided(
        &self,
        problem: &Problem,
        head: &Parts,
        complete: impl FnOnce(&mut Response<Full<Bytes>>),
    ) -> Response<Full<Bytes>> {
        let mut response = problem_response(problem, head);
        complete(&mut response);
        match &self.on_refusal {
            None => response,
            Some(respond) => match respond(&Refusal::undecided(problem, &response), head) {
                Some(own) => restyled(own, response.headers()),
                None => response,
            },
        }
    }
}

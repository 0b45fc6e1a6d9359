//! The admin door: health, readiness and metrics for all, and what an operator may do for whoever has a
//! token.
//!
//! A request under `/admin/v1` comes by the guard first, which finds out whose token it has, and then to the
//! router. A handler says by its arguments which role it needs ([`guard::By`]) and what it reads; whatever is
//! wrong with that is a problem before the handler runs. A change is one transaction ([`work::Work`]): what is
//! changed, the audit record and the answer to be remembered, and it is answered when this node decides by it.

mod answer;
mod attempts;
mod audit;
mod boosts;
mod buckets;
mod config;
mod enforcement;
mod explain;
mod failure;
mod guard;
mod input;
mod keys;
mod lists;
mod moment;
mod names;
mod once;
mod open;
mod openapi;
mod paging;
mod patch;
mod precondition;
mod secret;
mod selection;
mod source;
mod span;
mod status;
mod suspend;
mod tenants;
mod tokens;
mod usage;
mod users;
mod work;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use http::header::{ALLOW, HeaderValue};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use tokio::sync::watch;
use tollward_core::InvalidLimit;
use tollward_directory::{AuditEvent, Directory, Mirror};
use tollward_engine::Engine;
use tollward_http::Problem;
use tower_service::Service;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use self::failure::Failure;
use self::guard::{Caller, Guard};
use self::work::Changed;
use super::listener::Door;
use super::reply;
use crate::clashes::Clashes;
use crate::config_state::ConfigState;
use crate::metrics::Metrics;
use crate::records::{Records, Severity};

pub(crate) use self::openapi::document;

/// The door.
pub(crate) struct Admin {
    shared: Shared,
    guard: Guard,
    router: Router,
}

/// What all handlers work with.
pub(crate) struct Office {
    pub(crate) engine: Arc<Engine>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) directory: Directory,
    pub(crate) mirror: Mirror,
    pub(crate) records: Records,
    pub(crate) config: ConfigState,
    pub(crate) clashes: Clashes,
    /// Where counters are.
    pub(crate) store: &'static str,
    /// The store was tried.
    pub(crate) ready: watch::Receiver<bool>,
    pub(crate) stopping: watch::Receiver<bool>,
    /// How long a client may take over a body.
    pub(crate) body_timeout: Duration,
}

type Shared = Arc<Office>;

/// Below this, nothing is answered without a token.
const GUARDED: &str = "/admin/v1";

impl Admin {
    /// A door that this token opens, besides those of the directory.
    pub(crate) fn new(office: Office, token: String) -> Result<Self, InvalidLimit> {
        office.metrics.follow(office.mirror.clone());
        let shared = Arc::new(office);
        let (router, _) = routes().split_for_parts();
        Ok(Self {
            guard: Guard::new(token)?,
            router: router.fallback(lost).with_state(shared.clone()),
            shared,
        })
    }

    /// Who calls, if that has to be known.
    fn admit(&self, peer: SocketAddr, parts: &mut http::request::Parts) -> Result<(), Failure> {
        let below = parts.uri.path().strip_prefix(GUARDED);
        if below.is_none_or(|rest| !rest.is_empty() && !rest.starts_with('/')) {
            return Ok(());
        }
        let address = peer.ip().to_canonical();
        let caller = self.guard.admit(&self.shared, &parts.headers, address)?;
        parts.extensions.insert(caller);
        Ok(())
    }
}

impl Door for Admin {
    async fn answer(&self, peer: SocketAddr, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let (mut parts, body) = request.into_parts();
        if let Err(failure) = self.admit(peer, &mut parts) {
            return failure.to_response();
        }
        let request = Request::from_parts(parts, Body::new(body));
        let answered: Result<_, Infallible> = self.router.clone().call(request).await;
        let Ok(response) = answered;
        if response.status() == StatusCode::METHOD_NOT_ALLOWED {
            return refused_method(response.headers().get(ALLOW));
        }
        let (parts, body) = response.into_parts();
        // It is in memory as a whole.
        let body = body.collect().await.map(|body| body.to_bytes());
        Response::from_parts(parts, Full::new(body.unwrap_or_default()))
    }
}

impl Office {
    /// What a calendar shows, in Unix milliseconds.
    fn now_ms(&self) -> i64 {
        let clock = self.engine.clock();
        let micros = clock.calendar(clock.now()).as_micros();
        i64::try_from(micros / 1000).unwrap_or(i64::MAX)
    }

    /// For how many seconds the directory has not been reached, if that is too long.
    fn stale_for(&self) -> Option<i64> {
        let health = self.mirror.health();
        let last_ok = health.last_ok_unix_ms.filter(|_| health.stale)?;
        Some(self.now_ms().saturating_sub(last_ok) / 1000)
    }

    /// An event of the audit trail.
    fn event(&self, caller: &Caller, changed: Changed<'_>) -> AuditEvent {
        AuditEvent {
            at: self.now_ms(),
            event: changed.event.to_owned(),
            severity: Severity::Info.word().to_owned(),
            actor: Some(caller.actor.clone()),
            address: Some(caller.address.to_string()),
            identifier: Some(changed.identifier),
            count: 1,
            before: changed.before.map(|value| value.to_string()),
            after: changed.after.map(|value| value.to_string()),
            node: self.records.node().to_owned(),
            ..AuditEvent::default()
        }
    }
}

/// All routes, with what the document says of them.
fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(open::healthz))
        .routes(routes!(open::readyz))
        .routes(routes!(open::show_metrics))
        .routes(routes!(open::show_openapi))
        .routes(routes!(
            tenants::list_tenants,
            tenants::change::create_tenant
        ))
        .routes(routes!(
            tenants::show_tenant,
            tenants::change::change_tenant,
            tenants::remove::delete_tenant
        ))
        .routes(routes!(users::list_users, users::create_user))
        .routes(routes!(
            users::show_user,
            users::change_user,
            users::delete_user
        ))
        .routes(routes!(keys::list_keys, keys::create_key))
        .routes(routes!(keys::show_key, keys::change_key, keys::delete_key))
        .routes(routes!(suspend::suspend_tenant))
        .routes(routes!(suspend::resume_tenant))
        .routes(routes!(suspend::suspend_user))
        .routes(routes!(suspend::resume_user))
        .routes(routes!(suspend::suspend_key))
        .routes(routes!(suspend::resume_key))
        .routes(routes!(keys::rotate::rotate_key))
        .routes(routes!(keys::rotate::revoke_key))
        .routes(routes!(lists::list_allow, lists::create_allow))
        .routes(routes!(lists::show_allow, lists::delete_allow))
        .routes(routes!(lists::list_deny, lists::create_deny))
        .routes(routes!(lists::show_deny, lists::delete_deny))
        .routes(routes!(boosts::list_boosts, boosts::create_boost))
        .routes(routes!(boosts::show_boost, boosts::delete_boost))
        .routes(routes!(buckets::show_buckets))
        .routes(routes!(buckets::reset_buckets))
        .routes(routes!(buckets::grant_buckets))
        .routes(routes!(config::show_config))
        .routes(routes!(config::reload_config))
        .routes(routes!(config::diff_config))
        .routes(routes!(
            enforcement::show_enforcement,
            enforcement::set_enforcement
        ))
        .routes(routes!(tokens::list_tokens, tokens::create_token))
        .routes(routes!(tokens::show_token, tokens::revoke_token))
        .routes(routes!(audit::list_audit))
        .routes(routes!(usage::list_usage))
        .routes(routes!(explain::explain))
        .routes(routes!(status::show_status))
}

/// A path that leads nowhere.
async fn lost() -> Failure {
    Failure::new(
        StatusCode::NOT_FOUND,
        "no_such_path",
        "There is nothing here. /healthz, /readyz and /metrics are open to all, and /admin/openapi.json says \
         what is under /admin/v1.",
    )
}

fn refused_method(allow: Option<&HeaderValue>) -> Response<Full<Bytes>> {
    let methods = allow.and_then(|allow| allow.to_str().ok());
    let methods: Vec<&str> = methods
        .unwrap_or_default()
        .split(',')
        .map(str::trim)
        .collect();
    let methods = methods.join(", ");
    let detail = format!("Only {methods} is answered here.");
    let problem = Problem::new(StatusCode::METHOD_NOT_ALLOWED, detail);
    let mut response = reply::problem(&problem);
    if let Ok(methods) = HeaderValue::try_from(methods) {
        response.headers_mut().insert(ALLOW, methods);
    }
    response
}

/// Does what looks at everybody where it holds up nobody else.
async fn aside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Failure> {
    tokio::task::spawn_blocking(work).await.map_err(|_| {
        let detail = "The answer could not be made.";
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, detail).into()
    })
}

/// Does something to its end, also if whoever asked for it goes away meanwhile: what is done is told.
async fn to_the_end<T: Send + 'static>(
    work: impl Future<Output = Result<T, Failure>> + Send + 'static,
) -> Result<T, Failure> {
    tokio::spawn(work).await.unwrap_or_else(|_| {
        let detail = "It was interrupted. It may or may not be done: look before you do it again.";
        Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, detail).into())
    })
}

/// This machine has no randomness to make something of.
fn unmade(error: getrandom::Error) -> Failure {
    let detail = format!("This machine gives no random numbers: {error}.");
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, detail).into()
}

//! The admin door: health, readiness and metrics for all, and what an operator may do for whoever has the
//! token.

mod buckets;
mod selection;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::header::{AUTHORIZATION, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use tokio::sync::watch;
use tollgate_engine::Engine;
use tollgate_http::Problem;

use super::listener::Door;
use super::reply::{failure, problem, reply};
use super::token;
use crate::metrics::{self, Metrics};

pub(crate) struct Admin {
    pub(crate) engine: Arc<Engine>,
    pub(crate) metrics: Arc<Metrics>,
    /// The store was tried.
    pub(crate) ready: watch::Receiver<bool>,
    pub(crate) stopping: watch::Receiver<bool>,
    /// What opens everything under [`GUARDED`].
    pub(crate) token: String,
    /// How long a client may take over a body.
    pub(crate) body_timeout: Duration,
}

/// Below this, nothing is answered without the token.
const GUARDED: &str = "/admin/v1/";
const READ: &str = "GET, HEAD";

impl Door for Admin {
    async fn answer(&self, peer: SocketAddr, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let read = matches!(*request.method(), Method::GET | Method::HEAD);
        match request.uri().path() {
            path if path.starts_with(GUARDED) => self.manage(peer, request).await,
            "/healthz" | "/readyz" | "/metrics" if !read => failure(&only("GET"), READ),
            "/healthz" => reply(StatusCode::OK, "text/plain", "ok\n"),
            "/readyz" if *self.stopping.borrow() => {
                reply(StatusCode::SERVICE_UNAVAILABLE, "text/plain", "stopping\n")
            }
            "/readyz" if !*self.ready.borrow() => reply(
                StatusCode::SERVICE_UNAVAILABLE,
                "text/plain",
                "the store has not been tried yet\n",
            ),
            "/readyz" => reply(StatusCode::OK, "text/plain", "ready\n"),
            "/metrics" => reply(StatusCode::OK, metrics::MEDIA_TYPE, self.metrics.render()),
            _ => problem(&Problem::new(
                StatusCode::NOT_FOUND,
                "There is /healthz, /readyz and /metrics here, and /admin/v1/buckets.",
            )),
        }
    }
}

impl Admin {
    async fn manage(&self, peer: SocketAddr, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let sent = request.headers().get(AUTHORIZATION);
        if !token::bears(sent.map(HeaderValue::as_bytes), &self.token) {
            let why = Problem::new(
                StatusCode::UNAUTHORIZED,
                "Send `Authorization: Bearer` with the admin token: TOLLGATE_ADMIN_TOKEN of the server, or \
                 the one that it printed when it started.",
            );
            return failure(&why, "");
        }
        let read = matches!(*request.method(), Method::GET | Method::HEAD);
        let post = *request.method() == Method::POST;
        let (answered, allow) = match request.uri().path() {
            "/admin/v1/buckets" if read => (self.show_buckets(&request).await, READ),
            "/admin/v1/buckets" => (Err(only("GET")), READ),
            "/admin/v1/buckets/reset" if post => (self.reset_buckets(peer, request).await, "POST"),
            "/admin/v1/buckets/reset" => (Err(only("POST")), "POST"),
            _ => {
                let why = Problem::new(
                    StatusCode::NOT_FOUND,
                    "There is GET /admin/v1/buckets and POST /admin/v1/buckets/reset here.",
                );
                (Err(why), "")
            }
        };
        answered.unwrap_or_else(|why| failure(&why, allow))
    }
}

fn only(method: &str) -> Problem {
    let detail = format!("Only {method} is answered here.");
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, detail)
}

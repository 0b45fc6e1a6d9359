//! The admin door: health, readiness and metrics.

use std::net::SocketAddr;
use std::sync::Arc;

use http::header::{ALLOW, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use tokio::sync::watch;
use tollgate_http::Problem;

use super::listener::Door;
use super::reply::{problem, reply};
use crate::metrics::{self, Metrics};

pub(crate) struct Admin {
    pub(crate) metrics: Arc<Metrics>,
    /// The store was tried.
    pub(crate) ready: watch::Receiver<bool>,
    pub(crate) stopping: watch::Receiver<bool>,
}

impl Door for Admin {
    async fn answer(&self, _: SocketAddr, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let read = matches!(*request.method(), Method::GET | Method::HEAD);
        match request.uri().path() {
            "/healthz" | "/readyz" | "/metrics" if !read => {
                let why =
                    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "Only GET is answered here.");
                let mut response = problem(&why);
                let allow = HeaderValue::from_static("GET, HEAD");
                response.headers_mut().insert(ALLOW, allow);
                response
            }
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
                "There is /healthz, /readyz and /metrics here.",
            )),
        }
    }
}

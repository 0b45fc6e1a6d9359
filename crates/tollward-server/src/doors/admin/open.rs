//! What is open to all on the admin door: health, readiness, metrics, and what the API is.

use std::sync::LazyLock;

use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use tollward_policy::Clash;

use super::{Shared, openapi};
use crate::doors::reply::reply;
use crate::metrics;

/// Says that the process lives
#[utoipa::path(get, path = "/healthz", tag = "open",
    responses((status = 200, description = "It does", body = String, content_type = "text/plain")))]
pub(super) async fn healthz() -> Response {
    reply(StatusCode::OK, "text/plain", "ok\n").map(Body::new)
}

/// Says whether requests should come here
#[utoipa::path(get, path = "/readyz", tag = "open",
    responses(
        (status = 200, description = "They should; says if the directory has not been reached for too long, and which entries are misconfigured", body = String, content_type = "text/plain"),
        (status = 503, description = "Not yet, or no more", body = String, content_type = "text/plain"),
    ))]
pub(super) async fn readyz(State(shared): State<Shared>) -> Response {
    let unready = |why: &'static str| reply(StatusCode::SERVICE_UNAVAILABLE, "text/plain", why);
    let answer = if *shared.stopping.borrow() {
        unready("stopping\n")
    } else if !*shared.ready.borrow() {
        unready("the store has not been tried yet\n")
    } else if let Some(secs) = shared.stale_for() {
        let lost = format!("the directory has not been reached for {secs} s");
        if shared.engine.active().policy().refuses_directory_keys() {
            let text = format!("{lost}, and its API keys are refused\n");
            reply(StatusCode::SERVICE_UNAVAILABLE, "text/plain", text)
        } else {
            // Requests are decided as well here as on any other node that has lost it.
            reply(StatusCode::OK, "text/plain", format!("ready, but {lost}\n"))
        }
    } else {
        let misconfigured = misconfigured(&shared.clashes.found());
        reply(
            StatusCode::OK,
            "text/plain",
            format!("ready{misconfigured}\n"),
        )
    };
    answer.map(Body::new)
}

/// The first entries whose callers get 503 because the operator has to change something.
fn misconfigured(clashes: &[Clash]) -> String {
    const MOST: usize = 5;
    let found: Vec<String> = clashes
        .iter()
        .filter(|clash| clash.is_misconfiguration())
        .map(ToString::to_string)
        .collect();
    let mut text = String::new();
    for clash in found.iter().take(MOST) {
        text.push_str("\nmisconfigured: ");
        text.push_str(clash);
    }
    if let Some(more @ 1..) = found.len().checked_sub(MOST) {
        text.push_str(&format!(
            "\nmisconfigured: {more} more, see /admin/v1/config"
        ));
    }
    text
}

/// Shows the metrics of this node
#[utoipa::path(get, path = "/metrics", tag = "open",
    responses((status = 200, description = "The metrics", body = String, content_type = "application/openmetrics-text")))]
pub(super) async fn show_metrics(State(shared): State<Shared>) -> Response {
    let page = shared.metrics.render();
    reply(StatusCode::OK, metrics::MEDIA_TYPE, page).map(Body::new)
}

static DOCUMENT: LazyLock<String> = LazyLock::new(openapi::document);

/// Shows this document
#[utoipa::path(get, path = "/admin/openapi.json", tag = "open",
    responses((status = 200, description = "What the API is, as OpenAPI 3.1 has it", body = Object)))]
pub(super) async fn show_openapi() -> Response {
    reply(StatusCode::OK, "application/json", DOCUMENT.as_str()).map(Body::new)
}

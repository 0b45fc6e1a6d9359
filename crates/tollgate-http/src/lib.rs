//! Decisions as HTTP: status, headers and bodies.
//!
//! Nothing else in the project writes rate-limit headers or the bodies of refusals, so every door
//! says the same.

mod body;
mod calendar;
mod headers;
mod problem;

pub use body::refusal;
pub use headers::write_headers;
pub use problem::Problem;

use http::StatusCode;
use tollgate_engine::{Decision, Reason};

/// The status of the answer to a client.
pub fn status(decision: &Decision<'_>) -> StatusCode {
    if decision.allowed {
        return StatusCode::OK;
    }
    match decision.reason {
        Some(Reason::CostExceedsCapacity) => StatusCode::UNPROCESSABLE_ENTITY,
        Some(Reason::Denied) => StatusCode::FORBIDDEN,
        Some(Reason::StoreUnavailable) => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::TOO_MANY_REQUESTS,
    }
}

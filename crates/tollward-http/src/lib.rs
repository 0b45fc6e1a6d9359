//! Requests as facts, and decisions as HTTP: status, headers and bodies.
//!
//! [`identify`] reads from the head of a request who sends it, as far as that is proven. [`strip`],
//! [`add_forwarded`] and [`identity_headers`] make that head fit for an upstream, which may believe what
//! is left of it. [`Told`] is a decision as it is told to a client, [`refusal_response`] and
//! [`problem_response`] are whole answers. [`cross_origin`] says what a page of another origin may do.
//!
//! Nothing else in the project reads identities from requests, or writes rate-limit headers and the
//! bodies of refusals, so every door believes and says the same. This crate does no I/O and reads no
//! clock; keys for tokens are brought to [`Proofs`].

mod bare;
mod body;
mod calendar;
mod cors;
mod headers;
mod identity;
mod limit_headers;
mod outgoing;
mod percent;
mod problem;
mod rejected;
mod response;
mod told;

pub use bare::{BareAnswer, explain_bare};
pub use calendar::iso_ms;
pub use cors::{CorsHeaders, CorsOutcome, CrossOrigin, cors_of, cross_origin};
pub use headers::write_headers;
pub use identity::{
    AuthFailure, Identified, JwksFault, MAX_JWKS_BYTES, Peer, Proofs, TokenFault, client_ip,
    identify, locate,
};
pub use limit_headers::LimitHeaders;
pub use outgoing::{add_forwarded, identity_headers, strip, strip_trailers};
pub use problem::Problem;
pub use rejected::rejected;
pub use response::{
    Asker, DEGRADED, add_retry_after, challenge, problem_response, refusal_response,
};
pub use told::Told;

use http::StatusCode;
use tollward_engine::{Decision, Reason};

/// The status of the answer to a client.
pub fn status(decision: &Decision<'_>) -> StatusCode {
    if decision.allowed {
        return StatusCode::OK;
    }
    match decision.reason {
        Some(Reason::CostExceedsCapacity) => StatusCode::UNPROCESSABLE_ENTITY,
        Some(Reason::Denied | Reason::Suspended) => StatusCode::FORBIDDEN,
        Some(Reason::StoreUnavailable) => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::TOO_MANY_REQUESTS,
    }
}

use http::StatusCode;
use tollward_policy::Rejection;

use crate::Problem;

/// What is said to facts that make no request.
pub fn rejected(rejection: &Rejection) -> Problem {
    let status = match rejection {
        Rejection::UnknownKey | Rejection::Anonymous => StatusCode::UNAUTHORIZED,
        Rejection::Unverifiable => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::BAD_REQUEST,
    };
    Problem::new(status, rejection.to_string()).with("reason", reason(rejection))
}

fn reason(rejection: &Rejection) -> &'static str {
    match rejection {
        Rejection::UnknownKey => "unknown_key",
        Rejection::Unverifiable => "directory_stale",
        Rejection::Anonymous => "anonymous",
        Rejection::UnknownPlan(_) => "unknown_plan",
        Rejection::UnknownTenant(_) => "unknown_tenant",
        Rejection::KeyMismatch(_) => "key_mismatch",
        Rejection::Path(_) => "ambiguous_path",
        Rejection::Method => "bad_method",
    }
}

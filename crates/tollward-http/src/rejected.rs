use http::StatusCode;
use tollward_policy::Rejection;

use crate::Problem;

/// What is said to facts that make no request.
pub fn rejected(rejection: &Rejection) -> Problem {
    let status = match rejection {
        Rejection::UnknownKey | Rejection::Anonymous => StatusCode::UNAUTHORIZED,
        Rejection::Unverifiable | Rejection::Misconfigured(_) => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::BAD_REQUEST,
    };
    let detail = match rejection {
        // What exactly is wrong is the operator's to know, who is told by `/readyz` and the log.
        Rejection::Misconfigured(_) => {
            "This service is misconfigured for the caller, and nothing was charged. Ask its operator.".to_owned()
        }
        rejection => rejection.to_string(),
    };
    Problem::new(status, detail).with("reason", reason(rejection))
}

fn reason(rejection: &Rejection) -> &'static str {
    match rejection {
        Rejection::UnknownKey => "unknown_key",
        Rejection::Unverifiable => "directory_stale",
        Rejection::Anonymous => "anonymous",
        Rejection::UnknownPlan(_) => "unknown_plan",
        Rejection::UnknownTenant(_) => "unknown_tenant",
        Rejection::Misconfigured(_) => "misconfigured",
        Rejection::KeyMismatch(_) => "key_mismatch",
        Rejection::Path(_) => "ambiguous_path",
        Rejection::Method => "bad_method",
    }
}

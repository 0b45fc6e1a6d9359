use std::fmt;

use http::StatusCode;

use tollward_policy::Rejection;

use super::TokenFault;
use crate::Problem;

/// Why a request is not taken as its sender's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthFailure {
    /// An API key that cannot be one, or HTTP Basic that is wrong.
    BadCredentials,
    /// A token that proves nothing.
    BadToken(TokenFault),
    /// It names several callers, or one in a way that can be read as several.
    Ambiguous,
    /// A header asks for another method than the one that it is limited as, and would be passed on.
    MethodOverride,
    /// There is a token, but no key to verify it with has been loaded.
    NoProofs,
    /// The API key of HTTP Basic cannot be verified: the directory has been out of reach for too long.
    Unverifiable,
}

impl AuthFailure {
    /// The status of the answer.
    pub fn status(self) -> StatusCode {
        match self {
            Self::BadCredentials | Self::BadToken(_) => StatusCode::UNAUTHORIZED,
            Self::Ambiguous | Self::MethodOverride => StatusCode::BAD_REQUEST,
            Self::NoProofs | Self::Unverifiable => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    /// What is told to the client.
    pub fn problem(self) -> Problem {
        let reason = match self {
            Self::BadCredentials => "bad_credentials",
            Self::BadToken(_) => "bad_token",
            Self::Ambiguous => "ambiguous_identity",
            Self::MethodOverride => "ambiguous_method",
            Self::NoProofs => "keys_unavailable",
            Self::Unverifiable => "directory_stale",
        };
        Problem::new(self.status(), self.to_string()).with("reason", reason)
    }

    /// Whether it may have been a guess at a secret, and counts as one.
    pub fn is_guess(self) -> bool {
        matches!(self, Self::BadCredentials)
    }
}

impl fmt::Display for AuthFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BadCredentials => f.write_str("the credentials are not valid"),
            Self::BadToken(fault) => write!(f, "the token is not valid: {fault}"),
            Self::Ambiguous => f.write_str("the request does not say who calls in one way only"),
            Self::MethodOverride => {
                f.write_str("a header asks for another method than the request has")
            }
            Self::NoProofs => f.write_str("tokens cannot be verified right now"),
            Self::Unverifiable => Rejection::Unverifiable.fmt(f),
        }
    }
}

impl std::error::Error for AuthFailure {}

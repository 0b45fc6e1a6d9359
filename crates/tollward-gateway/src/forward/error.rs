//! Why there is no answer of an upstream.

use std::fmt;

use http::StatusCode;

/// Why a request has no answer of its upstream, or the body of an answer has no end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ForwardError {
    /// No connection could be made; nothing was sent.
    NoConnection,
    /// No connection was made in time; nothing was sent.
    ConnectTimedOut,
    /// The upstream cannot be asked as it is configured, say because a certificate cannot be read;
    /// nothing was sent.
    Misconfigured,
    /// There are as many connections as there may be; nothing was sent.
    Busy,
    /// The request was sent and no answer came in time.
    TimedOut,
    /// The body of the answer, or an upload, stood still for too long.
    Stalled,
    /// The connection ended before the answer did.
    Reset,
    /// What came is not HTTP.
    BadAnswer,
    /// The body of the request is broken or its client has gone; the upstream never saw the end of it.
    BadRequestBody,
    /// The body of the request did not come in time; the upstream never saw the end of it.
    SlowRequestBody,
    /// `CONNECT`, which is not forwarded.
    Unsupported,
    /// The target's path and the client's are too long together; nothing was sent.
    TooLong,
}

impl ForwardError {
    /// All of them, in the order of their declaration.
    pub const ALL: [Self; 12] = [
        Self::NoConnection,
        Self::ConnectTimedOut,
        Self::Misconfigured,
        Self::Busy,
        Self::TimedOut,
        Self::Stalled,
        Self::Reset,
        Self::BadAnswer,
        Self::BadRequestBody,
        Self::SlowRequestBody,
        Self::Unsupported,
        Self::TooLong,
    ];

    /// As it is written in metrics.
    pub const fn word(self) -> &'static str {
        match self {
            Self::NoConnection => "no_connection",
            Self::ConnectTimedOut => "connect_timed_out",
            Self::Misconfigured => "misconfigured",
            Self::Busy => "busy",
            Self::TimedOut => "timed_out",
            Self::Stalled => "stalled",
            Self::Reset => "reset",
            Self::BadAnswer => "bad_answer",
            Self::BadRequestBody => "bad_request_body",
            Self::SlowRequestBody => "slow_request_body",
            Self::Unsupported => "unsupported",
            Self::TooLong => "too_long",
        }
    }

    /// What the client is told.
    pub fn status(&self) -> StatusCode {
        match self {
            Self::NoConnection | Self::Misconfigured | Self::Reset | Self::BadAnswer => {
                StatusCode::BAD_GATEWAY
            }
            Self::ConnectTimedOut | Self::TimedOut | Self::Stalled => StatusCode::GATEWAY_TIMEOUT,
            Self::Busy => StatusCode::SERVICE_UNAVAILABLE,
            Self::BadRequestBody => StatusCode::BAD_REQUEST,
            Self::SlowRequestBody => StatusCode::REQUEST_TIMEOUT,
            Self::Unsupported => StatusCode::NOT_IMPLEMENTED,
            Self::TooLong => StatusCode::URI_TOO_LONG,
        }
    }

    /// Whether the upstream is to blame, or the way there: not the request.
    pub const fn is_of_upstream(self) -> bool {
        match self {
            Self::NoConnection
            | Self::ConnectTimedOut
            | Self::Misconfigured
            | Self::Busy
            | Self::TimedOut
            | Self::Stalled
            | Self::Reset
            | Self::BadAnswer => true,
            Self::BadRequestBody | Self::SlowRequestBody | Self::Unsupported | Self::TooLong => {
                false
            }
        }
    }

    /// A sentence for the client. It names no host, address or file.
    pub fn detail(&self) -> &'static str {
        match self {
            Self::NoConnection => "The upstream cannot be reached.",
            Self::ConnectTimedOut => "The upstream could not be reached in time.",
            Self::Misconfigured => "The upstream cannot be asked as the gateway is configured.",
            Self::Busy => "The upstream has as many requests as it may have.",
            Self::TimedOut => "The upstream did not answer in time.",
            Self::Stalled => "The upstream's answer stood still for too long.",
            Self::Reset => "The upstream closed the connection before its answer was complete.",
            Self::BadAnswer => "The upstream's answer is not valid HTTP.",
            Self::BadRequestBody => "The body of the request is broken or incomplete.",
            Self::SlowRequestBody => "The body of the request did not arrive in time.",
            Self::Unsupported => "The method CONNECT is not forwarded.",
            Self::TooLong => "The target is too long for the upstream.",
        }
    }

    /// What a failed exchange means, if the request's own body is not the reason.
    pub(super) fn of(error: &hyper::Error) -> Self {
        if error.is_parse() {
            Self::BadAnswer
        } else {
            Self::Reset
        }
    }
}

impl fmt::Display for ForwardError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.detail())
    }
}

impl std::error::Error for ForwardError {}

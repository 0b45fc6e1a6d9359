//! How long an exchange may stand still.

use std::sync::Arc;
use std::time::Duration;

use tollward_policy::Upstream;

use super::clock::{Clock, Pulse};
use super::error::ForwardError;
use super::upload::Upload;
use crate::ticks::ticks;

/// How long an upstream has to say that it wants a body which its client holds back. A body goes out
/// after that: not every server says `100 Continue`.
const CONTINUE_WAIT: Duration = Duration::from_secs(1);

/// The time limits of an upstream, in ticks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) response: u64,
    pub(super) idle: u64,
}

impl Limits {
    pub(super) fn of(upstream: &Upstream) -> Self {
        Self {
            response: ticks(upstream.response_timeout),
            idle: ticks(upstream.idle_timeout),
        }
    }
}

/// The time limits of one exchange.
#[derive(Debug)]
pub(super) struct Patience {
    pub(super) clock: Arc<Clock>,
    pub(super) limits: Limits,
    pub(super) upload: Option<Arc<Upload>>,
}

impl Patience {
    /// The request goes out.
    pub(super) fn begin(&self, pulse: &Pulse) {
        let wait = match &self.upload {
            Some(upload) if upload.is_held() => ticks(CONTINUE_WAIT),
            _ => self.limits.response,
        };
        pulse.arm(self.clock.now().saturating_add(wait));
    }

    /// Whether the head of the answer is overdue.
    ///
    /// The time counts from when the upstream last took some of the body, and not at all while it is
    /// the client that is waited for; a client has as long as any body.
    pub(super) fn head_overdue(&self, pulse: &Pulse) -> Option<ForwardError> {
        let now = self.clock.now();
        if now < pulse.limit() {
            return None;
        }
        let Some(upload) = &self.upload else {
            return Some(ForwardError::TimedOut);
        };
        if upload.is_held() {
            pulse.arm(now.saturating_add(self.limits.response));
            upload.release();
            return None;
        }
        let (limit, error) = if upload.is_waiting() {
            let limit = self.limits.idle.max(self.limits.response);
            (limit, ForwardError::SlowRequestBody)
        } else {
            (self.limits.response, ForwardError::TimedOut)
        };
        let end = upload.moved().saturating_add(limit);
        pulse.arm(end);
        (end <= now).then_some(error)
    }

    /// The body of the answer is waited for.
    pub(super) fn wait(&self, pulse: &Pulse) {
        pulse.arm(self.clock.now().saturating_add(self.limits.idle));
    }

    /// Whether nothing has moved in either direction for too long.
    pub(super) fn body_overdue(&self, pulse: &Pulse) -> Option<ForwardError> {
        let now = self.clock.now();
        if now < pulse.limit() {
            return None;
        }
        if let Some(upload) = &self.upload {
            let end = upload.moved().saturating_add(self.limits.idle);
            if now < end {
                pulse.arm(end);
                return None;
            }
        }
        Some(ForwardError::Stalled)
    }

    /// What a failure of the connection means.
    pub(super) fn explain(&self, error: &hyper::Error) -> ForwardError {
        match &self.upload {
            Some(upload) if upload.has_failed() => ForwardError::BadRequestBody,
            _ => ForwardError::of(error),
        }
    }
}

use std::time::Duration;

use tollward_policy::GatewaySettings;

use crate::ticks::ticks;

/// The bounds of a connection, in the units in which they are used.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) header_ticks: u64,
    pub(super) idle_ticks: u64,
    pub(super) header_bytes: usize,
    pub(super) body: Option<u64>,
    pub(super) idle: Duration,
}

impl Limits {
    pub(super) fn new(settings: &GatewaySettings) -> Self {
        Self {
            header_ticks: ticks(settings.header_timeout),
            idle_ticks: ticks(settings.idle_timeout),
            header_bytes: settings.max_header_bytes,
            body: settings.max_body,
            idle: settings.idle_timeout,
        }
    }
}

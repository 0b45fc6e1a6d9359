//! How a gate behaves where its owner says otherwise.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use http::StatusCode;
use tollward_http::Problem;

use crate::Gate;

/// What a gate does with a request whose peer address is unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Address {
    /// The gate refuses the request with 500, and logs once how to provide the address. The default:
    /// without addresses, limits by address would put all callers into one bucket, and the first caller
    /// to empty it would lock out the others.
    #[default]
    Required,
    /// The gate decides without the address. Nobody is a trusted proxy then, so forwarding headers are
    /// ignored. No limit is loosened: where a limit counts by address, for want of a better identity
    /// or because its scope is `ip`, **all callers without an address share one bucket**. So do their
    /// wrong API keys.
    ///
    /// Meant for services whose callers have no address, such as those on a Unix socket, or whose
    /// limits do not count by address.
    Unknown,
}

/// What the owner of a gate has said. Shared by its clones.
#[derive(Clone, Default)]
pub(crate) struct Hooks {
    address: Address,
    /// Whether a missing address has been logged.
    reported: Arc<AtomicBool>,
}

impl Gate {
    /// Sets what happens to a request whose peer address is unknown.
    #[must_use]
    pub fn address(mut self, address: Address) -> Self {
        Arc::make_mut(&mut self.hooks).address = address;
        self
    }
}

impl Hooks {
    /// What is wrong with a request without an address; none if the owner has opted out. Logged the first
    /// time only: it is true of every request.
    pub(crate) fn without_address(&self) -> Option<Problem> {
        if self.address == Address::Unknown {
            return None;
        }
        if !self.reported.swap(true, Relaxed) {
            tracing::error!(
                "requests were refused with 500: the rate limiter was given no peer address. With axum, \
                 enable the feature `axum` of tollward-tower and serve with \
                 `into_make_service_with_connect_info::<SocketAddr>()`. With tonic, enable the feature \
                 `tonic`. Elsewhere, insert a `tollward_tower::Peer` into the extensions of each \
                 request. To do without addresses, say `.address(Address::Unknown)`."
            );
        }
        let detail =
            "The rate limiter was given no peer address. The log of the server says how to fix it.";
        let problem = Problem::new(StatusCode::INTERNAL_SERVER_ERROR, detail);
        Some(problem.with("reason", "no_address"))
    }
}

use std::net::IpAddr;

use tollward_policy::{Policy, Request};

use crate::decision::Decision;

/// Whoever keeps records of decisions.
///
/// It is told on the thread that decided, while the caller waits for the answer: it must not block, nor
/// fail, and should allocate nothing for a request that is let through.
pub trait Observer: Send + Sync {
    /// A request was decided about and charged. What is only looked at is not told.
    fn decided(&self, request: &Request<'_, '_>, decision: &Decision<'_>);

    /// An address has tried a wrong API key, and this was decided about its next try. None is an address
    /// that nobody could tell.
    fn guessed(&self, policy: &Policy, ip: Option<IpAddr>, decision: &Decision<'_>);
}

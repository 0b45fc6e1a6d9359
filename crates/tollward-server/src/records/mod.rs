//! What is kept of what happened: usage, the audit trail, when keys were last used.
//!
//! A decision only adds to sums in memory (`table.rs`), which are bounded: `usage.rs` by tenant, plan and
//! route, `refusals.rs` by caller and limit, `touches.rs` by key. A task (`recorder.rs`) takes them now and
//! then and writes them to the directory; events (`audit.rs`) also go to a log of lines. Whatever is slow,
//! full or away costs records, which is counted, and never a decision.

mod audit;
mod event;
mod node;
mod recorder;
mod refusals;
mod table;
#[cfg(test)]
mod tests;
mod touches;
mod usage;

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tollward_core::Timestamp;
use tollward_directory::{AuditEvent, Directory};
use tollward_engine::{Clock, Decision, Engine, Observer};
use tollward_gateway::UpstreamFailed;
use tollward_policy::{AuditSettings, Identifier, Policy, Request, UsageSettings};

use audit::Audit;
use refusals::Refusals;
use touches::Touches;
use usage::{Sums, Usage, Who};

pub(crate) use event::Severity;
pub(crate) use node::node_name;
pub(crate) use recorder::Recorder;

/// Whoever has something to be kept. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Records(Arc<Inner>);

struct Inner {
    node: Box<str>,
    usage: Usage,
    refusals: Refusals,
    touches: Touches,
    audit: Audit,
    /// Requests that the directory will never count where they belong.
    usage_dropped: AtomicU64,
    /// Uses of keys that the directory will never know of.
    touches_dropped: AtomicU64,
}

/// What is missing in the records, since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Gaps {
    /// Requests that are not counted under their tenant, plan and route.
    pub(crate) usage: u64,
    /// Events that are not in the directory.
    pub(crate) audit_directory: u64,
    /// Events that are not in the log.
    pub(crate) audit_log: u64,
    /// Uses of API keys that are not noted.
    pub(crate) key_uses: u64,
}

impl Records {
    /// Opens the log. What is recorded is written when the [`Recorder`] runs; `node` is the name of this one.
    ///
    /// # Errors
    ///
    /// The file of the audit log cannot be opened.
    pub(crate) fn open(
        node: &str,
        directory: Directory,
        clock: Arc<dyn Clock>,
        audit: &AuditSettings,
        usage: &UsageSettings,
    ) -> io::Result<(Self, Recorder)> {
        let (log, written) = Audit::open(&audit.log)?;
        let records = Self(Arc::new(Inner {
            node: node.into(),
            usage: Usage::new(),
            refusals: Refusals::new(),
            touches: Touches::new(),
            audit: log,
            usage_dropped: AtomicU64::new(0),
            touches_dropped: AtomicU64::new(0),
        }));
        let recorder = Recorder::new(records.clone(), directory, clock, audit, usage, written);
        Ok((records, recorder))
    }

    /// The name of this node.
    pub(crate) fn node(&self) -> &str {
        &self.0.node
    }

    /// Records an event that is not part of a change to the directory: in the log and in the directory.
    pub(crate) fn record(&self, event: AuditEvent) {
        self.0.audit.record(self.signed(event));
    }

    /// Writes an event to the log that was written to the directory already, with the change that it is of.
    pub(crate) fn line(&self, event: &AuditEvent) {
        self.0.audit.line(&self.signed(event.clone()));
    }

    /// Somebody has tried a wrong token at the admin door.
    pub(crate) fn wrong_token(&self, identifier: Identifier<'_>, at: Timestamp) {
        self.0.refusals.wrong_token(identifier, at);
    }

    /// What is missing.
    pub(crate) fn gaps(&self) -> Gaps {
        let Inner {
            usage,
            touches,
            audit,
            usage_dropped,
            touches_dropped,
            ..
        } = &*self.0;
        Gaps {
            usage: usage.misplaced() + usage_dropped.load(Relaxed),
            audit_directory: audit.dropped(),
            audit_log: audit.lines_lost(),
            key_uses: touches.dropped() + touches_dropped.load(Relaxed),
        }
    }

    /// Counts the failures of upstreams that a gateway tells.
    pub(crate) fn upstream_failed(&self, engine: Arc<Engine>) -> UpstreamFailed {
        let records = self.clone();
        Arc::new(move |tenant, plan, route| {
            let active = engine.active();
            let tenant = tenant.filter(|tenant| active.policy().tenant(tenant).is_some());
            let at = calendar(engine.clock());
            let error = Sums {
                errors: 1,
                ..Sums::default()
            };
            records
                .0
                .usage
                .add(Who::new(at, tenant, plan, route), error);
        })
    }

    /// An event that says which node tells it.
    fn signed(&self, event: AuditEvent) -> AuditEvent {
        match event.node.is_empty() {
            true => AuditEvent {
                node: self.node().to_owned(),
                ..event
            },
            false => event,
        }
    }
}

impl Observer for Records {
    fn decided(&self, request: &Request<'_, '_>, decision: &Decision<'_>) {
        let Inner {
            usage,
            refusals,
            touches,
            ..
        } = &*self.0;
        usage.decided(request, decision);
        if let Some(key) = request.key_hash() {
            touches.touch(key, decision.at);
        }
        if !decision.allowed
            && let Some(status) = decision.shown()
        {
            let identifier = request.identifier(status.limit);
            let warning = Severity::Warning;
            refusals.add(identifier, warning, status, request.route(), decision);
        }
    }

    fn guessed(&self, policy: &Policy, ip: Option<IpAddr>, decision: &Decision<'_>) {
        if !decision.allowed
            && let Some(status) = decision.shown()
        {
            let identifier = policy.address_identifier(ip);
            let refusals = &self.0.refusals;
            refusals.add(identifier, Severity::Critical, status, None, decision);
        }
    }
}

/// What a calendar shows.
fn calendar(clock: &dyn Clock) -> Timestamp {
    clock.calendar(clock.now())
}

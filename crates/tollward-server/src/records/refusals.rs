//! Refusals, of which one caller can make millions: one event for all that one limit refused it in an
//! interval.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tollward_core::{Algorithm, Timestamp};
use tollward_directory::AuditEvent;
use tollward_engine::{Decision, LimitStatus};
use tollward_policy::Identifier;

use super::event::Severity;
use super::table::{Lookup, Table};

/// Events of one interval. What is beyond is one event for all.
const MAX_EVENTS: usize = 10_000;
/// Whom that event is about.
const OTHERS: &str = "(others)";
const EXCEEDED: &str = "rate_limit_exceeded";
const WRONG_TOKEN: &str = "admin_wrong_token";
const WINDOW_EXCEEDED: &str = "sliding_window_limit_exceeded";

/// What was refused since somebody asked.
pub(super) struct Refusals {
    callers: Table<Whom<'static>, Refused>,
    max_events: usize,
    /// Refusals of callers that there was no room for, and the Unix microseconds of the last.
    others: AtomicU64,
    others_last_us: AtomicU64,
}

/// Whom what refused where.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Whom<'a> {
    identifier: Identifier<'a>,
    severity: Severity,
    event: &'static str,
    limit: Cow<'a, str>,
    scope: Cow<'a, str>,
    route: Cow<'a, str>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Refused {
    count: u64,
    /// Unix microseconds.
    last_us: u64,
    retry_after_ms: Option<u64>,
}

impl Refusals {
    pub(super) fn new() -> Self {
        Self::with_room(MAX_EVENTS)
    }

    fn with_room(max_events: usize) -> Self {
        Self {
            callers: Table::new(max_events),
            max_events,
            others: AtomicU64::new(0),
            others_last_us: AtomicU64::new(0),
        }
    }

    /// A limit has refused a request.
    pub(super) fn add(
        &self,
        identifier: Identifier<'_>,
        severity: Severity,
        status: &LimitStatus<'_>,
        route: Option<&str>,
        decision: &Decision<'_>,
    ) {
        let whom = Whom {
            identifier,
            severity,
            event: match status.limit.limit.algorithm() {
                Algorithm::TokenBucket => EXCEEDED,
                Algorithm::SlidingWindow => WINDOW_EXCEEDED,
            },
            limit: Cow::Borrowed(&status.limit.name),
            scope: Cow::Borrowed(&status.limit.scope_text),
            route: Cow::Borrowed(route.unwrap_or_default()),
        };
        let retry_after_ms = decision.retry_after_ms();
        let known = self.callers.change(&whom, |refused| {
            refused.add(1, decision.at, retry_after_ms);
        });
        if !known {
            self.add_others(1, decision.at.as_micros());
        }
    }

    /// An address has tried a wrong token of the admin door.
    pub(super) fn wrong_token(&self, identifier: Identifier<'_>, at: Timestamp) {
        let whom = Whom {
            identifier,
            severity: Severity::Critical,
            event: WRONG_TOKEN,
            limit: Cow::Borrowed(""),
            scope: Cow::Borrowed(""),
            route: Cow::Borrowed(""),
        };
        let known = self
            .callers
            .change(&whom, |refused| refused.add(1, at, None));
        if !known {
            self.add_others(1, at.as_micros());
        }
    }

    /// Takes what was refused since the last time, as events in no order.
    pub(super) fn take(&self) -> Vec<AuditEvent> {
        let mut callers: HashMap<Whom<'static>, Refused> = HashMap::new();
        for (whom, refused) in self.callers.take() {
            if callers.len() < self.max_events || callers.contains_key(&whom) {
                callers.entry(whom).or_default().merge(&refused);
            } else {
                self.add_others(refused.count, refused.last_us);
            }
        }
        let events = callers.into_iter();
        let mut events: Vec<AuditEvent> = events
            .map(|(whom, refused)| {
                let event = refused.event(whom.identifier.to_string());
                whom.event(event)
            })
            .collect();
        let count = self.others.swap(0, Relaxed);
        if count > 0 {
            let last_us = self.others_last_us.load(Relaxed);
            let others = Refused {
                count,
                last_us,
                retry_after_ms: None,
            };
            events.push(others.event(OTHERS.to_owned()));
        }
        events
    }

    fn add_others(&self, count: u64, last_us: u64) {
        self.others.fetch_add(count, Relaxed);
        self.others_last_us.fetch_max(last_us, Relaxed);
    }
}

impl Refused {
    fn add(&mut self, count: u64, at: Timestamp, retry_after_ms: Option<u64>) {
        self.merge(&Self {
            count,
            last_us: at.as_micros(),
            retry_after_ms,
        });
    }

    /// The wait is that of the last.
    fn merge(&mut self, other: &Self) {
        self.count = self.count.saturating_add(other.count);
        if other.last_us >= self.last_us {
            self.last_us = other.last_us;
            self.retry_after_ms = other.retry_after_ms;
        }
    }

    /// What is known of it, whoever it was.
    fn event(&self, identifier: String) -> AuditEvent {
        let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        AuditEvent {
            at: number(self.last_us / 1000),
            event: EXCEEDED.to_owned(),
            severity: Severity::Warning.word().to_owned(),
            identifier: Some(identifier),
            retry_after_ms: self.retry_after_ms.map(number),
            count: number(self.count),
            ..AuditEvent::default()
        }
    }
}

impl Whom<'static> {
    /// The event, with what it was about.
    fn event(self, event: AuditEvent) -> AuditEvent {
        let text =
            |text: Cow<'static, str>| Some(text.into_owned()).filter(|text| !text.is_empty());
        AuditEvent {
            event: self.event.to_owned(),
            severity: self.severity.word().to_owned(),
            limit: text(self.limit),
            scope: text(self.scope),
            route: text(self.route),
            ..event
        }
    }
}

impl Lookup for Whom<'_> {
    type Key = Whom<'static>;

    fn is(&self, key: &Whom<'static>) -> bool {
        self == key
    }

    fn to_key(&self) -> Whom<'static> {
        let owned = |text: &str| Cow::Owned(text.to_owned());
        Whom {
            identifier: self.identifier.clone().into_owned(),
            severity: self.severity,
            event: self.event,
            limit: owned(&self.limit),
            scope: owned(&self.scope),
            route: owned(&self.route),
        }
    }
}

#[cfg(test)]
mod tests;

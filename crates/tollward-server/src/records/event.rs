//! Events of the audit trail as lines of JSON.

use serde::{Serialize, Serializer};
use serde_json::Value;
use tollward_directory::AuditEvent;
use tollward_http::iso_ms;

/// How bad an event is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Severity {
    /// All is as it should be.
    Info,
    /// Somebody should know.
    Warning,
    /// Somebody should do something.
    Critical,
}

impl Severity {
    /// As it is written.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Critical => "critical",
        }
    }
}

/// An event as a line: what does not apply is left out.
#[derive(Clone, Debug)]
pub(super) struct Line(pub(super) AuditEvent);

#[derive(Serialize)]
struct Fields<'a> {
    time: String,
    event: &'a str,
    severity: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    identifier: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    scope: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    route: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<&'a str>,
    /// In whole seconds, as callers are told.
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    count: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    actor: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    before: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    after: Option<Value>,
    #[serde(skip_serializing_if = "str::is_empty")]
    node: &'a str,
}

impl Serialize for Line {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(event) = self;
        // Text that is no JSON is told as text.
        let value = |text: &String| {
            serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.clone()))
        };
        let secs = |ms: i64| ms.max(0).unsigned_abs().div_ceil(1000).max(1);
        let fields = Fields {
            time: iso_ms(event.at.max(0).unsigned_abs()),
            event: &event.event,
            severity: &event.severity,
            identifier: event.identifier.as_deref(),
            scope: event.scope.as_deref(),
            route: event.route.as_deref(),
            limit: event.limit.as_deref(),
            retry_after: event.retry_after_ms.map(|ms| secs(ms).cast_signed()),
            count: Some(event.count).filter(|count| *count > 0),
            actor: event.actor.as_deref(),
            from: event.address.as_deref(),
            before: event.before.as_ref().map(value),
            after: event.after.as_ref().map(value),
            node: &event.node,
        };
        fields.serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(event: AuditEvent) -> String {
        serde_json::to_string(&Line(event)).unwrap()
    }

    #[test]
    fn a_refusal() {
        let text = line(AuditEvent {
            at: 1_765_469_725_678,
            event: "rate_limit_exceeded".into(),
            severity: Severity::Warning.word().into(),
            identifier: Some("user:alice\n".into()),
            scope: Some("user".into()),
            route: Some("/a/**".into()),
            limit: Some("plan:free".into()),
            retry_after_ms: Some(1001),
            count: 7,
            node: "n1".into(),
            ..AuditEvent::default()
        });
        assert_eq!(
            text,
            "{\"time\":\"2025-12-11T16:15:25.678Z\",\"event\":\"rate_limit_exceeded\",\
             \"severity\":\"warning\",\"identifier\":\"user:alice\\n\",\"scope\":\"user\",\
             \"route\":\"/a/**\",\"limit\":\"plan:free\",\"retry_after\":2,\"count\":7,\"node\":\"n1\"}"
        );
    }

    #[test]
    fn a_change() {
        let text = line(AuditEvent {
            event: "tenant_changed".into(),
            severity: Severity::Info.word().into(),
            actor: Some("admin".into()),
            address: Some("192.0.2.7".into()),
            before: Some("{\n \"plan\": null\n}".into()),
            after: Some("not JSON".into()),
            ..AuditEvent::default()
        });
        assert_eq!(
            text,
            "{\"time\":\"1970-01-01T00:00:00.000Z\",\"event\":\"tenant_changed\",\"severity\":\"info\",\
             \"actor\":\"admin\",\"from\":\"192.0.2.7\",\"before\":{\"plan\":null},\"after\":\"not JSON\"}"
        );
    }
}

use http::StatusCode;
use serde_json::{Map, Value, json};

/// An error as RFC 9457 writes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The HTTP status.
    pub status: StatusCode,
    /// What went wrong this time, and what to do about it.
    pub detail: String,
    members: Map<String, Value>,
}

impl Problem {
    /// The media type of a problem.
    pub const MEDIA_TYPE: &'static str = "application/problem+json";

    /// A problem that is no more than its status, explained.
    pub fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        Self {
            status,
            detail: detail.into(),
            members: Map::new(),
        }
    }

    /// Adds a member of its own.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.members.insert(name.into(), value.into());
        self
    }

    /// Its member `reason`: a word for programs.
    pub fn reason(&self) -> Option<&str> {
        self.members.get("reason")?.as_str()
    }

    /// The members, as JSON.
    pub fn to_json(&self) -> Value {
        let mut problem = json!({
            "type": "about:blank",
            "title": self.status.canonical_reason().unwrap_or("Error"),
            "status": self.status.as_u16(),
            "detail": self.detail,
        });
        if let Value::Object(members) = &mut problem {
            members.extend(self.members.clone());
        }
        problem
    }
}

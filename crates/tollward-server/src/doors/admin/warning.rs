//! What is worth a thought about something that was done.

use serde::Serialize;
use serde_json::{Number, Value};
use utoipa::ToSchema;

use super::answer::Answer;

/// Something that was done, and is worth a thought.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub(super) struct Warning {
    /// `overcommitted`: the children of a tenant were given more than its budget, as they may be.
    /// `not_kept`: what was made is gone when the server stops.
    pub(super) reason: &'static str,
    /// What it is about, and what to do about it.
    pub(super) detail: String,
    /// `overcommitted`: the tenant whose budget it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tenant: Option<String>,
    /// `overcommitted`: what the children were given together.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<f64>)]
    pub(super) sum: Option<Number>,
    /// `overcommitted`: all there is to be given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) budget: Option<u32>,
    /// `overcommitted`: how many times that may be given.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<f64>)]
    pub(super) ratio: Option<Number>,
    /// `overcommitted`: what may still be given.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<f64>)]
    pub(super) free: Option<Number>,
    /// `overcommitted`: the window of these numbers, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) window_secs: Option<u32>,
}

impl Warning {
    /// One without numbers.
    pub(super) fn new(reason: &'static str, detail: impl Into<String>) -> Self {
        Self {
            reason,
            detail: detail.into(),
            tenant: None,
            sum: None,
            budget: None,
            ratio: None,
            free: None,
            window_secs: None,
        }
    }

    /// What was made lives in the memory of this node.
    pub(super) fn not_kept() -> Self {
        Self::new(
            "not_kept",
            "The directory is in the memory of this node: this is gone when the server stops, and other nodes do \
             not know it. Set `directory.url`, or start the server with --directory, to keep it.",
        )
    }

    /// Adds it to those that an answer has.
    pub(super) fn add_to(self, answer: &mut Answer) {
        let Ok(warning) = serde_json::to_value(self) else {
            return;
        };
        match &mut answer.body["warnings"] {
            Value::Array(warnings) => warnings.push(warning),
            none => *none = Value::Array(vec![warning]),
        }
    }
}

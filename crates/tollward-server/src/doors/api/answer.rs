use serde::ser::SerializeSeq;
use serde::{Serialize, Serializer};
use tollward_engine::{Decision, LimitStatus};
use tollward_http::{Problem, Told, status};
use tollward_policy::ResponseOptions;

/// A decision as the API answers it.
#[derive(Serialize)]
pub(super) struct Answer<'a, 'p> {
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    allowed: bool,
    action: &'static str,
    reason: Option<&'static str>,
    binding: Option<&'a str>,
    limit: Option<u32>,
    remaining: Option<u32>,
    reset_at: Option<u64>,
    retry_after: Option<u64>,
    retry_after_ms: Option<u64>,
    source: &'static str,
    limits: Limits<'a, 'p>,
}

impl<'a, 'p> Answer<'a, 'p> {
    pub(super) fn new(told: &Told<'a, 'p>) -> Self {
        let (decision, options) = (told.decision, told.options);
        let shown = decision.shown();
        Self {
            status: None,
            allowed: decision.allowed,
            action: decision.action.word(),
            reason: decision.reason.map(|reason| reason.word()),
            binding: shown.map(|it| &*it.limit.name),
            limit: shown.map(|it| it.limit.shown(options.limit)),
            remaining: shown.map(|it| it.remaining),
            reset_at: shown.map(|it| decision.reset_at(it)),
            retry_after: told.retry_after_secs(),
            retry_after_ms: told.retry_after_ms(),
            source: decision.source.word(),
            limits: Limits(decision, options),
        }
    }
}

struct Limits<'a, 'p>(&'a Decision<'p>, &'a ResponseOptions);

impl Serialize for Limits<'_, '_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(decision, options) = self;
        let mut list = serializer.serialize_seq(Some(decision.limits.len()))?;
        for status in &decision.limits {
            list.serialize_element(&Limit::new(decision, status, options))?;
        }
        list.end()
    }
}

#[derive(Serialize)]
struct Limit<'a> {
    name: &'a str,
    scope: &'a str,
    limit: u32,
    remaining: u32,
    reset_at: u64,
    denied: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    shadow: bool,
}

impl<'a> Limit<'a> {
    fn new(decision: &Decision<'_>, status: &LimitStatus<'a>, options: &ResponseOptions) -> Self {
        Self {
            name: &status.limit.name,
            scope: &status.limit.scope_text,
            limit: status.limit.shown(options.limit),
            remaining: status.remaining,
            reset_at: decision.reset_at(status),
            denied: status.denied,
            shadow: status.shadow,
        }
    }
}

/// The answers to a batch, written as they come.
pub(super) struct BatchAnswer {
    text: Vec<u8>,
}

const OPENING: &[u8] = b"{\"results\":[";

impl BatchAnswer {
    pub(super) fn with_capacity(items: usize) -> Self {
        let mut text = Vec::with_capacity(32 + items * 384);
        text.extend_from_slice(OPENING);
        Self { text }
    }

    pub(super) fn push(&mut self, told: &Told<'_, '_>) {
        let answer = Answer {
            status: Some(status(told.decision).as_u16()),
            ..Answer::new(told)
        };
        self.write(&answer);
    }

    pub(super) fn push_problem(&mut self, problem: &Problem) {
        self.write(&problem.to_json());
    }

    pub(super) fn finish(mut self) -> Vec<u8> {
        self.text.extend_from_slice(b"]}");
        self.text
    }

    fn write(&mut self, item: &impl Serialize) {
        if self.text.len() > OPENING.len() {
            self.text.push(b',');
        }
        // Plain data into memory: this does not fail.
        let _ = serde_json::to_writer(&mut self.text, item);
    }
}

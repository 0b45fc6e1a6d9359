//! Checks, from their texts to their answers.

use std::sync::Arc;
use std::time::Duration;

use http::header::HeaderValue;
use http::{Response, StatusCode};
use http_body_util::Full;
use hyper::body::Bytes;
use serde_json::value::RawValue;
use tollward_engine::{Action, Active, Decision, Engine, Mode};
use tollward_http::{DEGRADED, Problem, Told, rejected, status};

use super::Reader;
use super::answer::{Answer, BatchAnswer};
use super::question::{BatchQuestion, Question};
use crate::doors::{body, reply};
use crate::metrics::Metrics;

/// The most checks in a batch.
const MAX_BATCH: usize = 1000;
/// What a body is said not to be.
const CHECK: &str = "a check";

/// What decides about checks. It borrows nothing, so that it may outlive who asked.
pub(super) struct Checks {
    pub(super) engine: Arc<Engine>,
    pub(super) metrics: Arc<Metrics>,
}

/// What was decided.
pub(super) struct Checked {
    pub(super) response: Response<Full<Bytes>>,
    /// How long the answer is to be held back.
    pub(super) wait: Option<Duration>,
}

impl Checks {
    /// Decides about one.
    pub(super) async fn one(&self, text: &[u8], reader: Reader) -> Result<Checked, Problem> {
        let question: Question<'_> = body::read_object(text, CHECK)?;
        let active = self.engine.active();
        let decision = self.decide(&active, &question).await?;
        let told = Told::new(&decision, active.policy().response());
        let mut response = match reader {
            Reader::Caller => {
                reply::json(status(&decision), "application/json", &Answer::new(&told))
            }
            Reader::Client if decision.allowed => Response::new(Full::default()),
            Reader::Client => {
                let (media_type, body) = told.refusal();
                reply::json(status(&decision), media_type, &body)
            }
        };
        told.write_headers(response.headers_mut());
        let mut wait = None;
        if reader == Reader::Client {
            if decision.degraded.is_some() {
                let yes = HeaderValue::from_static("true");
                response.headers_mut().insert(DEGRADED, yes);
            }
            let is_queued = decision.action == Action::Queue && question.mode() == Mode::Charge;
            let wait_us = decision.wait_us.filter(|_| is_queued);
            wait = wait_us.map(Duration::from_micros);
        }
        Ok(Checked { response, wait })
    }

    /// Every item is decided by itself, in order, all under the same policy.
    pub(super) async fn batch(&self, text: &[u8]) -> Result<Checked, Problem> {
        let batch: BatchQuestion<'_> = body::read_object(text, CHECK)?;
        if batch.checks.len() > MAX_BATCH {
            return Err(Problem::new(
                StatusCode::PAYLOAD_TOO_LARGE,
                format!("A batch has at most {MAX_BATCH} checks. Send several."),
            ));
        }
        let active = self.engine.active();
        let options = active.policy().response();
        let mut results = BatchAnswer::with_capacity(batch.checks.len());
        for check in batch.checks {
            match self.item(&active, check).await {
                Ok(decision) => results.push(&Told::new(&decision, options)),
                Err(problem) => results.push_problem(&problem),
            }
        }
        let response = reply::reply(StatusCode::OK, "application/json", results.finish());
        let wait = None;
        Ok(Checked { response, wait })
    }

    async fn item<'p>(
        &self,
        active: &'p Active,
        item: &'p RawValue,
    ) -> Result<Decision<'p>, Problem> {
        let question: Question<'p> = body::read_object(item.get().as_bytes(), CHECK)?;
        self.decide(active, &question).await
    }

    async fn decide<'p>(
        &self,
        active: &'p Active,
        question: &Question<'_>,
    ) -> Result<Decision<'p>, Problem> {
        let facts = question.facts()?;
        let start = self.engine.clock().now();
        let decided = self.engine.check(active, &facts, question.mode()).await;
        let micros = self.engine.clock().now().micros_since(start);
        self.metrics.decided(micros);
        decided.map_err(|rejection| rejected(&rejection))
    }
}

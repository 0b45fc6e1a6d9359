//! The decision API: facts in JSON, decisions in JSON.

mod answer;
mod question;

use std::net::SocketAddr;
use std::sync::Arc;

use http::header::{ALLOW, AUTHORIZATION, HeaderValue, WWW_AUTHENTICATE};
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use serde_json::value::RawValue;
use subtle::ConstantTimeEq;
use tollgate_engine::{Active, Decision, Engine};
use tollgate_http::{Problem, refusal, status, write_headers};
use tollgate_policy::Rejection;

use self::answer::{Answer, BatchAnswer};
use self::question::{BatchQuestion, Question};
use super::listener::Door;
use super::{body, reply};
use crate::metrics::Metrics;
use crate::server::Access;

/// The longest body of a single check.
const MAX_CHECK_BYTES: usize = 64 * 1024;
/// The longest body of a batch.
const MAX_BATCH_BYTES: usize = 1024 * 1024;
/// The most checks in a batch.
const MAX_BATCH: usize = 1000;

pub(crate) struct Api {
    pub(crate) engine: Arc<Engine>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) access: Access,
}

/// Who reads the answer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reader {
    /// The caller: the whole decision, in JSON.
    Caller,
    /// The caller's client, to whom it is passed on: what a gateway would have answered.
    Client,
}

impl Door for Api {
    async fn answer(&self, peer: SocketAddr, request: Request<Incoming>) -> Response<Full<Bytes>> {
        match self.route(peer, request).await {
            Ok(response) => response,
            Err(problem) => {
                let mut response = reply::problem(&problem);
                let headers = response.headers_mut();
                match problem.status {
                    StatusCode::METHOD_NOT_ALLOWED => {
                        headers.insert(ALLOW, HeaderValue::from_static("POST"));
                    }
                    StatusCode::UNAUTHORIZED => {
                        headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
                    }
                    StatusCode::PAYLOAD_TOO_LARGE | StatusCode::REQUEST_TIMEOUT => {
                        return reply::closing(response);
                    }
                    _ => {}
                }
                response
            }
        }
    }
}

impl Api {
    async fn route(
        &self,
        peer: SocketAddr,
        request: Request<Incoming>,
    ) -> Result<Response<Full<Bytes>>, Problem> {
        let token = request.headers().get(AUTHORIZATION);
        if !self.access.admits(peer, token.map(HeaderValue::as_bytes)) {
            return Err(Problem::new(
                StatusCode::UNAUTHORIZED,
                "Send `Authorization: Bearer` with the token of this door.",
            ));
        }
        let batch = match request.uri().path() {
            "/v1/check" => false,
            "/v1/check/batch" => true,
            _ => {
                return Err(Problem::new(
                    StatusCode::NOT_FOUND,
                    "There is POST /v1/check and POST /v1/check/batch here.",
                ));
            }
        };
        if request.method() != Method::POST {
            return Err(Problem::new(StatusCode::METHOD_NOT_ALLOWED, "Use POST."));
        }
        let reader = reader(request.uri().query(), batch)?;
        let max = if batch {
            MAX_BATCH_BYTES
        } else {
            MAX_CHECK_BYTES
        };
        let text = body::read(request.into_body(), max).await?;
        if batch {
            self.check_batch(&text).await
        } else {
            self.check(&text, reader).await
        }
    }

    async fn check(&self, text: &[u8], reader: Reader) -> Result<Response<Full<Bytes>>, Problem> {
        let question: Question<'_> = serde_json::from_slice(text).map_err(|it| bad_json(&it))?;
        let active = self.engine.active();
        let decision = self.decide(&active, &question).await?;
        let options = active.policy().response();
        let mut response = match reader {
            Reader::Caller => reply::json(
                status(&decision),
                "application/json",
                &Answer::new(&decision, options),
            ),
            Reader::Client if decision.allowed => Response::new(Full::default()),
            Reader::Client => {
                let (media_type, body) = refusal(&decision, options);
                reply::json(status(&decision), media_type, &body)
            }
        };
        write_headers(&decision, options, response.headers_mut());
        Ok(response)
    }

    /// Every item is decided by itself, in order, all under the same policy.
    async fn check_batch(&self, text: &[u8]) -> Result<Response<Full<Bytes>>, Problem> {
        let batch: BatchQuestion<'_> = serde_json::from_slice(text).map_err(|it| bad_json(&it))?;
        if batch.checks.len() > MAX_BATCH {
            return Err(Problem::new(
                StatusCode::PAYLOAD_TOO_LARGE,
                format!("A batch has at most {MAX_BATCH} checks. Send several."),
            ));
        }
        let active = self.engine.active();
        let options = active.policy().response();
        let mut results = BatchAnswer::with_capacity(batch.checks.len());
        for item in batch.checks {
            match self.check_item(&active, item).await {
                Ok(decision) => results.push(&decision, options),
                Err(problem) => results.push_problem(&problem),
            }
        }
        Ok(reply::reply(
            StatusCode::OK,
            "application/json",
            results.finish(),
        ))
    }

    async fn check_item<'p>(
        &self,
        active: &'p Active,
        item: &'p RawValue,
    ) -> Result<Decision<'p>, Problem> {
        let question: Question<'p> =
            serde_json::from_str(item.get()).map_err(|it| bad_json(&it))?;
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
        decided.map_err(|rejection| {
            let problem = match rejection {
                Rejection::UnknownKey => {
                    Problem::new(StatusCode::UNAUTHORIZED, rejection.to_string())
                }
                _ => Problem::new(StatusCode::BAD_REQUEST, rejection.to_string()),
            };
            problem.with("reason", reason(&rejection))
        })
    }
}

impl Access {
    /// Whether this peer may ask: from this machine, from a network that is trusted, or with the token.
    fn admits(&self, peer: SocketAddr, authorization: Option<&[u8]>) -> bool {
        let ip = peer.ip().to_canonical();
        if ip.is_loopback() || self.peers.iter().any(|net| net.contains(&ip)) {
            return true;
        }
        let (Some(token), Some(sent)) = (&self.token, authorization) else {
            return false;
        };
        let sent = sent.strip_prefix(b"Bearer ").unwrap_or_default();
        sent.ct_eq(token.as_bytes()).into()
    }
}

fn reader(query: Option<&str>, batch: bool) -> Result<Reader, Problem> {
    match query {
        None | Some("") => Ok(Reader::Caller),
        Some("answer=client") if !batch => Ok(Reader::Client),
        Some(_) => Err(Problem::new(
            StatusCode::BAD_REQUEST,
            "The only query is `?answer=client`, on /v1/check.",
        )),
    }
}

fn bad_json(error: &serde_json::Error) -> Problem {
    Problem::new(
        StatusCode::BAD_REQUEST,
        format!("The body is not a check: {error}."),
    )
    .with("reason", "bad_input")
}

fn reason(rejection: &Rejection) -> &'static str {
    match rejection {
        Rejection::UnknownKey => "unknown_key",
        Rejection::UnknownPlan(_) => "unknown_plan",
        Rejection::UnknownTenant(_) => "unknown_tenant",
        Rejection::KeyMismatch(_) => "key_mismatch",
        Rejection::Path(_) => "ambiguous_path",
        Rejection::Method => "bad_method",
    }
}

//! Asking a running server.

use std::fmt;
use std::time::Duration;

use anyhow::{Context, bail};
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderName};
use http::{HeaderMap, Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// A server to ask.
pub(super) struct Client<'a> {
    pub(super) url: &'a Uri,
    pub(super) token: Option<&'a str>,
}

/// What to ask it.
#[derive(Clone, Debug, Default)]
pub(super) struct Question {
    pub(super) method: Method,
    pub(super) target: String,
    pub(super) headers: Vec<(HeaderName, String)>,
    pub(super) body: Vec<u8>,
}

/// What it answered.
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    /// As it came.
    pub(super) text: String,
    pub(super) json: Value,
}

/// The server was reached, and may have done what it was asked to; its answer did not come.
#[derive(Debug)]
pub(super) struct Lost(String);

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Lost {}

/// A server that has not answered by then will not.
const TIMEOUT: Duration = Duration::from_secs(10);

impl Client<'_> {
    /// Sends one request, and waits for the answer in JSON.
    pub(super) fn send(
        &self,
        method: Method,
        target: &str,
        body: Vec<u8>,
    ) -> anyhow::Result<Answer> {
        self.ask(&Question {
            method,
            target: target.to_owned(),
            body,
            ..Question::default()
        })
    }

    /// The same of a request with headers of its own. [`Lost`] tells that it may have been done.
    pub(super) fn ask(&self, question: &Question) -> anyhow::Result<Answer> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let (status, headers, body) = runtime.block_on(async {
            let stream = self.connect().await?;
            let answered = timeout(TIMEOUT, self.exchange(stream, question)).await;
            answered.map_err(|_| Lost(format!("no answer from {} within 10 s", self.url)))?
        })?;
        let json = serde_json::from_slice(&body)
            .with_context(|| format!("{} does not answer like Tollward ({status})", self.url))?;
        let text = String::from_utf8_lossy(&body).into_owned();
        Ok(Answer {
            status,
            headers,
            text,
            json,
        })
    }

    async fn connect(&self) -> anyhow::Result<TcpStream> {
        if self.url.scheme_str() != Some("http") {
            bail!("{} is not a URL such as http://127.0.0.1:8081", self.url);
        }
        let (host, port) = self.address();
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let connected = timeout(TIMEOUT, TcpStream::connect((bare, port))).await;
        connected
            .map_err(anyhow::Error::from)
            .and_then(|connected| Ok(connected?))
            .with_context(|| format!("cannot reach {}; is `tollward serve` running?", self.url))
    }

    fn address(&self) -> (&str, u16) {
        let host = self.url.host().unwrap_or_default();
        (host, self.url.port_u16().unwrap_or(80))
    }

    async fn exchange(
        &self,
        stream: TcpStream,
        question: &Question,
    ) -> anyhow::Result<(StatusCode, HeaderMap, Bytes)> {
        let (host, port) = self.address();
        let mut request = Request::builder()
            .method(&question.method)
            .uri(&question.target)
            .header(HOST, format!("{host}:{port}"))
            .header(CONTENT_TYPE, "application/json");
        if let Some(token) = self.token {
            request = request.header(AUTHORIZATION, format!("Bearer {token}"));
        }
        for (name, value) in &question.headers {
            request = request.header(name, value);
        }
        let request = request.body(Full::new(Bytes::from(question.body.clone())))?;
        let lost = || {
            Lost(format!(
                "the connection to {} broke before it answered",
                self.url
            ))
        };
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        let response = sender.send_request(request).await.with_context(lost)?;
        let (head, body) = response.into_parts();
        let body = body.collect().await.with_context(lost)?.to_bytes();
        Ok((head.status, head.headers, body))
    }
}

impl Answer {
    /// What is wrong, as the server says it.
    pub(super) fn problem(&self) -> anyhow::Error {
        let detail = self.json["detail"].as_str().unwrap_or("no detail");
        anyhow::anyhow!("{}: {detail}", self.status)
    }
}

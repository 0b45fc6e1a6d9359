//! Asking a running server.

use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use http::{Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;

/// A server to ask.
pub(super) struct Client<'a> {
    pub(super) url: &'a Uri,
    pub(super) token: Option<&'a str>,
}

/// What it answered.
pub(super) struct Answer {
    pub(super) status: StatusCode,
    /// As it came.
    pub(super) text: String,
    pub(super) json: Value,
}

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
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let asked = async { tokio::time::timeout(TIMEOUT, self.ask(method, target, body)).await };
        let (status, body) = runtime
            .block_on(asked)
            .map_err(|_| anyhow!("no answer from {} within 10 s", self.url))??;
        let json = serde_json::from_slice(&body)
            .with_context(|| format!("{} does not answer like Tollgate ({status})", self.url))?;
        let text = String::from_utf8_lossy(&body).into_owned();
        Ok(Answer { status, text, json })
    }

    async fn ask(
        &self,
        method: Method,
        target: &str,
        body: Vec<u8>,
    ) -> anyhow::Result<(StatusCode, Bytes)> {
        if self.url.scheme_str() != Some("http") {
            bail!("{} is not a URL such as http://127.0.0.1:8081", self.url);
        }
        let host = self.url.host().unwrap_or_default();
        let port = self.url.port_u16().unwrap_or(80);
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let stream = TcpStream::connect((bare, port))
            .await
            .with_context(|| format!("cannot reach {}; is `tollgate serve` running?", self.url))?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        let mut request = Request::builder()
            .method(method)
            .uri(target)
            .header(HOST, format!("{host}:{port}"))
            .header(CONTENT_TYPE, "application/json");
        if let Some(token) = self.token {
            request = request.header(AUTHORIZATION, format!("Bearer {token}"));
        }
        let response = sender
            .send_request(request.body(Full::new(Bytes::from(body)))?)
            .await?;
        let status = response.status();
        Ok((status, response.into_body().collect().await?.to_bytes()))
    }
}

impl Answer {
    /// What is wrong, as the server says it.
    pub(super) fn problem(&self) -> anyhow::Error {
        let detail = self.json["detail"].as_str().unwrap_or("no detail");
        anyhow!("{}: {detail}", self.status)
    }
}

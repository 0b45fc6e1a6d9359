use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use http::{Request, StatusCode, Uri};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde_json::Value;
use tokio::net::TcpStream;

use super::facts::FactArgs;
use super::say;

#[derive(Debug, Args)]
pub(super) struct Check {
    /// The server to ask
    #[arg(
        long,
        value_name = "URL",
        default_value = "http://127.0.0.1:8081",
        env = "TOLLGATE_URL"
    )]
    url: Uri,
    /// The token of its decision API
    #[arg(
        long,
        value_name = "TOKEN",
        env = "TOLLGATE_API_TOKEN",
        hide_env_values = true
    )]
    token: Option<String>,
    #[command(flatten)]
    facts: FactArgs,
    /// Decide only: take no tokens
    #[arg(long)]
    peek: bool,
    /// Print the server's answer as it is
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Question<'a> {
    #[serde(flatten)]
    facts: &'a FactArgs,
    peek: bool,
}

/// A server that has not answered by then will not.
const TIMEOUT: Duration = Duration::from_secs(10);

impl Check {
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let asked = async { tokio::time::timeout(TIMEOUT, self.ask()).await };
        let (status, body) = runtime
            .block_on(asked)
            .map_err(|_| anyhow::anyhow!("no answer from {} within 10 s", self.url))??;
        let answer: Value = serde_json::from_slice(&body)
            .with_context(|| format!("{} does not answer like Tollgate ({status})", self.url))?;
        if self.json {
            say(&String::from_utf8_lossy(&body))?;
        } else if let Some(allowed) = answer["allowed"].as_bool() {
            say(&in_words(allowed, &answer))?;
        } else {
            bail!(
                "{status}: {}",
                answer["detail"].as_str().unwrap_or("no detail")
            );
        }
        Ok(match answer["allowed"].as_bool() {
            Some(true) => ExitCode::SUCCESS,
            Some(false) => ExitCode::FAILURE,
            None => ExitCode::from(2),
        })
    }

    async fn ask(&self) -> anyhow::Result<(StatusCode, Bytes)> {
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
        let question = Question {
            facts: &self.facts,
            peek: self.peek,
        };
        let mut request = Request::post("/v1/check")
            .header(HOST, format!("{host}:{port}"))
            .header(CONTENT_TYPE, "application/json");
        if let Some(token) = &self.token {
            request = request.header(AUTHORIZATION, format!("Bearer {token}"));
        }
        let body = Full::new(Bytes::from(serde_json::to_vec(&question)?));
        let response = sender.send_request(request.body(body)?).await?;
        let status = response.status();
        Ok((status, response.into_body().collect().await?.to_bytes()))
    }
}

fn in_words(allowed: bool, answer: &Value) -> String {
    let verdict = if allowed { "allowed" } else { "refused" };
    let mut words = vec![verdict.to_owned()];
    if let Some(reason) = answer["reason"].as_str() {
        words.push(format!("reason {reason}"));
    }
    if let Some(binding) = answer["binding"].as_str() {
        let (limit, left) = (&answer["limit"], &answer["remaining"]);
        words.push(format!("{binding} has {left} of {limit} left"));
    }
    if let Some(wait) = answer["retry_after_ms"].as_u64() {
        words.push(format!("retry in {wait} ms"));
    }
    words.join(", ")
}

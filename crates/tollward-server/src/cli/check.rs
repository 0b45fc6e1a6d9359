use std::process::ExitCode;

use clap::Args;
use http::{Method, Uri};
use serde::Serialize;
use serde_json::Value;

use super::client::Client;
use super::facts::FactArgs;
use super::say;

#[derive(Debug, Args)]
pub(super) struct Check {
    /// The server to ask
    #[arg(
        long,
        value_name = "URL",
        default_value = "http://127.0.0.1:8081",
        env = "TOLLWARD_URL"
    )]
    url: Uri,
    /// The token of its decision API
    #[arg(
        long,
        value_name = "TOKEN",
        env = "TOLLWARD_API_TOKEN",
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

impl Check {
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        let client = Client {
            url: &self.url,
            token: self.token.as_deref(),
        };
        let question = Question {
            facts: &self.facts,
            peek: self.peek,
        };
        let body = serde_json::to_vec(&question)?;
        let said = client.send(Method::POST, "/v1/check", body)?;
        let answer = &said.json;
        if self.json {
            say(&said.text)?;
        } else if let Some(allowed) = answer["allowed"].as_bool() {
            say(&in_words(allowed, answer))?;
        } else {
            return Err(said.problem());
        }
        Ok(match answer["allowed"].as_bool() {
            Some(true) => ExitCode::SUCCESS,
            Some(false) => ExitCode::FAILURE,
            None => ExitCode::from(2),
        })
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

use std::net::IpAddr;

use clap::Args;
use serde::Serialize;
use tollward_policy::Facts;

/// The facts of a request, as flags.
#[derive(Debug, Args, Serialize)]
#[command(next_help_heading = "Facts of the request")]
pub(super) struct FactArgs {
    #[command(flatten)]
    #[serde(flatten)]
    request: RequestArgs,
    /// The cost asked for
    #[arg(long, default_value_t = 1, allow_negative_numbers = true)]
    cost: u32,
}

/// The facts that tell which buckets a request is charged to.
#[derive(Debug, Args, Serialize)]
#[command(next_help_heading = "Facts of the request")]
pub(super) struct RequestArgs {
    /// The tenant
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    tenant: Option<String>,
    /// The plan, overriding that of key and tenant
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    plan: Option<String>,
    /// The user
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<String>,
    /// The client
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    client: Option<String>,
    /// The API key
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    api_key: Option<String>,
    /// The caller's address
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    ip: Option<IpAddr>,
    /// The HTTP method
    #[arg(long, short = 'X')]
    #[serde(skip_serializing_if = "Option::is_none")]
    method: Option<String>,
    /// The path
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
}

impl FactArgs {
    pub(super) fn facts(&self) -> Facts<'_> {
        let request = &self.request;
        Facts {
            tenant: request.tenant.as_deref(),
            plan: request.plan.as_deref(),
            user: request.user.as_deref(),
            client: request.client.as_deref(),
            api_key: request.api_key.as_deref(),
            ip: request.ip,
            method: request.method.as_deref(),
            path: request.path.as_deref(),
            cost: self.cost,
            ..Facts::default()
        }
    }
}

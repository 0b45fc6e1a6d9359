use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use prometheus_client::metrics::gauge::Gauge;
use serde_json::{Map, Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;

use super::say;
use crate::doors::listener::{self, Door};
use crate::doors::{Limits, reply};

#[derive(Debug, Args)]
pub(super) struct DemoUpstream {
    /// Where to listen
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9000")]
    listen: SocketAddr,
}

impl DemoUpstream {
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        runtime.block_on(self.serve())
    }

    async fn serve(self) -> anyhow::Result<ExitCode> {
        let listener = TcpListener::bind(self.listen).await.with_context(|| {
            format!(
                "cannot listen on {}; another address can be given with --listen",
                self.listen
            )
        })?;
        say(&format!("demo upstream http://{}", listener.local_addr()?))?;
        let limits = Limits {
            connections: 10_000,
            head_timeout: Duration::from_secs(60),
            write_timeout: Duration::from_secs(10),
        };
        // Nobody tells it to stop but by a signal, and it has nothing to finish.
        let (_stop, stopping) = watch::channel(false);
        listener::serve(listener, Arc::new(Demo), limits, Gauge::default(), stopping).await;
        Ok(ExitCode::SUCCESS)
    }
}

/// Answers every request with what it saw of it.
struct Demo;

impl Door for Demo {
    async fn answer(&self, _: SocketAddr, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let headers: Map<String, Value> = request
            .headers()
            .iter()
            .map(|(name, value)| {
                let value = String::from_utf8_lossy(value.as_bytes());
                (name.to_string(), value.into())
            })
            .collect();
        let seen = json!({
            "method": request.method().as_str(),
            "path": request.uri().path(),
            "query": request.uri().query(),
            "headers": headers,
        });
        reply::json(StatusCode::OK, "application/json", &seen)
    }
}

use std::io::IsTerminal;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use tracing::{info, warn};

use super::{ConfigArg, say};
use crate::server::{Options, Server};
use crate::source::Source;

#[derive(Debug, Args)]
pub(super) struct Serve {
    #[command(flatten)]
    config: ConfigArg,
    /// Where to serve the gateway, instead of the configuration's `listen.gateway`
    #[arg(long, value_name = "ADDRESS")]
    gateway: Option<SocketAddr>,
    /// Where to serve the decision API, instead of the configuration's `listen.api`
    #[arg(long, value_name = "ADDRESS")]
    api: Option<SocketAddr>,
    /// Where to serve the admin door, instead of the configuration's `listen.admin`
    #[arg(long, value_name = "ADDRESS")]
    admin: Option<SocketAddr>,
    /// Keep the counters in this Redis, whatever the configuration's `store` says: redis://HOST:PORT,
    /// rediss://, redis-cluster://, redis-sentinel://HOST,HOST/MASTER, redis+unix:///PATH
    #[arg(
        long,
        value_name = "URL",
        env = "TOLLWARD_REDIS",
        hide_env_values = true
    )]
    redis: Option<String>,
    /// Keep tenants, users and keys in this database, whatever the configuration's `directory` says:
    /// sqlite:PATH, postgres://USER@HOST/DATABASE
    #[arg(
        long,
        value_name = "URL",
        env = "TOLLWARD_DIRECTORY",
        hide_env_values = true
    )]
    directory: Option<String>,
    /// The token that callers of the decision API send, unless they are on this machine
    #[arg(
        long,
        value_name = "TOKEN",
        env = "TOLLWARD_API_TOKEN",
        hide_env_values = true
    )]
    api_token: Option<String>,
    /// The token of the admin door, without which it listens on this machine only and a token is made;
    /// health and metrics are open without it
    #[arg(
        long,
        value_name = "TOKEN",
        env = "TOLLWARD_ADMIN_TOKEN",
        hide_env_values = true
    )]
    admin_token: Option<String>,
    /// Seconds that requests under way get to finish when the server is told to stop
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    drain: u64,
}

impl Serve {
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        tracing_subscriber::fmt()
            .with_writer(std::io::stderr)
            .with_target(false)
            .with_ansi(std::io::stderr().is_terminal())
            .init();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()?;
        runtime.block_on(self.serve())
    }

    async fn serve(self) -> anyhow::Result<ExitCode> {
        // Before anybody is told where it is: from then on a signal is a request to finish.
        let mut signals = StopSignals::new()?;
        let source = self.config.source();
        // Read here and not by the parser of arguments, which would show the password of a bad one.
        let redis = self.redis.as_deref().filter(|url| !url.is_empty());
        let redis = redis.map(str::parse).transpose();
        let redis = redis.context("--redis")?;
        let directory = self.directory.as_deref().filter(|url| !url.is_empty());
        let directory = directory.map(str::parse).transpose();
        let directory = directory.context("--directory")?;
        let server = Server::start(Options {
            gateway: self.gateway,
            api: self.api,
            admin: self.admin,
            redis,
            directory,
            api_token: self.api_token,
            admin_token: self.admin_token,
            ..Options::new(source.clone())
        })
        .await?;
        announce(&source, &server)?;
        let stop = server.stop();
        let mut running = tokio::spawn(server.run());
        tokio::select! {
            _ = &mut running => return Ok(ExitCode::SUCCESS),
            signal = signals.recv() => info!("{signal}: finishing what is under way"),
        }
        stop.stop();
        tokio::select! {
            _ = &mut running => Ok(ExitCode::SUCCESS),
            signal = signals.recv() => {
                warn!("{signal} again: not waiting any longer");
                Ok(ExitCode::FAILURE)
            }
            () = tokio::time::sleep(Duration::from_secs(self.drain)) => {
                warn!("some requests did not finish within {} s", self.drain);
                Ok(ExitCode::FAILURE)
            }
        }
    }
}

fn announce(source: &Source, server: &Server) -> anyhow::Result<()> {
    say(&format!("tollward {}, {source}", env!("CARGO_PKG_VERSION")))?;
    if let Some(gateway) = server.gateway() {
        let scheme = if server.has_tls() { "https" } else { "http" };
        say(&format!("  gateway       {scheme}://{gateway}/"))?;
    }
    if let Some(api) = server.api() {
        say(&format!("  decision API  http://{api}/v1/check"))?;
    }
    say(&format!("  counters      {}", server.kept().counters()))?;
    say(&format!("  directory     {}", server.kept().directory()))?;
    if let Some(admin) = server.admin() {
        say(&format!("  admin API     http://{admin}/admin/v1/"))?;
        say(&format!("  metrics       http://{admin}/metrics"))?;
    }
    if let Some(token) = server.made_admin_token() {
        say(&format!("  admin token   {token}"))?;
    }
    Ok(())
}

/// The signals that ask the process to end.
struct StopSignals {
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
}

impl StopSignals {
    fn new() -> std::io::Result<Self> {
        #[cfg(unix)]
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self {
            #[cfg(unix)]
            terminate: signal(SignalKind::terminate())?,
            #[cfg(unix)]
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    /// Waits for the next.
    async fn recv(&mut self) -> &'static str {
        #[cfg(unix)]
        return tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "interrupt",
        };
        #[cfg(not(unix))]
        {
            let _ = tokio::signal::ctrl_c().await;
            "interrupt"
        }
    }
}

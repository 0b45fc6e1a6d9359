//! The command line.

mod buckets;
mod check;
mod check_config;
mod client;
mod demo_upstream;
mod explain;
mod facts;
mod serve;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

use tollgate_policy::config::without_credentials;

use crate::source::Source;

/// Decides who may call what, how often.
#[derive(Debug, Parser)]
#[command(name = "tollgate", version, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve the gateway, the decision API and the admin door
    Serve(serve::Serve),
    /// Check a configuration file and report every fault in it
    CheckConfig(check_config::CheckConfig),
    /// Tell which limits a request would have to pass, and where each number comes from
    Explain(explain::Explain),
    /// Ask a running server for a decision
    Check(check::Check),
    /// See how full the buckets of a running server are, and make them full
    Buckets(buckets::Buckets),
    /// Serve a small upstream to try the gateway with: it answers with what it saw of a request
    DemoUpstream(demo_upstream::DemoUpstream),
}

#[derive(Debug, Args)]
struct ConfigArg {
    /// The configuration file; the built-in configuration if none is given
    #[arg(long, short, value_name = "FILE", env = "TOLLGATE_CONFIG")]
    config: Option<PathBuf>,
}

impl ConfigArg {
    fn source(&self) -> Source {
        match &self.config {
            Some(path) => Source::File(path.clone()),
            None => Source::BuiltIn,
        }
    }
}

/// Runs the command line of this process. 0: done; 1: the answer is no; 2: it could not be done.
pub fn run() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        // A URL in the wrong place may hold a password.
        Err(error) if error.use_stderr() && error.to_string().contains("://") => {
            let told = error.to_string();
            let told: Vec<String> = told.lines().map(without_credentials).collect();
            let _ = writeln!(std::io::stderr(), "{}", told.join("\n"));
            return ExitCode::from(2);
        }
        Err(error) => error.exit(),
    };
    let done = match cli.command {
        Command::Serve(serve) => serve.run(),
        Command::CheckConfig(check) => check.run(),
        Command::Explain(explain) => explain.run(),
        Command::Check(check) => check.run(),
        Command::Buckets(buckets) => buckets.run(),
        Command::DemoUpstream(demo) => demo.run(),
    };
    match done {
        Ok(code) => code,
        Err(error) => {
            // Nowhere to complain to if this fails.
            let _ = writeln!(std::io::stderr(), "tollgate: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// Writes to standard output; whoever closed it early does not want more.
fn say(text: &str) -> anyhow::Result<()> {
    match writeln!(std::io::stdout(), "{text}") {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        written => Ok(written?),
    }
}

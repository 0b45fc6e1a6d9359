//! The command line.

mod audit;
mod buckets;
mod check;
mod check_config;
mod client;
mod completions;
mod demo_upstream;
mod door;
mod explain;
mod facts;
mod keys;
mod limit;
mod list;
mod lists;
mod openapi;
mod problem;
mod serve;
mod table;
mod tenants;
mod usage;
mod users;
mod when;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

use tollward_policy::List;
use tollward_policy::config::without_credentials;

use crate::source::Source;

/// Decides who may call what, how often.
#[derive(Debug, Parser)]
#[command(name = "tollward", version, propagate_version = true)]
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
    /// Make, change, move and delete tenants of a running server, and see what limits them
    Tenants(tenants::Tenants),
    /// Make, change and delete users of a running server
    Users(users::Users),
    /// Make, rotate and revoke API keys of a running server
    Keys(keys::Keys),
    /// See and change the allow-list: callers that no limit of a running server applies to
    Allow(lists::Lists),
    /// See and change the deny-list: callers that a running server refuses
    Deny(lists::Lists),
    /// See who changed what on a running server, and who was refused
    Audit(audit::Audit),
    /// See what was used of a running server, by tenant, plan and route
    Usage(usage::Usage),
    /// Print what makes a shell complete these commands
    Completions(completions::Completions),
    /// Print what the admin API is, as OpenAPI 3.1 has it
    Openapi(openapi::Openapi),
    /// Serve a small upstream to try the gateway with: it answers with what it saw of a request
    DemoUpstream(demo_upstream::DemoUpstream),
}

#[derive(Debug, Args)]
struct ConfigArg {
    /// The configuration file; the built-in configuration if none is given
    #[arg(long, short, value_name = "FILE", env = "TOLLWARD_CONFIG")]
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
        Command::Tenants(tenants) => tenants.run(),
        Command::Users(users) => users.run(),
        Command::Keys(keys) => keys.run(),
        Command::Allow(lists) => lists.run(List::Allow),
        Command::Deny(lists) => lists.run(List::Deny),
        Command::Audit(audit) => audit.run(),
        Command::Usage(usage) => usage.run(),
        Command::Completions(completions) => completions.run(),
        Command::Openapi(openapi) => openapi.run(),
        Command::DemoUpstream(demo) => demo.run(),
    };
    match done {
        Ok(code) => code,
        Err(error) => {
            complain(&format!("{error:#}"));
            ExitCode::from(2)
        }
    }
}

/// Writes a line to standard output; whoever closed it early does not want more.
fn say(text: &str) -> anyhow::Result<()> {
    print(&format!("{text}\n")).map(|_| ())
}

/// Writes to standard output, and tells whether there is still somebody to read it.
fn print(text: &str) -> anyhow::Result<bool> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(false),
        written => Ok(written.map(|()| true)?),
    }
}

/// Writes to standard error what is no part of the answer.
fn complain(text: &str) {
    // Nowhere to complain to if this fails.
    let _ = writeln!(std::io::stderr(), "tollward: {text}");
}

use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, ValueEnum};

use crate::turns::Effort;

/// Measures Tollward beside governor, throttlecrab-server, nginx and HAProxy, and prints one table
#[derive(Debug, Parser)]
pub(crate) struct Args {
    /// About a minute and a half; this is the default
    #[arg(long, conflicts_with = "full")]
    quick: bool,
    /// Longer turns and more of them: several minutes
    #[arg(long)]
    full: bool,
    /// Measure only this
    #[arg(long, value_name = "SECTION")]
    only: Option<Section>,
    /// The release build of `tollward`, if it is not in target/release
    #[arg(long, value_name = "PATH")]
    pub(crate) tollward: Option<PathBuf>,
    /// The `throttlecrab-server` to compare with, if it is not in PATH
    #[arg(long, value_name = "PATH")]
    pub(crate) throttlecrab: Option<PathBuf>,
    /// The `nginx` to compare with, if it is not in PATH
    #[arg(long, value_name = "PATH")]
    pub(crate) nginx: Option<PathBuf>,
    /// The `haproxy` to compare with, if it is not in PATH
    #[arg(long, value_name = "PATH")]
    pub(crate) haproxy: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Section {
    /// One limit in memory, against governor
    Store,
    /// Four limits in one request, against one
    Four,
    /// The whole engine: policy, store and clock
    Engine,
    /// A hundred thousand tenants and a million API keys
    People,
    /// Bytes for each bucket
    Bytes,
    /// The exact store on Redis, against plain script calls and a bare counter
    Redis,
    /// The decision API over HTTP, against throttlecrab-server
    Http,
    /// The gateway, against nginx and HAProxy
    Gateway,
}

impl Args {
    pub(crate) fn effort(&self) -> Effort {
        if self.full {
            Effort {
                rounds: 15,
                turn: Duration::from_millis(150),
                http_rounds: 5,
                http_turn: Duration::from_secs(3),
            }
        } else {
            Effort {
                rounds: 7,
                turn: Duration::from_millis(60),
                http_rounds: 3,
                http_turn: Duration::from_secs(1),
            }
        }
    }

    pub(crate) fn sections(&self) -> Vec<Section> {
        match self.only {
            Some(section) => vec![section],
            None => Section::value_variants().to_vec(),
        }
    }
}

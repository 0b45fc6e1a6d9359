use std::path::PathBuf;

use clap::Parser;

/// Breaks Redis under Tollward's nodes in every way, under load, and prints one row for each fault
#[derive(Debug, Parser)]
pub(crate) struct Args {
    /// The faults to try, all of them if none is named; `--list` shows them
    pub(crate) names: Vec<String>,
    /// Say which faults there are, and end
    #[arg(long)]
    pub(crate) list: bool,
    /// Checks per second, over all three nodes together
    #[arg(long, value_name = "NUMBER", default_value_t = 2_000)]
    pub(crate) rate: u32,
    /// Show what the nodes logged
    #[arg(long)]
    pub(crate) logs: bool,
    /// The release build of `tollward`
    #[arg(long, value_name = "PATH", default_value = "target/release/tollward")]
    pub(crate) tollward: PathBuf,
}

use std::process::ExitCode;

use clap::{Args, CommandFactory};
use clap_complete::{Shell, generate};

use super::{Cli, print};

#[derive(Debug, Args)]
pub(super) struct Completions {
    /// The shell
    shell: Shell,
}

impl Completions {
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        // To memory first: it would panic when whoever reads it has had enough.
        let mut script = Vec::new();
        generate(self.shell, &mut Cli::command(), "tollward", &mut script);
        print(&String::from_utf8_lossy(&script))?;
        Ok(ExitCode::SUCCESS)
    }
}

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use tollward_policy::config::json_schema;

use super::say;
use crate::source::{ConfigError, Source};

#[derive(Debug, Args)]
pub(super) struct CheckConfig {
    /// The file to check
    #[arg(value_name = "FILE", required_unless_present = "schema")]
    file: Option<PathBuf>,
    /// Print the JSON Schema of the configuration, for editors
    #[arg(long)]
    schema: bool,
}

impl CheckConfig {
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        let Some(file) = self.file.filter(|_| !self.schema) else {
            say(json_schema().trim_end())?;
            return Ok(ExitCode::SUCCESS);
        };
        let source = Source::File(file);
        match source.load() {
            Ok(compiled) => {
                let limits = compiled.policy.written_limits();
                let limits = if limits == 1 {
                    "1 limit".to_owned()
                } else {
                    format!("{limits} limits")
                };
                say(&format!("{source}: valid, {limits}"))?;
                Ok(ExitCode::SUCCESS)
            }
            Err(ConfigError::Faulty(source, faults)) => {
                for fault in &faults {
                    say(&format!("{source}:{fault}"))?;
                }
                Ok(ExitCode::FAILURE)
            }
            Err(error) => Err(error.into()),
        }
    }
}

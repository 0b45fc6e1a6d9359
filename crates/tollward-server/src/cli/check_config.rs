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
    /// Fail (exit 1) on warnings too: on what is legal but surely not meant
    #[arg(long)]
    strict: bool,
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
                let mut summary = format!("{source}: valid, {}", counted(limits, "limit"));
                let warnings = compiled.warnings;
                for warning in &warnings {
                    say(&format!("{source}:{warning}"))?;
                }
                if !warnings.is_empty() {
                    summary.push_str(&format!(", {}", counted(warnings.len(), "warning")));
                }
                say(&summary)?;
                match self.strict && !warnings.is_empty() {
                    true => Ok(ExitCode::FAILURE),
                    false => Ok(ExitCode::SUCCESS),
                }
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

/// `1 limit`, `2 limits`.
fn counted(count: usize, noun: &str) -> String {
    match count {
        1 => format!("1 {noun}"),
        count => format!("{count} {noun}s"),
    }
}

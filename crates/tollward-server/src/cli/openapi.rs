use std::process::ExitCode;

use clap::Args;

use super::say;
use crate::doors::admin;

#[derive(Debug, Args)]
pub(super) struct Openapi {}

impl Openapi {
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        say(admin::document().trim_end())?;
        Ok(ExitCode::SUCCESS)
    }
}

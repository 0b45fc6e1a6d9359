use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

/// The top of the repository.
pub(crate) fn root() -> PathBuf {
    let xtask = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    xtask.parent().map_or(xtask.clone(), PathBuf::from)
}

/// A program to be run at the top of the repository.
pub(crate) struct Program {
    command: Command,
    shown: String,
}

/// The cargo that runs this.
pub(crate) fn cargo(args: &[&str]) -> Program {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut program = program(cargo, args);
    program.shown = format!("cargo {}", args.join(" "));
    program
}

pub(crate) fn program(name: impl AsRef<OsStr>, args: &[&str]) -> Program {
    let shown = format!("{} {}", name.as_ref().display(), args.join(" "));
    let mut command = Command::new(name);
    command.args(args).current_dir(root()).stdin(Stdio::null());
    Program { command, shown }
}

impl Program {
    pub(crate) fn args<S: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.command.args(args);
        self
    }

    pub(crate) fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Runs it where everyone can see.
    pub(crate) fn run(mut self) -> Result<()> {
        let status = self.command.status();
        let status = status.with_context(|| format!("cannot start `{}`", self.shown))?;
        ensure!(status.success(), "`{}` failed", self.shown);
        Ok(())
    }

    /// Runs it and gives what it printed.
    pub(crate) fn output(mut self) -> Result<Vec<u8>> {
        self.command.stderr(Stdio::inherit());
        let output = self.command.output();
        let output = output.with_context(|| format!("cannot start `{}`", self.shown))?;
        ensure!(output.status.success(), "`{}` failed", self.shown);
        Ok(output.stdout)
    }

    /// Whether it is there and works.
    pub(crate) fn works(mut self) -> bool {
        self.command.stdout(Stdio::null()).stderr(Stdio::null());
        self.command.status().is_ok_and(|status| status.success())
    }

    pub(crate) fn into_command(self) -> Command {
        self.command
    }
}

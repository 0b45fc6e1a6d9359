//! The project's chores, as one command without anything to install: `cargo xtask`.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command line talks to a terminal"
)]

mod command;
mod faults;
mod run;
mod test;
mod tidy;

use std::process::ExitCode;

use anyhow::{Result, bail};

use crate::command::{cargo, root};

const USAGE: &str = "\
Usage: cargo xtask <COMMAND>

  run [ARGS]    build Tollward, start it and say where to look; ARGS go to `tollward serve`
  test          everything that has to pass: format, lints, tidiness, tests, docs, fuzz targets
  tidy          only the house rules that no other tool knows
  bench [ARGS]  measure against peers and print a table; `bench --help` tells more
  faults [NAME…]
                break Redis under nodes in every way and print a table; `faults --list` names the ways
  schema        write docs/config.schema.json and docs/openapi.json anew";

fn main() -> ExitCode {
    match chore() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn chore() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (command, args) = match args.split_first() {
        Some((command, args)) => (command.as_str(), args),
        None => ("help", &[][..]),
    };
    match command {
        "run" => run::run(args),
        "test" => test::test(),
        "tidy" => tidy::tidy(),
        "bench" => bench(args),
        "faults" => faults::faults(args),
        "schema" => schema(),
        "help" | "--help" | "-h" => {
            println!("{USAGE}");
            Ok(())
        }
        other => bail!("there is no `{other}`\n\n{USAGE}"),
    }
}

fn bench(args: &[String]) -> Result<()> {
    cargo(&["build", "--release", "--package", "tollward-server"]).run()?;
    let bench = cargo(&[
        "run",
        "--release",
        "--manifest-path",
        "bench/Cargo.toml",
        "--",
    ]);
    bench.args(args).run()
}

fn schema() -> Result<()> {
    for (args, file) in [
        (&["check-config", "--schema"][..], "docs/config.schema.json"),
        (&["openapi"], "docs/openapi.json"),
    ] {
        let command = cargo(&["run", "--quiet", "--package", "tollward-server", "--"]);
        let text = command.args(args).output()?;
        let path = root().join(file);
        std::fs::write(&path, text)?;
        println!("wrote {}", path.display());
    }
    Ok(())
}

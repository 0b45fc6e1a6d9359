//! `cargo xtask run`: Tollgate as a newcomer should meet it.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use anyhow::{Context, Result, ensure};

use crate::command::{cargo, program, root};

pub(crate) fn run(args: &[String]) -> Result<()> {
    cargo(&["build", "--package", "tollgate-server"]).run()?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or(root().join("target"), Into::into);
    let mut server = program(target.join("debug/tollgate"), &["serve"])
        .args(args)
        .into_command()
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start tollgate")?;
    let stdout = server.stdout.take().context("tollgate has no output")?;
    for line in BufReader::new(stdout).lines() {
        let line = line?;
        println!("{line}");
        if let Some(url) = line.trim().strip_prefix("decision API").map(str::trim) {
            show(url);
        }
    }
    // It prints no more once it is told to stop, or when it could not start.
    let status = server.wait()?;
    ensure!(status.success(), "tollgate ended with {status}");
    Ok(())
}

fn show(url: &str) {
    println!(
        "
Try it, a few times, until the bucket of 100 tokens is empty (a completion costs 5):

  curl -i {url} \\
    -d '{{\"user\": \"alice\", \"plan\": \"free\", \"method\": \"POST\", \"path\": \"/v1/completions\"}}'

Ctrl-C ends it.
"
    );
}

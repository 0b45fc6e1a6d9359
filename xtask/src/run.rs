//! `cargo xtask run`: Tollward as a newcomer should meet it.

use std::io::{BufRead, BufReader, Lines};
use std::process::{Child, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::command::{cargo, program, root};

const EXAMPLE: &str = "examples/plan-gateway.yaml";

pub(crate) fn run(args: &[String]) -> Result<()> {
    cargo(&["build", "--package", "tollward-server"]).run()?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or(root().join("target"), Into::into);
    let tollward = target.join("debug/tollward");
    let upstream = program(&tollward, &["demo-upstream"]);
    let mut upstream = Started::new(upstream.into_command())?;
    let listening = upstream.lines()?.next().context("no demo upstream")?;
    println!("{}", listening?);
    let serve = program(&tollward, &["serve", "--config", EXAMPLE]);
    let mut server = Started::new(serve.args(args).into_command())?;
    let mut gateway = String::new();
    // The last that it says of itself: the hint comes below everything else.
    let has_token = std::env::var("TOLLWARD_ADMIN_TOKEN").is_ok_and(|token| !token.is_empty());
    let last = if has_token { "metrics" } else { "admin token" };
    for line in server.lines()? {
        let line = line?;
        println!("{line}");
        if let Some(url) = line.trim().strip_prefix("gateway").map(str::trim) {
            gateway = url.trim_end_matches('/').to_owned();
        }
        if line.trim().starts_with(last) {
            show(&gateway);
        }
    }
    // It prints no more once it is told to stop, or when it could not start.
    let status = server.0.wait()?;
    drop(upstream);
    ensure!(status.success(), "tollward ended with {status}");
    Ok(())
}

/// A process that ends with this one.
struct Started(Child);

impl Started {
    fn new(mut command: Command) -> Result<Self> {
        let child = command.stdout(Stdio::piped()).spawn();
        child.map(Self).context("cannot start tollward")
    }

    fn lines(&mut self) -> Result<Lines<BufReader<ChildStdout>>> {
        let stdout = self.0.stdout.take().context("tollward has no output")?;
        Ok(BufReader::new(stdout).lines())
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        // It may have ended by itself: Ctrl-C reaches all three.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn show(url: &str) {
    println!(
        "
Three keys, one per plan: demo-free (10 at once, 1 a second), demo-pro (100, 50 a second) and
demo-enterprise (500, 200 a second). Fifteen calls on the free plan, of which ten pass:

  for i in $(seq 15); do
    curl -s -o /dev/null -w \"request $i: %{{http_code}}\\n\" -H \"X-Api-Key: demo-free\" {url}/scores/submit
  done

One call with everything that comes back:

  curl -i -H \"X-Api-Key: demo-free\" {url}/scores/submit

Ctrl-C ends it.
"
    );
}

//! `cargo xtask faults`: nodes under load while their Redis is broken.

use anyhow::Result;

use crate::command::{cargo, root};

pub(crate) fn faults(args: &[String]) -> Result<()> {
    cargo(&["build", "--release", "--package", "tollward-server"]).run()?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or(root().join("target"), Into::into);
    let binary = root().join(target).join("release/tollward");
    let faults = cargo(&[
        "run",
        "--release",
        "--manifest-path",
        "faults/Cargo.toml",
        "--",
        "--tollward",
    ]);
    faults.args([binary]).args(args).run()
}

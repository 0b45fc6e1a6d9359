//! Processes that do not outlive those who started them.

use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Its standard input ends when this process does.
const WATCHDOG: &str = r#"read -r _; kill -KILL "$1"; rm -rf -- "$2""#;

/// Starts a process that kills `child` and removes `directory` when this process ends, however it ends.
///
/// # Errors
///
/// There is no shell.
pub fn watch(child: &Child, directory: &Path) -> io::Result<Child> {
    Command::new("sh")
        .args(["-c", WATCHDOG, "sh", &child.id().to_string()])
        .arg(directory)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        // Not to be reached by the terminal's ^C, which ends this process.
        .process_group(0)
        .spawn()
}

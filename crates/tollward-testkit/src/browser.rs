//! A real browser that opens a page.
#![expect(
    clippy::panic,
    reason = "a fixture that cannot do its work fails the test, and only tests use it"
)]

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::redis::process::{Directory, Process};
use crate::redis::wait;

/// A page that tells nothing for so long has failed the test.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long a browser that is asked to end may take before it is killed.
const END: Duration = Duration::from_secs(10);

/// No window, no profile but its own, nothing that calls home. The pages are ours, so it needs no sandbox, which
/// not every machine lets it have.
const OPTIONS: [&str; 12] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-extensions",
    "--disable-breakpad",
    "--no-first-run",
    "--no-default-browser-check",
];

/// A Chromium without a window, which has opened one page. It is ended when this is dropped, and killed when the
/// test process dies before that.
#[derive(Debug)]
pub struct Browser {
    // Before the directory: the process ends first.
    process: Process,
    directory: Directory,
}

impl Browser {
    /// Opens a page. What the page finds out it has to send to a server of the test.
    #[track_caller]
    pub fn open(chromium: &Path, url: &str) -> Self {
        let directory = Directory::new();
        let home = directory.path();
        let mut command = Command::new(chromium);
        command
            .args(OPTIONS)
            .arg(format!(
                "--user-data-dir={}",
                home.join("profile").display()
            ))
            .arg(url)
            .env("HOME", home);
        let process = Process::start(&mut command, &home.join("log"), home);
        match process {
            Ok(process) => Self { process, directory },
            Err(error) => panic!("cannot start {command:?}: {error}"),
        }
    }

    /// Waits until its page has told the test something; fails the test if the page tells nothing.
    #[track_caller]
    pub fn told<T>(&mut self, mut told: impl FnMut() -> Option<T>) -> T {
        let answer = wait(PATIENCE, || {
            let answer = told();
            match answer.is_none() && self.process.has_ended() {
                true => Some(None),
                false => answer.map(Some),
            }
        });
        match answer.flatten() {
            Some(answer) => answer,
            None => panic!("the page has told nothing:\n{}", self.log()),
        }
    }

    /// What it has printed so far.
    fn log(&self) -> String {
        let log = fs::read(self.directory.path().join("log"));
        String::from_utf8_lossy(&log.unwrap_or_default()).into_owned()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // It ends the processes that it has started itself.
        if !self.process.has_ended() {
            self.process.signal("TERM");
            wait(END, || self.process.has_ended().then_some(()));
        }
    }
}

//! One `tollward serve`, as a process of its own.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, ensure};
use tollward_testkit::watchdog::watch;

/// A node; it ends with this value, and also when this process dies without dropping anything.
pub(crate) struct Node {
    child: Child,
    watchdog: Child,
    /// Kept open: a node that cannot print may end.
    _stdout: BufReader<ChildStdout>,
    log: PathBuf,
    pub(crate) api: SocketAddr,
    pub(crate) admin: SocketAddr,
}

/// What a node prints before it says where it listens.
const MOST_LINES: usize = 20;

impl Node {
    /// Starts a node with this configuration and waits until it listens. If this process dies, the
    /// directory is removed as well.
    pub(crate) fn start(binary: &Path, directory: &Path, name: &str, config: &str) -> Result<Self> {
        let file = directory.join(format!("{name}.yaml"));
        let log = directory.join(format!("{name}.log"));
        std::fs::write(&file, config)?;
        let mut child = Command::new(binary)
            .args([
                "serve",
                "--api",
                "127.0.0.1:0",
                "--admin",
                "127.0.0.1:0",
                "-c",
            ])
            .arg(&file)
            .env_remove("TOLLWARD_REDIS")
            .env_remove("TOLLWARD_API_TOKEN")
            .env_remove("TOLLWARD_ADMIN_TOKEN")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(File::create(&log)?)
            .spawn()
            .with_context(|| format!("cannot start {}", binary.display()))?;
        let watched = watch(&child, directory).context("cannot start sh");
        let found = addresses(&mut child);
        let (watchdog, (stdout, api, admin)) = match (watched, found) {
            (Ok(watchdog), Ok(found)) => (watchdog, found),
            (watched, found) => {
                end(&mut child);
                let said = std::fs::read_to_string(&log).unwrap_or_default();
                let error = watched.err().or(found.err());
                return Err(error
                    .unwrap_or_else(|| anyhow::anyhow!("no node"))
                    .context(said));
            }
        };
        Ok(Self {
            child,
            watchdog,
            _stdout: stdout,
            log,
            api,
            admin,
        })
    }

    /// What it has logged.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Files and connections that it has open.
    pub(crate) fn open_files(&self) -> Result<usize> {
        let files = std::fs::read_dir(format!("/proc/{}/fd", self.child.id()));
        Ok(files.context("the node has ended")?.count())
    }

    /// Whether it has not ended by itself.
    pub(crate) fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        end(&mut self.child);
        end(&mut self.watchdog);
    }
}

fn addresses(child: &mut Child) -> Result<(BufReader<ChildStdout>, SocketAddr, SocketAddr)> {
    let stdout = child.stdout.take().context("tollward has no output")?;
    let mut stdout = BufReader::new(stdout);
    let (mut api, mut admin) = (None, None);
    for _ in 0..MOST_LINES {
        let mut line = String::new();
        let length = stdout.read_line(&mut line)?;
        ensure!(length > 0, "tollward has ended");
        let line = line.trim();
        if let Some(url) = line.strip_prefix("decision API") {
            api = address(url);
        } else if let Some(url) = line.strip_prefix("metrics") {
            admin = address(url);
        }
        if let (Some(api), Some(admin)) = (api, admin) {
            return Ok((stdout, api, admin));
        }
    }
    anyhow::bail!("tollward does not say where it listens")
}

/// The address in `http://ADDRESS/PATH`.
fn address(url: &str) -> Option<SocketAddr> {
    let rest = url.trim().strip_prefix("http://")?;
    rest.split('/').next()?.parse().ok()
}

fn end(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

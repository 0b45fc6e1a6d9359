use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

/// A server under test; it ends with this value.
pub(crate) struct Server {
    child: Child,
    pub(crate) address: SocketAddr,
}

/// Ticks per second of the times in /proc: the same on every Linux.
const TICKS_PER_SEC: f64 = 100.0;
const PATIENCE: Duration = Duration::from_secs(10);

impl Server {
    /// Starts a program that will listen on `address`, and waits until it does.
    pub(crate) fn start(command: &mut Command, address: SocketAddr) -> anyhow::Result<Self> {
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("cannot start {command:?}"))?;
        let mut server = Self { child, address };
        let began = Instant::now();
        while TcpStream::connect(address).is_err() {
            if let Some(status) = server.child.try_wait()? {
                bail!("{command:?} ended with {status}");
            }
            if began.elapsed() > PATIENCE {
                bail!("{command:?} does not listen on {address}");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(server)
    }

    /// Processor time it has used so far, its own and the kernel's for it.
    pub(crate) fn cpu_secs(&self) -> anyhow::Result<f64> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        // The second field is a name in brackets, which may hold anything.
        let (_, fields) = stat.rsplit_once(')').context("/proc stat has no name")?;
        let ticks = |nth| fields.split_whitespace().nth(nth)?.parse::<f64>().ok();
        let (user, system) = ticks(11)
            .zip(ticks(12))
            .context("/proc stat has no times")?;
        Ok((user + system) / TICKS_PER_SEC)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An address of this machine that nobody listens on.
pub(crate) fn free_address() -> anyhow::Result<SocketAddr> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}

/// The program at `given`, or the first of this name in PATH.
pub(crate) fn program(given: Option<&Path>, name: &str) -> Option<PathBuf> {
    if let Some(given) = given {
        return Some(given.into());
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|folder| folder.join(name))
        .find(|program| program.is_file())
}

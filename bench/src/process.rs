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

    /// Processor time it has used so far, its own and the kernel's for it, and that of its children.
    pub(crate) fn cpu_secs(&self) -> anyhow::Result<f64> {
        let own = Stat::read(self.child.id()).context("a server has ended")?;
        let ticks = own.ticks + self.children().map(|child| child.ticks).sum::<f64>();
        Ok(ticks / TICKS_PER_SEC)
    }

    fn children(&self) -> impl Iterator<Item = Stat> {
        let own = self.child.id();
        let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let ids = processes.filter_map(|it| it.file_name().to_str()?.parse().ok());
        ids.filter_map(Stat::read)
            .filter(move |process| process.parent == own)
    }

    /// Asks it to end, and to see to it that its children do.
    fn ask_to_end(&mut self) {
        let id = self.child.id().to_string();
        let _ = Command::new("sh").args(["-c", "kill $0", &id]).status();
        let began = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) && began.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.children().next().is_some() {
            self.ask_to_end();
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What /proc says of a process.
struct Stat {
    parent: u32,
    /// Its processor time, its own and the kernel's for it.
    ticks: f64,
}

impl Stat {
    fn read(id: u32) -> Option<Self> {
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
        // The second field is a name in brackets, which may hold anything.
        let (_, fields) = stat.rsplit_once(')')?;
        let fields: Vec<&str> = fields.split_whitespace().collect();
        let ticks = |nth: usize| fields.get(nth)?.parse::<f64>().ok();
        Some(Self {
            parent: fields.get(1)?.parse().ok()?,
            ticks: ticks(11)? + ticks(12)?,
        })
    }
}

/// An address of this machine that nobody listens on.
pub(crate) fn free_address() -> anyhow::Result<SocketAddr> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}

/// The release build of `tollward`: at `given`, in this repository's target, or in PATH.
pub(crate) fn tollward(given: Option<&Path>) -> Option<PathBuf> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let target = target.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../target"));
    let built = target.join("release/tollward");
    let given = given.or_else(|| built.is_file().then_some(&built));
    program(given, "tollward")
}

/// Where servers are that are not in everybody's PATH.
const OF_THE_SYSTEM: [&str; 2] = ["/usr/sbin", "/usr/local/sbin"];

/// The program at `given`, or the first of this name in PATH and among those of the system.
pub(crate) fn program(given: Option<&Path>, name: &str) -> Option<PathBuf> {
    if let Some(given) = given {
        return Some(given.into());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(OF_THE_SYSTEM.map(PathBuf::from))
        .map(|folder| folder.join(name))
        .find(|program| program.is_file())
}

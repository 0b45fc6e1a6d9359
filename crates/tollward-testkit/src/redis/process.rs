//! What every fixture needs of the machine: a directory, a port, a process that ends with the test.

use std::hash::BuildHasher;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::{fs, hash, io};

use crate::watchdog::watch;

/// A directory that is removed when this is dropped.
#[derive(Debug)]
pub(crate) struct Directory(PathBuf);

impl Directory {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        // Names may be taken by what an earlier process of this number left.
        for _ in 0..1000 {
            let name = format!(
                "tollward-{}-{}",
                std::process::id(),
                NEXT.fetch_add(1, Relaxed)
            );
            let path = std::env::temp_dir().join(name);
            match fs::create_dir(&path) {
                Ok(()) => return Self(path),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => panic!("cannot make {}: {error}", path.display()),
            }
        }
        panic!(
            "cannot make a directory in {}",
            std::env::temp_dir().display()
        );
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A process that is killed when this is dropped, and also when this process dies without dropping anything.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    watchdog: Child,
}

impl Process {
    /// Starts it; what it prints goes to `log`. The watchdog removes `directory` as well.
    pub(crate) fn start(command: &mut Command, log: &Path, directory: &Path) -> io::Result<Self> {
        let log = fs::File::create(log)?;
        let mut child = command
            .stdin(Stdio::null())
            .stderr(log.try_clone()?)
            .stdout(log)
            .spawn()?;
        match watch(&child, directory) {
            Ok(watchdog) => Ok(Self { child, watchdog }),
            Err(error) => {
                end(&mut child);
                Err(error)
            }
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Sends a signal, such as `STOP`.
    pub(crate) fn signal(&self, name: &str) {
        let pid = self.pid().to_string();
        let status = Command::new("kill")
            .args([&format!("-{name}"), &pid])
            .status();
        if !status.is_ok_and(|status| status.success()) {
            panic!("cannot send SIG{name} to {pid}");
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // SIGKILL also ends a process that is stopped.
        end(&mut self.child);
        end(&mut self.watchdog);
    }
}

fn end(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

/// A port of 127.0.0.1 that was free a moment ago, another one each time.
///
/// It is below those that the system gives to outgoing connections: one of these could take the port of a server that
/// is killed and to be started again.
pub(crate) fn free_port() -> u16 {
    const FIRST: u64 = 12_000;
    const COUNT: u64 = 20_000;
    static NEXT: LazyLock<AtomicU64> = LazyLock::new(|| {
        let somewhere = hash::RandomState::new().hash_one(std::process::id());
        AtomicU64::new(somewhere % COUNT)
    });
    for _ in 0..1000 {
        let port = FIRST + NEXT.fetch_add(1, Relaxed) % COUNT;
        let port = u16::try_from(port).unwrap_or(u16::MAX);
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
    panic!("no port of 127.0.0.1 is free");
}

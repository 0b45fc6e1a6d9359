//! One server process.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use std::{fs, io};

use super::client::{Client, Value};
use super::process::{Directory, Process, free_port};
use super::tls::{self, TlsFiles};
use super::{redis_server, wait, wait_until};

/// A server answers within this after its start.
const START: Duration = Duration::from_secs(10);
/// A server that is waited for answers a command within this.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often another port is tried.
const PORTS_TRIED: u32 = 10;

/// A `redis-server` of its own: nothing is kept on disk, nothing else uses it.
///
/// It also listens on a socket in its directory, by which this fixture speaks with it: so what answers is that server,
/// whoever has its port.
#[derive(Debug)]
pub struct RedisServer {
    builder: Builder,
    ports: Ports,
    tls: Option<TlsFiles>,
    // Before the directory: the process ends first.
    process: Mutex<Option<Process>>,
    directory: Directory,
}

/// What a server is started with.
#[derive(Clone, Debug, Default)]
pub struct Builder {
    binary: Option<PathBuf>,
    port: Option<u16>,
    listens: Listens,
    role: Role,
    password: Option<String>,
    args: Vec<String>,
}

#[derive(Clone, Copy, Debug, Default)]
enum Listens {
    #[default]
    Tcp,
    Tls,
    Unix,
}

#[derive(Clone, Debug, Default)]
enum Role {
    #[default]
    Alone,
    ClusterNode,
    /// With its configuration.
    Sentinel(String),
}

#[derive(Clone, Copy, Debug)]
struct Ports {
    own: u16,
    /// The bus of a cluster.
    bus: u16,
}

impl Builder {
    /// An argument, such as `"--maxmemory", "10mb"`. Later ones win.
    pub fn arg(self, name: &str, value: &str) -> Self {
        self.args(&[name, value])
    }

    /// Arguments, such as `&["--replicaof", "127.0.0.1", "6379"]`.
    pub fn args(mut self, args: &[&str]) -> Self {
        self.args.extend(args.iter().map(ToString::to_string));
        self
    }

    /// Another program than `redis-server`, such as a Valkey.
    pub fn binary(mut self, path: impl Into<PathBuf>) -> Self {
        self.binary = Some(path.into());
        self
    }

    /// This port and no other. The start fails if it is taken.
    pub fn port(mut self, port: u16) -> Self {
        self.port = Some(port);
        self
    }

    /// A password, for the server's clients and, of a replica, for its primary.
    pub fn password(mut self, password: &str) -> Self {
        self.password = Some(password.to_owned());
        self
    }

    /// Listens on a socket in the file system only.
    pub fn unix_socket(mut self) -> Self {
        self.listens = Listens::Unix;
        self
    }

    /// Listens with TLS only. Clients may do without a certificate, unless `"--tls-auth-clients", "yes"` is added.
    pub fn tls(mut self) -> Self {
        self.listens = Listens::Tls;
        self
    }

    pub(super) fn cluster_node(mut self) -> Self {
        self.role = Role::ClusterNode;
        self
    }

    pub(super) fn sentinel(mut self, config: String) -> Self {
        self.role = Role::Sentinel(config);
        self
    }

    /// Starts the server and waits until it answers.
    #[track_caller]
    pub fn start(self) -> RedisServer {
        let directory = Directory::new();
        let tls = matches!(self.listens, Listens::Tls).then(|| TlsFiles::make(directory.path()));
        if let Role::Sentinel(config) = &self.role
            && let Err(error) = fs::write(directory.path().join("sentinel.conf"), config)
        {
            panic!("cannot write the sentinel's configuration: {error}");
        }
        let mut server = RedisServer {
            ports: self.ports(),
            builder: self,
            tls,
            process: Mutex::new(None),
            directory,
        };
        for _ in 0..PORTS_TRIED {
            match server.launch() {
                Ok(()) => return server,
                Err(Failure::AddressInUse(_)) if server.builder.port.is_none() => {
                    server.ports = server.builder.ports();
                }
                Err(Failure::AddressInUse(why) | Failure::Other(why)) => panic!("{why}"),
            }
        }
        panic!(
            "no port is free; the last one tried was {}",
            server.ports.own
        );
    }

    fn ports(&self) -> Ports {
        Ports {
            own: match self.listens {
                Listens::Unix => 0,
                Listens::Tcp | Listens::Tls => self.port.unwrap_or_else(free_port),
            },
            bus: free_port(),
        }
    }
}

enum Failure {
    AddressInUse(String),
    Other(String),
}

impl RedisServer {
    /// Starts a server with nothing special.
    #[track_caller]
    pub fn start() -> Self {
        Self::builder().start()
    }

    /// A server to be started.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// The port; 0 if it listens on a socket in the file system only.
    pub fn port(&self) -> u16 {
        self.ports.own
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        ([127, 0, 0, 1], self.ports.own).into()
    }

    /// The port of the cluster's bus.
    pub(super) fn bus_port(&self) -> u16 {
        self.ports.bus
    }

    pub(super) fn password(&self) -> Option<&str> {
        self.builder.password.as_deref()
    }

    /// Where clients find it: `redis://127.0.0.1:PORT`, `rediss://..`, or `redis+unix:///PATH`.
    pub fn url(&self) -> String {
        let password = self.password().map(|it| format!(":{it}@"));
        let password = password.unwrap_or_default();
        match self.builder.listens {
            Listens::Tcp => format!("redis://{password}{}", self.addr()),
            Listens::Tls => format!("rediss://{password}{}", self.addr()),
            Listens::Unix => format!("redis+unix://{}", self.socket().display()),
        }
    }

    /// The socket in the file system, which every server has.
    pub fn socket(&self) -> PathBuf {
        self.directory.path().join("redis.sock")
    }

    /// What a client needs, if it listens with TLS.
    pub fn tls(&self) -> Option<&TlsFiles> {
        self.tls.as_ref()
    }

    /// Its directory, with its log.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// The number of the process. Fails the test if it was killed.
    #[track_caller]
    pub fn pid(&self) -> u32 {
        match &*self.process() {
            Some(process) => process.pid(),
            None => panic!("the server was killed"),
        }
    }

    /// Whether it was neither killed nor has ended by itself.
    pub fn is_running(&self) -> bool {
        self.process().as_mut().is_some_and(|it| !it.has_ended())
    }

    /// Kills it, by SIGKILL, and waits for its end.
    pub fn kill(&self) {
        self.process().take();
    }

    /// Stops it, by SIGSTOP: connections are accepted, and nothing is answered.
    #[track_caller]
    pub fn stop(&self) {
        self.signal("STOP");
    }

    /// Lets it go on after [`RedisServer::stop`].
    #[track_caller]
    pub fn cont(&self) {
        self.signal("CONT");
    }

    /// Kills it if it runs, and starts it again on the same port, with the same arguments and no data.
    ///
    /// A node of a cluster and a sentinel remember those they knew.
    #[track_caller]
    pub fn restart(&self) {
        self.kill();
        // What a synchronisation between primary and replica leaves, and what arguments may have asked for.
        let _ = fs::remove_file(self.directory().join("dump.rdb"));
        let _ = fs::remove_dir_all(self.directory().join("appendonlydir"));
        wait_until("its old port is free", START, || match self.launch() {
            Ok(()) => Some(()),
            Err(Failure::AddressInUse(_)) => None,
            Err(Failure::Other(why)) => panic!("{why}"),
        });
    }

    /// The answer to a command, over a connection of its own. Fails the test if there is none; an error is an answer.
    #[track_caller]
    pub fn command<A: AsRef<[u8]>>(&self, parts: &[A]) -> Value {
        match self.try_command(parts, PATIENCE) {
            Ok(value) => value,
            Err(error) => panic!("no answer from {}: {error}\n{}", self.url(), self.log()),
        }
    }

    /// The answer to a command, for servers that may be dead or stopped.
    pub fn try_command<A: AsRef<[u8]>>(&self, parts: &[A], timeout: Duration) -> io::Result<Value> {
        let mut client = Client::connect_unix(&self.socket(), timeout)?;
        if let Some(password) = &self.builder.password {
            let answer = client.call(&["AUTH", password])?;
            if !answer.is_ok() {
                return Ok(answer);
            }
        }
        client.call(parts)
    }

    /// The CPU time it has used so far, in microseconds: user and system, all threads.
    #[track_caller]
    pub fn cpu_us(&self) -> u64 {
        let used = |name| self.info("cpu", name).and_then(|it| micros(&it));
        match (used("used_cpu_user"), used("used_cpu_sys")) {
            (Some(user), Some(system)) => user + system,
            _ => panic!("INFO cpu does not say it"),
        }
    }

    /// How often a command was called, such as `evalsha`; of a subcommand, `config|get`.
    #[track_caller]
    pub fn calls(&self, command: &str) -> u64 {
        let Some(stats) = self.info("commandstats", &format!("cmdstat_{command}")) else {
            return 0;
        };
        let calls = stats.split(',').find_map(|it| it.strip_prefix("calls="));
        match calls.map(str::parse) {
            Some(Ok(calls)) => calls,
            _ => panic!("INFO commandstats says {stats:?}"),
        }
    }

    /// A field of a section of `INFO`, if it is there.
    #[track_caller]
    pub fn info(&self, section: &str, field: &str) -> Option<String> {
        lookup(&self.command(&["INFO", section]), field)
    }

    /// What the process printed, the end of it.
    pub fn log(&self) -> String {
        const MAX_LINES: usize = 100;
        let log = fs::read(self.log_file()).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let lines: Vec<_> = log.lines().collect();
        lines[lines.len().saturating_sub(MAX_LINES)..].join("\n")
    }

    fn log_file(&self) -> PathBuf {
        self.directory().join("log")
    }

    fn process(&self) -> MutexGuard<'_, Option<Process>> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[track_caller]
    fn signal(&self, name: &str) {
        match &*self.process() {
            Some(process) => process.signal(name),
            None => panic!("the server was killed"),
        }
    }

    /// Starts the process and waits until it answers.
    fn launch(&self) -> Result<(), Failure> {
        let mut command = self.start_command();
        let binary = command.get_program().display().to_string();
        let process = Process::start(&mut command, &self.log_file(), self.directory());
        let mut process = process
            .map_err(|error| Failure::Other(format!("{binary} cannot be started: {error}")))?;
        let answers = wait(START, || {
            let ended = process.has_ended();
            let pong = self.try_command(&["PING"], START);
            let answers = pong.is_ok_and(|it| it.as_text() == Some("PONG"));
            (ended || answers).then_some(answers)
        });
        let fault = match answers {
            Some(true) => {
                *self.process() = Some(process);
                return Ok(());
            }
            Some(false) => "has ended",
            None => "does not answer",
        };
        let why = format!("{binary} {fault}:\n{}", self.log());
        if why.contains("Address already in use") {
            return Err(Failure::AddressInUse(why));
        }
        Err(Failure::Other(why))
    }

    fn start_command(&self) -> Command {
        let Builder {
            binary,
            listens,
            role,
            password,
            args,
            ..
        } = &self.builder;
        let mut command = Command::new(binary.clone().unwrap_or_else(redis_server));
        command.current_dir(self.directory());
        if let Role::Sentinel(_) = role {
            command.args(["sentinel.conf", "--sentinel"]);
        } else {
            // A replica is useful at once, not in five seconds.
            command.args(["--save", "", "--appendonly", "no"]);
            command.args(["--repl-diskless-sync", "yes"]);
            command.args(["--repl-diskless-sync-delay", "0"]);
        }
        let port = self.ports.own.to_string();
        command.args(["--bind", "127.0.0.1", "--unixsocket", "redis.sock"]);
        match listens {
            Listens::Tcp | Listens::Unix => command.args(["--port", &port]),
            Listens::Tls => command
                .args(["--port", "0", "--tls-port", &port])
                .args(tls::SERVER_ARGS),
        };
        if let Role::ClusterNode = role {
            command.args(["--cluster-enabled", "yes", "--cluster-port"]);
            command.arg(self.ports.bus.to_string());
        }
        if let Some(password) = password {
            command.args(["--requirepass", password, "--masterauth", password]);
        }
        command.args(args);
        command
    }
}

/// The value of `field:value` in a text of such lines.
pub(super) fn lookup(text: &Value, field: &str) -> Option<String> {
    let mut lines = text.as_text()?.lines();
    lines.find_map(|line| {
        let value = line.strip_prefix(field)?.strip_prefix(':')?;
        Some(value.to_owned())
    })
}

/// Microseconds of seconds with six digits behind the point.
fn micros(seconds: &str) -> Option<u64> {
    let (whole, part) = seconds.split_once('.')?;
    if part.len() != 6 {
        return None;
    }
    Some(whole.parse::<u64>().ok()? * 1_000_000 + part.parse::<u64>().ok()?)
}

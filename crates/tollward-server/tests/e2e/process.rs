//! The binary as a process.

use std::io::{BufRead, BufReader, Read};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use crate::served::{ANY_PORT, until};

/// A running `tollward serve`. It is killed, by its id, when the test lets go of it.
pub(crate) struct Process {
    pub(crate) api: SocketAddr,
    pub(crate) admin: SocketAddr,
    child: Child,
    stdout: Text,
    stderr: Text,
}

/// What a process has printed so far, whole lines.
type Text = Arc<Mutex<String>>;

impl Process {
    /// Starts a server on free ports, and reads from what it prints where it listens.
    pub(crate) fn serve(args: &[&str]) -> Self {
        Self::start(tollward().arg("serve").args(args))
    }

    /// The same of a whole `serve` command, which may have an environment of its own.
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut child = command
            .args(["--api", "127.0.0.1:0", "--admin", "127.0.0.1:0"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (stdout, stderr) = (Text::default(), Text::default());
        collect(child.stdout.take().unwrap(), stdout.clone());
        collect(child.stderr.take().unwrap(), stderr.clone());
        // Whole before it is waited for, so that it is killed when the wait is given up.
        let mut process = Self {
            api: ANY_PORT,
            admin: ANY_PORT,
            child,
            stdout,
            stderr,
        };
        (process.api, process.admin) = process.until_started();
        process
    }

    /// Where it listens; fails the test if it has not said so after some 30 seconds.
    fn until_started(&mut self) -> (SocketAddr, SocketAddr) {
        for _ in 0..3000 {
            // Asked before the look: what it printed before its end counts.
            let ended = self.child.try_wait().unwrap();
            if let (Some(api), Some(admin)) = (self.said("/v1/check"), self.said("/metrics")) {
                return (api, admin);
            }
            if let Some(status) = ended {
                panic!("it did not start: {status}\n{}", self.output());
            }
            thread::sleep(Duration::from_millis(10));
        }
        panic!("it does not say where it listens:\n{}", self.output());
    }

    /// The address at which it says this page is.
    fn said(&self, page: &str) -> Option<SocketAddr> {
        let said = self.stdout.lock().unwrap();
        let line = said.lines().find(|line| line.ends_with(page))?;
        let (_, address) = line.split_once("http://")?;
        Some(address.trim_end_matches(page).parse().unwrap())
    }

    /// All it has printed so far.
    pub(crate) fn output(&self) -> String {
        format!("{}{}", self.stdout.lock().unwrap(), self.stderr())
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// What it has complained about so far.
    pub(crate) fn stderr(&self) -> String {
        self.stderr.lock().unwrap().clone()
    }

    /// Sends `TERM`, `HUP` or `INT`.
    pub(crate) fn signal(&self, name: &str) {
        let kill = format!("kill -{name} {}", self.id());
        let sent = Command::new("sh").args(["-c", &kill]).status().unwrap();
        assert!(sent.success(), "{kill}");
    }

    /// Waits for its end, and gives its exit code; none if a signal ended it.
    pub(crate) fn wait(&mut self) -> Option<i32> {
        let mut status = None;
        until("the end of the process", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        status.unwrap().code()
    }

    /// Waits until nobody listens at this address any more.
    pub(crate) fn until_closed(address: SocketAddr) {
        until("a closed door", || TcpStream::connect(address).is_err());
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn collect(from: impl Read + Send + 'static, into: Text) {
    thread::spawn(move || {
        for line in BufReader::new(from).lines().map_while(Result::ok) {
            let mut text = into.lock().unwrap();
            text.push_str(&line);
            text.push('\n');
        }
    });
}

/// The command, without what the environment would tell it.
pub(crate) fn tollward() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tollward"));
    for variable in [
        "TOLLWARD_CONFIG",
        "TOLLWARD_URL",
        "TOLLWARD_REDIS",
        "TOLLWARD_DIRECTORY",
        "TOLLWARD_ADMIN_URL",
        "TOLLWARD_API_TOKEN",
        "TOLLWARD_ADMIN_TOKEN",
    ] {
        command.env_remove(variable);
    }
    command
}

/// What a command that ends by itself said.
pub(crate) struct Said {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Said {
    pub(crate) fn new(command: &mut Command) -> Self {
        let Output {
            status,
            stdout,
            stderr,
        } = command.stdin(Stdio::null()).output().unwrap();
        let said = Self {
            code: status.code(),
            out: String::from_utf8(stdout).unwrap(),
            err: String::from_utf8(stderr).unwrap(),
        };
        for word in ["panicked", "backtrace", "RUST_BACKTRACE", "unwrap()"] {
            let all = format!("{}{}", said.out, said.err);
            assert!(!all.contains(word), "{all}");
        }
        said
    }
}

/// Runs the command to its end.
pub(crate) fn run(args: &[&str]) -> Said {
    Said::new(tollward().args(args))
}

/// A path as an argument.
pub(crate) fn arg(path: &Path) -> &str {
    path.to_str().unwrap()
}

//! The gateway as a process.

use std::net::SocketAddr;
use std::path::PathBuf;

use tollward_testkit::http::Connection;

use crate::process::{Process, arg};
use crate::served::{Folder, get, until};

/// A running `tollward serve` with a gateway. It is killed when the test lets go of it.
pub(crate) struct GatewayProcess {
    pub(crate) gateway: SocketAddr,
    pub(crate) process: Process,
}

impl GatewayProcess {
    /// Starts it on free ports.
    pub(crate) fn serve(args: &[&str]) -> Self {
        let args = [args, &["--gateway", "127.0.0.1:0"]].concat();
        let process = Process::serve(&args);
        let said = process.output();
        let line = said.lines().find(|line| line.starts_with("  gateway"));
        let line = line.unwrap_or_else(|| panic!("no gateway: {said}"));
        let (_, address) = line.split_once("://").unwrap();
        let gateway = address.trim_end_matches('/').parse().unwrap();
        Self { gateway, process }
    }

    /// Starts it with this configuration, in a folder to be kept.
    pub(crate) fn of(config: &str, args: &[&str]) -> (Self, Folder, PathBuf) {
        let folder = Folder::new();
        let file = folder.write("tollward.yaml", config);
        let args = [&["--config", arg(&file)], args].concat();
        (Self::serve(&args), folder, file)
    }

    pub(crate) fn connect(&self) -> Connection {
        Connection::open(self.gateway).unwrap()
    }

    pub(crate) fn metrics(&self) -> String {
        get(self.process.admin, "/metrics").text()
    }

    /// Reads the file again, and waits until what it says is in force.
    pub(crate) fn reload(&self) {
        let reloads = || {
            let page = self.metrics();
            let ok = "tollward_config_reloads_total{result=\"ok\"} ";
            let found = page.lines().find_map(|line| line.strip_prefix(ok));
            found.map_or(0, |count| count.parse::<u64>().unwrap())
        };
        let before = reloads();
        self.process.signal("HUP");
        until("a reload", || reloads() > before);
    }

    /// Tells it to end, and waits until it takes no more connections.
    pub(crate) fn close(&self) {
        self.process.signal("TERM");
        Process::until_closed(self.gateway);
    }

    /// Waits for a good end.
    pub(crate) fn ended(&mut self) {
        let code = self.process.wait();
        assert_eq!(code, Some(0), "{}", self.process.stderr());
    }

    /// Tells it to end, and waits for a good end.
    pub(crate) fn end(&mut self) {
        self.process.signal("TERM");
        self.ended();
    }
}

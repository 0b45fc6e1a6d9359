//! A gateway inside the test.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Runtime;
use tollward_server::{Options, Server, Source};
use tollward_testkit::clock::ManualClock;
use tollward_testkit::http::{Connection, Response};

use crate::served::{ANY_PORT, Folder, get};

/// A running gateway. It ends with the test.
pub(crate) struct Gated {
    pub(crate) gateway: SocketAddr,
    pub(crate) api: SocketAddr,
    pub(crate) admin: SocketAddr,
    clock: Option<Arc<ManualClock>>,
    runtime: Option<Runtime>,
}

impl Gated {
    /// A gateway with this configuration, and a clock that the test moves.
    pub(crate) fn of(config: &str) -> Self {
        Self::start(config, Some(Arc::new(ManualClock::new())))
    }

    /// A gateway with this configuration, and the machine's clock.
    pub(crate) fn in_real_time(config: &str) -> Self {
        Self::start(config, None)
    }

    fn start(config: &str, clock: Option<Arc<ManualClock>>) -> Self {
        let folder = Folder::new();
        // The file goes when this returns: a server does not need it once it has started.
        let mut options = Options::new(Source::File(folder.write("tollward.yaml", config)));
        options.gateway = Some(ANY_PORT);
        options.api = Some(ANY_PORT);
        options.admin = Some(ANY_PORT);
        if let Some(clock) = &clock {
            options.clock = Some(clock.clone());
        }
        let runtime = Runtime::new().unwrap();
        let server = runtime.block_on(Server::start(options)).unwrap();
        let mut gated = Self {
            gateway: server.gateway().unwrap(),
            api: server.api().unwrap(),
            admin: server.admin().unwrap(),
            clock,
            runtime: None,
        };
        runtime.spawn(server.run());
        gated.runtime = Some(runtime);
        gated
    }

    pub(crate) fn connect(&self) -> Connection {
        Connection::open(self.gateway).unwrap()
    }

    /// The answer to a GET on a connection of its own.
    pub(crate) fn get(&self, target: &str, headers: &[(&str, &str)]) -> Response {
        self.ask("GET", target, headers)
    }

    /// The answer to a request without a body on a connection of its own.
    pub(crate) fn ask(&self, method: &str, target: &str, headers: &[(&str, &str)]) -> Response {
        let answer = self.connect().request(method, target, headers, b"");
        answer.unwrap_or_else(|error| panic!("{method} {target}: {error}"))
    }

    /// The answer to a GET with an API key.
    pub(crate) fn with_key(&self, key: &str, target: &str) -> Response {
        self.get(target, &[("x-api-key", key)])
    }

    pub(crate) fn advance_ms(&self, ms: u64) {
        let clock = self.clock.as_ref().expect("a clock that can be moved");
        clock.advance(Duration::from_millis(ms));
    }

    pub(crate) fn unix_secs(&self) -> u64 {
        let clock = self.clock.as_ref().expect("a clock that can be read");
        clock.unix_secs()
    }

    pub(crate) fn metrics(&self) -> String {
        get(self.admin, "/metrics").text()
    }
}

impl Drop for Gated {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// A number in a header.
pub(crate) fn number(response: &Response, name: &str) -> u64 {
    let value = response.header(name);
    let value = value.unwrap_or_else(|| panic!("no {name}: {:?}", response.headers));
    value.parse().unwrap()
}

/// What is left, by the headers.
pub(crate) fn remaining(response: &Response) -> u64 {
    number(response, "x-ratelimit-remaining")
}

/// How many of so many requests on one connection pass; the others are 429.
pub(crate) fn passed(gated: &Gated, requests: usize, target: &str, key: &str) -> usize {
    let mut connection = gated.connect();
    let headers = [("x-api-key", key)];
    let ask = |_: &usize| {
        let answer = connection.request("GET", target, &headers, b"").unwrap();
        assert!(matches!(answer.status, 200 | 429), "{}", answer.text());
        answer.status == 200
    };
    (0..requests).filter(ask).count()
}

/// The hash under which a key is listed.
pub(crate) fn sha256(key: &str) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, key.as_bytes());
    let digits = digest.as_ref().iter().map(|byte| format!("{byte:02x}"));
    digits.collect()
}

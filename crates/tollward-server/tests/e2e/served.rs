//! A server inside the test, with a clock that the test moves.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use serde_json::Value;
use tokio::runtime::Runtime;
use tollward_engine::Engine;
use tollward_server::{Options, Server, Source, Stop};
use tollward_testkit::clock::ManualClock;
use tollward_testkit::http::{Connection, Response};

/// Any free port of this machine.
pub(crate) const ANY_PORT: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// A running server. It ends with the test.
pub(crate) struct Served {
    pub(crate) api: SocketAddr,
    pub(crate) admin: SocketAddr,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) engine: Arc<Engine>,
    stop: Stop,
    runtime: Option<Runtime>,
}

impl Served {
    /// Serves a file of `examples/` as it stands.
    pub(crate) fn example(name: &str) -> Self {
        Self::start(Options::new(Source::File(example(name))))
    }

    /// Serves this configuration.
    pub(crate) fn of(config: &str) -> Self {
        Self::with(config, |_| {})
    }

    /// Serves this configuration with other options.
    pub(crate) fn with(config: &str, change: impl FnOnce(&mut Options)) -> Self {
        let folder = Folder::new();
        let mut options = Options::new(Source::File(folder.write("tollward.yaml", config)));
        change(&mut options);
        // The file goes when this returns: a server does not need it once it has started.
        Self::start(options)
    }

    fn start(options: Options) -> Self {
        let clock = Arc::new(ManualClock::new());
        let options = Options {
            api: Some(ANY_PORT),
            admin: Some(ANY_PORT),
            clock: Some(clock.clone()),
            ..options
        };
        let runtime = Runtime::new().unwrap();
        let server = runtime.block_on(Server::start(options)).unwrap();
        let mut served = Self {
            api: server.api().unwrap(),
            admin: server.admin().unwrap(),
            engine: server.engine().clone(),
            stop: server.stop(),
            clock,
            runtime: None,
        };
        runtime.spawn(server.run());
        served.runtime = Some(runtime);
        served
    }

    pub(crate) fn client(&self) -> Client {
        Client::new(self.api)
    }

    pub(crate) fn advance_ms(&self, ms: u64) {
        self.clock.advance(Duration::from_millis(ms));
    }

    pub(crate) fn advance_secs(&self, secs: u64) {
        self.clock.advance(Duration::from_secs(secs));
    }

    /// A page of the admin door.
    pub(crate) fn admin_page(&self, target: &str) -> Response {
        get(self.admin, target)
    }

    pub(crate) fn stop(&self) {
        self.stop.stop();
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// A caller of the decision API, on one connection.
pub(crate) struct Client(pub(crate) Connection);

impl Client {
    pub(crate) fn new(api: SocketAddr) -> Self {
        Self(Connection::open(api).unwrap())
    }

    pub(crate) fn post(&mut self, target: &str, body: impl AsRef<[u8]>) -> Response {
        let response = self.0.request("POST", target, &[], body.as_ref());
        response.unwrap_or_else(|error| panic!("POST {target}: {error}"))
    }

    /// The answer to a check, as it came.
    pub(crate) fn ask(&mut self, check: Value) -> Response {
        self.post("/v1/check", check.to_string())
    }

    /// The answer to a check in JSON, with its status.
    pub(crate) fn check(&mut self, check: Value) -> (u16, Value) {
        let response = self.ask(check);
        (response.status, json(&response))
    }

    /// What a client would be answered.
    pub(crate) fn client_answer(&mut self, check: Value) -> Response {
        self.post("/v1/check?answer=client", check.to_string())
    }

    /// Asks until it is refused; how often it was admitted, and the refusal.
    pub(crate) fn exhaust(&mut self, check: &Value) -> (u32, Value) {
        for admitted in 0..100_000 {
            match self.check(check.clone()) {
                (200, _) => {}
                (429, refusal) => return (admitted, refusal),
                (status, body) => panic!("{status}: {body}"),
            }
        }
        panic!("never refused: {check}")
    }
}

pub(crate) fn get(address: SocketAddr, target: &str) -> Response {
    let mut connection = Connection::open(address).unwrap();
    connection.request("GET", target, &[], b"").unwrap()
}

pub(crate) fn json(response: &Response) -> Value {
    serde_json::from_slice(&response.body)
        .unwrap_or_else(|error| panic!("{error}: {:?}", response.text()))
}

/// Asserts that a response is a problem of this status, as RFC 9457 has it.
pub(crate) fn assert_problem(response: &Response, status: u16, what: &str) -> Value {
    let text = response.text();
    assert_eq!(response.status, status, "{what}: {text}");
    let media_type = response.header("content-type");
    assert_eq!(media_type, Some("application/problem+json"), "{what}");
    let retry_after = (status == 503).then_some("1");
    assert_eq!(response.header("retry-after"), retry_after, "{what}");
    let problem = json(response);
    assert_eq!(problem["status"], status, "{what}: {text}");
    for member in ["type", "title", "detail"] {
        let words = problem[member].as_str().unwrap_or_default();
        assert!(!words.is_empty(), "{what} has no {member}: {text}");
    }
    problem
}

pub(crate) fn example(name: &str) -> PathBuf {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    examples.join(name)
}

/// A folder of a test's own. It goes with the test.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let count = COUNT.fetch_add(1, Relaxed);
        let name = format!("e2e-{}-{count}", std::process::id());
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, text).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Waits until something is so; gives up, and fails, long after it should have been.
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    for _ in 0..6000 {
        if is_so() {
            return;
        }
        thread::sleep(Duration::from_millis(10));
    }
    panic!("never came about: {what}");
}

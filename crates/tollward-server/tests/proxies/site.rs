//! A proxy that asks Tollward, and a service behind it.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use tokio::net::TcpSocket;
use tokio::runtime::Runtime;
use tollward_testkit::http::{Connection, Response, head};
use tollward_testkit::tools::Running;
use tollward_testkit::upstream::{Request, Upstream, answer};

use crate::process::{Process, arg};
use crate::recipe::{Addresses, Proxy};
use crate::served::Folder;

/// Windows are days, so that nothing refills while a test runs.
const CONFIG: &str = r#"
identity: { anonymous: { plan: anonymous } }
plans:
  anonymous: { rate_limit: { sustained: { rate: 3, window: day }, scope: ip } }
  free: { rate_limit: { sustained: { rate: 5, window: day } } }
  pro: { rate_limit: { sustained: { rate: 1, window: day }, burst: { capacity: 100000 } } }
tenants: { acme: { plan: free }, bravo: { plan: pro } }
keys:
  - { sha256: "689febd264f8b977e29c0fdb75f839eb248ba07d1561b14f2b95f42756943245", tenant: acme, user: ann }
  - { sha256: "90773e9d389ecd684e01d411aed1eb6e5fd39b894c1dfd2cd210182185a0767b", tenant: bravo }
routes:
  - { match: "POST /v1/chat", cost: 100 }
  - { match: "/v1/chat", cost: 10 }
  - { match: /closed, deny: true }
  - { match: /open, allow: true }
  - { match: /huge, cost: 500000 }
  - match: /reports
    rate_limit: { sustained: { rate: 1, window: day }, strategy: degrade }
  - match: /patient
    rate_limit: { sustained: { rate: 2 }, burst: { capacity: 1 }, strategy: queue, queue: { max_wait: 1s } }
"#;

/// The key of acme, which is on the plan `free`: five requests.
pub(crate) const ACME: &str = "key-of-acme";
/// The key of bravo, which is on the plan `pro`: a hundred thousand tokens.
pub(crate) const BRAVO: &str = "key-of-bravo";
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Site {
    pub(crate) proxy: Proxy,
    pub(crate) service: Upstream,
    pub(crate) tollward: Process,
    running: Running,
}

impl Site {
    /// Starts all of it; nothing if the proxy is not on this machine.
    pub(crate) fn start(proxy: Proxy) -> Option<Self> {
        let tool = proxy.tool();
        let program = tool.find();
        if program.is_none() {
            println!("left out: there is no {}", tool.name);
        }
        program.map(|program| Self::with(proxy, &program))
    }

    fn with(proxy: Proxy, program: &Path) -> Self {
        let folder = Folder::new();
        let config = folder.write("tollward.yaml", CONFIG);
        let tollward = Process::serve(&["--config", arg(&config)]);
        let service = Upstream::answering(serve);
        let command = |directory: &Path, address| {
            let addresses = Addresses {
                proxy: address,
                tollward: tollward.api,
                service: service.addr(),
            };
            proxy.command(program, directory, addresses)
        };
        // A proxy may listen before it knows where requests go. This one is not limited.
        let is_whole = |address| {
            let mut connection = Connection::open(address).ok()?;
            let answer = connection.request("GET", "/open", &[], b"").ok()?;
            (answer.text() == "GET /open").then_some(())
        };
        let running = Running::start(command, |address| is_whole(address).is_some());
        Self {
            proxy,
            service,
            tollward,
            running,
        }
    }

    pub(crate) fn ask(&self, method: &str, target: &str, headers: &[(&str, &str)]) -> Response {
        let mut connection = Connection::open(self.running.addr()).unwrap();
        let body: &[u8] = if method == "POST" { b"a body" } else { b"" };
        let answer = connection.request(method, target, headers, body);
        answer.unwrap_or_else(|error| {
            panic!("{method} {target}: {error}\n{}", self.running.log());
        })
    }

    /// The answer to these bytes.
    pub(crate) fn send(&self, bytes: &str) -> Response {
        let mut connection = Connection::open(self.running.addr()).unwrap();
        connection.send(bytes.as_bytes()).unwrap();
        connection.read(false).unwrap()
    }

    pub(crate) fn get(&self, target: &str, headers: &[(&str, &str)]) -> Response {
        self.ask("GET", target, headers)
    }

    /// The status of an answer to whoever calls from this address of the loopback interface.
    pub(crate) fn status_from(&self, ip: Ipv4Addr, headers: &[(&str, &str)]) -> u16 {
        let runtime = Runtime::new().unwrap();
        let mut stream = runtime.block_on(async {
            // The standard library cannot choose an address before it connects.
            let socket = TcpSocket::new_v4().unwrap();
            socket.bind(SocketAddr::from((ip, 0))).unwrap();
            let connected = socket.connect(self.running.addr()).await;
            connected.unwrap().into_std().unwrap()
        });
        stream.set_nonblocking(false).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let request = head("GET", "/", headers, 0);
        stream.write_all(request.as_bytes()).unwrap();
        let mut start = [0; "HTTP/1.1 200".len()];
        stream.read_exact(&mut start).unwrap();
        let start = std::str::from_utf8(&start).unwrap();
        start.rsplit(' ').next().unwrap().parse().unwrap()
    }

    /// How many requests have reached the service, but those that waited for the site.
    pub(crate) fn passed(&self) -> usize {
        let seen = self.service.seen();
        seen.iter().filter(|it| it.target != "/open").count()
    }
}

/// The service: it says what it was asked, and has refusals of its own.
fn serve(request: &Request) -> Vec<u8> {
    let words = format!("{} {}", request.method, request.target);
    match &*request.target {
        "/own/403" => answer(403, &[], words.as_bytes()),
        "/own/429" => answer(429, &[("retry-after", "7")], words.as_bytes()),
        _ => answer(200, &[], words.as_bytes()),
    }
}

/// The headers of a caller with this key.
pub(crate) fn key(key: &str) -> [(&str, &str); 1] {
    [("x-api-key", key)]
}

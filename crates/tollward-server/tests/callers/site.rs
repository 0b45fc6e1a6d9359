//! A server with all of its doors, before an upstream.

use std::net::SocketAddr;
use std::sync::Arc;

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use tokio::runtime::Runtime;
use tollward_policy::DirectoryUrl;
use tollward_server::{Options, Server, Source};
use tollward_testkit::clock::ManualClock;
use tollward_testkit::http::{Connection, Response};
use tollward_testkit::upstream::Upstream;

use crate::served::{ANY_PORT, Folder, json};

const TOKEN: &str = "s3cret-of-the-operator";

/// Who says so is believed: the tests stand where a proxy would.
pub(crate) const TRUSTING: &str = "
identity:
  user: { header: X-User-Id }
  client: { header: X-Client-Id }
  ip: { trusted_proxies: [127.0.0.1] }
";

/// A running server, its files and what it stands before. It ends with the test.
pub(crate) struct Site {
    pub(crate) upstream: Upstream,
    gateway: SocketAddr,
    api: SocketAddr,
    pub(crate) admin: SocketAddr,
    clock: Arc<ManualClock>,
    folder: Folder,
    runtime: Option<Runtime>,
}

impl Site {
    /// A server with this configuration. Unless it has routes, all paths go to the upstream `app`.
    pub(crate) fn of(config: &str) -> Self {
        let mut site = Self {
            upstream: Upstream::start(),
            gateway: ANY_PORT,
            api: ANY_PORT,
            admin: ANY_PORT,
            clock: Arc::new(ManualClock::new()),
            folder: Folder::new(),
            runtime: None,
        };
        site.start(config);
        site
    }

    /// Ends the server, and starts it with another configuration and the same directory.
    pub(crate) fn restart(&mut self, config: &str) {
        self.end();
        self.start(config);
    }

    /// Asks the server to read another configuration.
    pub(crate) fn reload(&self, config: &str) -> Response {
        self.write(config);
        self.post("config/reload", &Value::Null)
    }

    fn write(&self, config: &str) -> std::path::PathBuf {
        let routes = match config.contains("\nroutes:") {
            true => "",
            false => "routes: [ { match: /**, upstream: app } ]\n",
        };
        let url = self.upstream.url();
        let whole = format!("{config}\n{routes}upstreams: {{ app: {{ url: {url} }} }}\n");
        self.folder.write("tollward.yaml", &whole)
    }

    fn start(&mut self, config: &str) {
        let file = self.folder.0.join("directory.db");
        let options = Options {
            gateway: Some(ANY_PORT),
            api: Some(ANY_PORT),
            admin: Some(ANY_PORT),
            admin_token: Some(TOKEN.to_owned()),
            directory: Some(DirectoryUrl::Sqlite(file)),
            clock: Some(self.clock.clone()),
            ..Options::new(Source::File(self.write(config)))
        };
        let runtime = Runtime::new().unwrap();
        let server = runtime.block_on(Server::start(options)).unwrap();
        self.gateway = server.gateway().unwrap();
        self.api = server.api().unwrap();
        self.admin = server.admin().unwrap();
        runtime.spawn(server.run());
        self.runtime = Some(runtime);
    }

    fn end(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }

    /// The answer of the gateway to a GET.
    pub(crate) fn get(&self, target: &str, headers: &[(&str, &str)]) -> Response {
        request(self.gateway, "GET", target, headers, "")
    }

    /// The answer of the decision API.
    pub(crate) fn check(&self, check: &Value) -> Response {
        request(self.api, "POST", "/v1/check", &[], &check.to_string())
    }

    /// The answer of the door for a proxy, asked about a GET.
    pub(crate) fn auth(&self, proxy: &str, target: &str, headers: &[(&str, &str)]) -> Response {
        let asked = [
            ("x-original-method", "GET"),
            ("x-original-uri", target),
            ("x-forwarded-method", "GET"),
            ("x-forwarded-uri", target),
        ];
        let door = match proxy {
            "envoy" => format!("/auth/envoy{target}"),
            proxy => format!("/auth/{proxy}"),
        };
        request(self.api, "GET", &door, &[headers, &asked].concat(), "")
    }

    /// What would be left to a caller, in every bucket that it would be charged to.
    pub(crate) fn left(&self, caller: &Caller<'_>) -> Vec<(String, u64)> {
        let mut check = caller.check("/");
        check["peek"] = json!(true);
        let answer = json(&self.check(&check));
        let limits = answer["limits"].as_array().unwrap().iter();
        let of = |limit: &Value| {
            let name = limit["name"].as_str().unwrap().to_owned();
            (name, limit["remaining"].as_u64().unwrap())
        };
        limits.map(of).collect()
    }

    /// The status and the reason of an answer, which is the same at all doors.
    #[track_caller]
    pub(crate) fn everywhere(&self, caller: &Caller<'_>) -> (u16, Option<String>) {
        let headers = caller.headers();
        let gateway = told(&self.get("/", &headers));
        assert_eq!(told(&self.check(&caller.check("/"))), gateway, "{caller:?}");
        for proxy in ["traefik", "envoy", "nginx"] {
            let answer = self.auth(proxy, "/", &headers);
            assert_eq!(told(&answer), gateway, "{proxy}: {caller:?}");
        }
        gateway
    }

    /// Asserts that all doors answer with this.
    #[track_caller]
    pub(crate) fn refuses(&self, caller: &Caller<'_>, status: u16, reason: &str) {
        let answer = self.everywhere(caller);
        assert_eq!(answer, (status, Some(reason.to_owned())), "{caller:?}");
    }

    /// Asserts that all doors let a caller in.
    #[track_caller]
    pub(crate) fn admits(&self, caller: &Caller<'_>) {
        assert_eq!(self.everywhere(caller), (200, None), "{caller:?}");
    }

    /// Asks for something below `/admin/v1/`; changes whatever version it has.
    pub(crate) fn ask(&self, method: &str, target: &str, body: &Value) -> Response {
        let bearer = format!("Bearer {TOKEN}");
        let headers = [("authorization", bearer.as_str()), ("if-match", "*")];
        let text = match body {
            Value::Null => String::new(),
            body => body.to_string(),
        };
        let target = format!("/admin/v1/{target}");
        request(self.admin, method, &target, &headers, &text)
    }

    pub(crate) fn post(&self, target: &str, body: &Value) -> Response {
        self.ask("POST", target, body)
    }

    /// What is there, which it has to be.
    #[track_caller]
    pub(crate) fn shown(&self, target: &str) -> Value {
        done(&self.ask("GET", target, &Value::Null), 200)
    }

    /// Makes something, which has to be possible.
    #[track_caller]
    pub(crate) fn made(&self, target: &str, body: &Value) -> Value {
        done(&self.post(target, body), 201)
    }

    /// Changes something, which has to be possible.
    #[track_caller]
    pub(crate) fn changed(&self, method: &str, target: &str, body: &Value) -> Value {
        done(&self.ask(method, target, body), 200)
    }

    /// Makes an API key: its id and its secret.
    #[track_caller]
    pub(crate) fn key(&self, body: &Value) -> (String, String) {
        let made = self.made("keys", body);
        let text = |name: &str| made[name].as_str().unwrap().to_owned();
        (text("id"), text("secret"))
    }

    /// The events of the audit trail about somebody, the oldest first.
    pub(crate) fn events(&self, identifier: &str) -> Vec<String> {
        let events = self.shown(&format!("audit?identifier={identifier}"));
        let events = events["items"].as_array().unwrap().iter().rev();
        let name = |event: &Value| event["event"].as_str().unwrap().to_owned();
        events.map(name).collect()
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.end();
    }
}

/// Whoever calls, by what it says of itself.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Caller<'a> {
    pub(crate) key: Option<&'a str>,
    pub(crate) user: Option<&'a str>,
    pub(crate) client: Option<&'a str>,
    pub(crate) ip: Option<&'a str>,
}

impl<'a> Caller<'a> {
    pub(crate) fn key(key: &'a str) -> Self {
        Self {
            key: Some(key),
            ..Self::default()
        }
    }

    pub(crate) fn user(user: &'a str) -> Self {
        Self {
            user: Some(user),
            ..Self::default()
        }
    }

    pub(crate) fn client(client: &'a str) -> Self {
        Self {
            client: Some(client),
            ..Self::default()
        }
    }

    pub(crate) fn from(self, ip: &'a str) -> Self {
        Self {
            ip: Some(ip),
            ..self
        }
    }

    /// As a request over HTTP says it.
    pub(crate) fn headers(&self) -> Vec<(&'a str, &'a str)> {
        let all = [
            ("x-api-key", self.key),
            ("x-user-id", self.user),
            ("x-client-id", self.client),
            ("x-forwarded-for", self.ip),
        ];
        let said = all.into_iter();
        said.filter_map(|(name, value)| Some((name, value?)))
            .collect()
    }

    /// As the decision API is told it.
    pub(crate) fn check(&self, path: &str) -> Value {
        let all = [
            ("api_key", self.key),
            ("user", self.user),
            ("client", self.client),
            ("ip", self.ip),
            ("path", Some(path)),
        ];
        let said = all.into_iter();
        let said = said.filter_map(|(name, value)| Some((name.to_owned(), json!(value?))));
        Value::Object(said.collect::<Map<_, _>>())
    }
}

fn request(
    address: SocketAddr,
    method: &str,
    target: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Response {
    let mut connection = Connection::open(address).unwrap();
    let answer = connection.request(method, target, headers, body.as_bytes());
    answer.unwrap_or_else(|error| panic!("{method} {target}: {error}"))
}

/// The status of an answer, and the reason for it. nginx is told another status than the client.
pub(crate) fn told(answer: &Response) -> (u16, Option<String>) {
    let status = answer.header("x-tollward-status");
    let status = status.map_or(answer.status, |status| status.parse().unwrap());
    let reason = (status != 200).then(|| json(answer)["reason"].as_str().map(str::to_owned));
    (status, reason.flatten())
}

#[track_caller]
pub(crate) fn done(response: &Response, status: u16) -> Value {
    assert_eq!(response.status, status, "{}", response.text());
    json(response)
}

/// A problem of this status and reason.
#[track_caller]
pub(crate) fn refused(response: &Response, status: u16, reason: &str) -> Value {
    let problem = done(response, status);
    assert_eq!(problem["reason"], reason, "{problem}");
    problem
}

/// The hash under which a key is listed.
pub(crate) fn sha256(key: &str) -> String {
    let digest = Sha256::digest(key.as_bytes());
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

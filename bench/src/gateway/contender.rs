//! The gateways, each with one worker, a limit that nobody reaches and one that everybody has reached.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::process::{Server, free_address};

/// The keys that clients send: one that is always admitted, and one that is always refused.
pub(super) const ADMITTED: &str = "demo-enterprise";
pub(super) const REFUSED: &str = "demo-free";

/// A gateway that runs.
pub(super) struct Contender {
    pub(super) name: &'static str,
    pub(super) server: Server,
    /// Where to go with the key that is admitted.
    pub(super) admitting: SocketAddr,
    /// And with the one that is refused.
    pub(super) refusing: SocketAddr,
}

/// A folder for configurations, which goes away with this value.
pub(super) struct Folder(PathBuf);

impl Folder {
    pub(super) fn new() -> anyhow::Result<Self> {
        let name = format!("tollward-bench-gateway-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path)?;
        Ok(Self(path))
    }

    fn write(&self, name: &str, text: &str) -> anyhow::Result<PathBuf> {
        let path = self.0.join(name);
        std::fs::write(&path, text)?;
        Ok(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub(super) fn tollward(
    binary: &Path,
    folder: &Folder,
    upstream: SocketAddr,
) -> anyhow::Result<Contender> {
    let config = format!(
        "\
gateway: {{ workers: 1, access_log: \"off\" }}
plans:
  large:
    rate_limit:
      sustained: {{ rate: 1000000000, window: second }}
      burst: {{ capacity: 1000000000 }}
      scope: tenant
  small:
    rate_limit:
      sustained: {{ rate: 1, window: hour }}
      burst: {{ capacity: 1 }}
      scope: tenant
tenants:
  bigcorp: {{ plan: large }}
  hobbyist: {{ plan: small }}
keys:
  - {{ sha256: ae3f7e73ea6034735cf24ff7eccb3e66ea95c2684c859962499f1278f06c3670, tenant: bigcorp }}
  - {{ sha256: e1f4fdb94683a17c8a5d9e6dc6cca27c4a2f827dbe26ede139c17a61127b1f4f, tenant: hobbyist }}
routes:
  - {{ match: /**, upstream: app }}
upstreams:
  app: {{ url: http://{upstream} }}
"
    );
    let config = folder.write("tollward.yaml", &config)?;
    let gateway = free_address()?;
    let mut command = Command::new(binary);
    command.arg("serve").arg("--config").arg(config);
    for (option, address) in [
        ("--gateway", gateway),
        ("--api", free_address()?),
        ("--admin", free_address()?),
    ] {
        command.args([option, &address.to_string()]);
    }
    Ok(Contender {
        name: "tollward",
        server: Server::start(&mut command, gateway)?,
        admitting: gateway,
        refusing: gateway,
    })
}

/// `limit_req` by the key. What it tells the upstream of the client is what everybody has it tell.
pub(super) fn nginx(
    binary: &Path,
    folder: &Folder,
    upstream: SocketAddr,
) -> anyhow::Result<Contender> {
    let (admitting, refusing) = (free_address()?, free_address()?);
    let mut config = String::from(
        "\
daemon off;
worker_processes 1;
pid nginx.pid;
error_log error.log crit;
events { worker_connections 1024; }
http {
  access_log off;
",
    );
    for kind in ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"] {
        let _ = writeln!(config, "  {kind}_temp_path {kind};");
    }
    let _ = write!(
        config,
        "\
  keepalive_requests 1000000000;
  limit_req_zone $http_x_api_key zone=large:10m rate=1000000r/s;
  limit_req_zone $http_x_api_key zone=small:10m rate=1r/m;
  limit_req_status 429;
  proxy_http_version 1.1;
  proxy_set_header Connection \"\";
  proxy_set_header Host $http_host;
  proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
  proxy_set_header X-Forwarded-Proto $scheme;
  upstream app {{ server {upstream}; keepalive 64; keepalive_requests 1000000000; }}
  server {{
    listen {admitting};
    location / {{ limit_req zone=large burst=1000000 nodelay; proxy_pass http://app; }}
  }}
  server {{
    listen {refusing};
    location / {{ limit_req zone=small; proxy_pass http://app; }}
  }}
}}
"
    );
    let config = folder.write("nginx.conf", &config)?;
    let mut command = Command::new(binary);
    command.arg("-p").arg(&folder.0).arg("-c").arg(config);
    command.args(["-e", "error.log"]);
    Ok(Contender {
        name: "nginx",
        server: Server::start(&mut command, admitting)?,
        admitting,
        refusing,
    })
}

/// A stick-table by the key.
pub(super) fn haproxy(
    binary: &Path,
    folder: &Folder,
    upstream: SocketAddr,
) -> anyhow::Result<Contender> {
    let (admitting, refusing) = (free_address()?, free_address()?);
    let mut config = String::from(
        "\
global
  nbthread 1
  maxconn 4096
defaults
  mode http
  option http-keep-alive
  option forwardfor
  http-reuse always
  timeout connect 5s
  timeout client 60s
  timeout server 60s
",
    );
    for (name, address, most) in [("large", admitting, 1_000_000_000), ("small", refusing, 1)] {
        let _ = write!(
            config,
            "\
frontend {name}
  bind {address}
  stick-table type string len 64 size 100k expire 60s store http_req_rate(10s)
  http-request track-sc0 req.hdr(x-api-key)
  http-request deny deny_status 429 if {{ sc_http_req_rate(0) gt {most} }}
  http-request set-header X-Forwarded-Proto http
  default_backend app
"
        );
    }
    let _ = write!(config, "backend app\n  server app {upstream}\n");
    let config = folder.write("haproxy.cfg", &config)?;
    let mut command = Command::new(binary);
    command.arg("-db").arg("-f").arg(config);
    Ok(Contender {
        name: "HAProxy",
        server: Server::start(&mut command, admitting)?,
        admitting,
        refusing,
    })
}

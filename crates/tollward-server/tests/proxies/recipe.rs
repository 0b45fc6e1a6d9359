//! The recipes of the document, and the commands that run them.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use tollward_testkit::tools::{CADDY, ENVOY, NGINX, TRAEFIK, Tool};

const DOCUMENT: &str = include_str!("../../../../docs/forward-auth.md");
/// The addresses in the document.
const TOLLWARD: &str = "127.0.0.1:8081";
const SERVICE: &str = "127.0.0.1:9000";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Proxy {
    Nginx,
    Traefik,
    Caddy,
    Envoy,
}

/// Who listens where.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Addresses {
    pub(crate) proxy: SocketAddr,
    pub(crate) tollward: SocketAddr,
    pub(crate) service: SocketAddr,
}

impl Proxy {
    pub(crate) fn tool(self) -> Tool {
        match self {
            Self::Nginx => NGINX,
            Self::Traefik => TRAEFIK,
            Self::Caddy => CADDY,
            Self::Envoy => ENVOY,
        }
    }

    /// Writes the configuration to a directory; what starts the program with it.
    pub(crate) fn command(self, program: &Path, at: &Path, addresses: Addresses) -> Command {
        let recipe = self.recipe(addresses);
        let file = at.join(match self {
            Self::Nginx => "nginx.conf",
            Self::Traefik => "dynamic.yaml",
            Self::Caddy => "Caddyfile",
            Self::Envoy => "envoy.yaml",
        });
        let text = match self {
            Self::Nginx => whole_nginx(&recipe),
            Self::Caddy => format!("{{\n\tadmin off\n\tdefault_bind 127.0.0.1\n}}\n{recipe}"),
            Self::Traefik | Self::Envoy => recipe,
        };
        fs::write(&file, text).unwrap();
        let mut command = Command::new(program);
        command.current_dir(at);
        match self {
            Self::Nginx => {
                command.arg("-p").arg(at).args(["-e", "stderr", "-c"]);
                command.arg(&file);
            }
            Self::Traefik => {
                let port = addresses.proxy;
                command.arg(format!("--entryPoints.web.address={port}"));
                command.arg(format!("--providers.file.filename={}", file.display()));
                command.arg("--providers.file.watch=false");
                command.args(["--global.checkNewVersion=false", "--log.level=WARN"]);
                command.arg("--global.sendAnonymousUsage=false");
            }
            Self::Caddy => {
                // What it keeps between runs stays in the directory.
                command.env("HOME", at).env("XDG_DATA_HOME", at);
                command.env("XDG_CONFIG_HOME", at);
                command.args(["run", "--adapter", "caddyfile", "--config"]);
                command.arg(&file);
            }
            Self::Envoy => {
                command.args(["--disable-hot-restart", "--concurrency", "1"]);
                command.args(["--log-level", "warning", "-c"]).arg(&file);
            }
        }
        command
    }

    /// The recipe, with these addresses.
    fn recipe(self, addresses: Addresses) -> String {
        let Addresses {
            proxy,
            tollward,
            service,
        } = addresses;
        let text = fenced(match self {
            Self::Nginx => "## nginx",
            Self::Traefik => "## Traefik",
            Self::Caddy => "## Caddy",
            Self::Envoy => "## Envoy",
        });
        let socket = |address: &str, port: u16| {
            format!("socket_address: {{ address: {address}, port_value: {port} }}")
        };
        let other = |address: SocketAddr| socket("127.0.0.1", address.port());
        let text = match self {
            Self::Nginx => swap(&text, "listen 80;", &format!("listen {proxy};")),
            Self::Caddy => swap(&text, ":80 {", &format!(":{} {{", proxy.port())),
            // Where it listens is not in this file.
            Self::Traefik => text,
            Self::Envoy => {
                let text = swap(&text, &socket("0.0.0.0", 80), &other(proxy));
                let text = swap(&text, &socket("127.0.0.1", 8081), &other(tollward));
                let text = swap(&text, &socket("127.0.0.1", 9000), &other(service));
                return swap(&text, TOLLWARD, &tollward.to_string());
            }
        };
        let text = swap(&text, TOLLWARD, &tollward.to_string());
        swap(&text, SERVICE, &service.to_string())
    }
}

/// The first fenced text of a section.
fn fenced(heading: &str) -> String {
    let (_, section) = DOCUMENT
        .split_once(&format!("\n{heading}\n"))
        .unwrap_or_else(|| panic!("the document has no section {heading:?}"));
    let mut parts = section.split("\n```");
    let before = parts.next().unwrap();
    assert!(!before.contains("\n## "), "{heading:?} has no recipe");
    let (_language, text) = parts.next().unwrap().split_once('\n').unwrap();
    format!("{text}\n")
}

/// Replaces what has to be there, once.
fn swap(text: &str, from: &str, to: &str) -> String {
    assert_eq!(text.matches(from).count(), 1, "{from:?} in:\n{text}");
    text.replace(from, to)
}

/// What a distribution's file has around a server.
fn whole_nginx(recipe: &str) -> String {
    let folders = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|name| format!("{name}_temp_path temp_{name};\n"))
        .concat();
    // One process, so that killing it ends all of it.
    format!(
        "daemon off;\nmaster_process off;\npid nginx.pid;\nerror_log stderr;\nevents {{}}\n\
         http {{\naccess_log off;\n{folders}{recipe}}}\n"
    )
}

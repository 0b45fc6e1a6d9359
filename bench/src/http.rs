//! The decision API on loopback, beside throttlecrab-server's.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::args::Args;
use crate::load::{self, CONNECTIONS, Template};
use crate::policy::{USERS, generous};
use crate::process::{Server, free_address, program, tollward};
use crate::table::{Row, Table};
use crate::turns::{Effort, median};

const BATCH: u32 = 64;
/// Requests on one connection in one turn, at most.
const MAX_REQUESTS: u64 = 1_000_000;
const CHECK: &str =
    r#"{"user":"user-#########","plan":"free","method":"POST","path":"/v1/chat/completions"}"#;
const THROTTLE: &str = r#"{"key":"user-#########","max_burst":1000000000,"count_per_period":1000000000,"period":60,"quantity":5}"#;

pub(crate) fn run(args: &Args, effort: Effort, table: &mut Table) -> anyhow::Result<()> {
    let Some(binary) = tollward(args.tollward.as_deref()) else {
        table.note(
            "http: no release build of tollward: `cargo build --release`, or --tollward PATH.",
        );
        return Ok(());
    };
    let config = Config::write()?;
    let tollward = start_tollward(&binary, &config)?;
    let throttlecrab = match program(args.throttlecrab.as_deref(), "throttlecrab-server") {
        Some(program) => Some(start_throttlecrab(&program)?),
        None => {
            table.note(
                "http: no throttlecrab-server in PATH to compare with: `cargo install throttlecrab-server` \
                 (needs protoc), or --throttlecrab PATH.",
            );
            None
        }
    };
    let batch = format!("{{\"checks\":[{}]}}", vec![CHECK; BATCH as usize].join(","));
    let single = Lane::new(&tollward, Template::post("/v1/check", CHECK));
    let batch = Lane::new(&tollward, Template::post("/v1/check/batch", &batch));
    let peer = throttlecrab
        .as_ref()
        .map(|server| Lane::new(server, Template::post("/throttle", THROTTLE)));
    for _ in 0..effort.http_rounds {
        for lane in [Some(&single), peer.as_ref(), Some(&batch)] {
            lane.map_or(Ok(()), |lane| lane.turn(effort))?;
        }
    }
    report(
        table,
        &single.medians(),
        peer.map(|peer| peer.medians()).as_ref(),
        &batch.medians(),
    );
    Ok(())
}

fn report(table: &mut Table, single: &Medians, peer: Option<&Medians>, batch: &Medians) {
    let what = format!("HTTP checks, {CONNECTIONS} connections");
    let mut speed = Row::figure(&what, "requests/s", single.per_second);
    let mut cost = Row::figure(&what, "CPU us/request", single.cpu_us);
    if let Some(peer) = peer {
        let who = "throttlecrab-server";
        speed = speed
            .against(who, peer.per_second)
            .ratio(format!("{:.2}x", single.per_second / peer.per_second));
        cost = cost
            .against(who, peer.cpu_us)
            .ratio(format!("{:.2}x", peer.cpu_us / single.cpu_us));
    }
    table.push(speed);
    table.push(cost);
    let each = f64::from(BATCH);
    let who = "single checks";
    let what = format!("HTTP batches of {BATCH}, {CONNECTIONS} connections");
    table.push(
        Row::figure(&what, "decisions/s", batch.per_second * each)
            .against(who, single.per_second)
            .ratio(format!(
                "{:.2}x",
                batch.per_second * each / single.per_second
            )),
    );
    table.push(
        Row::figure(&what, "CPU us/decision", batch.cpu_us / each)
            .against(who, single.cpu_us)
            .ratio(format!("{:.2}x", single.cpu_us * each / batch.cpu_us)),
    );
}

/// One kind of request to one server, with what each turn gave: requests per second, and the server's
/// processor time for each in microseconds.
struct Lane<'a> {
    server: &'a Server,
    template: Template,
    turns: RefCell<Vec<(f64, f64)>>,
}

struct Medians {
    per_second: f64,
    cpu_us: f64,
}

impl<'a> Lane<'a> {
    fn new(server: &'a Server, template: Template) -> Self {
        Self {
            server,
            template,
            turns: RefCell::default(),
        }
    }

    fn turn(&self, effort: Effort) -> anyhow::Result<()> {
        let before = self.server.cpu_secs()?;
        let (requests, elapsed) = load::drive(
            self.server.address,
            &self.template,
            USERS,
            effort.http_turn,
            MAX_REQUESTS,
        )?;
        let used = self.server.cpu_secs()? - before;
        let requests = requests as f64;
        let turn = (requests / elapsed.as_secs_f64(), used * 1e6 / requests);
        self.turns.borrow_mut().push(turn);
        Ok(())
    }

    fn medians(&self) -> Medians {
        let turns = self.turns.borrow();
        Medians {
            per_second: median(turns.iter().map(|turn| turn.0).collect()),
            cpu_us: median(turns.iter().map(|turn| turn.1).collect()),
        }
    }
}

/// The generous policy in a file, which goes away with this value.
struct Config(PathBuf);

impl Config {
    fn write() -> anyhow::Result<Self> {
        let name = format!("tollward-bench-{}.yaml", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, generous()?)?;
        Ok(Self(path))
    }
}

impl Drop for Config {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn start_tollward(binary: &Path, config: &Config) -> anyhow::Result<Server> {
    let (api, admin) = (free_address()?, free_address()?);
    let mut command = Command::new(binary);
    command.arg("serve").arg("--config").arg(&config.0);
    command.args(["--api", &api.to_string(), "--admin", &admin.to_string()]);
    Server::start(&mut command, api)
}

fn start_throttlecrab(binary: &Path) -> anyhow::Result<Server> {
    let address = free_address()?;
    let mut command = Command::new(binary);
    command.args(["--http", "--http-host", "127.0.0.1"]);
    command.args(["--http-port", &address.port().to_string()]);
    Server::start(&mut command, address)
}

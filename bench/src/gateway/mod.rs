//! The gateway on loopback, beside nginx and HAProxy with limits of their own: one worker each, before
//! the same upstream.

mod contender;
mod lab;
mod message;

use crate::args::Args;
use crate::bars::Bars;
use crate::process::{program, tollward};
use crate::table::{Row, Table};
use crate::turns::{Effort, median};

use contender::{ADMITTED, Contender, Folder, REFUSED};
use lab::{CONNECTIONS, Lab, Lane, Pace, Turn};

const BODY: usize = 1024;

pub(crate) fn run(
    args: &Args,
    effort: Effort,
    table: &mut Table,
    bars: &mut Bars,
) -> anyhow::Result<()> {
    let Some(binary) = tollward(args.tollward.as_deref()) else {
        table.note(
            "gateway: no release build of tollward: `cargo build --release`, or --tollward PATH.",
        );
        return Ok(());
    };
    let mut lab = Lab::new()?;
    let folder = Folder::new()?;
    let mut contenders = vec![contender::tollward(&binary, &folder, lab.upstream)?];
    match program(args.nginx.as_deref(), "nginx") {
        Some(nginx) => contenders.push(contender::nginx(&nginx, &folder, lab.upstream)?),
        None => table.note("gateway: no nginx in PATH to compare with, and no --nginx PATH."),
    }
    match program(args.haproxy.as_deref(), "haproxy") {
        Some(haproxy) => contenders.push(contender::haproxy(&haproxy, &folder, lab.upstream)?),
        None => table.note("gateway: no haproxy in PATH to compare with, and no --haproxy PATH."),
    }
    let mut contest = Contest {
        lab: &mut lab,
        contenders: &contenders,
        effort,
    };
    let full = contest.run(Load::Get, Pace::Full)?;
    report_speed(table, "gateway, GET", &contenders, &full);
    for (peer, theirs) in contenders.iter().zip(&full).skip(1) {
        bars.gateway(peer.name, "GET", full[0].cpu_us / theirs.cpu_us);
    }
    let slowest = full.iter().map(|it| it.per_second).reduce(f64::min);
    let half = Pace::PerSecond(slowest.unwrap_or(1000.0) / 2.0);
    report_latency(table, &contenders, &contest.run(Load::Get, half)?);
    let post = contest.run(Load::Post, Pace::Full)?;
    report_speed(table, "gateway, POST of 1 kB", &contenders, &post);
    let refused = contest.run(Load::Refused, Pace::Full)?;
    report_speed(table, "gateway, refused", &contenders, &refused);
    Ok(())
}

/// What clients ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Load {
    Get,
    Post,
    Refused,
}

impl Load {
    fn request(self) -> Vec<u8> {
        let key = match self {
            Self::Get | Self::Post => ADMITTED,
            Self::Refused => REFUSED,
        };
        let head = format!(
            "/scores/submit?board=weekly HTTP/1.1\r\nhost: api.example.com\r\n\
             user-agent: bench/1.0\r\naccept: */*\r\nx-api-key: {key}\r\n"
        );
        match self {
            Self::Get | Self::Refused => format!("GET {head}\r\n"),
            Self::Post => {
                let body = "x".repeat(BODY);
                format!("POST {head}content-length: {BODY}\r\n\r\n{body}")
            }
        }
        .into_bytes()
    }

    fn lane(self, lab: &mut Lab, contender: &Contender) -> anyhow::Result<Lane> {
        let (gateway, status) = match self {
            Self::Get | Self::Post => (contender.admitting, "200"),
            Self::Refused => (contender.refusing, "429"),
        };
        lab.connect(gateway, &self.request(), status)
    }
}

/// Gateways that take turns.
struct Contest<'a> {
    lab: &'a mut Lab,
    contenders: &'a [Contender],
    effort: Effort,
}

/// The medians of a gateway's turns.
struct Figures {
    per_second: f64,
    /// Its processor time for each request, in microseconds.
    cpu_us: f64,
    p50_us: f64,
    p99_us: f64,
}

impl Contest<'_> {
    fn run(&mut self, load: Load, pace: Pace) -> anyhow::Result<Vec<Figures>> {
        let Effort {
            http_rounds: rounds,
            http_turn: turn,
            ..
        } = self.effort;
        let lanes = self
            .contenders
            .iter()
            .map(|contender| load.lane(self.lab, contender))
            .collect::<anyhow::Result<Vec<Lane>>>()?;
        for lane in &lanes {
            self.lab.turn(lane, pace, turn / 4)?;
        }
        let mut turns: Vec<Vec<(Turn, f64)>> = lanes.iter().map(|_| Vec::new()).collect();
        for round in 0..rounds {
            for place in 0..lanes.len() {
                let who = (round + place) % lanes.len();
                let server = &self.contenders[who].server;
                let before = server.cpu_secs()?;
                let turn = self.lab.turn(&lanes[who], pace, turn)?;
                turns[who].push((turn, server.cpu_secs()? - before));
            }
        }
        self.lab.disconnect();
        Ok(turns.iter().map(|turns| Figures::of(turns)).collect())
    }
}

impl Figures {
    fn of(turns: &[(Turn, f64)]) -> Self {
        let over = |figure: &dyn Fn(&Turn, f64) -> f64| {
            let figures = turns.iter().map(|(turn, cpu)| figure(turn, *cpu));
            median(figures.collect())
        };
        let count = |turn: &Turn| turn.micros.len() as f64;
        let at = |turn: &Turn, share| {
            let place = (count(turn) * share) as usize;
            turn.micros.get(place).copied().unwrap_or(f64::NAN)
        };
        Self {
            per_second: over(&|turn, _| count(turn) / turn.elapsed.as_secs_f64()),
            cpu_us: over(&|turn, cpu| cpu * 1e6 / count(turn)),
            p50_us: over(&|turn, _| at(turn, 0.5)),
            p99_us: over(&|turn, _| at(turn, 0.99)),
        }
    }
}

fn report_speed(table: &mut Table, what: &str, contenders: &[Contender], figures: &[Figures]) {
    let what = format!("{what}, {CONNECTIONS} connections");
    let speed = |figures: &Figures| figures.per_second;
    report(table, &what, "requests/s", contenders, figures, speed);
    let cpu = |figures: &Figures| figures.cpu_us;
    report(table, &what, "CPU us/request", contenders, figures, cpu);
}

fn report_latency(table: &mut Table, contenders: &[Contender], figures: &[Figures]) {
    let rate = figures.first().map_or(f64::NAN, |ours| ours.per_second);
    let what = format!("gateway, GET, {rate:.0} requests/s");
    let p50 = |figures: &Figures| figures.p50_us;
    report(table, &what, "p50 us", contenders, figures, p50);
    let p99 = |figures: &Figures| figures.p99_us;
    report(table, &what, "p99 us", contenders, figures, p99);
    let cpu = |figures: &Figures| figures.cpu_us;
    report(table, &what, "CPU us/request", contenders, figures, cpu);
}

/// One figure of all gateways, ours beside each of the others'.
fn report(
    table: &mut Table,
    what: &str,
    unit: &str,
    contenders: &[Contender],
    figures: &[Figures],
    figure: impl Fn(&Figures) -> f64,
) {
    let Some((ours, peers)) = figures.split_first() else {
        return;
    };
    let ours = figure(ours);
    let row = Row::figure(what, unit, ours);
    if peers.is_empty() {
        table.push(row);
        return;
    }
    for (contender, peer) in contenders.iter().skip(1).zip(peers) {
        let theirs = figure(peer);
        // More is better of what comes per second, and less of everything else.
        let times = if unit.ends_with("/s") {
            ours / theirs
        } else {
            theirs / ours
        };
        let row = row.clone().against(contender.name, theirs);
        table.push(row.ratio(format!("{times:.2}x")));
    }
}

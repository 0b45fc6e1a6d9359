use std::fmt;

use crate::contender::Load;

/// The figures that Tollward is to hold, with the worst that was measured of each.
#[derive(Debug, Default)]
pub(crate) struct Bars {
    lines: Vec<Bar>,
}

#[derive(Debug)]
struct Bar {
    what: &'static str,
    bound: Bound,
    worst: f64,
    place: String,
}

#[derive(Clone, Copy, Debug)]
enum Bound {
    AtLeast(f64),
    AtMost(f64),
}

impl Bars {
    /// Tollward's speed as a multiple of governor's.
    pub(crate) fn store(&mut self, keys: u32, threads: usize, load: Load, times: f64) {
        let (what, bound) = match keys {
            1 => ("speed of governor, 1 key", Bound::AtLeast(1.0)),
            1000 => ("speed of governor, 1000 keys", Bound::AtLeast(1.0)),
            1_000_000 if threads == 2 => (
                "speed of governor, 1 000 000 keys, 2 threads",
                Bound::AtLeast(1.5),
            ),
            _ => return,
        };
        let place = format!("{}, {threads} threads", load.word());
        self.note(what, bound, times, place);
    }

    /// The time of four limits as a multiple of one's.
    pub(crate) fn four(&mut self, keys: u32, threads: usize, times: f64) {
        let place = format!("{keys} keys, {threads} threads");
        self.note(
            "time of four limits over one",
            Bound::AtMost(3.0),
            times,
            place,
        );
    }

    pub(crate) fn bytes(&mut self, bytes: f64) {
        let place = String::from("1 000 000 keys");
        self.note("bytes of a bucket", Bound::AtMost(64.0), bytes, place);
    }

    /// Microseconds in which an API key is found among a million.
    pub(crate) fn key_lookup(&mut self, threads: usize, micros: f64) {
        let place = format!("{threads} threads");
        self.note("us to find an API key", Bound::AtMost(1.0), micros, place);
    }

    /// Checks per second of 64 callers on Redis as a multiple of a script call per limit.
    pub(crate) fn redis(&mut self, limits: usize, times: f64) {
        let (what, bound) = match limits {
            1 => ("checks/s of a script call per limit, 1 limit", 2.0),
            _ => ("checks/s of a script call per limit, 4 limits", 3.0),
        };
        self.note(what, Bound::AtLeast(bound), times, "64 callers".to_owned());
    }

    /// The 95th percentile of a check on Redis at half load, in milliseconds.
    pub(crate) fn redis_latency(&mut self, limits: usize, millis: f64) {
        let place = format!("{limits} limits");
        self.note(
            "p95 ms on Redis at half load",
            Bound::AtMost(1.0),
            millis,
            place,
        );
    }

    /// A gateway's processor time for a request as a multiple of a peer's.
    pub(crate) fn gateway(&mut self, peer: &str, place: &str, times: f64) {
        let (what, bound) = match peer {
            "nginx" => ("CPU of a request over nginx's", 1.15),
            _ => ("CPU of a request over HAProxy's", 1.0),
        };
        self.note(what, Bound::AtMost(bound), times, place.to_owned());
    }

    fn note(&mut self, what: &'static str, bound: Bound, value: f64, place: String) {
        let bar = Bar {
            what,
            bound,
            worst: value,
            place,
        };
        match self.lines.iter_mut().find(|line| line.what == what) {
            None => self.lines.push(bar),
            Some(line) if bar.missed_by() > line.missed_by() => *line = bar,
            Some(_) => {}
        }
    }
}

impl Bar {
    /// By what factor the bar is missed: above 1 if it is.
    fn missed_by(&self) -> f64 {
        match self.bound {
            Bound::AtLeast(bound) => bound / self.worst,
            Bound::AtMost(bound) => self.worst / bound,
        }
    }
}

impl fmt::Display for Bars {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for bar in &self.lines {
            let Bar {
                what, worst, place, ..
            } = bar;
            let bound = match bar.bound {
                Bound::AtLeast(bound) => format!(">= {bound:?}"),
                Bound::AtMost(bound) => format!("<= {bound:?}"),
            };
            let missed_by = bar.missed_by();
            let result = if missed_by <= 1.0 {
                String::from("reached")
            } else {
                format!("missed by {missed_by:.2}x")
            };
            writeln!(
                f,
                "{what:<45} {bound:>7}  worst {worst:>5.2} ({place}): {result}"
            )?;
        }
        Ok(())
    }
}

//! What a trial amounts to, and which bars it misses.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::faults::{Fault, OnFailure};
use crate::load::{Answer, Caller, Source};
use crate::trial::{HOT_CAPACITY, HOT_RATE, MEMORY, NODES, Trial};

/// Bars, in microseconds at the API's own clock.
pub(crate) const P999_US: u64 = 15_000;
pub(crate) const SLOWEST_US: u64 = 55_000;
pub(crate) const NOTICED: Duration = Duration::from_millis(100);
pub(crate) const RECOVERED: Duration = Duration::from_secs(2);
/// A node has recovered when so many of a hundred answers in a stretch of time are Redis's.
const WINDOW: Duration = Duration::from_millis(200);
const OF_A_HUNDRED: usize = 95;
/// Between a node's clock and ours.
const SLACK: Duration = Duration::from_millis(100);

/// Times of decisions in microseconds, the first two as bounds of the node's own histogram.
pub(crate) struct Times {
    pub(crate) p999: u64,
    pub(crate) slowest: u64,
    pub(crate) client_p999: u64,
    pub(crate) client_slowest: u64,
}

/// One row.
pub(crate) struct Judgement {
    pub(crate) sent: usize,
    pub(crate) lost: usize,
    pub(crate) wrong: usize,
    pub(crate) fell_back: usize,
    pub(crate) times: Times,
    pub(crate) memory: Times,
    /// None if some node has not.
    pub(crate) noticed: Option<Duration>,
    pub(crate) recovered: Option<Duration>,
    pub(crate) trips: u64,
    /// Lines that the node logged that logged most.
    pub(crate) log_lines: usize,
    /// Of the hot caller's, without those that `open` let through.
    pub(crate) admitted: u64,
    pub(crate) bound: u64,
    pub(crate) once_admitted: u64,
    pub(crate) once_spent: u64,
    /// Bars that only time decides.
    pub(crate) missed: Vec<String>,
    /// Promises that were broken.
    pub(crate) broken: Vec<String>,
    pub(crate) notes: Vec<String>,
}

impl Judgement {
    pub(crate) fn new(fault: &Fault, trial: &Trial) -> Self {
        let all = &trial.answers;
        let wrong: Vec<&Answer> = all.iter().filter(|it| is_wrong(fault, it)).collect();
        let shared: Vec<&Answer> = all.iter().filter(|it| it.node < NODES).collect();
        let measured: Vec<&Answer> = shared
            .iter()
            .copied()
            .filter(|it| it.sent >= trial.measured)
            .collect();
        let memory: Vec<&Answer> = all
            .iter()
            .filter(|it| it.node == MEMORY && it.sent >= trial.measured)
            .collect();
        let once = |wanted: fn(&Answer) -> bool| {
            let once = shared.iter().filter(|it| it.caller == Caller::Once);
            once.filter(|it| wanted(it)).count() as u64
        };
        let mut judgement = Self {
            sent: all.len(),
            lost: all.iter().filter(|it| it.status.is_none()).count(),
            wrong: wrong.len(),
            fell_back: measured.iter().filter(|it| it.fell_back()).count(),
            times: times(&trial.redis, &measured),
            memory: times(&trial.memory, &memory),
            noticed: worst(|node| noticed(&shared, node, trial.spell.broken)),
            recovered: worst(|node| recovered(&shared, node, trial.spell.mended)),
            trips: trial.redis.value("redis_trips_total") as u64,
            log_lines: trial
                .logs
                .iter()
                .map(|log| log.lines().count())
                .max()
                .unwrap_or(0),
            admitted: hot_admitted(&shared),
            bound: bound(fault, &shared),
            once_admitted: once(|it| it.admitted() && it.source != Source::Open),
            once_spent: trial.once_spent,
            missed: Vec::new(),
            broken: Vec::new(),
            notes: trial.spell.note.iter().cloned().collect(),
        };
        let in_flight = once(|it| !it.admitted());
        judgement.time_bars(fault, trial);
        judgement.promises(in_flight, all);
        judgement.notes.extend(kinds(&wrong));
        judgement.notes.extend(counters(trial));
        if trial.more_files > 0 {
            judgement
                .notes
                .push(format!("{} more files open than before", trial.more_files));
        }
        judgement
    }

    fn time_bars(&mut self, fault: &Fault, trial: &Trial) {
        let missed = &mut self.missed;
        if self.times.p999 > P999_US {
            missed.push("p99.9".to_owned());
        }
        let beyond = trial.redis.beyond(SLOWEST_US);
        if beyond > 0 {
            missed.push(format!("slowest ({beyond} beyond)"));
        }
        if fault.noticed && self.noticed.is_none_or(|it| it > NOTICED) {
            missed.push("noticed".to_owned());
        }
        if self.recovered.is_none_or(|it| it > RECOVERED) {
            missed.push("recovered".to_owned());
        }
        // The memory node waits for nothing: what its callers wait for is this machine.
        if !missed.is_empty() && self.memory.client_slowest > P999_US {
            missed.push("but the machine was held up".to_owned());
        }
    }

    fn promises(&mut self, in_flight: u64, all: &[Answer]) {
        let broken = &mut self.broken;
        if self.lost > 0 {
            broken.push("LOST".to_owned());
        }
        if self.wrong > 0 {
            broken.push("WRONG".to_owned());
        }
        if self.admitted > self.bound {
            broken.push("OVER THE BOUND".to_owned());
        }
        if self.once_spent > self.once_admitted + in_flight {
            broken.push("CHARGED TWICE".to_owned());
        }
        let memory: Vec<&Answer> = all.iter().filter(|it| it.node == MEMORY).collect();
        if hot_admitted(&memory) > exact(&memory) {
            broken.push("MEMORY OVER THE BOUND".to_owned());
        }
    }
}

fn is_wrong(fault: &Fault, answer: &Answer) -> bool {
    let Some(status) = answer.status else {
        return false;
    };
    let status_fits = match status {
        200 => true,
        // Only the hot caller runs out of tokens.
        429 => answer.caller == Caller::Hot,
        503 => fault.on_failure == OnFailure::Closed && answer.node != MEMORY,
        _ => false,
    };
    let source_fits = match answer.source {
        Source::Memory => answer.node == MEMORY,
        Source::Redis => answer.node != MEMORY && status != 503,
        Source::Remembered => answer.node != MEMORY && status == 429,
        Source::Local => answer.node != MEMORY && fault.on_failure == OnFailure::Local,
        Source::Open => fault.on_failure == OnFailure::Open && status == 200,
        Source::None => status == 503,
        Source::Odd => false,
    };
    !status_fits || !source_fits
}

/// What was wrong, in words.
fn kinds(wrong: &[&Answer]) -> Option<String> {
    let mut kinds: BTreeMap<String, usize> = BTreeMap::new();
    for it in wrong {
        let status = it.status.unwrap_or_default();
        let kind = format!(
            "{status} by {:?} to {:?} of node {}",
            it.source, it.caller, it.node
        );
        *kinds.entry(kind).or_default() += 1;
    }
    let kinds: Vec<String> = kinds
        .iter()
        .map(|(kind, count)| format!("{count} × {kind}"))
        .collect();
    (!kinds.is_empty()).then(|| format!("wrong: {}", kinds.join(", ")))
}

/// What the nodes counted that is worth a line.
fn counters(trial: &Trial) -> Option<String> {
    const NAMES: [&str; 13] = [
        "timeouts",
        "disconnects",
        "refusals",
        "bad_replies",
        "script_loads",
        "redirects",
        "shed",
        "compensations_lost",
        "connects",
        "settled",
        "debts_dropped",
        "data_losses",
        "evictions",
    ];
    let counted = NAMES.iter().filter_map(|name| {
        let value = trial.redis.value(&format!("redis_{name}_total"));
        (value > 0.0).then(|| format!("{name} {value}"))
    });
    let counted: Vec<String> = counted.collect();
    (!counted.is_empty()).then(|| counted.join(", "))
}

fn times(metrics: &crate::metrics::Metrics, answers: &[&Answer]) -> Times {
    let mut micros: Vec<u64> = answers
        .iter()
        .map(|it| (it.at - it.sent).as_micros() as u64)
        .collect();
    micros.sort_unstable();
    let place = (micros.len() * 999).div_ceil(1000).saturating_sub(1);
    Times {
        p999: metrics.within(999),
        slowest: metrics.within(1000),
        client_p999: micros.get(place).copied().unwrap_or_default(),
        client_slowest: micros.last().copied().unwrap_or_default(),
    }
}

/// The longest time of any node that shares Redis.
fn worst(of: impl Fn(usize) -> Option<Duration>) -> Option<Duration> {
    let times: Option<Vec<Duration>> = (0..NODES).map(of).collect();
    times?.into_iter().max()
}

fn noticed(answers: &[&Answer], node: usize, broken: Instant) -> Option<Duration> {
    let mut later = answers
        .iter()
        .filter(|it| it.node == node && it.at >= broken);
    later.find(|it| it.fell_back()).map(|it| it.at - broken)
}

/// How long after `mended` the first stretch of time begins in which almost all answers are Redis's.
fn recovered(answers: &[&Answer], node: usize, mended: Instant) -> Option<Duration> {
    // The hot caller's answers are also remembered ones.
    let later: Vec<&&Answer> = answers
        .iter()
        .filter(|it| it.node == node && it.caller != Caller::Hot && it.sent >= mended)
        .collect();
    let last = later.last()?.at;
    let mut starts = later.iter().enumerate();
    let (_, first) = starts.find(|(index, first)| {
        let end = first.at + WINDOW;
        let within = later[*index..].iter().take_while(|it| it.at < end);
        let (count, redis) = within.fold((0, 0), |(count, redis), it| {
            (count + 1, redis + usize::from(it.source == Source::Redis))
        });
        end <= last && redis * 100 >= count * OF_A_HUNDRED
    })?;
    Some(first.sent - mended)
}

fn hot<'a>(answers: &'a [&'a Answer]) -> impl Iterator<Item = &'a Answer> {
    let answers = answers.iter().copied();
    answers.filter(|it| it.caller == Caller::Hot)
}

fn hot_admitted(answers: &[&Answer]) -> u64 {
    let counted = hot(answers).filter(|it| it.admitted() && it.source != Source::Open);
    counted.count() as u64
}

/// What one bucket can admit between the first question and the last answer.
fn exact(answers: &[&Answer]) -> u64 {
    let first = hot(answers).map(|it| it.sent).min();
    let last = hot(answers).map(|it| it.at).max();
    let time = first
        .zip(last)
        .map_or(Duration::ZERO, |(first, last)| last - first);
    bucket(1.0, time)
}

/// A share of the hot caller's bucket, full at first, for so long.
fn bucket(share: f64, time: Duration) -> u64 {
    let tokens = f64::from(HOT_CAPACITY) + f64::from(HOT_RATE) * time.as_secs_f64();
    (tokens * share).ceil() as u64
}

/// What the mode promises: Redis's bucket, once more for every loss of data, and each node's share of it
/// for as long as it decided by itself.
fn bound(fault: &Fault, answers: &[&Answer]) -> u64 {
    let mut bound = exact(answers) + u64::from(fault.losses * HOT_CAPACITY);
    for node in 0..NODES {
        let alone = || hot(answers).filter(|it| it.node == node && it.source == Source::Local);
        let first = alone().map(|it| it.sent).min();
        if let Some((first, last)) = first.zip(alone().map(|it| it.at).max()) {
            bound += bucket(1.0 / NODES as f64, last - first + SLACK);
        }
    }
    bound
}

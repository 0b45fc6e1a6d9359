//! `tollward serve` processes that share a Redis.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};
use tollward_testkit::redis::RedisServer;

use crate::process::{Process, arg, tollward};
use crate::served::{Client, Folder, get, until};

/// A running node. It ends with the test.
pub(crate) struct Node {
    pub(crate) process: Process,
    file: PathBuf,
    _folder: Folder,
}

impl Node {
    /// Serves this configuration with the counters in the Redis at `url`, and waits until that decides.
    pub(crate) fn start(config: &str, url: &str) -> Self {
        let node = Self::begin(config, &["--redis", url], &[]);
        node.until_up();
        node
    }

    /// Serves this configuration and waits for nothing but the doors.
    pub(crate) fn begin(config: &str, args: &[&str], env: &[(&str, &str)]) -> Self {
        let folder = Folder::new();
        let file = folder.write("tollward.yaml", config);
        let mut command = tollward();
        // Said, so that nothing warns of a directory that other nodes do not share.
        let directory = ["--directory", "sqlite::memory:"];
        command
            .args(["serve", "--config", arg(&file)])
            .args(directory);
        command.args(args);
        let process = Process::start(command.envs(env.iter().copied()));
        Self {
            process,
            file,
            _folder: folder,
        }
    }

    pub(crate) fn client(&self) -> Client {
        Client::new(self.process.api)
    }

    /// Puts another configuration in force by SIGHUP, and waits until it is.
    pub(crate) fn reload(&self, config: &str) {
        const RELOADS: &str = "tollward_config_reloads_total{result=\"ok\"}";
        let reloads = || self.metrics().get(RELOADS).copied().unwrap_or(0.0);
        let before = reloads();
        let next = self.file.with_extension("next");
        fs::write(&next, config).unwrap();
        fs::rename(&next, &self.file).unwrap();
        self.process.signal("HUP");
        until("a reload", || reloads() > before);
    }

    /// All series of `/metrics`.
    pub(crate) fn metrics(&self) -> BTreeMap<String, f64> {
        let page = get(self.process.admin, "/metrics");
        assert_eq!(page.status, 200);
        let page = page.text();
        let samples = page.lines().filter(|line| !line.starts_with('#'));
        let sample = |line: &str| {
            let (series, value) = line.rsplit_once(' ').unwrap();
            (series.to_owned(), value.parse().unwrap())
        };
        samples.map(sample).collect()
    }

    pub(crate) fn metric(&self, series: &str) -> f64 {
        let metrics = self.metrics();
        let value = metrics.get(series);
        *value.unwrap_or_else(|| panic!("no {series}: {metrics:#?}"))
    }

    /// Whether each server is asked.
    pub(crate) fn ups(&self) -> Vec<f64> {
        let metrics = self.metrics();
        let ups = metrics.iter().filter(|(series, _)| {
            let family = series.split('{').next();
            family == Some("tollward_redis_up")
        });
        ups.map(|(_, up)| *up).collect()
    }

    pub(crate) fn until_up(&self) {
        until("a node that asks Redis", || self.ups() == [1.0]);
    }

    pub(crate) fn until_down(&self) {
        until("a node that does not ask Redis", || self.ups() == [0.0]);
    }

    /// Waits until a node that is alone with its Redis would notice that this lost its data.
    pub(crate) fn until_marked(redis: &RedisServer) {
        // It has seen the answer to the first question for the mark when it asks the second.
        until("a mark", || redis.calls("get") >= 2);
    }

    /// The status and the answer to a check of a user of the plan `p`.
    pub(crate) fn ask(&self, user: &str, cost: u32) -> (u16, Value) {
        self.client().check(check(user, cost))
    }

    /// What a user of the plan `p` has left. Takes nothing.
    pub(crate) fn remaining(&self, user: &str) -> u64 {
        let check = json!({ "user": user, "plan": "p", "peek": true });
        let (_, answer) = self.client().check(check);
        assert_eq!(answer["source"], "redis", "{answer}");
        answer["remaining"].as_u64().unwrap()
    }
}

pub(crate) fn check(user: &str, cost: u32) -> Value {
    json!({ "user": user, "plan": "p", "cost": cost })
}

/// What a store says that has time to answer, however slow the machine.
pub(crate) const PATIENT: &str = "store: { deadline: 2s }\n";

/// A plan `p` whose buckets of each user do not refill while a test runs.
pub(crate) fn plan(capacity: u32) -> String {
    format!(
        "{PATIENT}plans: {{ p: {{ rate_limit: {{ sustained: {{ rate: 1, window: 366d }}, \
         burst: {{ capacity: {capacity} }}, scope: user }} }} }}\n"
    )
}

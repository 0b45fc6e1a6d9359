//! Nodes, alone and in a fleet.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tollward_testkit::postgres::PostgresServer;
use tollward_testkit::redis::RedisServer;

use crate::desk::{Desk, TOKEN};
use crate::process::{Process, arg, tollward};
use crate::served::{Client, Folder, until};

/// A running `tollward serve`. It is killed when the test lets go of it.
pub(crate) struct Node {
    pub(crate) process: Process,
    _folder: Folder,
}

impl Node {
    /// Serves this configuration, told this by its environment.
    pub(crate) fn start(config: &str, env: &[(&str, &str)]) -> Self {
        let folder = Folder::new();
        let file = folder.write("tollward.yaml", config);
        let mut command = tollward();
        command.args(["serve", "--config", arg(&file)]);
        command.env("TOLLWARD_ADMIN_TOKEN", TOKEN);
        let process = Process::start(command.envs(env.iter().copied()));
        Self {
            process,
            _folder: folder,
        }
    }

    /// Waits until Redis counts for it.
    fn until_counted(&self) {
        until("a node that asks Redis", || {
            let page = crate::served::get(self.process.admin, "/metrics");
            let up = |line: &str| line.starts_with("tollward_redis_up") && line.ends_with(" 1");
            page.text().lines().any(up)
        });
    }

    /// Its admin door, with the token that opens everything.
    pub(crate) fn desk(&self) -> Desk {
        Desk::new(self.process.admin, TOKEN)
    }

    pub(crate) fn client(&self) -> Client {
        Client::new(self.process.api)
    }

    /// What it would decide. Takes nothing.
    pub(crate) fn peek(&self, mut check: Value) -> (u16, Value) {
        check["peek"] = json!(true);
        self.client().check(check)
    }
}

/// Two nodes that share a directory and counters.
pub(crate) struct Fleet {
    // Before the servers: they end first.
    pub(crate) nodes: [Node; 2],
    pub(crate) postgres: PostgresServer,
    redis: RedisServer,
}

/// Counters that have time to answer, however slow the machine; records that are written soon.
pub(crate) const CONFIG: &str = "
store: { deadline: 2s }
usage: { interval: 1s }
identity: { anonymous: allow }
";

impl Fleet {
    /// A node with the same counters and no database: it shows what the machine does to all of them.
    pub(crate) fn without_database(&self) -> Node {
        let url = self.redis.url();
        let node = Node::start(CONFIG, &[("TOLLWARD_REDIS", &url)]);
        node.until_counted();
        node
    }

    pub(crate) fn start() -> Self {
        let postgres = PostgresServer::start();
        let redis = RedisServer::start();
        let database = postgres.database();
        let url = redis.url();
        let env = [
            ("TOLLWARD_DIRECTORY", database.as_str()),
            ("TOLLWARD_REDIS", url.as_str()),
        ];
        let nodes = [Node::start(CONFIG, &env), Node::start(CONFIG, &env)];
        nodes.iter().for_each(Node::until_counted);
        Self {
            nodes,
            postgres,
            redis,
        }
    }
}

/// A limit that does not refill while a test runs.
pub(crate) fn burst(capacity: u32) -> Value {
    json!({
        "sustained": { "rate": 1, "window": "366d" },
        "burst": { "capacity": capacity },
        "sharing": "enforce",
    })
}

#[expect(clippy::disallowed_methods, reason = "the times under test are real")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// How long it takes until something is so; fails if that is longer than `most`.
#[track_caller]
pub(crate) fn within(most: Duration, what: &str, mut is_so: impl FnMut() -> bool) -> Duration {
    let start = now();
    loop {
        let so = is_so();
        let took = start.elapsed();
        assert!(took <= most, "{what}: not after {took:?}");
        if so {
            return took;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

//! A cluster: three primaries, and a replica of each.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::client::Value;
use super::server::{Builder, RedisServer, lookup};
use super::wait_until;

const PRIMARIES: usize = 3;
const NODES: usize = 2 * PRIMARIES;
const SLOTS: usize = 16_384;
/// What the nodes agree on among themselves takes some seconds, and more on a machine under load.
const PATIENCE: Duration = Duration::from_secs(60);
/// A node that says nothing for so long is left out of account.
const ANSWER: Duration = Duration::from_secs(1);

/// Three primaries, number 0 to 2, and a replica of each, number 3 to 5, as long as none of them has failed over.
///
/// Nodes that do not answer for half a second are held to be dead.
#[derive(Debug)]
pub struct RedisCluster {
    servers: Vec<RedisServer>,
}

impl RedisCluster {
    /// Starts the servers and waits until all of them find the cluster well and every replica is in sync.
    #[track_caller]
    pub fn start() -> Self {
        Self::start_with(|builder| builder)
    }

    /// The same, of servers with something special: another binary, more arguments, a password.
    #[track_caller]
    pub fn start_with(special: impl Fn(Builder) -> Builder) -> Self {
        let start = |_| special(node()).start();
        let cluster = Self {
            servers: (0..NODES).map(start).collect(),
        };
        cluster.join();
        cluster
    }

    /// `redis-cluster://` and the addresses of three nodes.
    pub fn url(&self) -> String {
        let seeds = &self.servers[..PRIMARIES];
        let seeds: Vec<_> = seeds.iter().map(|it| it.addr().to_string()).collect();
        let password = self.servers[0].password().map(|it| format!(":{it}@"));
        let password = password.unwrap_or_default();
        format!("redis-cluster://{password}{}", seeds.join(","))
    }

    /// All nodes, in the order of their numbers.
    pub fn servers(&self) -> &[RedisServer] {
        &self.servers
    }

    /// The numbers of the nodes that answer and hold themselves to be primaries.
    pub fn primaries(&self) -> Vec<usize> {
        let is_primary = |index: &usize| self.own_line(*index).is_some_and(|it| it.is_primary);
        (0..NODES).filter(is_primary).collect()
    }

    /// Kills a node. What the others make of it takes them a second or two: see [`RedisCluster::primary_of`] and
    /// [`RedisCluster::wait_until_ok`].
    pub fn kill(&self, index: usize) {
        self.servers[index].kill();
    }

    /// The number of the primary that serves a slot. Waits for one: after a kill, until a replica has taken over.
    #[track_caller]
    pub fn primary_of(&self, slot: u16) -> usize {
        wait_until("the slot has a primary", PATIENCE, || self.serves(slot))
    }

    /// Waits until every node that answers finds the cluster well, and all of them agree on who serves each slot.
    #[track_caller]
    pub fn wait_until_ok(&self) {
        wait_until("the cluster is well", PATIENCE, || {
            let mut views = Vec::new();
            for server in &self.servers {
                let Ok(info) = ask(server, &["CLUSTER", "INFO"]) else {
                    continue;
                };
                if lookup(&info, "cluster_state")? != "ok" {
                    return None;
                }
                let mut view: Vec<_> = nodes(server)?
                    .into_iter()
                    .filter(|it| !it.slots.is_empty())
                    .map(|it| (it.id, it.slots))
                    .collect();
                view.sort_by_key(|(_, slots)| *slots[0].start());
                views.push(view);
            }
            let first = views.first()?;
            let slots = first.iter().flat_map(|(_, slots)| slots);
            let covered: usize = slots.map(ExactSizeIterator::len).sum();
            (covered == SLOTS && views.iter().all(|it| it == first)).then_some(())
        });
    }

    /// Moves a slot with its keys to another primary, under traffic if there is any: the whole dance of `begin_move`,
    /// `move_keys` and `finish_move`. Nothing happens if it is there already.
    #[track_caller]
    pub fn move_slot(&self, slot: u16, to: usize) {
        if self.primary_of(slot) != to {
            self.begin_move(slot, to);
            self.move_keys(slot, to);
            self.finish_move(slot, to);
        }
    }

    /// Opens a slot to be moved: for keys that are not there, the old primary answers ASK from now on.
    #[track_caller]
    pub fn begin_move(&self, slot: u16, to: usize) {
        let from = self.primary_of(slot);
        self.set_slot(to, slot, &["IMPORTING", &self.id(from)]);
        self.set_slot(from, slot, &["MIGRATING", &self.id(to)]);
    }

    /// Moves all keys of an open slot.
    #[track_caller]
    pub fn move_keys(&self, slot: u16, to: usize) {
        let from = &self.servers[self.primary_of(slot)];
        let port = self.servers[to].port().to_string();
        wait_until("the slot has no more keys", PATIENCE, || {
            let keys = from.command(&["CLUSTER", "GETKEYSINSLOT", &slot.to_string(), "1000"]);
            let keys = keys.as_array().iter().filter_map(|key| match key {
                Value::Bulk(key) => Some(key.as_slice()),
                _ => None,
            });
            let keys: Vec<_> = keys.collect();
            if keys.is_empty() {
                return Some(());
            }
            let mut migrate: Vec<&[u8]> = vec![
                b"MIGRATE",
                b"127.0.0.1",
                port.as_bytes(),
                b"",
                b"0",
                b"5000",
            ];
            if let Some(password) = from.password() {
                migrate.extend([b"AUTH".as_slice(), password.as_bytes()]);
            }
            migrate.push(b"KEYS");
            migrate.extend(keys);
            // NOKEY: they expired in the meantime.
            match from.command(&migrate) {
                Value::Simple(status) if status == "OK" || status == "NOKEY" => None,
                other => panic!("MIGRATE: {other:?}"),
            }
        });
    }

    /// Gives an open slot without keys to its new primary, and waits until all nodes that answer know it.
    #[track_caller]
    pub fn finish_move(&self, slot: u16, to: usize) {
        let from = self.primary_of(slot);
        let id = self.id(to);
        // The new primary first: the slot is never without one.
        self.set_slot(to, slot, &["NODE", &id]);
        self.set_slot(from, slot, &["NODE", &id]);
        wait_until("all nodes know of the move", PATIENCE, || {
            let mut views = self.servers.iter().filter_map(nodes);
            let knows = |view: Vec<Node>| view.iter().any(|it| it.id == id && it.has(slot));
            views.all(knows).then_some(())
        });
    }

    #[track_caller]
    fn set_slot(&self, index: usize, slot: u16, what: &[&str]) {
        let slot = slot.to_string();
        let mut command = vec!["CLUSTER", "SETSLOT", &slot];
        command.extend(what);
        must(&self.servers[index], &command);
    }

    #[track_caller]
    fn id(&self, index: usize) -> String {
        let id = self.servers[index].command(&["CLUSTER", "MYID"]);
        match id.as_text() {
            Some(id) => id.to_owned(),
            None => panic!("CLUSTER MYID: {id:?}"),
        }
    }

    /// Who says of itself that it serves a slot. If two do, the one that was elected later.
    fn serves(&self, slot: u16) -> Option<usize> {
        let lines = (0..NODES).filter_map(|index| Some((index, self.own_line(index)?)));
        lines
            .filter(|(_, line)| line.is_primary && line.has(slot))
            .max_by_key(|(_, line)| line.epoch)
            .map(|(index, _)| index)
    }

    fn own_line(&self, index: usize) -> Option<Node> {
        nodes(&self.servers[index])?
            .into_iter()
            .find(|it| it.is_myself)
    }

    #[track_caller]
    fn join(&self) {
        for (index, server) in self.servers.iter().enumerate() {
            let epoch = (index + 1).to_string();
            must(server, &["CLUSTER", "SET-CONFIG-EPOCH", &epoch]);
        }
        for (index, server) in self.servers[..PRIMARIES].iter().enumerate() {
            let slots = index * SLOTS / PRIMARIES..(index + 1) * SLOTS / PRIMARIES;
            let mut command = vec!["CLUSTER".to_owned(), "ADDSLOTS".to_owned()];
            command.extend(slots.map(|slot| slot.to_string()));
            must(server, &command);
        }
        for server in &self.servers[1..] {
            let (port, bus) = (server.port().to_string(), server.bus_port().to_string());
            let meet = ["CLUSTER", "MEET", "127.0.0.1", &port, &bus];
            must(&self.servers[0], &meet);
        }
        self.wait_until_known("all nodes know each other", |nodes| nodes.len() == NODES);
        for (index, server) in self.servers[PRIMARIES..].iter().enumerate() {
            must(server, &["CLUSTER", "REPLICATE", &self.id(index)]);
        }
        self.wait_until_known("all nodes know the replicas", |nodes| {
            nodes.iter().filter(|it| it.is_primary).count() == PRIMARIES
        });
        wait_until("every replica is in sync", PATIENCE, || {
            let (primaries, replicas) = self.servers.split_at(PRIMARIES);
            let online = |it: &RedisServer| {
                let replica = it.info("replication", "slave0");
                replica.is_some_and(|it| it.contains("state=online"))
            };
            let up = |it: &RedisServer| {
                let link = it.info("replication", "master_link_status");
                link.is_some_and(|it| it == "up")
            };
            (primaries.iter().all(online) && replicas.iter().all(up)).then_some(())
        });
        self.wait_until_ok();
    }

    #[track_caller]
    fn wait_until_known(&self, what: &str, known: impl Fn(&[Node]) -> bool) {
        wait_until(what, PATIENCE, || {
            let mut views = self.servers.iter().map(nodes);
            let fine = |view: Option<Vec<Node>>| {
                view.is_some_and(|it| it.iter().all(|node| !node.is_stranger) && known(&it))
            };
            views.all(fine).then_some(())
        });
    }
}

fn node() -> Builder {
    RedisServer::builder()
        .cluster_node()
        .arg("--cluster-announce-ip", "127.0.0.1")
        .arg("--cluster-node-timeout", "500")
        .arg("--cluster-require-full-coverage", "no")
        // A replica may be elected however long its primary was away, and stays with it until then.
        .arg("--cluster-replica-validity-factor", "0")
        .arg("--cluster-allow-replica-migration", "no")
}

fn ask(server: &RedisServer, command: &[&str]) -> std::io::Result<Value> {
    server.try_command(command, ANSWER)
}

#[track_caller]
fn must<A: AsRef<[u8]>>(server: &RedisServer, command: &[A]) {
    let answer = server.command(command);
    if !answer.is_ok() {
        let words = command.iter().take(4).map(|it| it.as_ref());
        let words: Vec<_> = words.map(String::from_utf8_lossy).collect();
        panic!("{}: {answer:?}", words.join(" "));
    }
}

/// A node, as another or it itself sees it.
#[derive(Debug)]
struct Node {
    id: String,
    is_myself: bool,
    is_primary: bool,
    /// Met, but not yet known.
    is_stranger: bool,
    epoch: u64,
    slots: Vec<RangeInclusive<u16>>,
}

impl Node {
    /// Reads a line such as
    /// `ID 127.0.0.1:7000@17000 myself,master - 0 0 1 connected 0-5460 [7-<-ID]`.
    fn parse(line: &str) -> Option<Self> {
        let mut fields = line.split(' ');
        let id = fields.next()?.to_owned();
        let flags: Vec<_> = fields.nth(1)?.split(',').collect();
        let epoch = fields.nth(3)?.parse().ok()?;
        let slots = fields.skip(1).filter(|it| !it.starts_with('['));
        let slots = slots.map(|range| {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            Some(first.parse().ok()?..=last.parse().ok()?)
        });
        Some(Self {
            id,
            is_myself: flags.contains(&"myself"),
            is_primary: flags.contains(&"master"),
            is_stranger: flags.contains(&"handshake"),
            epoch,
            slots: slots.collect::<Option<_>>()?,
        })
    }

    fn has(&self, slot: u16) -> bool {
        self.slots.iter().any(|range| range.contains(&slot))
    }
}

/// All nodes as one of them sees them, if it answers.
fn nodes(server: &RedisServer) -> Option<Vec<Node>> {
    let answer = ask(server, &["CLUSTER", "NODES"]).ok()?;
    answer.as_text()?.lines().map(Node::parse).collect()
}

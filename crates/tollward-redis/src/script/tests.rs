//! The script against the core, on real servers.

use redis::{Connection, Value, cmd};
use tollward_core::{Key, Spending, State, Timestamp};
use tollward_testkit::conformance::Pay;
use tollward_testkit::redis::{RedisServer, valkey_server};

use super::{Call, SHA1, SOURCE};
use crate::key::KeyName;
use crate::part::{Answer, Op, Part, PartCharge};

mod contract;
mod differential;
mod golden;
mod reference;
mod ttl;

/// Longer than any run of the tests, so that nothing expires meanwhile.
const LONG_SLACK_MS: u64 = 1_000_000_000;

const FAMILY: &str = "script";

/// A server that knows the script.
struct Lab {
    /// Ends with the lab.
    _server: RedisServer,
    connection: Connection,
}

impl Lab {
    fn redis() -> Self {
        Self::on(RedisServer::start())
    }

    /// None where there is no Valkey.
    fn valkey() -> Option<Self> {
        let binary = valkey_server()?;
        Some(Self::on(RedisServer::builder().binary(binary).start()))
    }

    fn on(server: RedisServer) -> Self {
        let client = redis::Client::open(server.url()).unwrap();
        let mut connection = client.get_connection().unwrap();
        let load = cmd("SCRIPT").arg("LOAD").arg(SOURCE).to_owned();
        let sha1: String = load.query(&mut connection).unwrap();
        assert_eq!(sha1, SHA1, "the script was changed: this is its new SHA1");
        Self {
            _server: server,
            connection,
        }
    }

    /// Decides the parts in one call.
    fn run(&mut self, parts: &[Part], now: Timestamp) -> Vec<Answer> {
        self.try_run(parts, Some(now), LONG_SLACK_MS)
    }

    fn try_run(&mut self, parts: &[Part], clock: Option<Timestamp>, slack_ms: u64) -> Vec<Answer> {
        let call = Call::new(parts, clock, slack_ms);
        let reply = self.send(&call);
        call.read(parts, &reply).unwrap()
    }

    fn send(&mut self, call: &Call) -> Value {
        let mut evalsha = cmd("EVALSHA");
        evalsha.arg(SHA1).arg(call.keys().len());
        for key in call.keys() {
            evalsha.arg(key.as_bytes());
        }
        evalsha.arg(call.packed());
        evalsha.query(&mut self.connection).unwrap()
    }

    /// What is stored for these buckets.
    fn values(&mut self, keys: &[u64]) -> Vec<Option<Vec<u8>>> {
        let mut mget = cmd("MGET");
        for key in keys {
            mget.arg(name(*key).as_bytes());
        }
        mget.query(&mut self.connection).unwrap()
    }

    fn set(&mut self, key: u64, value: &[u8]) {
        let mut set = cmd("SET");
        set.arg(name(key).as_bytes()).arg(value);
        set.exec(&mut self.connection).unwrap();
    }

    fn delete(&mut self, key: u64) {
        let mut del = cmd("DEL");
        del.arg(name(key).as_bytes());
        del.exec(&mut self.connection).unwrap();
    }

    /// Milliseconds to live; -1 is for ever, -2 is not there.
    fn ttl_ms(&mut self, key: u64) -> i64 {
        let mut pttl = cmd("PTTL");
        pttl.arg(name(key).as_bytes());
        pttl.query(&mut self.connection).unwrap()
    }
}

/// The name of a bucket in Redis.
fn name(key: u64) -> KeyName {
    let scope = key.to_be_bytes();
    KeyName::new(
        "t:",
        Key {
            family: FAMILY,
            scope: &scope,
        },
    )
}

fn part(op: Op, pays: &[Pay]) -> Part {
    let charge = |pay: &Pay| PartCharge {
        key: name(pay.key),
        limit: pay.limit,
        cost: pay.cost,
        shadow: pay.shadow,
    };
    Part {
        op,
        charges: pays.iter().map(charge).collect(),
        traces: Vec::new(),
    }
}

/// A bucket's value as it is to be stored.
fn value(state: &State) -> Vec<u8> {
    let length = u128::from(state.window.as_micros());
    let (sliding, whole, rest) = match state.spending {
        Spending::Bucket { parts } => (0, parts / length, parts % length),
        Spending::Windows { current, previous } => (1, current.into(), previous.into()),
    };
    let mut bytes = Vec::new();
    bytes.extend_from_slice(&(state.window.as_secs() | sliding << 31).to_le_bytes());
    bytes.extend_from_slice(&state.at.as_micros().to_le_bytes());
    bytes.extend_from_slice(&u32::try_from(whole).unwrap().to_le_bytes());
    bytes.extend_from_slice(&u64::try_from(rest).unwrap().to_le_bytes());
    // It is not known how long it lives.
    bytes.extend_from_slice(&0_u32.to_le_bytes());
    bytes
}

/// A value without the second until which it lives, which is the script's own business.
fn without_life(mut value: Vec<u8>) -> Vec<u8> {
    if value.len() == 28 {
        value.truncate(24);
    }
    value
}

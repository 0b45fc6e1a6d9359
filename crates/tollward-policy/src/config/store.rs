//! Where counters live, as it is written.

use std::time::Duration;

use serde_json::{Value as Json, json};

use super::decode::{Context, Decode};
use super::duration::Deadline;
use super::fault::{Spanned, quoted};
use super::limit::OnFailure;
use super::record::{record, words};
use super::redis_url::RedisUrl;
use super::scalar::{Text, Whole};
use super::schema::Defs;
use super::yaml::Node;

/// The longest prefix of the names of our keys in Redis, in bytes.
pub const MAX_PREFIX: usize = 24;

record! {
    /// Where counters live. What concerns Redis may stand here without `backend: redis` too, since
    /// `--redis URL` takes Redis whatever the file says; only `url` may not.
    pub struct Store {
        /// The kind of store; `memory` unless told otherwise.
        backend: Option<Spanned<Backend>> = optional Backend,
        /// The most counters that are kept in memory.
        max_buckets: Option<Spanned<u32>> = optional Whole<1024>,
        /// Where Redis is: `redis://`, `rediss://`, `unix://`, `redis-cluster://` or
        /// `redis-sentinel://`. Only with `backend: redis`.
        url: Option<Spanned<RedisUrl>> = optional Url,
        /// What all keys in Redis begin with, to tell fleets apart; `tollward:` unless told
        /// otherwise.
        prefix: Option<Spanned<String>> = optional Prefix,
        /// How long a decision waits for Redis, from 1 ms to 10 s; `5ms` unless told otherwise.
        deadline: Option<Spanned<Duration>> = optional Deadline,
        /// What holds while Redis cannot be reached, for limits that do not say; `local` unless
        /// told otherwise.
        on_failure: Option<Spanned<OnFailure>> = optional OnFailure,
        /// Whose clock counts; `server` unless told otherwise.
        clock: Option<Spanned<StoreClock>> = optional StoreClock,
        /// The certificates for `rediss://`.
        tls: Option<StoreTls> = optional StoreTls,
    }
}

words! {
    /// A kind of store.
    pub enum Backend {
        /// The memory of this process.
        Memory = "memory",
        /// A Redis or a Valkey, shared by all nodes.
        Redis = "redis",
    }
}

words! {
    /// Whose clock counts in Redis.
    pub enum StoreClock {
        /// That of Redis, which all nodes share.
        Server = "server",
        /// That of the node that asks, for services that forbid `TIME` in scripts.
        Client = "client",
    }
}

record! {
    /// The certificates of connections to Redis, as PEM files.
    pub struct StoreTls {
        /// Who signed the server's; those whom the system trusts, unless told otherwise.
        ca: Option<Spanned<String>> = optional Text<4096>,
        /// The one that is shown to the server.
        cert: Option<Spanned<String>> = optional Text<4096>,
        /// The private key of `cert`.
        key: Option<Spanned<String>> = optional Text<4096>,
    }
}

/// The URL of a Redis. Faults do not show the text: it may hold a password.
struct Url;

impl Decode for Url {
    type Value = Spanned<RedisUrl>;

    fn decode(node: &Node, cx: &mut Context) -> Option<Self::Value> {
        let (text, _) = cx.scalar(node, &Self::expected())?;
        match text.parse() {
            Ok(url) => Some(cx.spanned(node, url)),
            Err(fault) => cx.fault_with(node, fault.message, fault.hint),
        }
    }

    fn schema(_: &mut Defs) -> Json {
        json!({ "type": "string", "examples": [
            "redis://127.0.0.1:6379",
            "rediss://:PASSWORD@redis.example.com/0",
            "unix:///run/redis.sock",
            "redis-cluster://10.0.0.1,10.0.0.2,10.0.0.3",
            "redis-sentinel://10.0.0.1,10.0.0.2,10.0.0.3/MASTER",
        ] })
    }

    fn expected() -> String {
        "a URL such as `redis://127.0.0.1:6379`".to_owned()
    }
}

/// What keys begin with. Braces are hash tags to a cluster.
struct Prefix;

impl Decode for Prefix {
    type Value = Spanned<String>;

    fn decode(node: &Node, cx: &mut Context) -> Option<Self::Value> {
        let expected = Self::expected();
        let (text, _) = cx.scalar(node, &expected)?;
        let is_plain = |b: u8| b.is_ascii_graphic() && b != b'{' && b != b'}';
        if (1..=MAX_PREFIX).contains(&text.len()) && text.bytes().all(is_plain) {
            return Some(cx.spanned(node, text.to_owned()));
        }
        let message = format!("{} cannot be a prefix", quoted(text));
        cx.fault_with(node, message, format!("write {expected}"))
    }

    fn schema(_: &mut Defs) -> Json {
        json!({ "type": "string", "pattern": format!("^[!-z|~]{{1,{MAX_PREFIX}}}$") })
    }

    fn expected() -> String {
        format!("1 to {MAX_PREFIX} characters of ASCII without spaces and braces")
    }
}

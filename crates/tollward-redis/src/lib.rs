//! Tollward's counters in Redis or Valkey, shared by many nodes.
//!
//! All limits of a request are decided by one script call, all or nothing; requests that arrive while a
//! call is under way travel together in the next one. The script's answers are those of `tollward-core`.
//!
//! Whatever Redis does, a decision is there by the deadline. A server that fails is not asked any more:
//! `on_failure` of each limit decides, and a task in the background finds out when the server is well
//! again. What this node admits in the meantime is charged to Redis when it is back.
//!
//! * A call whose outcome is unknown is never sent again: a request is charged once or not at all.
//! * On a cluster, buckets of different callers lie in different slots, and no script reaches across.
//!   There each slot decides its part of a request, and what some took is given back if another refuses:
//!   for the length of one call, a refused request holds tokens.
//! * All of it holds as long as Redis keeps its data. A flush, an eviction or a failover to a replica that
//!   lags refills buckets. That is noticed where it can be, counted and logged.

mod breaker;
mod cluster;
mod connect;
mod debts;
mod fleet;
mod jitter;
mod key;
mod lane;
mod local;
mod part;
mod queue;
mod remembered;
mod request;
mod script;
mod sentinel;
mod server_facts;
mod shards;
mod shared;
mod slot;
mod stats;
mod store;
mod trail;
mod wire;

pub use key::MAX_KEY;
pub use stats::{Counter, Stats};
pub use store::{InvalidOptions, Now, Options, RedisStore, Shard};

//! Test support for Tollward's crates: the oracle, the manual clock, the store conformance suite, processes of Redis and
//! PostgreSQL, programs of others, a browser, an upstream, certificates and faults of the network.
//!
//! Nothing here is published, and nothing here is used outside tests.

pub mod browser;
pub mod certificates;
pub mod clock;
pub mod conformance;
pub mod fault;
pub mod http;
pub mod oracle;
pub mod postgres;
pub mod redis;
pub mod tools;
pub mod upstream;
pub mod watchdog;

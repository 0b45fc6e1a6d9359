//! Configuration text compiled into a [`Policy`]; facts about a request into charges.
//!
//! [`compile`] reads a file once, with every fault it has, and gives a [`Policy`] in which nothing is
//! left to be checked. [`Policy::request`] reads the [`Facts`] of a request under it, and
//! [`Request::charges`] says which limits it has to pass, for whose buckets and at what cost.
//! [`Request::explain`] tells the same to people, with where each number came from.
//!
//! This crate decides nothing and counts nothing. It does no I/O and reads no clock.

pub mod config;

mod compile;
mod explain;
mod facts;
mod owned_key;
mod path;
mod policy;
mod request;
mod router;
mod scope;
#[cfg(test)]
mod tests;

pub use compile::{ClientCertificate, Compiled, Listen, RedisOptions, RedisTls, Settings, compile};
pub use explain::{ChargeExplanation, Explanation, Factor, Number, ScopeExplanation};
pub use facts::Facts;
pub use owned_key::{KeyTextError, OwnedKey};
pub use path::{MAX_PATH, PathFault};
pub use policy::{LimitId, Policy, PolicyLimit, ResponseOptions};
pub use request::{Bypass, Charges, Rejection, Request, Treatment};
pub use scope::{KeyText, MAX_KEY_TEXT};

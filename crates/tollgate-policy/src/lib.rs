//! Configuration text compiled into a [`Policy`]; facts about a request into charges.
//!
//! [`compile`] reads a file once, with every fault it has, and gives a [`Policy`] in which nothing is
//! left to be checked. [`Policy::request`] reads the [`Facts`] of a request under it, and
//! [`Request::charges`] says which limits it has to pass, for whose buckets and at what cost.
//! [`Request::explain`] tells the same to people, with where each number came from.
//!
//! This crate decides nothing and counts nothing. It does no I/O and reads no clock.

pub mod config;

mod charges;
mod compile;
mod explain;
mod facts;
mod identity;
mod owned_key;
mod path;
mod policy;
mod request;
mod router;
mod scope;
#[cfg(test)]
mod tests;
mod upstream;

pub use charges::{Charges, OwnedCharges};
pub use compile::{
    AccessLog, ClientCertificate, Compiled, GatewaySettings, Listen, RedisOptions, RedisTls,
    ServerTls, Settings, compile,
};
pub use config::{ForwardingHeader, HostHeader, JwtAlgorithm, Protocol};
pub use explain::{
    ChargeExplanation, Explanation, Factor, Number, ScopeExplanation, StrategyExplanation,
};
pub use facts::Facts;
pub use identity::{Anonymous, ApiKeyOptions, IdentityOptions, JwksSource, JwtOptions};
pub use owned_key::{KeyTextError, OwnedKey};
pub use path::{MAX_PATH, PathFault};
pub use policy::{ApiKey, LimitId, Policy, PolicyLimit, ResponseOptions, Strategy};
pub use request::{Bypass, Rejection, Request, Treatment};
pub use scope::{KeyText, MAX_KEY_TEXT};
pub use upstream::{Target, Upstream, UpstreamTls};

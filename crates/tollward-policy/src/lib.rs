//! Configuration text compiled into a [`Policy`]; facts about a request into charges.
//!
//! [`compile`] reads a file once, with every fault it has, and gives a [`Policy`] in which nothing is
//! left to be checked. [`Policy::request`] reads the [`Facts`] of a request under it, and
//! [`Request::charges`] says which limits it has to pass, for whose buckets and at what cost.
//! [`Request::explain`] tells the same to people, with where each number came from.
//!
//! This crate decides nothing and counts nothing. It does no I/O and reads no clock.

pub mod config;

mod budget;
mod charges;
mod compile;
mod cors;
mod explain;
mod facts;
mod identifier;
mod identity;
mod matched;
mod owned_key;
mod path;
mod people;
mod policy;
mod request;
mod router;
mod scope;
#[cfg(test)]
mod tests;
mod upstream;

pub use budget::{Allocation, Fit};
pub use charges::{Charges, OwnedCharges};
pub use compile::{
    AccessLog, AuditSettings, ClientCertificate, Compiled, DirectorySettings, GatewaySettings,
    Listen, MAX_LEVELS, RedisOptions, RedisTls, ServerTls, Settings, UsageSettings, Warning,
    compile,
};
pub use config::{
    DirectoryUrl, ForwardingHeader, HostHeader, JwtAlgorithm, Origin, Protocol, RouteAuth,
};
pub use cors::Cors;
pub use explain::{
    ChargeExplanation, Explanation, Factor, Number, ScopeExplanation, StrategyExplanation,
};
pub use facts::Facts;
pub use identifier::Identifier;
pub use identity::{Anonymous, ApiKeyOptions, IdentityOptions, JwksSource, JwtOptions};
pub use matched::Matched;
pub use owned_key::{KeyTextError, OwnedKey};
pub use path::{MAX_PATH, PathFault};
pub use people::{
    ApiKey, Boost, Boostee, Budget, Change, Clash, List, Listed, ListedCaller, Tenant, TenantEntry,
    TenantLimit, UserEntry,
};
pub use policy::{LimitId, Policy, PolicyLimit, ROOT, ResponseOptions, Strategy, TENANT_FAMILY};
pub use request::{Bypass, Denial, Misconfigured, Rejection, Request, Suspended, Treatment};
pub use scope::{KeyText, MAX_KEY_TEXT};
pub use upstream::{Target, Upstream, UpstreamTls};

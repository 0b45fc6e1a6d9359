//! The doors of Tollward and the binary that opens them.
//!
//! [`Server`] is the composition root: it puts a policy, a store and a clock together and serves the
//! decision API and the admin door until it is told to stop. The binary `tollward` is a command line
//! around it.

mod clashes;
mod cli;
mod config_state;
mod counters;
mod doors;
mod gateway;
mod jwks;
mod kept;
mod metrics;
mod records;
mod reload;
mod server;
mod source;

pub use cli::run;
pub use server::{Access, Options, Server, Stop};
pub use source::Source;

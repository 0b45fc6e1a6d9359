//! The directory on real databases: in memory, in a file, in PostgreSQL.
#![allow(clippy::unwrap_used, clippy::panic)]

mod crash;
mod edits;
mod follow;
mod full;
mod mirror;
mod open;
mod outage;
mod paging;
mod people;
mod places;
mod records;
mod watch;

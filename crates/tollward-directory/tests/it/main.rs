//! The directory on real databases: in memory, in a file, in PostgreSQL.
#![allow(clippy::unwrap_used, clippy::panic)]

mod crash;
mod crowd;
mod deletes;
mod edits;
mod follow;
mod full;
mod history;
mod mirror;
mod mirror_away;
mod mirror_busy;
mod node;
mod oddities;
mod open;
mod outage;
mod paging;
mod people;
mod places;
mod records;
mod watch;

//! Who exists, what they may use, who changed it: in SQLite or PostgreSQL, by the same statements.
//!
//! A [`Directory`] holds tenants, users, API keys, the allow-list and the deny-list, boosts, admin tokens, settings, the
//! audit trail and the roll-ups of usage. A node keeps what decisions need in memory and follows the
//! changes; a decision never waits for the database.
//!
//! * Every change is part of an [`Edit`], one transaction with a revision of its own. Edits of all nodes
//!   come one after the other, so revisions are in the order of commits.
//! * An edit that was committed survives a crash of this process, of the database and of the machine.
//! * Every call ends by a deadline, whatever the database does.
//! * No error shows a password.
//!
//! Nothing here knows what a limit means: what is stored was checked by whoever stores it.

mod append;
mod directory;
mod edit;
mod entity;
mod error;
mod follow;
mod held;
mod mirror;
mod page;
mod people;
mod read;
mod records;
mod schema;
mod sql;
mod stored;
mod sums;
mod tables;
mod transaction;
mod watch;

pub use append::{Batch, Retention};
pub use directory::Directory;
pub use edit::Edit;
pub use error::{Conflict, DirectoryError};
pub use follow::{Changes, Position, Row};
pub use held::{HeldKey, HeldTenant, HeldUser};
pub use mirror::{Health, Mirror, TokenHolder};
pub use page::{Listed, MAX_PAGE, Page};
pub use people::{Boost, Key, KeyFilter, ListEntry, Setting, Tenant, Token, User};
pub use records::{AuditEvent, AuditFilter, Granularity, Remembered, UsageFilter, UsageRow};
pub use watch::Watch;

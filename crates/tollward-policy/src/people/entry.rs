use std::sync::Arc;

use super::key::ApiKey;
use super::limit::TenantLimit;
use super::list::{List, ListedCaller};
use crate::config::Enforcement;

/// What is written of a tenant.
#[derive(Clone, Debug, Default)]
pub struct TenantEntry {
    /// The tenant above it; none for the root.
    pub parent: Option<Box<str>>,
    /// Its plan.
    pub plan: Option<Box<str>>,
    /// Its limit.
    pub limit: Option<Arc<TenantLimit>>,
    /// Whether its requests, and those of the tenants below it, are refused (403) until it is resumed.
    pub suspended: bool,
}

/// What is written of a user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserEntry {
    /// The tenant that the user belongs to.
    pub tenant: Option<Box<str>>,
    /// The user's plan.
    pub plan: Option<Box<str>>,
    /// Whether the user's requests are refused (403) until the user is resumed.
    pub suspended: bool,
}

/// Who may have a boost.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Boostee {
    /// The tenant of this name: its own limit, and the plan of its callers.
    Tenant(Box<str>),
    /// The user of this name: the plan.
    User(Box<str>),
}

/// How much more of its plan, and a tenant of its own limit, somebody has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Boost(u32);

impl Boost {
    /// A factor in thousandths: more than 1, at most 100.
    pub fn new(thousandths: u32) -> Option<Self> {
        (1001..=100_000)
            .contains(&thousandths)
            .then_some(Self(thousandths))
    }

    /// The factor, in thousandths.
    pub fn thousandths(self) -> u32 {
        self.0
    }
}

/// Something that has become otherwise in the directory.
#[derive(Clone, Debug)]
pub enum Change {
    /// A tenant; without an entry, it is gone.
    Tenant {
        /// Its name.
        id: Box<str>,
        /// What it is now.
        entry: Option<TenantEntry>,
    },
    /// A user; without an entry, it is gone.
    User {
        /// Its name.
        id: Box<str>,
        /// What it is now.
        entry: Option<UserEntry>,
    },
    /// An API key; without one, it is gone.
    Key {
        /// Its SHA-256.
        hash: [u8; 32],
        /// Whose it is now.
        key: Option<ApiKey>,
    },
    /// An entry of a list; without a caller, it is gone.
    Listed {
        /// The id of the entry.
        id: Box<str>,
        /// The list, and whom the entry names.
        entry: Option<(List, ListedCaller)>,
    },
    /// What somebody has more of, be it known otherwise or not; without a boost, it has no more of it.
    Boost {
        /// Who.
        who: Boostee,
        /// How much.
        boost: Option<Boost>,
    },
    /// Whether limits refuse; none for what the file says.
    Enforcement(Option<Enforcement>),
    /// It is so late, in Unix seconds: API keys that expire by then are none.
    Time(u64),
    /// Whether what is known of API keys is too old to go by.
    Closed(bool),
}

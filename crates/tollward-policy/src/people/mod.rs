//! Who exists: tenants, users, API keys, the allow-list; of the file and of a directory.

mod boost;
mod clash;
mod entry;
mod key;
mod kin;
mod limit;
mod list;
mod sharded;
mod tenant;
mod tree;

pub use clash::Clash;
pub use entry::{Boost, Boostee, Change, TenantEntry, UserEntry};
pub use key::ApiKey;
pub use limit::{Budget, TenantLimit};
pub use list::{List, Listed, ListedCaller};
pub use tenant::Tenant;

pub(crate) use boost::Boosted;
pub(crate) use list::CallerList;
pub(crate) use tenant::Bar;

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use boost::Boosts;
use kin::Kin;
use sharded::Sharded;

use crate::config::Enforcement;
use crate::policy::{Policy, ROOT, Rules, hash_of};
use crate::request::Rejection;

/// What is known of people: the file's tenants, and all that a directory has.
///
/// It is never changed; a copy with changes shares with it what did not change.
#[derive(Clone, Debug)]
pub(crate) struct People {
    /// Those of the file and of the directory. The root is always there.
    tenants: Sharded<Box<str>, Arc<Tenant>>,
    kin: Kin,
    /// Tenants of the directory that the file has too.
    hidden: Arc<BTreeMap<Box<str>, TenantEntry>>,
    /// A tenant that is not known, which is a child of the root.
    stranger: Arc<Tenant>,
    /// The users of whom the directory says anything.
    users: Sharded<Box<str>, Arc<UserEntry>>,
    keys: Sharded<[u8; 32], Arc<ApiKey>>,
    /// The entries of the directory's lists, by their ids.
    listed: Arc<BTreeMap<Box<str>, (List, ListedCaller)>>,
    allow: Arc<CallerList>,
    deny: Arc<CallerList>,
    boosts: Boosts,
    pub(crate) enforcement: Option<Enforcement>,
    now: u64,
    is_closed: bool,
}

/// An API key that is valid now.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Credential<'p> {
    /// Whose it is.
    pub(crate) key: &'p ApiKey,
    /// The reason an allow-list gives for not limiting it.
    pub(crate) allowed: Option<&'p str>,
    /// Whether it is suspended, in the file or in the directory.
    pub(crate) is_suspended: bool,
}

/// Where an entry is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    File,
    Directory,
}

impl People {
    /// Those whom the file knows.
    pub(crate) fn of(rules: &Rules) -> Self {
        let root = Tenant::unresolved(ROOT, TenantEntry::default(), Origin::Directory);
        let mut people = Self {
            tenants: Sharded::default(),
            kin: Kin::default(),
            hidden: Arc::default(),
            stranger: Arc::new(root),
            users: Sharded::default(),
            keys: Sharded::default(),
            listed: Arc::default(),
            allow: Arc::default(),
            deny: Arc::default(),
            boosts: Boosts::default(),
            enforcement: None,
            now: 0,
            is_closed: false,
        };
        people.rebuild_tree(rules, BTreeMap::new());
        people
    }

    /// The same directory under other rules.
    pub(crate) fn under(&self, rules: &Rules) -> Self {
        let mut people = self.clone();
        people.boosts = self.boosts.under(rules);
        people.rebuild_tree(rules, self.directory_tenants());
        people
    }

    /// The same with changes.
    pub(crate) fn with(&self, rules: &Rules, changes: Vec<Change>) -> Self {
        let mut people = self.clone();
        let mut touched = HashSet::new();
        let mut lists_changed = false;
        for change in changes {
            match change {
                Change::Tenant { id, entry } => {
                    people.put_tenant(rules, &id, entry);
                    touched.insert(id);
                }
                Change::User { id, entry } => match entry {
                    Some(entry) if entry != UserEntry::default() => {
                        people.users.insert(id, Arc::new(entry));
                    }
                    _ => _ = people.users.remove(&*id),
                },
                Change::Boost { who, boost } => {
                    people.boosts.put(rules, &who, boost);
                    if let Boostee::Tenant(id) = who {
                        touched.insert(id);
                    }
                }
                Change::Key { hash, key } => people.put_key(hash, key),
                Change::Listed { id, entry } => {
                    lists_changed = true;
                    touched.extend(people.put_listed(id, entry));
                }
                Change::Enforcement(enforcement) => people.enforcement = enforcement,
                Change::Time(now) => people.now = now,
                Change::Closed(is_closed) => people.is_closed = is_closed,
            }
        }
        if lists_changed {
            people.allow = people.list(List::Allow);
            people.deny = people.list(List::Deny);
        }
        if !touched.is_empty() {
            people.resolve(rules, touched);
        }
        people
    }

    /// Puts an entry of a list. The tenants that were or are denied by it, if any.
    fn put_listed(
        &mut self,
        id: Box<str>,
        entry: Option<(List, ListedCaller)>,
    ) -> impl Iterator<Item = Box<str>> {
        let denied = |entry: &(List, ListedCaller)| match entry {
            (List::Deny, caller) => match &caller.who {
                Listed::Tenant(tenant) => Some(tenant.clone()),
                _ => None,
            },
            (List::Allow, _) => None,
        };
        let after = entry.as_ref().and_then(denied);
        let listed = Arc::make_mut(&mut self.listed);
        let before = match entry {
            Some(entry) => listed.insert(id, entry),
            None => listed.remove(&id),
        };
        let before = before.as_ref().and_then(denied);
        before.into_iter().chain(after)
    }

    fn list(&self, list: List) -> Arc<CallerList> {
        let entries = self.listed.values().filter(|(of, _)| *of == list);
        Arc::new(entries.map(|(_, caller)| caller).collect())
    }

    fn put_key(&mut self, hash: [u8; 32], key: Option<ApiKey>) {
        match key {
            Some(key) => _ = self.keys.insert(hash, Arc::new(key)),
            None => _ = self.keys.remove(&hash),
        }
    }

    pub(crate) fn tenant(&self, id: &str) -> Option<&Arc<Tenant>> {
        self.tenants.get(id)
    }

    /// A tenant that is not known.
    pub(crate) fn stranger(&self) -> Option<&Arc<Tenant>> {
        Some(&self.stranger)
    }

    /// What the directory says of a user, if it says anything.
    pub(crate) fn user(&self, id: &str) -> Option<&UserEntry> {
        self.users.get(id).map(|user| &**user)
    }

    /// The larger of the boosts that a user and a tenant have.
    pub(crate) fn boost(&self, user: Option<&str>, tenant: Option<&str>) -> Option<&Boosted> {
        self.boosts.of(user, tenant)
    }

    /// Looks up an API key. The file takes precedence over the directory.
    ///
    /// An allow-list never makes a key valid: it only lifts the limits of a key that exists, has not
    /// expired and can be verified.
    pub(crate) fn credential<'p>(
        &'p self,
        rules: &'p Rules,
        hash: &[u8; 32],
    ) -> Result<Credential<'p>, Rejection> {
        let of_file = rules.keys.get(hash);
        let of_directory = || self.keys.get(hash).map(|key| &**key);
        if self.is_closed && of_file.is_none() {
            return Err(Rejection::Unverifiable);
        }
        let in_directory = of_directory();
        let key = of_file.or(in_directory);
        let key = key.ok_or(Rejection::UnknownKey)?;
        if key.expires_at.is_some_and(|end| end <= self.now) {
            return Err(Rejection::UnknownKey);
        }
        let allowed = rules.allow.callers.key(hash);
        Ok(Credential {
            key,
            allowed: allowed.or_else(|| self.allow.key(hash)),
            is_suspended: key.suspended || in_directory.is_some_and(|twin| twin.suspended),
        })
    }

    /// The directory's allow-list.
    pub(crate) fn allow_list(&self) -> &CallerList {
        &self.allow
    }

    /// The directory's deny-list.
    pub(crate) fn deny_list(&self) -> &CallerList {
        &self.deny
    }

    /// Whether what is known of keys is too old to go by.
    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed
    }
}

impl Policy {
    /// The same rules, for people as a directory has changed them.
    #[must_use]
    pub fn with(&self, changes: Vec<Change>) -> Self {
        Self {
            people: self.people.with(&self.rules, changes),
            rules: self.rules.clone(),
        }
    }

    /// These rules, for the people that another policy has from its directory.
    #[must_use]
    pub fn for_people_of(&self, other: &Self) -> Self {
        Self {
            people: other.people.under(&self.rules),
            rules: self.rules.clone(),
        }
    }

    /// Looks up an API key by its secret.
    ///
    /// # Errors
    ///
    /// There is no such key, or it cannot be told because the directory is out of reach.
    pub fn key(&self, secret: &str) -> Result<&ApiKey, Rejection> {
        let credential = self.people.credential(&self.rules, &hash_of(secret));
        credential.map(|credential| credential.key)
    }

    /// Whether what is known of the directory's API keys is too old to go by.
    pub fn refuses_directory_keys(&self) -> bool {
        self.people.is_closed()
    }

    /// A tenant of the tree, be it of the file or of the directory.
    pub fn tenant(&self, id: &str) -> Option<&Tenant> {
        self.people.tenant(id).map(|tenant| &**tenant)
    }

    /// How many tenants there are, the root among them.
    pub fn tenant_count(&self) -> usize {
        self.people.tenants.len()
    }

    /// How many API keys the directory has.
    pub fn directory_key_count(&self) -> usize {
        self.people.keys.len()
    }

    /// The tenants that the directory has, hidden ones too, and the root.
    pub fn directory_tenants(&self) -> impl Iterator<Item = &str> {
        let seen = self.people.tenants.iter();
        let seen = seen.filter(|(_, tenant)| tenant.origin == Origin::Directory);
        let hidden = self.people.hidden.keys();
        seen.map(|(id, _)| id).chain(hidden).map(|id| &**id)
    }

    /// The users of whom the directory says anything.
    pub fn directory_users(&self) -> impl Iterator<Item = &str> {
        self.people.users.iter().map(|(id, _)| &**id)
    }

    /// The API keys that the directory has, by their SHA-256.
    pub fn directory_keys(&self) -> impl Iterator<Item = &[u8; 32]> {
        self.people.keys.iter().map(|(hash, _)| hash)
    }

    /// The ids of the entries of the directory's lists.
    pub fn directory_listed(&self) -> impl Iterator<Item = &str> {
        self.people.listed.keys().map(|id| &**id)
    }

    /// The tenants that the file has.
    pub fn file_tenants(&self) -> impl Iterator<Item = (&str, &TenantEntry)> {
        let tenants = self.rules.tenants.iter();
        tenants.map(|(id, entry)| (&**id, entry))
    }

    /// A tenant of the file.
    pub fn file_tenant(&self, id: &str) -> Option<&TenantEntry> {
        self.rules.tenants.get(id)
    }

    /// Tenants of the directory that the file has too: they do not count.
    pub fn hidden_tenants(&self) -> impl Iterator<Item = (&str, &TenantEntry)> {
        let hidden = self.people.hidden.iter();
        hidden.map(|(id, entry)| (&**id, entry))
    }

    /// The API keys that the file has, by their SHA-256.
    pub fn file_keys(&self) -> impl Iterator<Item = (&[u8; 32], &ApiKey)> {
        self.rules.keys.iter()
    }

    /// A list of the file.
    pub fn file_list(&self, list: List) -> &[ListedCaller] {
        match list {
            List::Allow => &self.rules.allow.entries,
            List::Deny => &self.rules.deny.entries,
        }
    }

    /// Whether any key of the file expires: whether it has to be told the time.
    pub fn file_has_expiring_keys(&self) -> bool {
        self.rules.keys.values().any(|key| key.expires_at.is_some())
    }
}

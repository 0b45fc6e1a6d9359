//! Rows of the directory become changes of the policy.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use tollward_engine::Engine;
use tollward_policy::config::{Enforcement, check_tenant_name};
use tollward_policy::{
    ApiKey, Boost, Boostee, Change, List, Listed, ListedCaller, TenantEntry, TenantLimit, UserEntry,
};

use super::boosts::Boosts;
use super::shown::Shown;
use crate::entity::Entity;
use crate::follow::Row;
use crate::held::{HeldKey, HeldTenant, HeldUser};
use crate::people::{self, Key, ListEntry, Setting, Token};

/// Limits that many tenants have are read once.
const LIMITS: usize = 1000;
/// What those are called whose kind has another name in the log of changes.
const KEY: &str = "API key";
const LISTED: &str = "entry of a list";
const TOKEN: &str = "admin token";
/// The setting that says whether limits refuse.
const ENFORCEMENT: &str = "enforcement";

/// What the policy does not hold itself.
#[derive(Debug, Default)]
pub(super) struct Held {
    /// Copied when it changes, if the one that was made known is still looked at.
    pub(super) shown: Arc<Shown>,
    pub(super) boosts: Boosts,
    /// Whether any key has an end.
    pub(super) has_expiring_keys: bool,
    limits: HashMap<String, Arc<TenantLimit>>,
}

/// Why a row makes no sense.
type Sense<T> = Result<T, String>;

impl Held {
    /// Takes a row as it is now, beside the policy that is in force. What it changes there is added to
    /// `changes`.
    pub(super) fn take(
        &mut self,
        row: Row,
        engine: &Engine,
        now_ms: i64,
        changes: &mut Vec<Change>,
    ) {
        let (kind, id) = name(&row);
        let id = id.to_owned();
        match self.sense(row, engine, now_ms, changes) {
            Ok(()) if self.shown.odd.lists(kind, &id) => {
                self.shown_mut().odd.remove(kind, &id);
            }
            Ok(()) => {}
            Err(why) => self.shown_mut().odd.add(kind, &id, &why),
        }
    }

    fn shown_mut(&mut self) -> &mut Shown {
        Arc::make_mut(&mut self.shown)
    }

    fn sense(
        &mut self,
        row: Row,
        engine: &Engine,
        now_ms: i64,
        changes: &mut Vec<Change>,
    ) -> Sense<()> {
        match row {
            Row::Tenant(id, Some(tenant)) => self.tenant(id, tenant, engine, changes)?,
            Row::Tenant(id, None) => changes.push(Change::Tenant {
                id: id.into(),
                entry: None,
            }),
            Row::User(id, user) => changes.push(Change::User {
                id: id.into(),
                entry: user.map(self::user),
            }),
            Row::Key(hash, key) => {
                let key = key.map(|key| self.key(key));
                changes.push(Change::Key {
                    hash: digest(&hash)?,
                    key,
                });
            }
            Row::Listed(id, entry) => changes.push(Change::Listed {
                id: id.into(),
                entry: entry.map(listed).transpose()?,
            }),
            Row::Boost(id, boost) => match boost.filter(|boost| boost.ends_at > now_ms) {
                Some(boost) => self.boost(&boost, changes)?,
                None => self.boosts.remove(&id, changes),
            },
            Row::Token(id, token) => self.put_token(&id, token)?,
            Row::Setting(name, setting) => self.put_setting(name, setting, changes)?,
            Row::Odd { why, .. } => return Err(why),
        }
        Ok(())
    }

    /// A limit that cannot be read frees nobody: the last that could holds, and those above hold in any case.
    fn tenant(
        &mut self,
        id: String,
        tenant: HeldTenant,
        engine: &Engine,
        changes: &mut Vec<Change>,
    ) -> Sense<()> {
        check_tenant_name(&id)?;
        let limit = tenant.rate_limit.map(|text| self.limit(text)).transpose();
        let (limit, odd) = match limit {
            Ok(limit) => (limit, Ok(())),
            Err(why) => match last_limit(engine, &id) {
                Some(last) => (Some(last), Err(format!("the limit it had holds: {why}"))),
                None => (None, Err(format!("it goes without its limit: {why}"))),
            },
        };
        changes.push(Change::Tenant {
            id: id.into(),
            entry: Some(TenantEntry {
                parent: tenant.parent.map(Into::into),
                plan: tenant.plan.map(Into::into),
                limit,
                suspended: tenant.suspended,
            }),
        });
        odd
    }

    fn limit(&mut self, text: String) -> Sense<Arc<TenantLimit>> {
        if let Some(known) = self.limits.get(&text) {
            return Ok(Arc::clone(known));
        }
        let first = |faults: Vec<_>| faults.first().map_or(String::new(), ToString::to_string);
        let limit = Arc::new(TenantLimit::stored(&text).map_err(first)?);
        if self.limits.len() >= LIMITS {
            self.limits.clear();
        }
        self.limits.insert(text, Arc::clone(&limit));
        Ok(limit)
    }

    fn key(&mut self, key: HeldKey) -> ApiKey {
        self.has_expiring_keys |= key.expires_at.is_some();
        ApiKey {
            tenant: key.tenant.map(Into::into),
            user: key.user.map(Into::into),
            client: key.client.map(Into::into),
            plan: key.plan.map(Into::into),
            // Up to a second early rather than late.
            expires_at: key
                .expires_at
                .map(|ms| u64::try_from(ms / 1000).unwrap_or(0)),
            suspended: key.suspended,
        }
    }

    fn boost(&mut self, boost: &people::Boost, changes: &mut Vec<Change>) -> Sense<()> {
        let target: Box<str> = boost.target.as_str().into();
        let who = match boost.kind.as_str() {
            "tenant" => Boostee::Tenant(target),
            "user" => Boostee::User(target),
            kind => return Err(format!("`{kind}` is neither `tenant` nor `user`")),
        };
        let factor = Boost::new(boost.factor);
        let factor = factor.ok_or_else(|| format!("a factor of {} thousandths", boost.factor))?;
        self.boosts
            .put(&boost.id, who, factor, boost.ends_at, changes);
        Ok(())
    }

    fn put_token(&mut self, id: &str, token: Option<Token>) -> Sense<()> {
        self.shown_mut().remove_token(id);
        if let Some(token) = token {
            let hash = digest(&token.hash)?;
            if !["read", "operate", "admin"].contains(&token.role.as_str()) {
                return Err(format!("there is no role `{}`", token.role));
            }
            self.shown_mut().put_token(hash, token);
        }
        Ok(())
    }

    fn put_setting(
        &mut self,
        name: String,
        setting: Option<Setting>,
        changes: &mut Vec<Change>,
    ) -> Sense<()> {
        if name == ENFORCEMENT {
            let value = setting.as_ref().map_or("file", |setting| &setting.value);
            let enforcement = match value {
                "file" => None,
                "on" => Some(Enforcement::On),
                "shadow" => Some(Enforcement::Shadow),
                "off" => Some(Enforcement::Off),
                value => {
                    return Err(format!(
                        "`{value}` is none of `on`, `shadow`, `off`, `file`"
                    ));
                }
            };
            changes.push(Change::Enforcement(enforcement));
        }
        self.shown_mut().put_setting(name, setting);
        Ok(())
    }

    /// Becomes what was loaded anew. What the policy still has of the old one, and should not, is added to
    /// `changes`.
    pub(super) fn renew(&mut self, new: Self, changes: &mut Vec<Change>) {
        self.boosts.renew(&new.boosts, changes);
        if new.shown.setting(ENFORCEMENT).is_none() {
            changes.push(Change::Enforcement(None));
        }
        let counted = self.shown.odd.count();
        *self = new;
        if counted > 0 {
            self.shown_mut().odd.count_also(counted);
        }
    }
}

fn name(row: &Row) -> (&'static str, &str) {
    match row {
        Row::Tenant(id, _) => ("tenant", id),
        Row::User(id, _) => ("user", id),
        Row::Key(hash, _) => (KEY, shortened(hash)),
        Row::Listed(id, _) => (LISTED, id),
        Row::Boost(id, _) => ("boost", id),
        Row::Token(id, _) => (TOKEN, id),
        Row::Setting(name, _) => ("setting", name),
        Row::Odd { kind, id, .. } => odd_name(kind, id),
    }
}

/// As [`name`] calls those that can be read.
fn odd_name<'r>(kind: &'static str, id: &'r str) -> (&'static str, &'r str) {
    match kind {
        Key::KIND => (KEY, shortened(id)),
        ListEntry::KIND => (LISTED, id),
        Token::KIND => (TOKEN, id),
        kind => (kind, id),
    }
}

/// Of a hash, as much as tells it from others.
fn shortened(hash: &str) -> &str {
    hash.get(..12).unwrap_or(hash)
}

/// The limit that a tenant of the directory has now.
fn last_limit(engine: &Engine, id: &str) -> Option<Arc<TenantLimit>> {
    let active = engine.active();
    let tenant = active.policy().tenant(id)?;
    let limit = tenant.entry().limit.clone();
    limit.filter(|_| !tenant.is_of_file())
}

fn user(user: HeldUser) -> UserEntry {
    UserEntry {
        tenant: user.tenant.map(Into::into),
        plan: user.plan.map(Into::into),
        suspended: user.suspended,
    }
}

fn listed(entry: ListEntry) -> Sense<(List, ListedCaller)> {
    let list = match entry.list.as_str() {
        "allow" => List::Allow,
        "deny" => List::Deny,
        list => return Err(format!("`{list}` is neither `allow` nor `deny`")),
    };
    let who = match entry.kind.as_str() {
        "cidr" => Listed::Net(net(&entry.value)?),
        "api_key" => Listed::Key(digest(&entry.value)?),
        "user" => Listed::User(entry.value.into()),
        "client" => Listed::Client(entry.value.into()),
        "tenant" => Listed::Tenant(entry.value.into()),
        kind => {
            return Err(format!(
                "`{kind}` is none of `cidr`, `api_key`, `user`, `client`, `tenant`"
            ));
        }
    };
    let reason = entry.reason.into();
    Ok((list, ListedCaller { who, reason }))
}

fn net(text: &str) -> Sense<IpNet> {
    let net = text
        .parse()
        .or_else(|_| text.parse().map(|ip: IpAddr| ip.into()));
    net.map_err(|_| format!("`{text}` is no network"))
}

/// A SHA-256 in hexadecimal digits.
pub(super) fn digest(text: &str) -> Sense<[u8; 32]> {
    let wrong = || "its hash is not 64 hexadecimal digits".to_owned();
    let mut digest = [0; 32];
    let digits = text.as_bytes();
    if digits.len() != 64 {
        return Err(wrong());
    }
    for (byte, pair) in digest.iter_mut().zip(digits.chunks_exact(2)) {
        let digit = |at: usize| char::from(pair[at]).to_digit(16).ok_or_else(wrong);
        *byte = u8::try_from(digit(0)? * 16 + digit(1)?).map_err(|_| wrong())?;
    }
    Ok(digest)
}

//! What whoever keeps records wants to know of a request.

use std::borrow::Cow;
use std::fmt;
use std::net::IpAddr;

use crate::config::ScopeWord;
use crate::policy::{Policy, PolicyLimit};
use crate::request::Request;
use crate::scope::{self, Caller, CallerIp, Identity};

/// A caller as records name it: `user:alice`, `client:app`, `api_key:` and the first 12 digits of its
/// SHA-256, `tenant:acme`, `ip:192.0.2.7`, or `unknown`. Never a secret.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Identifier<'a> {
    identity: Identity,
    value: Cow<'a, [u8]>,
}

/// The most that is kept of a name that a caller chose, in bytes.
const MAX_VALUE: usize = 256;

impl Identifier<'_> {
    /// The same, without the borrow.
    pub fn into_owned(self) -> Identifier<'static> {
        Identifier {
            identity: self.identity,
            value: Cow::Owned(self.value.into_owned()),
        }
    }
}

impl fmt::Display for Identifier<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.identity.word())?;
        match scope::value_text(self.identity, &self.value) {
            // A byte that no database takes for text.
            Some(text) if text.contains('\0') => write!(f, ":{}", text.replace('\0', "\u{fffd}")),
            Some(text) if !text.is_empty() => write!(f, ":{text}"),
            _ => Ok(()),
        }
    }
}

impl<'p> Request<'p, '_> {
    /// Whom a limit counts here: the first of its scope's words that says so, or whoever stands in where
    /// that is not known. Of a limit that counts nobody apart, the nearest that is known of the caller.
    pub fn identifier(&self, limit: &PolicyLimit) -> Identifier<'_> {
        let tells_callers_apart = |word: &&ScopeWord| {
            let [global, route, upstream] =
                [ScopeWord::Global, ScopeWord::Route, ScopeWord::Upstream];
            ![global, route, upstream].contains(*word)
        };
        let word = limit.scope.iter().find(tells_callers_apart).copied();
        let word = word.unwrap_or(match self.caller {
            Caller { user: Some(_), .. } => ScopeWord::User,
            Caller {
                client: Some(_), ..
            } => ScopeWord::Client,
            Caller {
                api_key: Some(_), ..
            } => ScopeWord::ApiKey,
            _ => ScopeWord::Tenant,
        });
        let identity = scope::identity_of(word, &self.caller).unwrap_or(Identity::Unknown);
        Identifier {
            identity,
            value: Cow::Borrowed(shortened(scope::value_of(identity, &self.caller))),
        }
    }

    /// The tenant, if it is one that the policy knows: anybody can name others.
    pub fn known_tenant_id(&self) -> Option<&'p str> {
        let id = self.tenant?.id();
        (self.caller.tenant == Some(id)).then_some(id)
    }

    /// What it costs before any limit multiplies it: the cost that was asked for, times the route's.
    pub fn tokens(&self) -> u64 {
        let by_route = self.route.map_or(1, |route| route.cost);
        u64::from(self.cost) * u64::from(by_route)
    }

    /// The SHA-256 of its API key.
    pub fn key_hash(&self) -> Option<&[u8; 32]> {
        self.caller.api_key.as_ref()
    }
}

impl Policy {
    /// An address as records name it; `unknown` if there is none.
    pub fn address_identifier(&self, ip: impl Into<Option<IpAddr>>) -> Identifier<'static> {
        let prefix = self.rules.ipv6_prefix;
        let caller = Caller {
            ip: ip.into().map(|ip| CallerIp::new(ip, prefix)),
            ..Caller::default()
        };
        let identity = scope::identity_of(ScopeWord::Ip, &caller).unwrap_or(Identity::Unknown);
        let value = scope::value_of(identity, &caller);
        Identifier {
            identity,
            value: Cow::Owned(value.to_vec()),
        }
    }
}

/// As much of a value as is kept, in whole characters.
fn shortened(value: &[u8]) -> &[u8] {
    match value.get(..MAX_VALUE) {
        None => value,
        Some(start) => {
            let text = start.utf8_chunks().next();
            text.map_or(start, |text| text.valid().as_bytes())
        }
    }
}

use std::collections::HashMap;
use std::net::IpAddr;

use ipnet::IpNet;

use crate::policy::{ByHash, Names};

/// The lists of callers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum List {
    /// Callers that no limit applies to. An entry proves nothing: a key on it must exist and be valid.
    Allow,
    /// Callers that are refused, whatever else is said of them.
    Deny,
}

impl List {
    /// As it is written.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Deny => "deny",
        }
    }
}

/// An entry of a list: a caller, and why it is listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedCaller {
    /// The caller.
    pub who: Listed,
    /// The reason given for it.
    pub reason: Box<str>,
}

/// Whom an entry of a list names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listed {
    /// All addresses of a network.
    Net(IpNet),
    /// The API key with this SHA-256.
    Key([u8; 32]),
    /// A user.
    User(Box<str>),
    /// A client.
    Client(Box<str>),
    /// A tenant. On the deny-list, also the tenants below it.
    Tenant(Box<str>),
}

/// The entries of a list, as they are looked up.
#[derive(Debug, Default)]
pub(crate) struct CallerList {
    nets: Nets,
    keys: ByHash<Box<str>>,
    users: Names<Box<str>>,
    clients: Names<Box<str>>,
    tenants: Names<Box<str>>,
}

impl CallerList {
    /// The reason for which an API key is listed.
    pub(crate) fn key(&self, hash: &[u8; 32]) -> Option<&str> {
        self.keys.get(hash).map(|reason| &**reason)
    }

    /// The reason for which a user is listed.
    pub(crate) fn user(&self, user: Option<&str>) -> Option<&str> {
        self.users.get(user?).map(|reason| &**reason)
    }

    /// The reason for which a client is listed.
    pub(crate) fn client(&self, client: Option<&str>) -> Option<&str> {
        self.clients.get(client?).map(|reason| &**reason)
    }

    /// The reason for which a tenant is listed.
    pub(crate) fn tenant(&self, tenant: Option<&str>) -> Option<&str> {
        self.tenants.get(tenant?).map(|reason| &**reason)
    }

    /// Whether any address is listed.
    pub(crate) fn has_addresses(&self) -> bool {
        !self.nets.reasons.is_empty()
    }

    /// The reason for which an address is listed.
    pub(crate) fn address(&self, ip: Option<IpAddr>) -> Option<&str> {
        self.nets.reason(ip?)
    }
}

impl<'a> FromIterator<&'a ListedCaller> for CallerList {
    fn from_iter<T: IntoIterator<Item = &'a ListedCaller>>(callers: T) -> Self {
        let mut list = Self::default();
        for ListedCaller { who, reason } in callers {
            let reason = reason.clone();
            match who {
                Listed::Net(net) => list.nets.insert(*net, reason),
                Listed::Key(hash) => _ = list.keys.insert(*hash, reason),
                Listed::User(user) => _ = list.users.insert(user.clone(), reason),
                Listed::Client(client) => _ = list.clients.insert(client.clone(), reason),
                Listed::Tenant(tenant) => _ = list.tenants.insert(tenant.clone(), reason),
            }
        }
        list
    }
}

/// Networks, found by the address. The narrowest that covers it counts.
#[derive(Debug, Default)]
struct Nets {
    reasons: HashMap<IpNet, Box<str>, foldhash::quality::RandomState>,
    /// The lengths of prefixes that there are, longest first: for IPv4 and for IPv6.
    lengths: [Vec<u8>; 2],
}

impl Nets {
    fn insert(&mut self, net: IpNet, reason: Box<str>) {
        let lengths = &mut self.lengths[usize::from(net.addr().is_ipv6())];
        let at = lengths.partition_point(|length| *length > net.prefix_len());
        if lengths.get(at) != Some(&net.prefix_len()) {
            lengths.insert(at, net.prefix_len());
        }
        self.reasons.insert(net.trunc(), reason);
    }

    fn reason(&self, ip: IpAddr) -> Option<&str> {
        if self.reasons.is_empty() {
            return None;
        }
        let ip = ip.to_canonical();
        let lengths = &self.lengths[usize::from(ip.is_ipv6())];
        let nets = lengths
            .iter()
            .filter_map(|length| IpNet::new(ip, *length).ok());
        nets.map(|net| net.trunc())
            .find_map(|net| self.reasons.get(&net).map(|reason| &**reason))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_narrowest_network_counts() {
        let allowed = |net: &str| ListedCaller {
            who: Listed::Net(net.parse().unwrap()),
            reason: net.into(),
        };
        let list = [
            "10.0.0.0/8",
            "10.1.2.3/16",
            "10.1.2.3/32",
            "2001:db8::/32",
            "0.0.0.0/0",
        ];
        let list: CallerList = list.map(allowed).iter().collect();
        let reason = |ip: &str| list.address(Some(ip.parse().unwrap()));
        assert_eq!(reason("10.1.2.3"), Some("10.1.2.3/32"));
        assert_eq!(reason("10.1.9.9"), Some("10.1.2.3/16"));
        assert_eq!(reason("10.2.0.0"), Some("10.0.0.0/8"));
        assert_eq!(reason("::ffff:10.2.0.0"), Some("10.0.0.0/8"));
        assert_eq!(reason("192.0.2.1"), Some("0.0.0.0/0"));
        assert_eq!(reason("2001:db8:1::1"), Some("2001:db8::/32"));
        assert_eq!(reason("2001:db9::1"), None);
    }
}

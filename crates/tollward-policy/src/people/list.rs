use std::collections::HashMap;
use std::net::IpAddr;

use ipnet::IpNet;

use crate::policy::{ByHash, Names};

/// A caller that is never limited, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllowedCaller {
    /// Who it is.
    pub who: Allowed,
    /// The reason given for it.
    pub reason: Box<str>,
}

/// Who is never limited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Allowed {
    /// All of a network.
    Net(IpNet),
    /// Who has the API key with this SHA-256.
    Key([u8; 32]),
    /// A user.
    User(Box<str>),
    /// All of a tenant.
    Tenant(Box<str>),
}

/// Callers that are never limited, as they are looked up.
#[derive(Debug, Default)]
pub(crate) struct AllowList {
    nets: Nets,
    keys: ByHash<Box<str>>,
    users: Names<Box<str>>,
    tenants: Names<Box<str>>,
}

impl AllowList {
    /// The reason for which whoever has this key is never limited.
    pub(crate) fn key(&self, hash: &[u8; 32]) -> Option<&str> {
        self.keys.get(hash).map(|reason| &**reason)
    }

    /// The reason for which a caller is never limited.
    pub(crate) fn caller(
        &self,
        user: Option<&str>,
        tenant: Option<&str>,
        ip: Option<IpAddr>,
    ) -> Option<&str> {
        let of_user = || self.users.get(user?);
        let of_tenant = || self.tenants.get(tenant?);
        let by_name = of_user().or_else(of_tenant).map(|reason| &**reason);
        by_name.or_else(|| self.nets.reason(ip?))
    }
}

impl<'a> FromIterator<&'a AllowedCaller> for AllowList {
    fn from_iter<T: IntoIterator<Item = &'a AllowedCaller>>(callers: T) -> Self {
        let mut list = Self::default();
        for AllowedCaller { who, reason } in callers {
            let reason = reason.clone();
            match who {
                Allowed::Net(net) => list.nets.insert(*net, reason),
                Allowed::Key(hash) => _ = list.keys.insert(*hash, reason),
                Allowed::User(user) => _ = list.users.insert(user.clone(), reason),
                Allowed::Tenant(tenant) => _ = list.tenants.insert(tenant.clone(), reason),
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
        let allowed = |net: &str| AllowedCaller {
            who: Allowed::Net(net.parse().unwrap()),
            reason: net.into(),
        };
        let list = [
            "10.0.0.0/8",
            "10.1.2.3/16",
            "10.1.2.3/32",
            "2001:db8::/32",
            "0.0.0.0/0",
        ];
        let list: AllowList = list.map(allowed).iter().collect();
        let reason = |ip: &str| list.caller(None, None, Some(ip.parse().unwrap()));
        assert_eq!(reason("10.1.2.3"), Some("10.1.2.3/32"));
        assert_eq!(reason("10.1.9.9"), Some("10.1.2.3/16"));
        assert_eq!(reason("10.2.0.0"), Some("10.0.0.0/8"));
        assert_eq!(reason("::ffff:10.2.0.0"), Some("10.0.0.0/8"));
        assert_eq!(reason("192.0.2.1"), Some("0.0.0.0/0"));
        assert_eq!(reason("2001:db8:1::1"), Some("2001:db8::/32"));
        assert_eq!(reason("2001:db9::1"), None);
    }
}

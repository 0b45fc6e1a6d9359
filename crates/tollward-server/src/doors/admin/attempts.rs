//! Wrong tokens, counted by who sent them.

use std::net::{IpAddr, Ipv6Addr};

use tollward_core::{Charge, Key, Limit, OnFailure, Timestamp, Window};
use tollward_core::{InvalidLimit, Judgement};
use tollward_store::{MemoryStore, Mode, Outcome, Reply, Store};

/// Wrong tokens that an address may send at once.
const AT_ONCE: u32 = 20;
/// And again in a minute.
const PER_MINUTE: u32 = 10;
/// Addresses that are told apart. Those beyond share counters, so that many addresses buy nothing.
const MAX_ADDRESSES: usize = 10_000;
const NAME: &str = "admin:wrong_tokens";

/// How often an address may still send a wrong token. A right one is never asked about here.
pub(super) struct Attempts {
    store: MemoryStore,
    limit: Limit,
}

impl Attempts {
    pub(super) fn new() -> Result<Self, InvalidLimit> {
        Ok(Self {
            store: MemoryStore::new(MAX_ADDRESSES),
            limit: Limit::token_bucket(PER_MINUTE, Window::MINUTE, AT_ONCE)?,
        })
    }

    /// Counts a wrong token. If it was one too many: the seconds until the next may be tried. Trying
    /// before that does not make it longer.
    pub(super) fn wrong(&self, address: IpAddr, now: Timestamp) -> Result<(), u64> {
        let scope = network(address);
        let charge = Charge {
            name: NAME,
            limit: &self.limit,
            key: Key {
                family: NAME,
                scope: &scope,
            },
            cost: 1,
            shadow: false,
            on_failure: OnFailure::Closed,
        };
        let charges = [charge];
        let mut outcomes = [Outcome::default()];
        let reply = self.store.apply(&charges, &mut outcomes, Mode::Charge, now);
        // The memory answers at once.
        let is_admitted = matches!(reply, Reply::Now(Ok(verdict)) if verdict.admitted);
        drop(reply);
        match outcomes[0].judgement {
            _ if is_admitted => Ok(()),
            Judgement::Refuse { wait_us } => Err(wait_us.div_ceil(1_000_000).max(1)),
            Judgement::Admit | Judgement::Never => Err(1),
        }
    }
}

/// An IPv4 address, or the /64 of an IPv6 address: whoever has one of its addresses has them all.
fn network(address: IpAddr) -> [u8; 16] {
    let v6 = match address.to_canonical() {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() & (u128::MAX << 64)),
    };
    v6.octets()
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Timestamp = Timestamp::from_micros(1_765_411_200_000_000);

    fn wrong(attempts: &Attempts, address: &str, after_secs: u64) -> Result<(), u64> {
        let now = START.saturating_add(after_secs * 1_000_000);
        attempts.wrong(address.parse().unwrap(), now)
    }

    #[test]
    fn twenty_at_once_and_ten_a_minute() {
        let attempts = Attempts::new().unwrap();
        for _ in 0..20 {
            assert_eq!(wrong(&attempts, "192.0.2.1", 0), Ok(()));
        }
        for _ in 0..100 {
            assert_eq!(wrong(&attempts, "192.0.2.1", 0), Err(6));
        }
        assert_eq!(wrong(&attempts, "::ffff:192.0.2.1", 0), Err(6));
        assert_eq!(wrong(&attempts, "192.0.2.2", 0), Ok(()));
        assert_eq!(wrong(&attempts, "192.0.2.1", 6), Ok(()));
        assert_eq!(wrong(&attempts, "192.0.2.1", 7), Err(5));
        assert_eq!(wrong(&attempts, "192.0.2.1", 72), Ok(()));
    }

    #[test]
    fn a_network_of_ipv6_is_one_address() {
        let attempts = Attempts::new().unwrap();
        for host in 0..20 {
            assert_eq!(wrong(&attempts, &format!("2001:db8::{host:x}"), 0), Ok(()));
        }
        assert!(wrong(&attempts, "2001:db8::ffff:1", 0).is_err());
        assert_eq!(wrong(&attempts, "2001:db8:0:1::1", 0), Ok(()));
    }
}

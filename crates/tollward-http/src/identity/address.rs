//! Which address a request comes from.

use std::net::IpAddr;

use http::header::{FORWARDED, HeaderMap, HeaderName};
use tollward_policy::IdentityOptions;
use tollward_policy::config::ForwardingHeader;

use super::{Peer, hop};

pub(crate) const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
/// How many hops are looked at, from the right.
const MAX_HOPS: usize = 64;
/// How much of the header is looked at, from the right.
const MAX_BYTES: usize = 8 * 1024;

/// An address, and what it is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClientAddress {
    /// Never IPv4 in IPv6.
    pub(crate) ip: IpAddr,
    /// It is a trusted proxy's for want of a better one: nobody said whom it speaks for.
    pub(crate) is_proxy: bool,
}

/// The address of the client behind a socket's peer.
///
/// That is the peer, unless it is a trusted proxy or one that relays. Then it is the right-most address of the forwarding
/// header that is not trusted, and the left-most if all are. Nothing left of an entry that is not
/// understood is looked at: the client is then the last trusted address before it.
pub(crate) fn client_address(
    options: &IdentityOptions,
    peer: Peer,
    headers: &HeaderMap,
) -> ClientAddress {
    let ip = peer.address.ip().to_canonical();
    let mut client = ClientAddress {
        ip,
        is_proxy: false,
    };
    if !peer.relays && !options.trusts(ip) {
        return client;
    }
    client.is_proxy = true;
    let mut hops = Hops::of(options.forwarding, headers);
    while let Some(hop) = hops.next_from_the_right() {
        let Some(ip) = hop else {
            client.is_proxy = true;
            return client;
        };
        client = ClientAddress {
            ip,
            is_proxy: false,
        };
        if !options.trusts(ip) {
            return client;
        }
    }
    client
}

/// The entries of all lines of a header, from the right.
struct Hops<'h, L> {
    form: ForwardingHeader,
    lines: L,
    /// What is left of the line in hand.
    rest: Option<&'h [u8]>,
    hops: usize,
    bytes: usize,
}

impl<'h> Hops<'h, ()> {
    fn of(
        form: ForwardingHeader,
        headers: &'h HeaderMap,
    ) -> Hops<'h, impl Iterator<Item = &'h [u8]>> {
        let name = match form {
            ForwardingHeader::XForwardedFor => X_FORWARDED_FOR,
            ForwardingHeader::Forwarded => FORWARDED,
        };
        let lines = headers.get_all(name).into_iter().rev();
        Hops {
            form,
            lines: lines.map(|line| line.as_bytes()),
            rest: None,
            hops: MAX_HOPS,
            bytes: MAX_BYTES,
        }
    }
}

impl<'h, L: Iterator<Item = &'h [u8]>> Hops<'h, L> {
    /// The next entry: its address, or nothing if it is not understood or beyond what is looked at.
    fn next_from_the_right(&mut self) -> Option<Option<IpAddr>> {
        let line = match self.rest.take() {
            Some(line) => line,
            None => self.lines.next()?,
        };
        if self.hops == 0 {
            return Some(None);
        }
        self.hops -= 1;
        let seen = &line[line.len().saturating_sub(self.bytes)..];
        let start = match self.form {
            ForwardingHeader::XForwardedFor => hop::last_listed(seen),
            ForwardingHeader::Forwarded => hop::last_element(seen),
        };
        let (entry, used) = match start {
            Some(0) if seen.len() < line.len() => return Some(None),
            Some(start) => (&seen[start..], seen.len() - start + 1),
            None => return Some(None),
        };
        self.bytes = self.bytes.saturating_sub(used);
        // The comma before the entry belongs to neither.
        self.rest = (entry.len() < line.len()).then(|| &line[..line.len() - entry.len() - 1]);
        Some(match self.form {
            ForwardingHeader::XForwardedFor => hop::listed_address(entry),
            ForwardingHeader::Forwarded => hop::element_address(entry),
        })
    }
}

//! The client's address, against an oracle that knows what was meant by each entry.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use proptest::collection::vec;
use proptest::prelude::*;
use tollward_policy::IdentityOptions;
use tollward_policy::config::ForwardingHeader;

use crate::{head, sender};

#[derive(Clone, Debug)]
enum Entry {
    Trusted(IpAddr, Look),
    Stranger(IpAddr, Look),
    Garbage(&'static str),
}

#[derive(Clone, Copy, Debug)]
enum Look {
    Bare,
    Bracketed,
    WithPort(u16),
    /// IPv4 in the guise of IPv6.
    Mapped,
}

fn options(forwarding: ForwardingHeader) -> IdentityOptions {
    IdentityOptions {
        trusted_proxies: vec!["10.0.0.0/8".parse().unwrap(), "fd00::/8".parse().unwrap()],
        forwarding,
        ..IdentityOptions::default()
    }
}

fn look() -> impl Strategy<Value = Look> {
    prop_oneof![
        Just(Look::Bare),
        Just(Look::Bracketed),
        any::<u16>().prop_map(Look::WithPort),
        Just(Look::Mapped),
    ]
}

fn trusted() -> impl Strategy<Value = IpAddr> {
    prop_oneof![
        any::<[u8; 3]>().prop_map(|[a, b, c]| Ipv4Addr::new(10, a, b, c).into()),
        any::<u128>().prop_map(|bits| Ipv6Addr::from(bits >> 8 | 0xfd << 120).into()),
    ]
}

fn stranger() -> impl Strategy<Value = IpAddr> {
    prop_oneof![
        (11_u8..=255, any::<[u8; 3]>())
            .prop_map(|(first, [a, b, c])| { Ipv4Addr::new(first, a, b, c).into() }),
        any::<u128>().prop_map(|bits| Ipv6Addr::from(bits >> 8 | 0x20 << 120).into()),
    ]
}

fn entry() -> impl Strategy<Value = Entry> {
    let garbage = proptest::sample::select(vec!["unknown", "_x", "", "1.2.3", "::1%0", "é", "\"a"]);
    prop_oneof![
        4 => (trusted(), look()).prop_map(|(ip, look)| Entry::Trusted(ip, look)),
        2 => (stranger(), look()).prop_map(|(ip, look)| Entry::Stranger(ip, look)),
        1 => garbage.prop_map(Entry::Garbage),
    ]
}

fn node(ip: IpAddr, look: Look) -> String {
    match (ip, look) {
        (IpAddr::V4(ip), Look::Mapped) => ip.to_ipv6_mapped().to_string(),
        (IpAddr::V4(ip), Look::WithPort(port)) => format!("{ip}:{port}"),
        (IpAddr::V6(ip), Look::WithPort(port)) => format!("[{ip}]:{port}"),
        (IpAddr::V6(ip), Look::Bracketed) => format!("[{ip}]"),
        (ip, _) => ip.to_string(),
    }
}

fn written(entry: &Entry, form: ForwardingHeader) -> String {
    let node = match entry {
        Entry::Trusted(ip, look) | Entry::Stranger(ip, look) => node(*ip, *look),
        Entry::Garbage(text) => (*text).to_owned(),
    };
    match (form, entry) {
        (ForwardingHeader::XForwardedFor, _) => node,
        (ForwardingHeader::Forwarded, Entry::Garbage(_)) => format!("for={node}"),
        (ForwardingHeader::Forwarded, _) => format!("proto=http;for=\"{node}\";host=\"a,b\""),
    }
}

/// The lines of a header: each entry goes on with the line before it, or begins another.
fn lines(entries: &[(Entry, bool)], form: ForwardingHeader) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for (entry, begins) in entries {
        let text = written(entry, form);
        match lines.last_mut() {
            Some(line) if !begins => *line = format!("{line}, {text}"),
            _ => lines.push(text),
        }
    }
    lines
}

/// What is meant: the address, and whether it is but a proxy's.
fn meant(peer: IpAddr, entries: &[(Entry, bool)]) -> (IpAddr, bool) {
    let mut last = (peer, true);
    for (entry, _) in entries.iter().rev() {
        match entry {
            Entry::Trusted(ip, _) => last = (*ip, false),
            Entry::Stranger(ip, _) => return (*ip, false),
            Entry::Garbage(_) => return (last.0, true),
        }
    }
    last
}

fn found(form: ForwardingHeader, peer: IpAddr, lines: &[impl AsRef<[u8]>]) -> (IpAddr, bool) {
    let name = match form {
        ForwardingHeader::XForwardedFor => "x-forwarded-for",
        ForwardingHeader::Forwarded => "forwarded",
    };
    let headers: Vec<_> = lines.iter().map(|line| (name, line.as_ref())).collect();
    let head = head(&headers);
    let sender = sender(&options(form), &peer.to_string(), &head).unwrap();
    let facts = sender.facts();
    (facts.ip.unwrap(), facts.ip_is_proxy)
}

fn form() -> impl Strategy<Value = ForwardingHeader> {
    prop_oneof![
        Just(ForwardingHeader::XForwardedFor),
        Just(ForwardingHeader::Forwarded)
    ]
}

/// Whatever may stand in a header.
fn anything() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![
        4 => proptest::sample::select(b"\",;=\\[]: .for10".to_vec()),
        1 => (0x20_u8..=0xff).prop_filter("not in headers", |byte| *byte != 0x7f),
    ];
    vec(byte, 0..80)
}

proptest! {
    #[test]
    fn the_client_is_who_was_meant(
        form in form(),
        peer in trusted(),
        entries in vec((entry(), any::<bool>()), 0..12),
    ) {
        prop_assert_eq!(found(form, peer, &lines(&entries, form)), meant(peer, &entries));
    }

    /// Whatever the client writes is left of its own address, which the first proxy appends.
    #[test]
    fn nothing_left_of_the_client_matters(
        form in form(),
        peer in trusted(),
        spoofed in vec(anything(), 0..3),
        joined in any::<bool>(),
        client in (stranger(), look()),
        proxies in vec(((trusted(), look()), any::<bool>()), 0..5),
    ) {
        let client = Entry::Stranger(client.0, client.1);
        let proxies = proxies.into_iter().map(|((ip, look), begins)| (Entry::Trusted(ip, look), begins));
        let chain: Vec<_> = std::iter::once((client.clone(), true)).chain(proxies).collect();
        let appended = lines(&chain, form);
        let mut all: Vec<Vec<u8>> = spoofed;
        for (index, line) in appended.into_iter().enumerate() {
            match all.last_mut() {
                Some(last) if joined && index == 0 => {
                    last.extend_from_slice(b", ");
                    last.extend_from_slice(line.as_bytes());
                }
                _ => all.push(line.into_bytes()),
            }
        }
        let Entry::Stranger(ip, _) = client else { unreachable!() };
        prop_assert_eq!(found(form, peer, &all), (ip, false));
    }

    #[test]
    fn what_strangers_say_changes_nothing(
        form in form(),
        peer in stranger(),
        spoofed in vec(anything(), 0..4),
        entries in vec((entry(), any::<bool>()), 0..4),
    ) {
        prop_assert_eq!(found(form, peer, &spoofed), (peer, false));
        prop_assert_eq!(found(form, peer, &lines(&entries, form)), (peer, false));
    }

    #[test]
    fn no_text_is_too_strange(form in form(), peer in trusted(), said in vec(anything(), 0..4)) {
        let (ip, is_proxy) = found(form, peer, &said);
        prop_assert!(!is_proxy || options(form).trusts(ip));
    }
}

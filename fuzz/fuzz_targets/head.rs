//! Any head of a request: whoever it comes from, nobody becomes somebody else by what it says.
#![no_main]

use std::net::{IpAddr, SocketAddr};
use std::sync::LazyLock;

use arbitrary::Arbitrary;
use http::{HeaderName, HeaderValue, Request};
use libfuzzer_sys::fuzz_target;
use tollward_http::{Peer, Proofs, add_forwarded, client_ip, identify, strip};
use tollward_policy::{Policy, compile};

/// The key `k` is the client c's.
const CONFIG: &str = "
identity:
  user: { header: x-user, jwt: { jwks: /nowhere } }
  client: { header: x-client, basic: true }
  ip: { trusted_proxies: [10.0.0.0/8, 'fd00::/8'], header: HEADER }
  anonymous: allow
keys: [{ sha256: 8254c329a92850f6d539dd376f4816ee2764517da5e0235514af433164480d7a, client: c }]
";

static POLICIES: LazyLock<[Policy; 2]> = LazyLock::new(|| {
    ["x-forwarded-for", "forwarded"].map(|header| {
        match compile(CONFIG.replace("HEADER", header).as_bytes()) {
            Ok(compiled) => compiled.policy,
            Err(faults) => panic!("{faults:?}"),
        }
    })
});

/// The names that mean something.
const NAMES: [&str; 8] = [
    "x-api-key",
    "authorization",
    "x-forwarded-for",
    "forwarded",
    "x-user",
    "x-client",
    "x-tollward-tenant",
    "x_forwarded_for",
];

#[derive(Arbitrary, Debug)]
struct Input<'a> {
    peer: IpAddr,
    forwarded: bool,
    relays: bool,
    headers: Vec<(u8, &'a [u8])>,
}

fuzz_target!(|input: Input<'_>| {
    let mut request = Request::new(());
    for (name, value) in input.headers.iter().take(64) {
        let name = NAMES[usize::from(*name) % NAMES.len()];
        if let Ok(value) = HeaderValue::from_bytes(value) {
            request.headers_mut().append(HeaderName::from_static(name), value);
        }
    }
    let (mut head, ()) = request.into_parts();
    let policy = &POLICIES[usize::from(input.forwarded)];
    let identity = policy.identity();
    let peer = Peer {
        relays: input.relays,
        ..Peer::new(SocketAddr::new(input.peer, 1), false)
    };
    let trusted = peer.is_trusted(identity);
    let ip = client_ip(identity, peer, &head.headers);
    if !trusted && !input.relays {
        assert_eq!(ip, input.peer.to_canonical());
    }
    if let Ok(identified) = identify(identity, &Proofs::default(), policy, peer, &head, 0) {
        let facts = identified.facts();
        assert_eq!(facts.ip, Some(ip));
        assert_eq!(facts.tenant, None);
        // There are no keys of tokens, so only a trusted peer can name a user.
        assert!(trusted || facts.user.is_none());
        let is_proven = facts.api_key == Some("k") && facts.client == Some("c");
        assert!(trusted || is_proven || facts.client.is_none());
        let _ = policy.request(&facts);
    }
    strip(identity, trusted, &mut head.headers);
    let host = HeaderValue::from_static("host");
    add_forwarded(identity, peer, Some(&host), &mut head.headers);
    assert!(!head.headers.contains_key("x-tollward-tenant"));
    assert!(!head.headers.contains_key("x-api-key"));
    let told = &head.headers["x-forwarded-for"];
    let own = input.peer.to_canonical().to_string();
    assert!(told.as_bytes().ends_with(own.as_bytes()));
    if !trusted {
        assert_eq!(told.as_bytes(), own.as_bytes());
    }
});

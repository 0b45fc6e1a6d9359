//! Who calls, as far as the head of a request proves it.

// Clippy knows the test functions as tests, but not the functions they share.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod address;
mod address_properties;
mod credentials;
mod key_sets;
mod keys;
mod relays;
mod tokens;

use std::net::SocketAddr;

use http::request::Parts;
use tollward_http::{AuthFailure, Identified, Peer, Proofs, identify};
use tollward_policy::{IdentityOptions, JwksSource, Policy, compile};

/// When tests take place.
const NOW: u64 = 1_765_411_200;

fn policy(config: &str) -> Policy {
    compile(config.as_bytes()).unwrap().policy
}

/// Where the keys of tokens are.
fn source() -> JwksSource {
    JwksSource::File("keys.json".into())
}

/// The end of a connection without TLS.
fn peer(ip: &str) -> Peer {
    Peer::new(SocketAddr::new(ip.parse().unwrap(), 50_000), false)
}

/// The head of a GET with these headers.
fn head(headers: &[(&str, &[u8])]) -> Parts {
    let mut request = http::Request::get("/a?b=c");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(()).unwrap().into_parts().0
}

/// What is known of the sender, under a policy without keys.
fn sender<'r>(
    options: &IdentityOptions,
    from: &str,
    head: &'r Parts,
) -> Result<Identified<'r>, AuthFailure> {
    identify(
        options,
        &Proofs::default(),
        &policy(""),
        peer(from),
        head,
        NOW,
    )
}

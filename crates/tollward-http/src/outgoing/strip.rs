use http::header::{AUTHORIZATION, HeaderMap, HeaderName};
use tollward_policy::IdentityOptions;

use crate::identity::Authorization;

/// What nobody but us may say: every name that starts so.
const OURS: [&[u8]; 3] = [b"x-tollward-", b"x-ratelimit-", b"ratelimit"];
/// What would make the request another than the one that was limited.
const OVERRIDES: [&[u8]; 3] = [
    b"x-http-method",
    b"x-http-method-override",
    b"x-method-override",
];
/// What only a trusted peer may say.
const OF_PROXIES: [&[u8]; 4] = [
    b"forwarded",
    b"x-real-ip",
    b"x-original-url",
    b"x-rewrite-url",
];

/// Removes from a request what its sender may not say to the upstream: what is ours, what overrides the
/// method that was limited, the word of a proxy if the peer is not trusted, and the credentials that
/// only we need, unless they are to be passed on.
///
/// An underscore counts as a hyphen, because many servers take the one for the other.
pub fn strip(options: &IdentityOptions, peer_is_trusted: bool, headers: &mut HeaderMap) {
    if !options.api_key.forward {
        headers.remove(&options.api_key.header);
    }
    // Nothing is allocated if nothing is found.
    let names = headers
        .keys()
        .filter(|name| is_unwanted(options, peer_is_trusted, name.as_str().as_bytes()));
    let unwanted: Vec<HeaderName> = names.cloned().collect();
    for name in unwanted {
        headers.remove(name);
    }
    if options.basic && !options.api_key.forward {
        let value = headers.get(AUTHORIZATION);
        if value.is_some_and(|it| matches!(Authorization::of(it), Authorization::Basic(_))) {
            headers.remove(AUTHORIZATION);
        }
    }
}

/// What belongs in a head and nowhere else: a server that reads trailers as if they stood there would take
/// it for the head's.
const OF_HEADS: [&[u8]; 11] = [
    b"host",
    b"content-length",
    b"transfer-encoding",
    b"te",
    b"connection",
    b"keep-alive",
    b"proxy-connection",
    b"upgrade",
    b"authorization",
    b"proxy-authorization",
    b"cookie",
];

/// As [`strip`], for the trailers of a request: credentials and what frames a message are not passed on
/// from there at all, nor is the word of a proxy, which has been said in the head.
pub fn strip_trailers(options: &IdentityOptions, trailers: &mut HeaderMap) {
    let names = trailers.keys().filter(|name| {
        let name = name.as_str().as_bytes();
        let of_key = reads_as(name, options.api_key.header.as_str().as_bytes());
        is_unwanted(options, false, name) || of_key || OF_HEADS.iter().any(|it| reads_as(name, it))
    });
    let unwanted: Vec<HeaderName> = names.cloned().collect();
    for name in unwanted {
        trailers.remove(name);
    }
}

fn is_unwanted(options: &IdentityOptions, peer_is_trusted: bool, name: &[u8]) -> bool {
    let of_options = |header: &HeaderName| reads_as(name, header.as_str().as_bytes());
    let ours = match name.first() {
        Some(b'x' | b'r') => {
            OURS.iter().any(|prefix| starts_as(name, prefix)) || overrides_method(name)
        }
        _ => false,
    };
    let of_proxy = || match name.first() {
        Some(b'x' | b'f') => {
            starts_as(name, b"x-forwarded-") || OF_PROXIES.iter().any(|word| reads_as(name, word))
        }
        _ => false,
    };
    let identity = || {
        let named = [&options.user_header, &options.client_header];
        named.into_iter().flatten().any(of_options)
    };
    ours || (!options.api_key.forward && of_options(&options.api_key.header))
        || (!peer_is_trusted && (of_proxy() || identity()))
}

/// Whether a header of this name may make a server take the request for one of another method.
pub(crate) fn overrides_method(name: &[u8]) -> bool {
    OVERRIDES.iter().any(|word| reads_as(name, word))
}

fn reads_as(name: &[u8], word: &[u8]) -> bool {
    name.len() == word.len() && starts_as(name, word)
}

fn starts_as(name: &[u8], prefix: &[u8]) -> bool {
    let same = |(one, other): (&u8, &u8)| one == other || (*one == b'_' && *other == b'-');
    name.len() >= prefix.len() && name.iter().zip(prefix).all(same)
}

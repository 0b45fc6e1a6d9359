//! Who calls, as far as the head of a request proves it.

mod address;
mod credentials;
mod failure;
mod hop;
mod jwks;
mod jwt;
mod proofs;

pub use failure::AuthFailure;
pub use jwks::{JwksFault, MAX_JWKS_BYTES};
pub use jwt::TokenFault;
pub use proofs::Proofs;

pub(crate) use address::X_FORWARDED_FOR;
pub(crate) use credentials::Authorization;

use std::borrow::Cow;
use std::net::SocketAddr;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::header::{AUTHORIZATION, HeaderMap, HeaderName};
use http::request::Parts;
use subtle::ConstantTimeEq;
use tollward_policy::{Facts, IdentityOptions, Policy, Rejection};

use self::address::{ClientAddress, client_address};
use crate::outgoing::overrides_method;

/// The other end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its address.
    pub address: SocketAddr,
    /// Whether the connection is encrypted.
    pub tls: bool,
    /// It asks about a request that somebody else made, says for whom in the forwarding header, and will
    /// pass that request on itself.
    pub relays: bool,
}

impl Peer {
    /// Whoever makes requests of its own.
    pub fn new(address: SocketAddr, tls: bool) -> Self {
        Self {
            address,
            tls,
            relays: false,
        }
    }

    /// A proxy that asks about a request before it passes it on.
    pub fn relay(address: SocketAddr) -> Self {
        Self {
            address,
            tls: false,
            relays: true,
        }
    }

    /// Whether its word counts: whether it is a trusted proxy.
    pub fn is_trusted(self, options: &IdentityOptions) -> bool {
        options.trusts(self.address.ip())
    }
}

/// Who calls, and what for. Everything in it is proven, or said by a trusted peer.
#[derive(Clone, PartialEq, Eq)]
pub struct Identified<'r> {
    /// None if nobody could tell the address.
    address: Option<ClientAddress>,
    api_key: Option<Cow<'r, str>>,
    user: Option<Cow<'r, str>>,
    client: Option<Cow<'r, str>>,
    method: &'r str,
    path: &'r str,
    path_is_kept: bool,
}

impl Identified<'_> {
    /// The facts of the request, at a cost of 1.
    pub fn facts(&self) -> Facts<'_> {
        Facts {
            api_key: self.api_key.as_deref(),
            user: self.user.as_deref(),
            client: self.client.as_deref(),
            ip: self.address.map(|address| address.ip),
            ip_is_unknown: self.address.is_none(),
            ip_is_proxy: self.address.is_some_and(|address| address.is_proxy),
            method: Some(self.method),
            path: Some(self.path),
            path_is_kept: self.path_is_kept,
            ..Facts::default()
        }
    }
}

impl std::fmt::Debug for Identified<'_> {
    /// Without the secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("Identified");
        shown.field("address", &self.address);
        shown.field("has_api_key", &self.api_key.is_some());
        shown
            .field("user", &self.user)
            .field("client", &self.client);
        shown.finish_non_exhaustive()
    }
}

/// Tells who sends a request, at this moment in Unix seconds.
///
/// A credential that is wrong or cannot be read is a failure: whoever shows one is never taken for
/// somebody who shows none. Whether there is such an API key is not asked, except for HTTP Basic:
/// [`Policy::request`] does that.
///
/// What a relay will pass on must not ask for another method than it is limited as; whoever is no relay
/// passes no such header on, see [`strip`](crate::strip).
///
/// An address is told in any case, see [`client_ip`]. Only where there is no peer, it is unknown, and
/// nobody is a trusted proxy.
pub fn identify<'r>(
    options: &IdentityOptions,
    proofs: &Proofs,
    policy: &Policy,
    peer: impl Into<Option<Peer>>,
    head: &'r Parts,
    now: u64,
) -> Result<Identified<'r>, AuthFailure> {
    let (peer, headers) = (peer.into(), &head.headers);
    let mut identified = locate(options, peer, head)?;
    let key_is_bearer = options.api_key.header == AUTHORIZATION;
    if !key_is_bearer {
        identified.api_key = api_key(&options.api_key.header, headers)?.map(Cow::Borrowed);
    }
    if key_is_bearer || options.basic || options.jwt.is_some() {
        identified.authorise(options, proofs, policy, headers, now)?;
    }
    if peer.is_some_and(|peer| peer.is_trusted(options)) {
        identified.believe(options, headers)?;
    }
    Ok(identified)
}

/// Tells where a request comes from and what for, and reads no credentials: for doors that know by other
/// means who calls. Apart from that it is [`identify`].
pub fn locate<'r>(
    options: &IdentityOptions,
    peer: impl Into<Option<Peer>>,
    head: &'r Parts,
) -> Result<Identified<'r>, AuthFailure> {
    let peer = peer.into();
    let relays = peer.is_some_and(|peer| peer.relays);
    if relays && asks_for_another_method(head) {
        return Err(AuthFailure::MethodOverride);
    }
    Ok(Identified {
        address: peer.map(|peer| client_address(options, peer, &head.headers)),
        api_key: None,
        user: None,
        client: None,
        method: head.method.as_str(),
        path: head.uri.path(),
        path_is_kept: relays,
    })
}

/// Whether a header overrides the method with another, to servers that obey it.
fn asks_for_another_method(head: &Parts) -> bool {
    let method = head.method.as_str().as_bytes();
    let mut headers = head.headers.iter();
    headers.any(|(name, value)| {
        let other = !value.as_bytes().eq_ignore_ascii_case(method);
        other && overrides_method(name.as_str().as_bytes())
    })
}

/// The address of the client, also of a request of which [`identify`] makes nothing.
pub fn client_ip(options: &IdentityOptions, peer: Peer, headers: &HeaderMap) -> std::net::IpAddr {
    client_address(options, peer, headers).ip
}

fn api_key<'r>(name: &HeaderName, headers: &'r HeaderMap) -> Result<Option<&'r str>, AuthFailure> {
    let value = credentials::only(headers, name, AuthFailure::BadCredentials)?;
    let text = |value| credentials::text(value).ok_or(AuthFailure::BadCredentials);
    value.map(text).transpose()
}

impl<'r> Identified<'r> {
    /// Reads the `Authorization` header. Its scheme alone says what it is, and one that is not ours to
    /// read is the upstream's.
    fn authorise(
        &mut self,
        options: &IdentityOptions,
        proofs: &Proofs,
        policy: &Policy,
        headers: &'r HeaderMap,
        now: u64,
    ) -> Result<(), AuthFailure> {
        let Some(value) = credentials::only(headers, &AUTHORIZATION, AuthFailure::BadCredentials)?
        else {
            return Ok(());
        };
        let key_is_bearer = options.api_key.header == AUTHORIZATION;
        match Authorization::of(value) {
            Authorization::Basic(pair) if options.basic => self.prove_client(policy, pair),
            Authorization::Bearer(key) if key_is_bearer && !key.is_empty() => {
                self.api_key = Some(Cow::Borrowed(key));
                Ok(())
            }
            _ if key_is_bearer => Err(AuthFailure::BadCredentials),
            Authorization::Bearer(token) => {
                if let Some(jwt) = &options.jwt {
                    self.user = Some(Cow::Owned(proofs.user(jwt, token, now)?));
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// A client's id, and one of its API keys.
    fn prove_client(&mut self, policy: &Policy, pair: &str) -> Result<(), AuthFailure> {
        let decoded = STANDARD.decode(pair).ok();
        let decoded = decoded.and_then(|bytes| String::from_utf8(bytes).ok());
        let decoded = decoded.ok_or(AuthFailure::BadCredentials)?;
        let pair = decoded.split_once(':').ok_or(AuthFailure::BadCredentials)?;
        let (id, secret) = pair;
        let owner = match policy.key(secret) {
            Ok(key) => key.client.as_deref(),
            Err(Rejection::Unverifiable) => return Err(AuthFailure::Unverifiable),
            Err(_) => None,
        };
        let owned = owner.is_some_and(|owner| owner.as_bytes().ct_eq(id.as_bytes()).into());
        let other = |key: &str| !bool::from(key.as_bytes().ct_eq(secret.as_bytes()));
        if !owned {
            return Err(AuthFailure::BadCredentials);
        }
        if self.api_key.as_deref().is_some_and(other) {
            return Err(AuthFailure::Ambiguous);
        }
        self.client = Some(Cow::Owned(id.to_owned()));
        self.api_key = Some(Cow::Owned(secret.to_owned()));
        Ok(())
    }

    /// Takes a trusted peer's word for user and client, unless something else was proven.
    fn believe(
        &mut self,
        options: &IdentityOptions,
        headers: &'r HeaderMap,
    ) -> Result<(), AuthFailure> {
        let said = |name: &Option<HeaderName>| -> Result<Option<&'r str>, AuthFailure> {
            let Some(name) = name else {
                return Ok(None);
            };
            let value = credentials::only(headers, name, AuthFailure::Ambiguous)?;
            // A proxy that has nothing to say may say so.
            let value = value.filter(|value| !value.is_empty());
            let text = |value| credentials::text(value).ok_or(AuthFailure::Ambiguous);
            value.map(text).transpose()
        };
        agree(&mut self.user, said(&options.user_header)?)?;
        agree(&mut self.client, said(&options.client_header)?)
    }
}

fn agree<'r>(proven: &mut Option<Cow<'r, str>>, said: Option<&'r str>) -> Result<(), AuthFailure> {
    match (&proven, said) {
        (Some(proven), Some(said)) if **proven != *said => Err(AuthFailure::Ambiguous),
        (None, Some(said)) => {
            *proven = Some(Cow::Borrowed(said));
            Ok(())
        }
        _ => Ok(()),
    }
}

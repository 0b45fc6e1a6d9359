//! Whose bucket: the values of a limit's scope as bytes.
//!
//! Each value is its type, its length and itself, so no two lists of values give the same bytes,
//! whatever callers send.

use std::fmt::{self, Write};
use std::net::IpAddr;

use ipnet::{IpNet, Ipv6Net};
use sha2::{Digest, Sha256};
use smallvec::SmallVec;
use tollward_core::Key;

use crate::config::ScopeWord;

/// The longest name of a bucket in a store that is shared with others: 64 bytes less 24 for a prefix.
pub const MAX_KEY_TEXT: usize = 40;

/// Who makes a request, as far as it is proven.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Caller<'a> {
    pub(crate) tenant: Option<&'a str>,
    pub(crate) user: Option<&'a str>,
    pub(crate) client: Option<&'a str>,
    pub(crate) api_key: Option<[u8; 32]>,
    /// It is not anonymous, whatever is missing.
    pub(crate) is_authenticated: bool,
    pub(crate) ip: Option<CallerIp>,
}

impl Caller<'_> {
    /// Whether nothing proves who calls.
    pub(crate) fn is_anonymous(&self) -> bool {
        let names_nobody = self.api_key.is_none() && self.user.is_none() && self.client.is_none();
        names_nobody && !self.is_authenticated
    }
}

/// An address as far as it tells callers apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallerIp {
    V4([u8; 4]),
    /// The address with everything behind the prefix cleared.
    V6([u8; 16]),
}

impl CallerIp {
    pub(crate) fn new(ip: IpAddr, ipv6_prefix: u8) -> Self {
        match ip.to_canonical() {
            IpAddr::V4(ip) => Self::V4(ip.octets()),
            IpAddr::V6(ip) => {
                let net = Ipv6Net::new(ip, ipv6_prefix).map_or(ip, |net| net.network());
                Self::V6(net.octets())
            }
        }
    }
}

/// What a value of a scope is. The numbers are part of every stored key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub(crate) enum Identity {
    Unknown = 0,
    Tenant = 1,
    User = 2,
    Client = 3,
    ApiKey = 4,
    Ip = 5,
    Route = 6,
    Upstream = 7,
}

impl Identity {
    const ALL: [Self; 8] = [
        Self::Unknown,
        Self::Tenant,
        Self::User,
        Self::Client,
        Self::ApiKey,
        Self::Ip,
        Self::Route,
        Self::Upstream,
    ];

    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Tenant => "tenant",
            Self::User => "user",
            Self::Client => "client",
            Self::ApiKey => "api_key",
            Self::Ip => "ip",
            Self::Route => "route",
            Self::Upstream => "upstream",
        }
    }

    /// The identity of this word.
    pub(crate) fn named(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.word() == word)
    }
}

/// The bytes before each value: its type and its length.
const VALUE_HEADER: usize = 5;

/// The encoded scope of all charges of a request, one behind the other.
pub(crate) type ScopeBytes = SmallVec<[u8; 128]>;

/// Appends the value of one word of a scope, and says what stood for it.
///
/// A missing fact never buys anything: the next proven identity stands in, and behind the last one
/// bucket is shared by all of whom nothing is known. Requests without a route share one bucket too, and so
/// do those that go to no upstream.
pub(crate) fn encode(
    word: ScopeWord,
    caller: &Caller<'_>,
    route: Option<&str>,
    upstream: Option<&str>,
    bytes: &mut ScopeBytes,
) -> Option<Identity> {
    let identity = identity_of(word, caller)?;
    let value = match identity {
        Identity::Route => route.unwrap_or_default().as_bytes(),
        Identity::Upstream => upstream.unwrap_or_default().as_bytes(),
        _ => value_of(identity, caller),
    };
    push_value(identity, value, bytes);
    Some(identity)
}

/// What stands for a word of a scope; none for one that tells nobody apart.
#[inline]
pub(crate) fn identity_of(word: ScopeWord, caller: &Caller<'_>) -> Option<Identity> {
    Some(match word {
        ScopeWord::Global => return None,
        ScopeWord::Route => Identity::Route,
        ScopeWord::Upstream => Identity::Upstream,
        ScopeWord::Tenant if caller.tenant.is_some() => Identity::Tenant,
        ScopeWord::Tenant | ScopeWord::User if caller.user.is_some() => Identity::User,
        ScopeWord::Tenant | ScopeWord::User | ScopeWord::Client if caller.client.is_some() => {
            Identity::Client
        }
        ScopeWord::Tenant | ScopeWord::User | ScopeWord::Client | ScopeWord::ApiKey
            if caller.api_key.is_some() =>
        {
            Identity::ApiKey
        }
        _ if caller.ip.is_some() => Identity::Ip,
        _ => Identity::Unknown,
    })
}

/// What a caller is by this identity; nothing if it has none, or if that is not the caller's.
#[inline]
pub(crate) fn value_of<'c>(identity: Identity, caller: &'c Caller<'_>) -> &'c [u8] {
    match identity {
        Identity::Unknown | Identity::Route | Identity::Upstream => &[],
        Identity::Tenant => caller.tenant.unwrap_or_default().as_bytes(),
        Identity::User => caller.user.unwrap_or_default().as_bytes(),
        Identity::Client => caller.client.unwrap_or_default().as_bytes(),
        Identity::ApiKey => caller.api_key.as_ref().map_or(&[], |hash| hash),
        Identity::Ip => match &caller.ip {
            Some(CallerIp::V4(octets)) => octets,
            Some(CallerIp::V6(octets)) => octets,
            None => &[],
        },
    }
}

/// Appends one value.
#[inline]
pub(crate) fn push_value(identity: Identity, value: &[u8], bytes: &mut ScopeBytes) {
    bytes.push(identity as u8);
    bytes.extend_from_slice(&u32::try_from(value.len()).unwrap_or(u32::MAX).to_le_bytes());
    bytes.extend_from_slice(value);
}

/// The name of a bucket wherever it has to be written: `{tag}text`, printable, injective, at most
/// [`MAX_KEY_TEXT`] bytes, without spaces, and with no braces but these two. Texts that would be longer
/// than 33 bytes, or hold anything but plain characters, are replaced by a hash.
///
/// The tag is five hexadecimal digits of the scope alone, so all buckets of one scope share it: to Redis
/// Cluster it is a hash tag. It is the same on every node and in every version, and it spreads keys; it
/// does not keep anyone from choosing ids of the same tag.
///
/// Displaying it allocates nothing.
#[derive(Clone, Copy, Debug)]
pub struct KeyText<'a>(pub Key<'a>);

impl fmt::Display for KeyText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut name = Name::new(tag(self.0.scope));
        if name.readable(self.0).is_none() {
            name.hashed(self.0).ok_or(fmt::Error)?;
        }
        f.write_str(std::str::from_utf8(name.written()).map_err(|_| fmt::Error)?)
    }
}

/// 20 bits of a scope: FNV-1a of 64 bits, folded. Part of every stored key.
fn tag(scope: &[u8]) -> u32 {
    let hash = scope.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    let folded = hash ^ (hash >> 20) ^ (hash >> 40) ^ (hash >> 60);
    (folded & 0xf_ffff) as u32
}

const HEX: &[u8; 16] = b"0123456789abcdef";

/// Whether a character stands for itself in a name.
const PLAIN: [bool; 256] = {
    let mut plain = [false; 256];
    let mut byte = 0_u8;
    while byte < 128 {
        plain[byte as usize] = byte.is_ascii_alphanumeric()
            || matches!(byte, b'.' | b'_' | b':' | b'/' | b'@' | b'+' | b'-');
        byte += 1;
    }
    plain
};

/// A name as it is being written. What does not fit is `None`.
struct Name {
    bytes: [u8; MAX_KEY_TEXT],
    length: usize,
}

impl Name {
    /// The bytes of `{tag}`.
    const TAG: usize = 7;

    fn new(tag: u32) -> Self {
        let mut bytes = [0; MAX_KEY_TEXT];
        bytes[0] = b'{';
        for (digit, shift) in bytes[1..6].iter_mut().zip([16, 12, 8, 4, 0]) {
            *digit = HEX[(tag >> shift & 0xf) as usize];
        }
        bytes[6] = b'}';
        Self {
            bytes,
            length: Self::TAG,
        }
    }

    fn written(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    /// Appends the family and the values as people know them; none if that is not possible.
    fn readable(&mut self, key: Key<'_>) -> Option<()> {
        self.push_plain(key.family.as_bytes())?;
        let mut length = 0;
        for (identity, value) in values(key.scope) {
            length += VALUE_HEADER + value.len();
            self.push(b"|")?;
            self.push(identity.word().as_bytes())?;
            self.push(b"=")?;
            match identity {
                // Only shortened would it be readable, and then not tell keys apart.
                Identity::ApiKey => return None,
                Identity::Ip => write!(self, "{}", address(value)?).ok()?,
                _ => self.push_plain(value)?,
            }
        }
        // Bytes that are not values would be left out.
        (length == key.scope.len()).then_some(())
    }

    /// Replaces all behind the tag by a hash.
    fn hashed(&mut self, key: Key<'_>) -> Option<()> {
        let mut hash = Sha256::new();
        hash.update((key.family.len() as u64).to_le_bytes());
        hash.update(key.family);
        hash.update(key.scope);
        self.length = Self::TAG;
        self.push(b"#")?;
        // 128 bits: nobody finds a second id with the hash of the first.
        hash.finalize().iter().take(16).try_for_each(|byte| {
            let (high, low) = (byte >> 4, byte & 0xf);
            self.push(&[HEX[usize::from(high)], HEX[usize::from(low)]])
        })
    }

    fn push_plain(&mut self, text: &[u8]) -> Option<()> {
        let start = self.length;
        self.push(text)?;
        let pushed = &self.bytes[start..self.length];
        let plain = pushed.iter().all(|byte| PLAIN[usize::from(*byte)]);
        plain.then_some(())
    }

    fn push(&mut self, text: &[u8]) -> Option<()> {
        let end = self.length.checked_add(text.len())?;
        self.bytes.get_mut(self.length..end)?.copy_from_slice(text);
        self.length = end;
        Some(())
    }
}

impl Write for Name {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.push(text.as_bytes()).ok_or(fmt::Error)
    }
}

fn address(value: &[u8]) -> Option<IpAddr> {
    match <[u8; 4]>::try_from(value) {
        Ok(octets) => Some(IpAddr::from(octets)),
        Err(_) => Some(IpAddr::from(<[u8; 16]>::try_from(value).ok()?)),
    }
}

/// The value as people know it; none if it is not text.
pub(crate) fn value_text(identity: Identity, value: &[u8]) -> Option<String> {
    match identity {
        Identity::Ip => Some(address(value)?.to_string()),
        Identity::ApiKey => Some(hex(&value[..value.len().min(6)])),
        _ => String::from_utf8(value.to_vec()).ok(),
    }
}

/// The values of an encoded scope.
pub(crate) fn values(mut scope: &[u8]) -> impl Iterator<Item = (Identity, &[u8])> {
    std::iter::from_fn(move || {
        let (tag, rest) = scope.split_first()?;
        let (length, rest) = rest.split_first_chunk::<4>()?;
        let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
        let (value, rest) = rest.split_at_checked(length)?;
        scope = rest;
        Some((*Identity::ALL.get(usize::from(*tag))?, value))
    })
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Whether a network covers an address, as IPv4 if it is IPv4 in disguise.
pub(crate) fn covers(net: &IpNet, ip: IpAddr) -> bool {
    net.contains(&ip.to_canonical())
}

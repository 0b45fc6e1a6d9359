//! How single values are written: words, texts, numbers, addresses, digests.

use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;
use serde_json::{Value as Json, json};

use super::decode::{Context, Decode, Name, unsupported};
use super::fault::{Spanned, hint_among, is_printable, one_of, quoted};
use super::schema::Defs;
use super::yaml::Node;

/// The index of a node's text among `words`.
pub(crate) fn word(
    node: &Node,
    cx: &mut Context,
    words: &[&'static str],
    other_versions: &[&str],
) -> Option<usize> {
    let expected = one_of(words);
    let (text, plain) = cx.scalar(node, &expected)?;
    if let Some(index) = words.iter().position(|word| *word == text) {
        return Some(index);
    }
    if other_versions.contains(&text) {
        return cx.fault_with(node, unsupported(text), format!("write {expected}"));
    }
    let message = format!("unknown word {}", quoted(text));
    let switch = match text {
        "true" => "on",
        "false" => "off",
        _ => "",
    };
    if plain && words.contains(&switch) {
        return cx.fault_with(node, message, format!("write `{switch}`"));
    }
    cx.fault_with(node, message, hint_among(text, words))
}

/// `true` or `false`.
pub(crate) struct Flag;

impl Decode for Flag {
    type Value = Spanned<bool>;

    fn decode(node: &Node, cx: &mut Context) -> Option<Self::Value> {
        let (text, plain) = cx.scalar(node, &Self::expected())?;
        match (text, plain) {
            ("true", true) => Some(cx.spanned(node, true)),
            ("false", true) => Some(cx.spanned(node, false)),
            ("true" | "false", false) => {
                let message = format!("the text `{text}` is neither true nor false");
                cx.fault_with(node, message, "drop the quotes")
            }
            _ => {
                let message = format!("{} is neither true nor false", quoted(text));
                cx.fault_with(node, message, format!("write {}", Self::expected()))
            }
        }
    }

    fn schema(_: &mut Defs) -> Json {
        json!({ "type": "boolean" })
    }

    fn expected() -> String {
        one_of(&["true", "false"])
    }
}

/// A text of 1 to `MAX` bytes without control characters.
pub(crate) struct Text<const MAX: usize = 256>;

impl<const MAX: usize> Decode for Text<MAX> {
    type Value = Spanned<String>;

    fn decode(node: &Node, cx: &mut Context) -> Option<Self::Value> {
        let (text, _) = cx.scalar(node, &Self::expected())?;
        match printable(text, MAX) {
            Ok(()) => Some(cx.spanned(node, text.to_owned())),
            Err(message) => cx.fault_with(node, message, format!("write {}", Self::expected())),
        }
    }

    fn schema(_: &mut Defs) -> Json {
        json!({ "type": "string", "minLength": 1, "maxLength": MAX })
    }

    fn expected() -> String {
        format!("a text of 1 to {MAX} bytes")
    }
}

fn printable(text: &str, max: usize) -> Result<(), String> {
    if text.is_empty() {
        return Err("the text is empty".to_owned());
    }
    if text.len() > max {
        return Err(format!(
            "the text has {} bytes, more than {max}",
            text.len()
        ));
    }
    match text.chars().find(|c| !is_printable(*c)) {
        Some(c) => Err(format!(
            "the text holds the unprintable character U+{:04X}",
            u32::from(c)
        )),
        None => Ok(()),
    }
}

/// The name of a plan or a limit.
pub(crate) struct ShortName;

impl Name for ShortName {
    fn check(name: &str) -> Result<(), String> {
        let is_inner = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
        let starts_well = name.starts_with(|c: char| c.is_ascii_alphanumeric());
        if starts_well && name.len() <= 64 && name.bytes().all(is_inner) {
            return Ok(());
        }
        let rule = "1 to 64 letters, digits, `.`, `_` or `-`, the first a letter or digit";
        Err(rule.to_owned())
    }

    fn schema() -> Json {
        json!({ "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$" })
    }
}

/// The name of a tenant.
pub(crate) struct TenantName;

impl TenantName {
    const MAX: usize = 128;
}

impl Name for TenantName {
    fn check(name: &str) -> Result<(), String> {
        let rule = || format!("1 to {} bytes of printable characters", Self::MAX);
        printable(name, Self::MAX).map_err(|_| rule())
    }

    fn schema() -> Json {
        json!({ "minLength": 1, "maxLength": Self::MAX })
    }
}

/// A whole number from `MIN` to `MAX`.
pub(crate) struct Whole<const MIN: u32, const MAX: u32 = { u32::MAX }>;

impl<const MIN: u32, const MAX: u32> Decode for Whole<MIN, MAX> {
    type Value = Spanned<u32>;

    fn decode(node: &Node, cx: &mut Context) -> Option<Self::Value> {
        let number = whole(node, cx, MIN.into(), MAX.into())?;
        Some(cx.spanned(node, u32::try_from(number).ok()?))
    }

    fn schema(_: &mut Defs) -> Json {
        json!({ "type": "integer", "minimum": MIN, "maximum": MAX })
    }

    fn expected() -> String {
        expected_whole(MIN.into(), MAX.into())
    }
}

/// A number of bytes, as large as every reader of JSON can have it.
pub(crate) struct Bytes;

impl Bytes {
    const MAX: u64 = (1 << 53) - 1;
}

impl Decode for Bytes {
    type Value = Spanned<u64>;

    fn decode(node: &Node, cx: &mut Context) -> Option<Self::Value> {
        let number = whole(node, cx, 1, Self::MAX)?;
        Some(cx.spanned(node, number))
    }

    fn schema(_: &mut Defs) -> Json {
        json!({ "type": "integer", "minimum": 1, "maximum": Self::MAX })
    }

    fn expected() -> String {
        expected_whole(1, Self::MAX)
    }
}

fn expected_whole(min: u64, max: u64) -> String {
    format!("a whole number from {min} to {max}")
}

fn whole(node: &Node, cx: &mut Context, min: u64, max: u64) -> Option<u64> {
    let expected = expected_whole(min, max);
    let (text, plain) = cx.scalar(node, &expected)?;
    let is_number = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if !is_number {
        let message = format!("{} is not a whole number", quoted(text));
        return cx.fault_with(node, message, format!("write {expected}"));
    }
    if !plain {
        let message = format!("the text {} is not a number", quoted(text));
        return cx.fault_with(node, message, "drop the quotes");
    }
    if text.len() > 1 && text.starts_with('0') {
        // Octal to some readers of YAML, decimal to others.
        let message = format!("{} starts with a zero", quoted(text));
        return cx.fault_with(node, message, format!("write {expected}"));
    }
    match text.parse::<u64>() {
        Ok(number) if (min..=max).contains(&number) => Some(number),
        _ => {
            let message = format!("{} is out of range", quoted(text));
            cx.fault_with(node, message, format!("write {expected}"))
        }
    }
}

/// The length of an IPv6 prefix.
pub(crate) struct Ipv6Prefix;

impl Decode for Ipv6Prefix {
    type Value = Spanned<u8>;

    fn decode(node: &Node, cx: &mut Context) -> Option<Self::Value> {
        let Spanned { value, place } = Whole::<1, 128>::decode(node, cx)?;
        let value = u8::try_from(value).ok()?;
        Some(Spanned { value, place })
    }

    fn schema(defs: &mut Defs) -> Json {
        Whole::<1, 128>::schema(defs)
    }

    fn expected() -> String {
        Whole::<1, 128>::expected()
    }
}

/// An IP address with a port.
pub(crate) struct Address;

impl Decode for Address {
    type Value = Spanned<SocketAddr>;

    fn decode(node: &Node, cx: &mut Context) -> Option<Self::Value> {
        let (text, _) = cx.scalar(node, &Self::expected())?;
        match text.parse() {
            Ok(address) => Some(cx.spanned(node, address)),
            Err(_) => {
                let message = format!("{} is not an IP address with a port", quoted(text));
                cx.fault_with(
                    node,
                    message,
                    "write it as `127.0.0.1:8081` or `\"[::1]:8081\"`",
                )
            }
        }
    }

    fn schema(_: &mut Defs) -> Json {
        json!({ "type": "string", "examples": ["127.0.0.1:8081", "[::1]:8081"] })
    }

    fn expected() -> String {
        "an IP address with a port".to_owned()
    }
}

/// A network, or an address for the network of it alone.
pub(crate) struct Cidr;

impl Decode for Cidr {
    type Value = Spanned<IpNet>;

    fn decode(node: &Node, cx: &mut Context) -> Option<Self::Value> {
        let (text, _) = cx.scalar(node, &Self::expected())?;
        let parsed = match text.parse::<IpAddr>() {
            Ok(address) => Some(IpNet::from(address)),
            Err(_) => text.parse::<IpNet>().ok(),
        };
        let Some(net) = parsed else {
            let message = format!("{} is not a network", quoted(text));
            return cx.fault_with(node, message, "write it as `192.0.2.0/24` or `192.0.2.7`");
        };
        if net.trunc() != net {
            let message = format!("{} has bits set behind its prefix", quoted(text));
            return cx.fault_with(node, message, format!("write `{}`", net.trunc()));
        }
        if let Some(v4) = unmapped(net) {
            // Addresses are compared as IPv4, so this would never match.
            let message = format!("{} is IPv4 written as IPv6", quoted(text));
            return cx.fault_with(node, message, format!("write `{v4}`"));
        }
        Some(cx.spanned(node, net))
    }

    fn schema(_: &mut Defs) -> Json {
        json!({ "type": "string", "examples": ["192.0.2.0/24", "2001:db8::/32"] })
    }

    fn expected() -> String {
        "a network such as `192.0.2.0/24`".to_owned()
    }
}

fn unmapped(net: IpNet) -> Option<IpNet> {
    let IpAddr::V6(v6) = net.addr() else {
        return None;
    };
    let prefix = net.prefix_len().checked_sub(96)?;
    IpNet::new(IpAddr::V4(v6.to_ipv4_mapped()?), prefix).ok()
}

/// What to do instead of writing a key into the file.
pub(crate) const HASH_THE_KEY: &str =
    "give the SHA-256 of the key as `sha256`: `printf %s KEY | sha256sum`";

/// A SHA-256 in hexadecimal. Faults do not show the text: it may be a key.
pub(crate) struct Sha256;

impl Decode for Sha256 {
    type Value = Spanned<[u8; 32]>;

    fn decode(node: &Node, cx: &mut Context) -> Option<Self::Value> {
        let (text, _) = cx.scalar(node, &Self::expected())?;
        match digest(text.as_bytes()) {
            Some(digest) => Some(cx.spanned(node, digest)),
            None => cx.fault_with(
                node,
                format!("not a SHA-256: expected {}", Self::expected()),
                HASH_THE_KEY,
            ),
        }
    }

    fn schema(_: &mut Defs) -> Json {
        json!({ "type": "string", "pattern": "^[0-9A-Fa-f]{64}$" })
    }

    fn expected() -> String {
        "64 hexadecimal digits".to_owned()
    }
}

fn digest(hex: &[u8]) -> Option<[u8; 32]> {
    let nibble = |b: u8| u8::try_from(char::from(b).to_digit(16)?).ok();
    let (pairs, rest) = hex.as_chunks::<2>();
    let mut digest = [0; 32];
    if pairs.len() != digest.len() || !rest.is_empty() {
        return None;
    }
    for (byte, [high, low]) in digest.iter_mut().zip(pairs) {
        *byte = nibble(*high)? << 4 | nibble(*low)?;
    }
    Some(digest)
}

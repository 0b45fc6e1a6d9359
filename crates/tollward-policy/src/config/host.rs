//! A host and its port, as they stand in a URL.

use std::net::Ipv6Addr;
use std::str::FromStr;

/// The longest host name of the DNS.
const MAX_HOST: usize = 253;

/// What is said of faults, where that depends on what is at the host.
pub(super) struct HostWords {
    /// The hint where no host stands.
    pub(super) missing: &'static str,
    /// The hint where it cannot be one.
    pub(super) name: &'static str,
    /// The message about a port.
    pub(super) port: &'static str,
    /// The hint about a port.
    pub(super) port_hint: &'static str,
}

/// A message and a hint. Neither shows any of the text: it may hold a password.
pub(super) type HostFault = (&'static str, &'static str);

/// Reads `HOST`, `HOST:PORT`, `[IPV6]` or `[IPV6]:PORT`. The address of IPv6 comes back without brackets, in its
/// usual form; a name as it is written.
pub(super) fn host_and_port(
    text: &str,
    default_port: u16,
    words: &HostWords,
) -> Result<(String, u16), HostFault> {
    const BRACKETS: &str = "write it as `[2001:db8::1]`";
    if text.parse::<Ipv6Addr>().is_ok() {
        return Err(("an IPv6 address without brackets", BRACKETS));
    }
    let (host, port) = match text.strip_prefix('[') {
        Some(inner) => {
            let address = inner.split_once(']');
            let address = address.and_then(|(ip, port)| Some((ip.parse::<Ipv6Addr>().ok()?, port)));
            let (ip, port) = address.ok_or(("not an IPv6 address", BRACKETS))?;
            (ip.to_string(), port)
        }
        None => {
            let (host, port) = text.split_at(text.find(':').unwrap_or(text.len()));
            let is_host = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_');
            if host.is_empty() {
                return Err(("a host is missing", words.missing));
            }
            if host.len() > MAX_HOST || !host.bytes().all(is_host) {
                return Err(("not the name of a host", words.name));
            }
            (host.to_owned(), port)
        }
    };
    let port = match port.strip_prefix(':') {
        Some(port) => number(port).filter(|port| *port > 0),
        None if port.is_empty() => Some(default_port),
        None => None,
    };
    match port {
        Some(port) => Ok((host, port)),
        None => Err((words.port, words.port_hint)),
    }
}

/// A number of digits alone.
pub(super) fn number<T: FromStr>(text: &str) -> Option<T> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten()
}

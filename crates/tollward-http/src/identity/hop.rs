//! One entry of a forwarding header.
//!
//! Entries are found from the right, because what stands there was written by those we trust: whatever
//! a client wrote on the left of it, an open quote say, does not change how it is read.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Where the last entry of an `X-Forwarded-For` line starts.
pub(super) fn last_listed(line: &[u8]) -> Option<usize> {
    Some(
        line.iter()
            .rposition(|byte| *byte == b',')
            .map_or(0, |comma| comma + 1),
    )
}

/// Where the last element of a `Forwarded` line starts; nothing if a quote has no partner.
pub(super) fn last_element(line: &[u8]) -> Option<usize> {
    let mut at = line.len();
    while at > 0 {
        at -= 1;
        match line[at] {
            b',' => return Some(at + 1),
            b'"' => at = opening_quote(&line[..at])?,
            _ => {}
        }
    }
    Some(0)
}

/// The quote that opens the string which ends where this text does.
fn opening_quote(text: &[u8]) -> Option<usize> {
    let mut end = text.len();
    loop {
        let quote = text[..end].iter().rposition(|byte| *byte == b'"')?;
        let escapes = text[..quote]
            .iter()
            .rev()
            .take_while(|byte| **byte == b'\\');
        if escapes.count() % 2 == 0 {
            return Some(quote);
        }
        end = quote;
    }
}

/// The address of an `X-Forwarded-For` entry.
pub(super) fn listed_address(entry: &[u8]) -> Option<IpAddr> {
    node_address(std::str::from_utf8(entry).ok()?.trim_matches([' ', '\t']))
}

/// The address of a `Forwarded` element: of its one `for`, if all of the element is well-formed.
pub(super) fn element_address(element: &[u8]) -> Option<IpAddr> {
    let mut rest = std::str::from_utf8(element).ok()?;
    let mut found = None;
    loop {
        rest = rest.trim_matches([' ', '\t']);
        // A pair may be missing where one could be.
        if !rest.is_empty() && !rest.starts_with(';') {
            let (name, after) = token(rest)?;
            let (value, after) = value(after.strip_prefix('=')?)?;
            if name.eq_ignore_ascii_case("for") && found.replace(value).is_some() {
                return None;
            }
            rest = after.trim_start_matches([' ', '\t']);
        }
        match rest.strip_prefix(';') {
            Some(after) => rest = after,
            None if rest.is_empty() => return node_address(found?),
            None => return None,
        }
    }
}

fn token(text: &str) -> Option<(&str, &str)> {
    let of_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    let end = text.find(|c| !of_token(c)).unwrap_or(text.len());
    (end > 0).then(|| text.split_at(end))
}

/// A token, or what is between quotes: as it stands, since no address has anything to escape.
fn value(text: &str) -> Option<(&str, &str)> {
    let Some(quoted) = text.strip_prefix('"') else {
        return token(text);
    };
    let mut escaped = false;
    for (at, c) in quoted.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return Some((&quoted[..at], &quoted[at + 1..])),
            _ => {}
        }
    }
    None
}

/// `1.2.3.4`, `1.2.3.4:80`, `::1`, `[::1]` or `[::1]:80`.
fn node_address(node: &str) -> Option<IpAddr> {
    if let Some(bracketed) = node.strip_prefix('[') {
        let (address, after) = bracketed.split_once(']')?;
        let whole = after.is_empty() || after.strip_prefix(':').is_some_and(is_port);
        let address: Ipv6Addr = address.parse().ok()?;
        return whole.then(|| IpAddr::V6(address).to_canonical());
    }
    if let Ok(address) = node.parse::<IpAddr>() {
        return Some(address.to_canonical());
    }
    let (address, port) = node.split_once(':')?;
    let address: Ipv4Addr = address.parse().ok()?;
    is_port(port).then_some(IpAddr::V4(address))
}

/// A number, or a name that hides one.
fn is_port(port: &str) -> bool {
    let hidden = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    match port.strip_prefix('_') {
        Some(name) => !name.is_empty() && name.chars().all(hidden),
        None => {
            port.len() <= 5 && !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_in_every_form() {
        for (node, address) in [
            ("192.0.2.1", "192.0.2.1"),
            (" 192.0.2.1\t", "192.0.2.1"),
            ("192.0.2.1:80", "192.0.2.1"),
            ("192.0.2.1:65535", "192.0.2.1"),
            ("192.0.2.1:_x", "192.0.2.1"),
            ("2001:db8::1", "2001:db8::1"),
            ("[2001:DB8::1]", "2001:db8::1"),
            ("[2001:db8::1]:443", "2001:db8::1"),
            ("::ffff:1.2.3.4", "1.2.3.4"),
            ("[::ffff:1.2.3.4]:80", "1.2.3.4"),
            ("::ffff:102:304", "1.2.3.4"),
        ] {
            let read = listed_address(node.as_bytes());
            assert_eq!(read, Some(address.parse().unwrap()), "{node}");
        }
    }

    #[test]
    fn what_is_no_address() {
        for node in [
            "",
            " ",
            "unknown",
            "_hidden",
            "localhost",
            "192.0.2",
            "192.0.2.256",
            "192.0.2.01",
            "0xc0.0.2.1",
            "3221225985",
            "192.0.2.1:",
            "192.0.2.1:123456",
            "192.0.2.1:8 0",
            "192.0.2.1:+80",
            "192.0.2.1 192.0.2.2",
            "[192.0.2.1]",
            "[::1",
            "::1]",
            "[::1]:",
            "[::1]80",
            "[::1]:x",
            "fe80::1%eth0",
            "[fe80::1%25eth0]",
            "\"192.0.2.1\"",
            "\u{2003}192.0.2.1",
            "192.0.2.1\0",
        ] {
            assert_eq!(listed_address(node.as_bytes()), None, "{node:?}");
        }
        assert_eq!(listed_address(b"192.0.2.\xff"), None);
    }

    #[test]
    fn elements_of_forwarded() {
        for (element, address) in [
            ("for=192.0.2.1", "192.0.2.1"),
            (" FOR=192.0.2.1 ", "192.0.2.1"),
            ("proto=https;For=192.0.2.1;by=_gate", "192.0.2.1"),
            ("proto=https ; for=192.0.2.1 ; by=_gate", "192.0.2.1"),
            ("for=\"192.0.2.1:80\"", "192.0.2.1"),
            (";for=192.0.2.1;;", "192.0.2.1"),
            ("for=\"[2001:db8::1]\";host=\"a,b\"", "2001:db8::1"),
            ("for=\"[2001:db8::1]:443\";host=\"a\\\"b\"", "2001:db8::1"),
        ] {
            let read = element_address(element.as_bytes());
            assert_eq!(read, Some(address.parse().unwrap()), "{element}");
        }
        for element in [
            "",
            "for",
            "for=",
            "for=unknown",
            "for=_hidden",
            "proto=https",
            "192.0.2.1",
            ";",
            "for=192.0.2.1;for=192.0.2.2",
            "for=[2001:db8::1]",
            "for=192.0.2.1:80",
            "for=\"192.0.2.1",
            "for=\"192.0.2.1\"x",
            "for =192.0.2.1",
            "for= 192.0.2.1",
            "for=192.0.2.1 proto=https",
            "for=\"192.0.\\2.1\"",
            "for=\"\"",
        ] {
            assert_eq!(element_address(element.as_bytes()), None, "{element:?}");
        }
    }

    #[test]
    fn elements_are_found_from_the_right() {
        let last = |line: &'static str| last_element(line.as_bytes()).map(|start| &line[start..]);
        assert_eq!(last("for=a"), Some("for=a"));
        assert_eq!(last("for=a, for=b"), Some(" for=b"));
        assert_eq!(
            last("for=a, for=b;host=\"x,y\""),
            Some(" for=b;host=\"x,y\"")
        );
        assert_eq!(last("a,b=\"x\\\",y\\\\\""), Some("b=\"x\\\",y\\\\\""));
        // A quote that the client left open ends before what was appended to it.
        assert_eq!(last("for=\"a, for=b"), Some(" for=b"));
        assert_eq!(last("for=\"a, for=b;host=\"h\""), Some(" for=b;host=\"h\""));
        assert_eq!(last("for=a\""), None);
        assert_eq!(last("for=a,"), Some(""));
    }
}

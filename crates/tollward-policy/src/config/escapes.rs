//! Percent escapes of URLs.

use std::fmt::{self, Write};

/// The text behind its percent escapes, or a message and a hint that show none of it: `what` says
/// what it is.
pub(super) fn decoded(text: &str, what: &str) -> Result<String, (String, &'static str)> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((byte, behind)) = rest.split_first() {
        rest = behind;
        if *byte != b'%' {
            out.push(*byte);
            continue;
        }
        let digit = |at: usize| char::from(*behind.get(at)?).to_digit(16);
        let (Some(high), Some(low)) = (digit(0), digit(1)) else {
            let message = format!("a `%` in {what} without two hexadecimal digits");
            return Err((message, "write `%` as `%25`"));
        };
        out.extend(u8::try_from(high * 16 + low));
        rest = behind.get(2..).unwrap_or_default();
    }
    String::from_utf8(out).map_err(|_| {
        let message = format!("{what} is not UTF-8 behind its escapes");
        (message, "write the escapes of UTF-8, as `%C3%A9` for `é`")
    })
}

/// Writes a text with everything escaped but letters, digits, `-`, `.`, `_`, `~` and what is `kept`.
pub(super) fn encode(text: &str, kept: &str, out: &mut impl Write) -> fmt::Result {
    text.bytes().try_for_each(|byte| {
        let c = char::from(byte);
        let plain = c.is_ascii_alphanumeric() || "-._~".contains(c) || kept.contains(c);
        match plain {
            true => out.write_char(c),
            false => write!(out, "%{byte:02X}"),
        }
    })
}

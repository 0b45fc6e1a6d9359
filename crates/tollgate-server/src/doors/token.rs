//! The tokens that open doors.

use std::fmt::Write;

use subtle::ConstantTimeEq;

/// What stands before a token.
const SCHEME: &[u8] = b"Bearer ";
/// Nobody guesses 128 bits.
const MADE_BYTES: usize = 16;

/// Whether the value of an `Authorization` header is `Bearer` and this token. How long it takes does not
/// tell how much of a wrong one is right.
pub(crate) fn bears(authorization: Option<&[u8]>, token: &str) -> bool {
    // The name of a scheme may be written in any case.
    match authorization.and_then(|sent| sent.split_at_checked(SCHEME.len())) {
        Some((scheme, sent)) if scheme.eq_ignore_ascii_case(SCHEME) => {
            sent.ct_eq(token.as_bytes()).into()
        }
        _ => false,
    }
}

/// A new token, in hexadecimal digits.
pub(crate) fn made() -> Result<String, getrandom::Error> {
    let mut bytes = [0; MADE_BYTES];
    getrandom::getrandom(&mut bytes)?;
    let mut token = String::with_capacity(2 * MADE_BYTES);
    for byte in bytes {
        // Writing to a string does not fail.
        let _ = write!(token, "{byte:02x}");
    }
    Ok(token)
}

//! The tokens that open doors.

use std::fmt::Write;

use subtle::ConstantTimeEq;

/// What stands before a token.
const SCHEME: &[u8] = b"Bearer ";
/// Nobody guesses 128 bits.
const MADE_BYTES: usize = 16;

/// Whether the value of an `Authorization` header is `Bearer` and this token.
pub(crate) fn bears(authorization: Option<&[u8]>, token: &str) -> bool {
    bearer(authorization).is_some_and(|sent| is(sent, token))
}

/// What follows `Bearer` in the value of an `Authorization` header; none if nothing does.
pub(crate) fn bearer(authorization: Option<&[u8]>) -> Option<&[u8]> {
    let (scheme, sent) = authorization?.split_at_checked(SCHEME.len())?;
    // The name of a scheme may be written in any case.
    (scheme.eq_ignore_ascii_case(SCHEME) && !sent.is_empty()).then_some(sent)
}

/// Whether this was sent. How long it takes does not tell how much of a wrong one is right.
pub(crate) fn is(sent: &[u8], token: &str) -> bool {
    sent.ct_eq(token.as_bytes()).into()
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

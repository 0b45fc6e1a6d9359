//! Secrets that are shown once: API keys and tokens.

use std::fmt;

use serde::Serialize;
use sha2::{Digest, Sha256};

/// What a secret opens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// An API key.
    Key,
    /// A token of the admin door.
    Token,
}

/// A secret that was just made. It is written to an answer, and nowhere else.
#[derive(Serialize)]
#[serde(transparent)]
pub(super) struct Secret(String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secret({}…)", self.prefix())
    }
}

const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
/// 62^43 is more than 2^256.
const SECRET_DIGITS: usize = 43;
/// 62^6 is more than 2^32.
const CHECK_DIGITS: usize = 6;
/// How much of a secret is kept, so that people can tell which it was.
const PREFIX: usize = 11;

impl Kind {
    fn mark(self) -> &'static str {
        match self {
            Self::Key => "tw_",
            Self::Token => "twa_",
        }
    }
}

impl Secret {
    /// A secret of 256 random bits, and a checksum by which scanners know one from other text.
    pub(super) fn made(kind: Kind) -> Result<Self, getrandom::Error> {
        let mut bytes = [0; 32];
        getrandom::getrandom(&mut bytes)?;
        Ok(Self::of(kind, bytes))
    }

    fn of(kind: Kind, bytes: [u8; 32]) -> Self {
        let body = format!("{}{}", kind.mark(), base62(&bytes, SECRET_DIGITS));
        let check = checksum(&body);
        Self(body + &check)
    }

    /// Its first characters.
    pub(super) fn prefix(&self) -> &str {
        self.0.get(..PREFIX).unwrap_or_default()
    }

    /// By what it is known, in hexadecimal digits.
    pub(super) fn hash(&self) -> String {
        hex(&hash(self.0.as_bytes()))
    }
}

/// A name that nobody else has: `mark` and 96 random bits.
pub(super) fn made_id(mark: &str) -> Result<String, getrandom::Error> {
    let mut bytes = [0; 12];
    getrandom::getrandom(&mut bytes)?;
    Ok(format!("{mark}_{}", base62(&bytes, 17)))
}

/// By what a secret is known.
pub(super) fn hash(secret: &[u8]) -> [u8; 32] {
    Sha256::digest(secret).into()
}

/// Bytes in hexadecimal digits.
pub(super) fn hex(bytes: &[u8]) -> String {
    let digit = |nibble: u8| char::from(b"0123456789abcdef"[usize::from(nibble & 15)]);
    let pairs = bytes
        .iter()
        .flat_map(|byte| [digit(byte >> 4), digit(*byte)]);
    pairs.collect()
}

/// The first four bytes of the SHA-256, in six digits.
fn checksum(body: &str) -> String {
    base62(&hash(body.as_bytes())[..4], CHECK_DIGITS)
}

/// A number of these bytes, the first the highest, in exactly so many digits.
fn base62(bytes: &[u8], digits: usize) -> String {
    let mut number = bytes.to_vec();
    let mut text = vec![DIGITS[0]; digits];
    for place in text.iter_mut().rev() {
        let mut rest: u32 = 0;
        for byte in &mut number {
            let part = rest << 8 | u32::from(*byte);
            // Less than 256, as the rest is less than 62.
            *byte = u8::try_from(part / 62).unwrap_or(u8::MAX);
            rest = part % 62;
        }
        *place = DIGITS[rest as usize];
    }
    text.into_iter().map(char::from).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn a_key_has_its_form() {
        let secret = Secret::made(Kind::Key).unwrap();
        let text = secret.0.as_str();
        assert_eq!(text.len(), 52);
        assert!(text.starts_with("tw_"));
        assert!(text[3..].bytes().all(|byte| DIGITS.contains(&byte)));
        assert_eq!(secret.prefix(), &text[..11]);
        assert_eq!(checksum(&text[..46]), text[46..]);
        assert_eq!(secret.hash().len(), 64);
        let token = Secret::made(Kind::Token).unwrap();
        assert!(token.0.starts_with("twa_"));
        assert_eq!(token.0.len(), 53);
    }

    #[test]
    fn it_is_told_and_not_printed() {
        let secret = Secret::of(Kind::Key, [7; 32]);
        assert!(!format!("{secret:?}").contains(&secret.0[..16]));
        assert_eq!(serde_json::to_value(&secret).unwrap(), secret.0);
    }

    #[test]
    fn every_bit_counts() {
        let mut seen = HashSet::new();
        for bit in 0..256 {
            let mut bytes = [0; 32];
            bytes[bit / 8] = 1 << (bit % 8);
            assert!(seen.insert(Secret::of(Kind::Key, bytes).0));
        }
        let highest = Secret::of(Kind::Key, [255; 32]);
        assert_eq!(highest.0.len(), 52);
        assert!(seen.insert(highest.0));
    }

    #[test]
    fn known_numbers() {
        assert_eq!(base62(&[0], 2), "00");
        assert_eq!(base62(&[61], 2), "0z");
        assert_eq!(base62(&[62], 2), "10");
        assert_eq!(base62(&[1, 0], 3), "048");
        assert_eq!(hex(&[0, 15, 255]), "000fff");
    }

    #[test]
    fn ids_differ() {
        let ids: HashSet<_> = (0..1000).map(|_| made_id("key").unwrap()).collect();
        assert_eq!(ids.len(), 1000);
        assert!(
            ids.iter()
                .all(|id| id.len() == 21 && id.starts_with("key_"))
        );
    }
}

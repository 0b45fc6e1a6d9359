use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use tollward_core::Key;

use crate::scope::{Identity, KeyText, ScopeBytes, push_value};

/// A key that was read from the text that [`KeyText`] writes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct OwnedKey {
    /// What is counted.
    pub family: String,
    /// Whose it is.
    pub scope: Vec<u8>,
}

/// Why a text is not a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyTextError {
    /// It does not begin with a tag.
    NoTag,
    /// There is something before its tag.
    Prefixed,
    /// It is a hash, from which the key cannot be told.
    Hashed,
    /// Its tag is that of another scope.
    OtherTag,
    /// It is not what a key is written as.
    Malformed,
}

impl fmt::Display for KeyTextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoTag => {
                "a key begins with its tag in braces, as `tollward explain` prints it: {1a2b3}plan|user=alice"
            }
            Self::Prefixed => "leave out what is before the `{`: the store's prefix is not part of a key",
            Self::Hashed => {
                "a hash does not tell whose bucket it is: name the caller instead (--user, --tenant, \
                 --api-key, ...)"
            }
            Self::OtherTag => "the tag in braces is not that of the rest: copy the whole key",
            Self::Malformed => {
                "behind its tag a key is `FAMILY|IDENTITY=VALUE`, as `tollward explain` prints it"
            }
        })
    }
}

impl std::error::Error for KeyTextError {}

impl OwnedKey {
    /// The key.
    pub fn key(&self) -> Key<'_> {
        Key {
            family: &self.family,
            scope: &self.scope,
        }
    }
}

impl FromStr for OwnedKey {
    type Err = KeyTextError;

    /// The inverse of [`KeyText`], for texts that are not hashes. A text that is read is exactly the one
    /// that the key is written as.
    fn from_str(text: &str) -> Result<Self, KeyTextError> {
        let (before, rest) = text.split_once('{').ok_or(KeyTextError::NoTag)?;
        if !before.is_empty() {
            return Err(KeyTextError::Prefixed);
        }
        let (_, rest) = rest.split_once('}').ok_or(KeyTextError::NoTag)?;
        if rest.starts_with('#') {
            return Err(KeyTextError::Hashed);
        }
        let mut parts = rest.split('|');
        let family = parts.next().unwrap_or_default().to_owned();
        let mut scope = ScopeBytes::new();
        for part in parts {
            push_part(part, &mut scope).ok_or(KeyTextError::Malformed)?;
        }
        let scope = scope.to_vec();
        let key = Self { family, scope };
        let written = KeyText(key.key()).to_string();
        if written == text {
            return Ok(key);
        }
        let behind_tag = written.split_once('}').map(|(_, behind)| behind);
        Err(if behind_tag == Some(rest) {
            KeyTextError::OtherTag
        } else {
            KeyTextError::Malformed
        })
    }
}

/// Appends the value of `IDENTITY=VALUE`.
fn push_part(part: &str, scope: &mut ScopeBytes) -> Option<()> {
    let (word, value) = part.split_once('=')?;
    let identity = Identity::named(word)?;
    match identity {
        Identity::Ip => match value.parse().ok()? {
            IpAddr::V4(ip) => push_value(identity, &ip.octets(), scope),
            IpAddr::V6(ip) => push_value(identity, &ip.octets(), scope),
        },
        _ => push_value(identity, value.as_bytes(), scope),
    }
    Some(())
}

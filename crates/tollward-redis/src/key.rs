use std::fmt::{self, Write};

use tollward_core::Key;
use tollward_policy::KeyText;

use crate::slot;

/// The longest key in Redis.
pub const MAX_KEY: usize = 64;

/// A bucket's name in Redis: the prefix, then `{tag}` and a text. The tag comes from the bucket's scope
/// alone, so all buckets of one caller are in one slot of a cluster, and no caller chooses which.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct KeyName {
    bytes: [u8; MAX_KEY],
    length: u8,
}

impl KeyName {
    pub(crate) fn new(prefix: &str, key: Key<'_>) -> Self {
        Self::written(format_args!("{prefix}{}", KeyText(key)))
    }

    /// The name of something of our own, with a tag of its own.
    pub(crate) fn own(prefix: &str, tag: &str) -> Self {
        Self::written(format_args!("{prefix}{{{tag}}}"))
    }

    /// The name of a bucket of our own in a slot, for trying whether its server is well.
    pub(crate) fn canary(prefix: &str, slot: u16) -> Self {
        let named = |tag: u32| Self::written(format_args!("{prefix}{{{tag:05x}}}canary"));
        // Each slot has some sixty of these tags.
        let in_slot = |name: &Self| slot::slot(name.as_bytes()) == slot;
        let mut names = (0..1 << 20).map(named);
        names.find(in_slot).unwrap_or_else(|| named(0))
    }

    fn written(text: fmt::Arguments<'_>) -> Self {
        let mut name = Self {
            bytes: [0; MAX_KEY],
            length: 0,
        };
        // A prefix of at most 24 bytes and a text of at most 40 fit.
        let _ = name.write_fmt(text);
        name
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

impl Write for KeyName {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let start = usize::from(self.length);
        let room = self.bytes.get_mut(start..start + text.len());
        room.ok_or(fmt::Error)?.copy_from_slice(text.as_bytes());
        self.length += u8::try_from(text.len()).map_err(|_| fmt::Error)?;
        Ok(())
    }
}

impl fmt::Debug for KeyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(self.as_bytes()))
    }
}

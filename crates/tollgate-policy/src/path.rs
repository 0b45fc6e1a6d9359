//! One form for every way of writing the same path.
//!
//! What is limited must be what is served. So a path is matched with its escapes decoded, its dots and
//! doubled slashes resolved and its case folded; and a path that two servers could read as two
//! different ones is refused rather than guessed at.

use std::borrow::Cow;
use std::fmt;

use smallvec::SmallVec;

/// The longest path that is looked at, in bytes.
pub const MAX_PATH: usize = 8192;

/// Why a path is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathFault {
    /// It does not begin with a slash.
    Relative,
    /// It is longer than [`MAX_PATH`].
    TooLong,
    /// It has a `%` that no two hexadecimal digits follow.
    BadEscape,
    /// It has a control character, plain or escaped.
    Control,
    /// It has a backslash, plain or escaped, which some servers take for a slash.
    Backslash,
    /// It has an escaped slash, which some servers take for a slash.
    EncodedSlash,
    /// It has a fragment.
    Fragment,
    /// It matches another route when its parameters (`;…`) are dropped, as some servers do.
    Parameters,
}

impl fmt::Display for PathFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Relative => "a path begins with `/`",
            Self::TooLong => "the path is longer than 8192 bytes",
            Self::BadEscape => "the path has a `%` without two hexadecimal digits behind it",
            Self::Control => "the path has a control character",
            Self::Backslash => "the path has a backslash",
            Self::EncodedSlash => "the path has an escaped slash (`%2F`)",
            Self::Fragment => "the path has a `#`",
            Self::Parameters => "the path matches another route without its `;` parameters",
        })
    }
}

/// How paths are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PathOptions {
    /// `/API` is `/api`.
    pub(crate) fold_case: bool,
    /// `%2F` is kept as a character of its segment, not refused.
    pub(crate) keep_encoded_slash: bool,
}

impl Default for PathOptions {
    fn default() -> Self {
        Self {
            fold_case: true,
            keep_encoded_slash: false,
        }
    }
}

/// The segments of a path, in the form in which paths are compared.
pub(crate) type Segments<'a> = SmallVec<[&'a str; 16]>;

/// The path's text in the form in which paths are compared, its dots not yet resolved.
pub(crate) fn comparable(path: &str, options: PathOptions) -> Result<Cow<'_, str>, PathFault> {
    let path = path.split_once('?').map_or(path, |(path, _)| path);
    if !path.starts_with('/') {
        return Err(PathFault::Relative);
    }
    if path.len() > MAX_PATH {
        return Err(PathFault::TooLong);
    }
    let folded = |byte: u8| options.fold_case && byte.is_ascii_uppercase();
    if path.bytes().all(|byte| is_plain(byte) && !folded(byte)) {
        return Ok(Cow::Borrowed(path));
    }
    rewrite(path, options).map(Cow::Owned)
}

/// Resolves `//`, `.` and `..`; a slash at the end says nothing.
pub(crate) fn segments(comparable: &str) -> Segments<'_> {
    resolve(comparable.split('/'))
}

/// The same with the parameters of every segment dropped; none if there are no parameters.
pub(crate) fn segments_without_parameters(comparable: &str) -> Option<Segments<'_>> {
    comparable.contains(';').then(|| {
        resolve(comparable.split('/').map(|segment| {
            segment
                .split_once(';')
                .map_or(segment, |(segment, _)| segment)
        }))
    })
}

fn resolve<'a>(parts: impl Iterator<Item = &'a str>) -> Segments<'a> {
    let mut segments = Segments::new();
    for part in parts {
        match part {
            "" | "." => {}
            ".." => {
                segments.pop();
            }
            _ => segments.push(part),
        }
    }
    segments
}

fn rewrite(path: &str, options: PathOptions) -> Result<String, PathFault> {
    let mut text = String::with_capacity(path.len());
    let mut bytes = path.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'\\' => return Err(PathFault::Backslash),
            b'#' => return Err(PathFault::Fragment),
            0..=0x1f | 0x7f => return Err(PathFault::Control),
            b'%' => {
                let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
                let (high, low) = (digit(bytes.next()), digit(bytes.next()));
                let (Some(high), Some(low)) = (high, low) else {
                    return Err(PathFault::BadEscape);
                };
                let byte = u8::try_from(high * 16 + low).map_err(|_| PathFault::BadEscape)?;
                decode(byte, options, &mut text)?;
            }
            _ => push(byte, options, &mut text),
        }
    }
    Ok(text)
}

fn decode(byte: u8, options: PathOptions, text: &mut String) -> Result<(), PathFault> {
    match byte {
        0..=0x1f | 0x7f => Err(PathFault::Control),
        b'\\' => Err(PathFault::Backslash),
        b'/' if !options.keep_encoded_slash => Err(PathFault::EncodedSlash),
        // Decoded, these would be another path: a segment, a query, a fragment, another escape.
        b'/' | b'?' | b'#' | b'%' => {
            escape(byte, text);
            Ok(())
        }
        _ => {
            push(byte, options, text);
            Ok(())
        }
    }
}

fn push(byte: u8, options: PathOptions, text: &mut String) {
    match byte {
        b'A'..=b'Z' if options.fold_case => text.push(byte.to_ascii_lowercase().into()),
        _ if is_plain(byte) => text.push(byte.into()),
        _ => escape(byte, text),
    }
}

fn escape(byte: u8, text: &mut String) {
    const HEX: [u8; 16] = *b"0123456789ABCDEF";
    text.push('%');
    text.push(HEX[usize::from(byte >> 4)].into());
    text.push(HEX[usize::from(byte & 15)].into());
}

/// Stands for itself in the comparable form.
fn is_plain(byte: u8) -> bool {
    matches!(byte,
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'.' | b'_' | b'~' | b'!' | b'$'
        | b'&' | b'\'' | b'(' | b')' | b'*' | b'+' | b',' | b';' | b'=' | b':' | b'@')
}

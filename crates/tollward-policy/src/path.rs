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
    /// It matches another route when `..` takes back an empty segment, as some servers have it.
    DoubledSlash,
    /// It is served as it was sent, and matches another route when its dots or doubled slashes stay.
    Unresolved,
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
            Self::DoubledSlash => "the path has a `..` behind a doubled slash",
            Self::Unresolved => {
                "the path matches another route when its `.`, `..` or `//` are not resolved"
            }
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
pub(crate) type Segments<'a> = SmallVec<[&'a str; 8]>;

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
    let form = Form {
        fold_case: options.fold_case,
        keep_reserved: false,
        keep_encoded_slash: options.keep_encoded_slash,
    };
    rewrite(path, form).map(Cow::Owned)
}

/// The path as it is passed on: exactly what is compared, but with its case and a slash at its end kept,
/// and with no more escapes decoded than mean the same to every server. Its escapes have upper-case
/// digits; there is no query.
pub(crate) fn forwardable(path: &str, options: PathOptions) -> Result<Cow<'_, str>, PathFault> {
    let path = path.split_once('?').map_or(path, |(path, _)| path);
    if !path.starts_with('/') {
        return Err(PathFault::Relative);
    }
    if path.len() > MAX_PATH {
        return Err(PathFault::TooLong);
    }
    let text = if path.bytes().all(is_plain) {
        Cow::Borrowed(path)
    } else {
        let form = Form {
            fold_case: false,
            keep_reserved: true,
            keep_encoded_slash: options.keep_encoded_slash,
        };
        Cow::Owned(rewrite(path, form)?)
    };
    Ok(resolved(text))
}

/// Takes `//`, `.` and `..` out of a path that has been rewritten, or did not have to be.
pub(crate) fn resolved(text: Cow<'_, str>) -> Cow<'_, str> {
    if is_resolved(&text) {
        return text;
    }
    let mut resolved = String::with_capacity(text.len());
    for segment in segments(&text) {
        resolved.push('/');
        resolved.push_str(segment);
    }
    // Dots at the end are of a directory, as RFC 3986 has it.
    let last = text.rsplit('/').next();
    if resolved.is_empty() || matches!(last, Some("" | "." | "..")) {
        resolved.push('/');
    }
    Cow::Owned(resolved)
}

/// Whether there is nothing to resolve but a slash at the end.
fn is_resolved(text: &str) -> bool {
    // Most paths have neither.
    if !text.contains("//") && !text.contains("/.") {
        return true;
    }
    let parts = text.strip_prefix('/').unwrap_or(text);
    let parts = parts.strip_suffix('/').unwrap_or(parts);
    !parts.split('/').any(|part| matches!(part, "" | "." | ".."))
}

/// Resolves `//`, `.` and `..`; a slash at the end says nothing.
pub(crate) fn segments(comparable: &str) -> Segments<'_> {
    Reading::PLAIN.of(comparable)
}

/// Whether there may be [`other_readings`]: most paths have none of what they take.
pub(crate) fn may_be_read_otherwise(comparable: &str) -> bool {
    comparable
        .bytes()
        .any(|byte| matches!(byte, b';' | b'%' | b'.'))
}

/// What servers are known to read otherwise than [`segments`] does, each with what is to be said if
/// that makes it another route.
///
/// Some drop the parameters of every segment, of these some before they decode escapes and some
/// after; and some let `..` take back the empty segment of a doubled slash, as RFC 3986 has it.
pub(crate) fn other_readings(
    comparable: &str,
) -> impl Iterator<Item = (Segments<'_>, PathFault)> + '_ {
    // A parameter alone is an empty segment once it is dropped.
    let empty = has_parameters(comparable) || comparable.contains("//");
    let counts_empty = empty && comparable.contains("..");
    parameters(comparable).flat_map(move |parameters| {
        let fault = match parameters {
            Parameters::Kept => PathFault::DoubledSlash,
            Parameters::PlainDropped | Parameters::Dropped => PathFault::Parameters,
        };
        let plain = Reading {
            parameters,
            ..Reading::PLAIN
        };
        let counting = Reading {
            empty: Empty::Counted,
            ..plain
        };
        let skipping = parameters != Parameters::Kept;
        let skipping = skipping.then(|| plain.of(comparable));
        let counting = counts_empty.then(|| counting.of(comparable));
        let readings = skipping.into_iter().chain(counting);
        readings.map(move |reading| (reading, fault))
    })
}

/// What servers may read that get a path as it was sent: they may resolve its dots and doubled slashes,
/// one of the two, or neither. None if there is nothing to resolve.
pub(crate) fn kept_readings(comparable: &str) -> impl Iterator<Item = Segments<'_>> + '_ {
    let unresolved = !is_resolved(comparable) || has_parameters(comparable);
    let parameters = parameters(comparable).filter(move |_| unresolved);
    parameters.flat_map(move |parameters| {
        let readings = [
            (false, Empty::Skipped),
            (false, Empty::Kept),
            (true, Empty::Kept),
        ];
        readings.map(|(resolves_dots, empty)| {
            let reading = Reading {
                parameters,
                resolves_dots,
                empty,
            };
            reading.of(comparable)
        })
    })
}

fn has_parameters(comparable: &str) -> bool {
    comparable.contains(';') || comparable.contains(ESCAPED_SEMICOLON)
}

/// What may become of the parameters of a path, if it has any.
fn parameters(comparable: &str) -> impl Iterator<Item = Parameters> + use<> {
    let all = [
        (true, Parameters::Kept),
        (comparable.contains(';'), Parameters::PlainDropped),
        (comparable.contains(ESCAPED_SEMICOLON), Parameters::Dropped),
    ];
    let applies = all.into_iter().filter(|(applies, _)| *applies);
    applies.map(|(_, parameters)| parameters)
}

const ESCAPED_SEMICOLON: &str = "%3B";

/// What becomes of `;` and what follows it in a segment.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Parameters {
    Kept,
    PlainDropped,
    Dropped,
}

/// What becomes of the empty segments of doubled slashes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Empty {
    /// They are not there.
    Skipped,
    /// They are not there once `..` has taken back what it takes back.
    Counted,
    /// They stay.
    Kept,
}

/// A way to make segments of a path.
#[derive(Clone, Copy)]
struct Reading {
    parameters: Parameters,
    resolves_dots: bool,
    empty: Empty,
}

impl Reading {
    /// Ours.
    const PLAIN: Self = Self {
        parameters: Parameters::Kept,
        resolves_dots: true,
        empty: Empty::Skipped,
    };

    fn of(self, comparable: &str) -> Segments<'_> {
        let mut segments = Segments::new();
        // A slash at the end says nothing.
        let comparable = comparable.strip_suffix('/').unwrap_or(comparable);
        for part in comparable.split('/').skip(1) {
            match self.without_parameters(part) {
                "" if self.empty == Empty::Skipped => {}
                "." if self.resolves_dots => {}
                ".." if self.resolves_dots => {
                    segments.pop();
                }
                part => segments.push(part),
            }
        }
        if self.empty == Empty::Counted {
            segments.retain(|part| !part.is_empty());
        }
        segments
    }

    fn without_parameters(self, part: &str) -> &str {
        let end = match self.parameters {
            Parameters::Kept => None,
            Parameters::PlainDropped => part.find(';'),
            Parameters::Dropped => {
                let (plain, escaped) = (part.find(';'), part.find(ESCAPED_SEMICOLON));
                plain.into_iter().chain(escaped).min()
            }
        };
        &part[..end.unwrap_or(part.len())]
    }
}

/// What a path is rewritten to.
#[derive(Clone, Copy)]
struct Form {
    fold_case: bool,
    /// Escapes of what has a meaning to some servers stay escapes.
    keep_reserved: bool,
    keep_encoded_slash: bool,
}

fn rewrite(path: &str, form: Form) -> Result<String, PathFault> {
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
                decode(byte, form, &mut text)?;
            }
            _ => push(byte, form, &mut text),
        }
    }
    Ok(text)
}

fn decode(byte: u8, form: Form, text: &mut String) -> Result<(), PathFault> {
    match byte {
        0..=0x1f | 0x7f => Err(PathFault::Control),
        b'\\' => Err(PathFault::Backslash),
        b'/' if !form.keep_encoded_slash => Err(PathFault::EncodedSlash),
        // Decoded, these would be another path: a segment, a query, a fragment, another escape, a
        // parameter.
        b'/' | b'?' | b'#' | b'%' | b';' => {
            escape(byte, text);
            Ok(())
        }
        _ if form.keep_reserved && !is_unreserved(byte) => {
            escape(byte, text);
            Ok(())
        }
        _ => {
            push(byte, form, text);
            Ok(())
        }
    }
}

fn push(byte: u8, form: Form, text: &mut String) {
    match byte {
        b'A'..=b'Z' if form.fold_case => text.push(byte.to_ascii_lowercase().into()),
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

/// Means the same escaped and plain, to every server.
fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

/// Stands for itself in the comparable form.
fn is_plain(byte: u8) -> bool {
    matches!(byte,
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'.' | b'_' | b'~' | b'!' | b'$'
        | b'&' | b'\'' | b'(' | b')' | b'*' | b'+' | b',' | b';' | b'=' | b':' | b'@')
}

//! What is wrong with a configuration, and where.

use std::cmp::Reverse;
use std::fmt;

use super::MAX_FAULTS;

/// Where a value stands in the configuration text.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Place {
    /// Line, from 1. For a value that came through an alias, the line it is written on.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
    /// Path from the root, such as `routes[2].match`; empty for the root itself.
    pub path: Box<str>,
}

/// A value and the place it was read from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spanned<T> {
    /// The value.
    pub value: T,
    /// Where it stands.
    pub place: Place,
}

/// One thing wrong with a configuration.
///
/// Displayed as `12:7: plans.free: message; hint`, without the name of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Where it is.
    pub place: Place,
    /// What is wrong, as one line without a full stop.
    pub message: String,
    /// What to do about it, when that is known.
    pub hint: Option<String>,
}

impl Fault {
    /// A fault without a hint.
    pub fn new(place: &Place, message: impl Into<String>) -> Self {
        Self {
            place: place.clone(),
            message: message.into(),
            hint: None,
        }
    }

    /// The same fault, with a hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: ", self.place.line, self.place.column)?;
        if !self.place.path.is_empty() {
            write!(f, "{}: ", self.place.path)?;
        }
        f.write_str(&self.message)?;
        match &self.hint {
            Some(hint) => write!(f, "; {hint}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Fault {}

/// The one of `among` that `word` was most likely meant to be.
///
/// Case, `-` and `_` are not told apart; about one letter in three may be wrong.
/// Of equally near ones, the one that starts alike for longest is taken. Long words are not compared, since the
/// cost is the product of the lengths.
pub fn did_you_mean<'a>(word: &str, among: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    const LONGEST: usize = 128;
    if word.len() > LONGEST {
        return None;
    }
    let word = folded(word);
    let letters = word.chars().count();
    let bound = (letters / 3).max(1);
    let distance = |candidate: &'a str| {
        let other = folded(candidate);
        let distance = strsim::damerau_levenshtein(&word, &other);
        let alike = word.chars().zip(other.chars()).take_while(|(a, b)| a == b);
        (distance, Reverse(alike.count()), candidate)
    };
    among
        .into_iter()
        .filter(|candidate| candidate.len().abs_diff(word.len()) <= 4 * bound)
        .map(distance)
        .filter(|(distance, ..)| *distance <= bound && *distance < letters)
        .min_by_key(|(distance, alike, _)| (*distance, *alike))
        .map(|(_, _, candidate)| candidate)
}

fn folded(word: &str) -> String {
    word.to_lowercase().replace('-', "_")
}

/// A hint that names the likely word, or else all of a few words.
/// Faults by place, the last of them saying how many were left out.
pub(crate) fn in_order(mut faults: Vec<Fault>, uncounted: usize) -> Vec<Fault> {
    faults.sort_by_key(|fault| (fault.place.line, fault.place.column));
    let left_out = faults.len().saturating_sub(MAX_FAULTS) + uncounted;
    if let Some(first) = faults.get(MAX_FAULTS) {
        let place = Place {
            path: "".into(),
            ..first.place
        };
        let noun = if left_out == 1 { "fault" } else { "faults" };
        let last = Fault::new(&place, format!("{left_out} more {noun} not shown"));
        faults.truncate(MAX_FAULTS);
        faults.push(last);
    }
    faults
}

pub(crate) fn hint_among(word: &str, among: &[&'static str]) -> String {
    match did_you_mean(word, among.iter().copied()) {
        Some(meant) => format!("did you mean `{meant}`?"),
        None => format!("write {}", one_of(among)),
    }
}

/// ``"`a`, `b` or `c`"``.
pub(crate) fn one_of(words: &[&str]) -> String {
    let Some((last, rest)) = words.split_last() else {
        return "nothing".to_owned();
    };
    if rest.is_empty() {
        return format!("`{last}`");
    }
    let rest: Vec<_> = rest.iter().map(|word| format!("`{word}`")).collect();
    format!("{} or `{last}`", rest.join(", "))
}

/// Text of the user's as it may be shown in a fault: in backquotes, control
/// characters escaped, cut when long.
pub(crate) fn quoted(text: &str) -> String {
    format!("`{}`", shown(text))
}

/// Text of the user's with control characters escaped, cut when long, and without what may be the password
/// of a URL that stands in the wrong place.
pub(crate) fn shown(text: &str) -> String {
    const LONGEST: usize = 64;
    let mut out = String::new();
    let text = &without_credentials(text);
    for (count, c) in text.chars().enumerate() {
        if count == LONGEST {
            out.push('…');
            break;
        }
        if is_printable(c) {
            out.push(c);
        } else {
            out.extend(c.escape_default());
        }
    }
    out
}

/// A text with `***` for what may be the password of a URL: all between `://` and the last `@` behind it,
/// and what stands behind a parameter such as `?pass=`.
pub fn without_credentials(text: &str) -> String {
    let Some((scheme, rest)) = text.split_once("://") else {
        return text.to_owned();
    };
    let shown = match rest.rsplit_once('@') {
        Some((_, host)) => format!("{scheme}://***@{host}"),
        None => text.to_owned(),
    };
    let Some((before, query)) = shown.split_once('?') else {
        return shown;
    };
    let parameters = query
        .split('&')
        .map(|parameter| match parameter.split_once('=') {
            Some((name, _)) if name.to_ascii_lowercase().contains("pass") => format!("{name}=***"),
            _ => parameter.to_owned(),
        });
    let parameters: Vec<String> = parameters.collect();
    format!("{before}?{}", parameters.join("&"))
}

/// Whether a character shows as itself: no control character, line separator, byte
/// order mark or change of writing direction.
pub(crate) fn is_printable(c: char) -> bool {
    !c.is_control()
        && !matches!(c, '\u{2028}' | '\u{2029}' | '\u{FEFF}'
            | '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}')
}

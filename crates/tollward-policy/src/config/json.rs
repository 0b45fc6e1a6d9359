//! The one thing of JSON that YAML cannot read: `"\ud83d\ude00"`.

use std::borrow::Cow;

/// JSON text with each escaped surrogate pair replaced by its character.
///
/// Spaces behind the string make up for the difference, so every other character
/// keeps its line and column. Text that has no such escape, or is not JSON, comes
/// back as it is.
pub(crate) fn without_surrogates(text: &str) -> Cow<'_, str> {
    let may_have = text.contains("\\ud") || text.contains("\\uD");
    let is_json = || serde_json::from_str::<serde_json::Value>(text).is_ok();
    if !may_have || !text.trim_start().starts_with('{') || !is_json() {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let (mut in_string, mut saved) = (false, 0);
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let mut taken = c.len_utf8();
        match c {
            '\\' => match surrogate_pair(rest) {
                Some(pair) => {
                    out.push(pair);
                    taken = PAIR;
                    saved += PAIR - 1;
                }
                None => {
                    taken = rest.chars().take(2).map(char::len_utf8).sum();
                    out.push_str(rest.get(..taken).unwrap_or_default());
                }
            },
            '"' => {
                out.push(c);
                in_string = !in_string;
                if !in_string {
                    out.extend(std::iter::repeat_n(' ', saved));
                    saved = 0;
                }
            }
            _ => out.push(c),
        }
        rest = rest.get(taken..).unwrap_or_default();
    }
    Cow::Owned(out)
}

/// Characters in an escaped surrogate pair.
const PAIR: usize = 12;

fn surrogate_pair(text: &str) -> Option<char> {
    let unit = |from: usize| {
        let digits = text.get(from..from + 6)?.strip_prefix("\\u")?;
        u16::from_str_radix(digits, 16).ok()
    };
    let high = unit(0)?;
    if !(0xD800..0xDC00).contains(&high) {
        return None;
    }
    char::decode_utf16([high, unit(6)?]).next()?.ok()
}

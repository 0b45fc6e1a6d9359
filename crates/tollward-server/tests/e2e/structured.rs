//! Structured fields (RFC 9651), as far as lists of strings with integers need them. Written from the
//! grammar, and from nothing of the server's.

/// A string and its parameters.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Item {
    pub(crate) name: String,
    pub(crate) parameters: Vec<(String, i64)>,
}

impl Item {
    pub(crate) fn get(&self, key: &str) -> i64 {
        let found = self.parameters.iter().find(|(name, _)| name == key);
        found.unwrap_or_else(|| panic!("no {key} in {self:?}")).1
    }
}

/// Reads a whole field.
pub(crate) fn list(text: &str) -> Vec<Item> {
    let mut rest = text.trim_matches(' ');
    let mut items = Vec::new();
    while !rest.is_empty() {
        let (name, after) = string(rest);
        let (parameters, after) = parameters(after);
        items.push(Item { name, parameters });
        rest = after.trim_start_matches([' ', '\t']);
        if let Some(after) = rest.strip_prefix(',') {
            rest = after.trim_start_matches([' ', '\t']);
            assert!(!rest.is_empty(), "a comma at the end: {text}");
        } else {
            assert!(rest.is_empty(), "{rest:?} behind an item: {text}");
        }
    }
    items
}

fn string(text: &str) -> (String, &str) {
    let mut chars = text.char_indices();
    assert_eq!(chars.next(), Some((0, '"')), "no string: {text}");
    let mut name = String::new();
    while let Some((index, c)) = chars.next() {
        match c {
            '"' => return (name, &text[index + 1..]),
            '\\' => match chars.next() {
                Some((_, escaped @ ('"' | '\\'))) => name.push(escaped),
                other => panic!("escaped {other:?}: {text}"),
            },
            ' '..='~' => name.push(c),
            _ => panic!("{c:?} in a string: {text}"),
        }
    }
    panic!("a string without an end: {text}")
}

fn parameters(mut text: &str) -> (Vec<(String, i64)>, &str) {
    let mut parameters = Vec::new();
    while let Some(after) = text.strip_prefix(';') {
        let after = after.trim_start_matches(' ');
        let (key, value) = after.split_once('=').unwrap();
        let starts = key.starts_with(|c: char| c.is_ascii_lowercase() || c == '*');
        let in_key = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "_-.*".contains(c);
        assert!(starts && key.chars().all(in_key), "no key: {key:?}");
        let end = value.find(|c: char| c != '-' && !c.is_ascii_digit());
        let (number, rest) = value.split_at(end.unwrap_or(value.len()));
        assert!(number.trim_start_matches('-').len() <= 15, "{number}");
        parameters.push((key.to_owned(), number.parse().unwrap()));
        text = rest;
    }
    (parameters, text)
}

#[test]
fn reads_what_the_grammar_has() {
    let items = list("\"a\";q=1;w=22,  \"b \\\"c\\\\\";r=-3\t, \"\"");
    let names: Vec<_> = items.iter().map(|item| &*item.name).collect();
    assert_eq!(names, ["a", "b \"c\\", ""]);
    assert_eq!((items[0].get("w"), items[1].get("r")), (22, -3));
}

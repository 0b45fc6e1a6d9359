//! Texts that are meant to do harm.

use super::super::yaml::MAX_SIZE;
use super::super::*;
use super::{FULL, assert_faults, shown};

const TOO_DEEP: &str = "lists and mappings nest deeper than 64 levels";
const TOO_LARGE: &str =
    "the document is too large; aliases count as often as they are used; use fewer";

#[test]
fn depth_is_bounded() {
    for opener in ["[", "{a: ", "- ", "? ", "- ? "] {
        let found = shown(&opener.repeat(100_000));
        assert!(
            found.len() == 1 && found[0].ends_with(TOO_DEEP),
            "{opener}: {found:?}"
        );
    }
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    assert_faults(&nested(64), &["1:1: expected a mapping, found a list"]);
    assert_faults(&nested(65), &[&format!("1:65: {TOO_DEEP}")]);
}

#[test]
fn depth_is_bounded_through_aliases() {
    let mut text = "a0: &a0 []\n".to_owned();
    for level in 1..200 {
        text += &format!("a{level}: &a{level} [*a{}]\n", level - 1);
    }
    let found = shown(&text);
    assert!(
        found.len() == 1 && found[0].ends_with(TOO_DEEP),
        "{found:?}"
    );
}

#[test]
fn aliases_cannot_multiply() {
    let mut laughs = "a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol, lol]\n".to_owned();
    for level in 1..20 {
        let below = format!("*a{}, ", level - 1).repeat(10);
        laughs += &format!("a{level}: &a{level} [{below}]\n");
    }
    let found = shown(&laughs);
    assert!(
        found.len() == 1 && found[0].ends_with(TOO_LARGE),
        "{found:?}"
    );
    // A long text counts by its length, not as one value.
    let long = format!(
        "x: &x {}\ny: [{}]\n",
        "a".repeat(1 << 20),
        "*x,".repeat(1000)
    );
    let found = shown(&long);
    assert!(
        found.len() == 1 && found[0].ends_with(TOO_LARGE),
        "{found:?}"
    );
    let in_itself = "plans: &x { a: *x }";
    assert_faults(
        in_itself,
        &["1:16: the alias stands inside of what it names"],
    );
}

#[test]
fn size_is_bounded() {
    let count = usize::try_from(MAX_SIZE).unwrap() + 1;
    let found = shown(&format!("[{}]", "a,".repeat(count)));
    assert!(
        found.len() == 1 && found[0].ends_with("the document is too large"),
        "{found:?}"
    );
}

#[test]
fn length_is_bounded() {
    let text = "#".repeat(5_000_000);
    assert_faults(
        &text,
        &["1:1: the text has 5000000 bytes, more than the 4194304 that are read"],
    );
    assert!(parse(&text[..MAX_TEXT]).is_ok());
}

#[test]
fn odd_characters_are_refused() {
    assert_faults(
        "a: é\u{0}",
        &["1:5: the character U+0000 may not stand in YAML; remove it"],
    );
    assert_faults(
        "#\r\n#\r#\n \u{1b}[31m",
        &["4:2: the character U+001B may not stand in YAML; remove it"],
    );
    assert_faults(
        "a: \u{ffff}",
        &["1:4: the character U+FFFF may not stand in YAML; remove it"],
    );
}

#[test]
fn bytes_must_be_utf8() {
    assert!(parse_bytes(FULL.as_bytes()).is_ok());
    assert!(parse_bytes(b"").is_ok());
    let found = parse_bytes(b"# \xc3\xa9\nplans: \xff").unwrap_err();
    assert_eq!(found.len(), 1);
    assert_eq!(
        found[0].to_string(),
        "2:8: the text is not UTF-8; save the file in the encoding UTF-8"
    );
    assert_eq!(
        parse_bytes(b"\xef\xbb\xbf\xff").unwrap_err()[0]
            .place
            .column,
        1
    );
    // UTF-16 with its byte order mark.
    assert_eq!(parse_bytes(b"\xff\xfea\0").unwrap_err().len(), 1);
}

#[test]
fn faults_are_counted_beyond_a_hundred() {
    let unknown = |count: usize| (0..count).map(|n| format!("x{n}: 1\n")).collect::<String>();
    assert_eq!(shown(&unknown(100)).len(), 100);
    let found = shown(&unknown(101));
    assert_eq!(found.len(), 101);
    assert_eq!(found[100], "101:1: 1 more fault not shown");
    let found = shown(&unknown(50_000));
    assert_eq!(found.len(), 101);
    assert_eq!(found[100], "101:1: 49900 more faults not shown");
    assert!(found[99].starts_with("100:1: x99: unknown field `x99`"));
}

#[test]
fn long_texts_are_cut_in_faults() {
    let long = "k".repeat(1 << 20);
    for text in [
        format!("{long}x: 1"),
        format!("? {long}\n: 1"),
        format!("enforcement: {long}"),
    ] {
        for fault in shown(&text) {
            assert!(fault.len() < 600, "{} bytes", fault.len());
        }
    }
}

#[test]
fn no_change_of_bytes_makes_it_panic() {
    const PIECES: [&[u8]; 24] = [
        b"\n",
        b"  ",
        b"\t",
        b": ",
        b"- ",
        b"? ",
        b"[",
        b"]",
        b"{",
        b"}",
        b",",
        b"&a ",
        b"*a ",
        b"!t ",
        b"\"",
        b"'",
        b"|",
        b">",
        b"#",
        b"%",
        b"---\n",
        b"...\n",
        b"<<: ",
        b"\xef\xbb\xbf",
    ];
    let mut random = XorShift(0x9E37_79B9_7F4A_7C15);
    let (mut valid, mut refused) = (0, 0);
    for _ in 0..20_000 {
        // A part of the document, so that the rounds stay cheap.
        let start = random.below(FULL.len());
        let end = (start + random.below(500)).min(FULL.len());
        let mut bytes = FULL.as_bytes()[start..end].to_vec();
        for _ in 0..=random.below(4) {
            let at = random.below(bytes.len() + 1);
            match random.below(3) {
                0 if at < bytes.len() => bytes[at] = u8::try_from(random.below(256)).unwrap(),
                1 if at < bytes.len() => drop(bytes.remove(at)),
                _ => drop(bytes.splice(at..at, PIECES[random.below(PIECES.len())].iter().copied())),
            }
        }
        match parse_bytes(&bytes) {
            Ok(_) => valid += 1,
            Err(faults) => {
                refused += 1;
                assert!(!faults.is_empty() && faults.len() <= MAX_FAULTS + 1);
                assert!(
                    faults
                        .iter()
                        .all(|fault| fault.place.line > 0 && fault.place.column > 0)
                );
            }
        }
    }
    assert!(
        valid > 0 && refused > 1000,
        "{valid} valid, {refused} refused"
    );
}

#[test]
fn no_change_of_a_whole_document_makes_it_panic() {
    let mut random = XorShift(42);
    for _ in 0..1000 {
        let mut bytes = FULL.as_bytes().to_vec();
        let at = random.below(bytes.len());
        bytes[at] = u8::try_from(random.below(256)).unwrap();
        let _ = parse_bytes(&bytes);
    }
}

/// Marsaglia's generator: the same rounds in every run.
struct XorShift(u64);

impl XorShift {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % u64::try_from(bound).unwrap()).unwrap()
    }
}

//! No way of writing a path finds another route than the path it stands for.

use std::sync::LazyLock;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

use super::{paths::ROUTES, policy, route_of_path, servers};
use crate::{Policy, Rejection};

/// A change that some server undoes.
#[derive(Clone, Copy, Debug)]
enum Disguise {
    /// Put between two segments, in place of the slash.
    Between(&'static str),
    /// Put at the end of a segment.
    Behind(&'static str),
    /// A character as an escape.
    Escaped { upper_digits: bool },
    /// A letter in upper case.
    Upper,
    /// Put at the end of the path.
    AtEnd(&'static str),
}

const DISGUISES: &[Disguise] = &[
    Disguise::Between("//"),
    Disguise::Between("/./"),
    Disguise::Between("/%2e/"),
    Disguise::Between("/q/../"),
    Disguise::Between("/admin/../"),
    Disguise::Between("/admin/%2E%2e/"),
    Disguise::Between("/q/.%2E/"),
    Disguise::Between("/q/..;/"),
    Disguise::Between("/q/..%3b/"),
    Disguise::Between("/;x/"),
    Disguise::Between("/.;x/"),
    Disguise::Between("%2F"),
    Disguise::Between("%2f"),
    Disguise::Between("\\"),
    Disguise::Between("%5C"),
    Disguise::Behind(";x"),
    Disguise::Behind(";"),
    Disguise::Behind("%3b"),
    Disguise::Behind("%3By=1"),
    Disguise::Escaped { upper_digits: true },
    Disguise::Escaped {
        upper_digits: false,
    },
    Disguise::Upper,
    Disguise::AtEnd("/"),
    Disguise::AtEnd("/."),
    Disguise::AtEnd("/q/.."),
    Disguise::AtEnd("?x=/../admin"),
    Disguise::AtEnd("%00"),
    Disguise::AtEnd("#x"),
    Disguise::AtEnd(";x"),
];

/// A path as pieces of text: characters of segments, and what stands between segments.
fn disguised(segments: &[&str], disguises: &[(Disguise, Index)]) -> String {
    let mut slashes = vec!["/".to_owned(); segments.len().max(1)];
    let letters = |segment: &&str| segment.chars().map(String::from).collect::<Vec<_>>();
    let mut names: Vec<Vec<String>> = segments.iter().map(letters).collect();
    let mut end = String::new();
    for (disguise, index) in disguises {
        match disguise {
            Disguise::Between(text) => {
                let slash = index.get(&slashes).clone();
                let at = index.index(slashes.len());
                slashes[at] = if slash == "/" {
                    (*text).to_owned()
                } else {
                    slash.replacen('/', text, 1)
                };
            }
            Disguise::AtEnd(text) => end.push_str(text),
            _ if names.is_empty() => {}
            Disguise::Behind(text) => {
                let at = index.index(names.len());
                names[at].push((*text).to_owned());
            }
            Disguise::Escaped { .. } | Disguise::Upper => {
                let count = names.iter().map(Vec::len).sum::<usize>();
                let letter = names.iter_mut().flatten().nth(index.index(count));
                let letter = letter.expect("the index is below the count");
                let &[byte] = letter.as_bytes() else {
                    continue;
                };
                *letter = match disguise {
                    Disguise::Escaped { upper_digits: true } => format!("%{byte:02X}"),
                    Disguise::Escaped { .. } => format!("%{byte:02x}"),
                    _ => letter.to_uppercase(),
                };
            }
        }
    }
    let mut path = String::new();
    if names.is_empty() {
        path.push_str(&slashes[0]);
    }
    for (slash, name) in slashes.iter().zip(&names) {
        path.push_str(slash);
        path.extend(name.iter().map(String::as_str));
    }
    path + &end
}

/// What the route is, and is for every server behind it; or that the path is refused.
fn check_servers(policy: &Policy, path: &str) -> Result<(), TestCaseError> {
    let Ok(route) = route_of_path(policy, path) else {
        return Ok(());
    };
    if path.is_empty() {
        return Ok(());
    }
    for (server, reading) in servers::readings(path) {
        prop_assert_eq!(
            route_of_path(policy, &reading),
            Ok(route),
            "{:?} is {:?} to a server that does: {}",
            path,
            &reading,
            server
        );
    }
    Ok(())
}

/// Routes that overlap in many ways.
const OVERLAPPING: &str = "
routes:
  - { match: / }
  - { match: /a }
  - { match: /a/b }
  - { match: /a/*/b }
  - { match: /b/** }
  - { match: /*/a/** }
";

/// Mostly what moves segments about, now and then what ought to be refused.
fn piece() -> impl Strategy<Value = &'static str> {
    const NAMES: &[&str] = &["/a", "/b", "/admin", "/%61", "/B", "/api/x/orders"];
    const MOVES: &[&str] = &[
        "/", "//", "/.", "/..", "/%2e%2E", "/..;", "/..%3b", "/;", "/%3B", "/.;x", ";", "%3b", ".",
    ];
    const ODD: &[&str] = &[
        "%25", "%252e", "%2f", "%5c", "\\", "%00", "?", "#", " ", "*", "%", "é", "%c3%a9",
    ];
    prop_oneof![10 => select(NAMES), 10 => select(MOVES), 1 => select(ODD)]
}

static FIXED: LazyLock<Policy> = LazyLock::new(|| policy(ROUTES));
static CROSSING: LazyLock<Policy> = LazyLock::new(|| policy(OVERLAPPING));

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_disguise_finds_the_same_route_or_is_refused(
        segments in vec(select(&["v1", "chat", "completions", "admin", "api", "orders", "x.y"][..]), 0..5),
        disguises in vec((select(DISGUISES), any::<Index>()), 0..6),
    ) {
        let policy = &*FIXED;
        let plain = format!("/{}", segments.join("/"));
        let path = disguised(&segments, &disguises);
        let expected = route_of_path(policy, &plain);
        match route_of_path(policy, &path) {
            Err(Rejection::Path(_)) => {}
            found => prop_assert_eq!(found, expected, "{:?} for {:?}", path, plain),
        }
        check_servers(policy, &path)?;
    }

    #[test]
    fn servers_agree_with_the_policy(pieces in vec(piece(), 0..8)) {
        let path = format!("{}/", pieces.concat());
        check_servers(&CROSSING, &path)?;
        check_servers(&FIXED, &path)?;
    }

    #[test]
    fn no_text_panics(path in "\\PC{0,40}|[\\x00-\\x7f]{0,40}|/[%0-9a-fA-F./;]{0,40}", method in "\\PC{0,40}") {
        let policy = &*CROSSING;
        check_servers(policy, &path)?;
        let facts = crate::Facts { path: Some(&path), method: Some(&method), ..Default::default() };
        if let Ok(request) = policy.request(&facts) {
            let _ = request.explain();
        }
    }
}

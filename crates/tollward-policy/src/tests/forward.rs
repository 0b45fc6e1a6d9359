//! The path that is passed on: what was compared, and nothing that a server could read otherwise.

use std::borrow::Cow;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::{paths::ROUTES, policy, servers};
use crate::path::{PathOptions, comparable, forwardable, segments};
use crate::{Facts, Policy};

const KEEP: PathOptions = PathOptions {
    fold_case: false,
    keep_encoded_slash: true,
};

#[track_caller]
fn forwarded(path: &str) -> String {
    let policy = policy(ROUTES);
    let facts = Facts {
        path: Some(path),
        method: Some("GET"),
        ..Facts::default()
    };
    let request = policy.request(&facts).unwrap();
    request.forward_path().unwrap().to_owned()
}

#[test]
fn what_is_passed_on() {
    let table = [
        ("/", "/"),
        ("/a", "/a"),
        ("/a/", "/a/"),
        ("/A/b/C", "/A/b/C"),
        ("/a?x=/../b", "/a"),
        ("//", "/"),
        ("//a", "/a"),
        ("/a//b", "/a/b"),
        ("/a/b//", "/a/b/"),
        ("/.", "/"),
        ("/..", "/"),
        ("/a/.", "/a/"),
        ("/a/./b", "/a/b"),
        ("/a/b/..", "/a/"),
        ("/a/b/../", "/a/"),
        ("/a/../../b", "/b"),
        ("/a/..", "/"),
        ("/.well-known/x", "/.well-known/x"),
        ("/a/...", "/a/..."),
        ("/a/.b/", "/a/.b/"),
        ("/%61%41%2D%2e%5F%7E", "/aA-._~"),
        ("/%2e%2E/x", "/x"),
        ("/a/%2e", "/a/"),
        ("/%40%3a%2b%2C", "/%40%3A%2B%2C"),
        ("/@:+,;=!$&'()*", "/@:+,;=!$&'()*"),
        ("/a%3bb", "/a%3Bb"),
        ("/%25%2541", "/%25%2541"),
        ("/%3f%23", "/%3F%23"),
        ("/a b|\"<é>", "/a%20b%7C%22%3C%C3%A9%3E"),
        ("/%c3%a9", "/%C3%A9"),
    ];
    for (path, expected) in table {
        assert_eq!(forwarded(path), expected, "{path:?}");
    }
}

#[test]
fn a_normal_path_is_not_copied() {
    for path in [
        "/",
        "/a",
        "/A/b.c/",
        "/v1/chat/completions?x=%2e",
        "/.x/y",
        "/a;b=1/@c",
    ] {
        let policy = policy(ROUTES);
        let facts = Facts {
            path: Some(path),
            ..Facts::default()
        };
        let request = policy.request(&facts).unwrap();
        assert!(matches!(request.path, Some(Cow::Borrowed(_))), "{path}");
        assert_eq!(request.forward_path(), path.split('?').next());
    }
}

#[test]
fn without_a_path_there_is_none() {
    let policy = policy(ROUTES);
    for path in [None, Some("")] {
        let facts = Facts {
            path,
            ..Facts::default()
        };
        assert_eq!(policy.request(&facts).unwrap().forward_path(), None);
    }
}

#[test]
fn an_escaped_slash_that_is_kept_stays_one() {
    let policy = policy("paths: { encoded_slash: keep }");
    let facts = Facts {
        path: Some("/a%2fb/%2e%2e/c"),
        ..Facts::default()
    };
    let request = policy.request(&facts).unwrap();
    assert_eq!(request.forward_path(), Some("/c"));
    let facts = Facts {
        path: Some("/A%2fb"),
        ..Facts::default()
    };
    let request = policy.request(&facts).unwrap();
    assert_eq!(request.forward_path(), Some("/A%2Fb"));
}

fn path() -> impl Strategy<Value = String> {
    const PIECES: &[&str] = &[
        "/", "/", "/", "a", "B", "é", ".", "..", "%2e", "%2E%2e", "%41", "%7e", "%40", "@", "%2f",
        "%25", "%3b", ";", ";x", "%3F", "?", "|", " ", "*", "+", "%c3%a9", "~", "\\", "%", "#",
        "%00",
    ];
    let pieces = vec(select(PIECES), 0..10);
    prop_oneof![
        4 => pieces.prop_map(|pieces| format!("/{}", pieces.concat())),
        1 => "/[%0-9a-fA-F./;]{0,30}",
        1 => "\\PC{0,30}",
    ]
}

/// Text that every part of a URL's path may have.
fn is_sound(path: &str) -> bool {
    let is_byte = |b: u8| b.is_ascii_alphanumeric() || b"/-._~!$&'()*+,;=:@%".contains(&b);
    let escapes = path.split('%').skip(1);
    let mut escapes = escapes.map(|escape| escape.get(..2).unwrap_or(""));
    let is_upper = |digits: &str| {
        let is_digit = |c: char| c.is_ascii_digit() || ('A'..='F').contains(&c);
        digits.len() == 2 && digits.chars().all(is_digit)
    };
    path.starts_with('/') && path.bytes().all(is_byte) && escapes.all(is_upper)
}

fn check(path: &str, options: PathOptions) -> Result<(), TestCaseError> {
    let read = comparable(path, options);
    let Ok(forward) = forwardable(path, options) else {
        prop_assert!(read.is_err(), "{:?} is compared, but not passed on", path);
        return Ok(());
    };
    let read = read.map_err(|fault| TestCaseError::fail(format!("{path:?}: {fault}")))?;
    prop_assert!(is_sound(&forward), "{:?}", forward);
    prop_assert!(!forward.contains("//"), "{:?}", forward);
    let mut parts = forward.split('/');
    prop_assert!(
        !parts.any(|part| part == "." || part == ".."),
        "{:?}",
        forward
    );
    // It is the same path, and resolved already.
    let again = comparable(&forward, options);
    let again = again.map_err(|fault| TestCaseError::fail(format!("{forward:?}: {fault}")))?;
    prop_assert_eq!(segments(&again), segments(&read), "{:?}", path);
    let plain: Vec<&str> = again.split('/').filter(|part| !part.is_empty()).collect();
    prop_assert_eq!(&plain[..], &segments(&read)[..], "{:?}", path);
    let twice = forwardable(&forward, options);
    prop_assert!(
        matches!(twice, Ok(Cow::Borrowed(_))) || forward.contains('%'),
        "{:?}",
        forward
    );
    prop_assert_eq!(twice.as_deref(), Ok(&*forward));
    // A slash at the end is kept.
    let text = path.split('?').next().unwrap_or_default();
    prop_assert!(!text.ends_with('/') || forward.ends_with('/'), "{:?}", path);
    Ok(())
}

/// What is passed on has the route that was limited, whichever server reads it.
fn check_servers(policy: &Policy, path: &str) -> Result<(), TestCaseError> {
    let facts = Facts {
        path: Some(path),
        method: Some("GET"),
        ..Facts::default()
    };
    let Ok(request) = policy.request(&facts) else {
        return Ok(());
    };
    let Some(forward) = request.forward_path() else {
        return Ok(());
    };
    let readings = servers::readings(forward)
        .into_iter()
        .map(|(_, reading)| reading);
    for reading in readings.chain([forward.to_owned()]) {
        let facts = Facts {
            path: Some(&reading),
            ..facts
        };
        let route = policy.request(&facts);
        let route = route.map(|request| request.route().map(str::to_owned));
        prop_assert_eq!(
            route,
            Ok(request.route().map(str::to_owned)),
            "{:?} of {:?}",
            reading,
            path
        );
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_passed_on_is_what_is_compared(path in path()) {
        check(&path, PathOptions::default())?;
        check(&path, KEEP)?;
    }

    #[test]
    fn servers_read_what_is_passed_on_as_it_was_limited(path in path()) {
        static POLICY: std::sync::LazyLock<Policy> = std::sync::LazyLock::new(|| policy(ROUTES));
        check_servers(&POLICY, &path)?;
    }
}

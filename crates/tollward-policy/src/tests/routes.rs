//! Which route is matched, by path and method; and what makes no pattern.

use super::{assert_faults, policy, route_of};
use crate::{Facts, Policy, Rejection};

#[track_caller]
fn assert_matches(policy: &Policy, table: &[(&str, &str, Option<&str>)]) {
    for (method, path, expected) in table {
        let facts = Facts {
            method: Some(method).filter(|method| !method.is_empty()).copied(),
            path: Some(path),
            ..Facts::default()
        };
        assert_eq!(route_of(policy, &facts), Ok(*expected), "{method} {path}");
    }
}

#[test]
fn the_most_specific_path_wins_wherever_it_stands() {
    let policy = policy(
        "
routes:
  - { match: /** }
  - { match: /a/** }
  - { match: /a/b/** }
  - { match: /a/* }
  - { match: /a/*/c }
  - { match: /a/b }
  - { match: /*/b }
  - { match: /x/** }
  - { match: /y/*/** }
",
    );
    let table = [
        ("GET", "/", Some("/**")),
        ("GET", "/q", Some("/**")),
        ("GET", "/a", Some("/a/**")),
        ("GET", "/a/b", Some("/a/b")),
        ("GET", "/a/q", Some("/a/*")),
        ("GET", "/a/q/r", Some("/a/**")),
        ("GET", "/a/q/c", Some("/a/*/c")),
        // A literal decides before what follows it is looked at.
        ("GET", "/a/b/c", Some("/a/b/**")),
        ("GET", "/a/b/c/d", Some("/a/b/**")),
        ("GET", "/a/q/c/d", Some("/a/**")),
        ("GET", "/q/b", Some("/*/b")),
        ("GET", "/q/b/c", Some("/**")),
        ("GET", "/x", Some("/x/**")),
        ("GET", "/x/", Some("/x/**")),
        ("GET", "/x/b", Some("/x/**")),
        ("GET", "/y", Some("/**")),
        ("GET", "/y/q", Some("/y/*/**")),
        ("GET", "/y/b", Some("/y/*/**")),
    ];
    assert_matches(&policy, &table);
}

#[test]
fn a_search_goes_back_where_a_literal_leads_nowhere() {
    let policy = policy(
        "
routes:
  - { match: /a/b/c/d }
  - { match: /a/*/c/e }
  - { match: /*/b/c/f }
  - { match: POST /a/b/c/g }
  - { match: /*/*/*/g }
",
    );
    let table = [
        ("GET", "/a/b/c/d", Some("/a/b/c/d")),
        ("GET", "/a/b/c/e", Some("/a/*/c/e")),
        ("GET", "/a/b/c/f", Some("/*/b/c/f")),
        ("POST", "/a/b/c/g", Some("POST /a/b/c/g")),
        ("GET", "/a/b/c/g", Some("/*/*/*/g")),
        ("GET", "/a/b/c", None),
        ("GET", "/a/b/c/h", None),
        ("GET", "/", None),
    ];
    assert_matches(&policy, &table);
}

#[test]
fn a_method_decides_among_equal_paths_only() {
    let policy = policy(
        "
routes:
  - { match: /a }
  - { match: post /a }
  - { match: GET /a }
  - { match: POST /* }
  - { match: /b }
  - { match: GET /c }
  - { match: HEAD /d }
  - { match: GET /d }
  - { match: /** }
  - { match: PURGE /** }
",
    );
    let table = [
        ("GET", "/a", Some("GET /a")),
        ("get", "/a", Some("GET /a")),
        ("gEt", "/a", Some("GET /a")),
        ("HEAD", "/a", Some("GET /a")),
        ("head", "/a", Some("GET /a")),
        ("POST", "/a", Some("POST /a")),
        ("post", "/a", Some("POST /a")),
        ("PUT", "/a", Some("/a")),
        ("BREW", "/a", Some("/a")),
        ("M-SEARCH", "/a", Some("/a")),
        ("POST", "/b", Some("/b")),
        ("POST", "/c", Some("POST /*")),
        ("GET", "/c", Some("GET /c")),
        ("HEAD", "/c", Some("GET /c")),
        ("PUT", "/c", Some("/**")),
        ("HEAD", "/d", Some("HEAD /d")),
        ("GET", "/d", Some("GET /d")),
        ("PURGE", "/a", Some("/a")),
        ("PURGE", "/q", Some("PURGE /**")),
        ("OPTIONS", "/q", Some("/**")),
    ];
    assert_matches(&policy, &table);
}

#[test]
fn what_is_no_method_is_refused() {
    let policy = policy("routes: [{ match: /** }]");
    let long = "X".repeat(33);
    for method in [
        "GET /", " GET", "GET\r\n", "G\0T", "GÉT", "GET,POST", "{}", &long,
    ] {
        let facts = Facts {
            method: Some(method),
            path: Some("/"),
            ..Facts::default()
        };
        assert_eq!(
            route_of(&policy, &facts),
            Err(Rejection::Method),
            "{method:?}"
        );
        // Also where there is nothing to match.
        let facts = Facts {
            path: None,
            ..facts
        };
        assert_eq!(
            route_of(&policy, &facts),
            Err(Rejection::Method),
            "{method:?}"
        );
    }
}

/// Whoever leaves out the method gets what the dearest method would have got.
#[test]
fn a_missing_method_is_the_strictest() {
    let policy = policy(
        "
routes:
  - { match: GET /cost, cost: 1 }
  - { match: POST /cost, cost: 9 }
  - { match: /cost, cost: 5 }
  - { match: GET /deny, cost: 9 }
  - { match: DELETE /deny, deny: true }
  - { match: GET /allow, allow: true }
  - { match: PUT /allow, cost: 0 }
  - { match: GET /limit, rate_limits: { a: { sustained: { rate: 1 } }, b: { sustained: { rate: 1 } } } }
  - { match: PUT /limit, rate_limit: { sustained: { rate: 1 } } }
  - { match: POST /wide/x, cost: 2 }
  - { match: /wide/*, cost: 7 }
  - { match: /wide/**, cost: 8 }
  - { match: POST /narrow/x, cost: 2 }
  - { match: POST /narrow/*, cost: 100 }
  - { match: /narrow/*, cost: 1 }
  - { match: GET /head/x, cost: 2 }
  - { match: HEAD /head/*, cost: 100 }
  - { match: /open/x, allow: true }
  - { match: /open/**, deny: true }
",
    );
    let table = [
        ("", "/cost", Some("POST /cost")),
        ("", "/deny", Some("DELETE /deny")),
        ("", "/allow", Some("PUT /allow")),
        ("", "/limit", Some("GET /limit")),
        // A GET would have gone to the dearer, less specific route.
        ("", "/wide/x", Some("/wide/*")),
        // A POST would never have got there.
        ("", "/narrow/x", Some("POST /narrow/x")),
        // Nor a HEAD, which is a GET.
        ("", "/head/x", Some("GET /head/x")),
        // The route of all methods hides what is less specific.
        ("", "/open/x", Some("/open/x")),
    ];
    assert_matches(&policy, &table);
}

#[test]
fn patterns_have_one_form() {
    let policy = policy(
        "
routes:
  - { match: '  get   //A/./%62/../c/ ' }
  - { match: /x/../y/** }
  - { match: POST / }
  - { match: 'm-search /**/' }
  - { match: '/~a/!$&''()+,=:@' }
",
    );
    let table = [
        ("GET", "/a/c", Some("GET /a/c")),
        ("GET", "/y/z", Some("/y/**")),
        ("POST", "/", Some("POST /")),
        ("POST", "//", Some("POST /")),
        ("M-SEARCH", "/q", Some("M-SEARCH /**")),
        ("GET", "/~A/!$&'()+,=:@", Some("/~a/!$&'()+,=:@")),
        (
            "GET",
            "/%7ea/%21%24%26%27%28%29%2b%2c%3d%3a%40",
            Some("/~a/!$&'()+,=:@"),
        ),
    ];
    assert_matches(&policy, &table);
}

#[test]
fn bad_patterns_are_faults() {
    const WRITE: &str = "write for example `/v1/jobs/**`";
    const METHOD: &str = "write for example `POST /v1/jobs`";
    const WORDS: &str =
        "is not `PATH` or `METHOD PATH`; write for example `/v1/jobs/**` or `POST /v1/jobs`";
    const EXTRAS: &str = "a route matches paths, without query, parameters or quotes; remove the part from `?`, `;` or `\"` on";
    let last = "`**` stands for the rest of the path and must be last; use `*` for one segment";
    let star = |part: &str| {
        format!(
            "`{part}` mixes `*` with text; `*` stands for a whole segment, `**` for the rest of the path"
        )
    };
    let table = [
        (" ", WORDS.to_owned()),
        ("GET /a b", WORDS.to_owned()),
        ("GET POST /a", WORDS.to_owned()),
        ("a", format!("a path begins with `/`; {WRITE}")),
        ("GET", format!("a path begins with `/`; {WRITE}")),
        ("*", format!("a path begins with `/`; {WRITE}")),
        ("GET a", format!("a path begins with `/`; {WRITE}")),
        ("http://h/a", format!("a path begins with `/`; {WRITE}")),
        (
            "GET,POST /a",
            format!("`GET,POST` is not a method; {METHOD}"),
        ),
        ("/a /b", format!("`/a` is not a method; {METHOD}")),
        ("GÉT /a", format!("`GÉT` is not a method; {METHOD}")),
        ("/a?b", EXTRAS.to_owned()),
        ("/a;b", EXTRAS.to_owned()),
        ("/a%3bb", EXTRAS.to_owned()),
        ("/a\"b", EXTRAS.to_owned()),
        (
            "/a/%2A",
            "`%2A` cannot be told from `*`; write `*` for one segment whatever it holds".to_owned(),
        ),
        ("/a#b", format!("the path has a `#`; {WRITE}")),
        (
            "/a%2",
            format!("the path has a `%` without two hexadecimal digits behind it; {WRITE}"),
        ),
        (
            "/a%2Fb",
            format!("the path has an escaped slash (`%2F`); {WRITE}"),
        ),
        ("/a\\b", format!("the path has a backslash; {WRITE}")),
        ("/a%5cb", format!("the path has a backslash; {WRITE}")),
        (
            "/a%00",
            format!("the path has a control character; {WRITE}"),
        ),
        ("/**/a", last.to_owned()),
        ("/a/**/b/**", last.to_owned()),
        ("/a/**/**", last.to_owned()),
        ("/a*", star("a*")),
        ("/*a", star("*a")),
        ("/a/***", star("***")),
        ("/a/b**", star("b**")),
        ("/*.png", star("*.png")),
    ];
    for (pattern, expected) in table {
        let quoted = pattern.replace('\'', "''");
        let text = format!("routes:\n  - match: '{quoted}'\n");
        assert_faults(&text, &[&format!("2:12: routes[0].match: {expected}")]);
    }
}

#[test]
fn duplicates_name_the_first() {
    assert_faults(
        "
routes:
  - { match: /a/b }
  - { match: GET /a/b }
  - { match: /A//%62/ }
  - { match: get /a/x/../b }
  - { match: /a/* }
  - { match: /a/** }
  - { match: /a/*/. }
  - { match: /a/b }
",
        &[
            "5:14: routes[2].match: matches the same as the route in line 3: `/a/b`; make one route of the two",
            "6:14: routes[3].match: matches the same as the route in line 4: `GET /a/b`; make one route of the two",
            "9:14: routes[6].match: matches the same as the route in line 7: `/a/*`; make one route of the two",
            "10:14: routes[7].match: matches the same as the route in line 3: `/a/b`; make one route of the two",
        ],
    );
    // What differs in case is told apart if the file says so.
    policy("paths: { case: keep }\nroutes: [{ match: /a }, { match: /A }]");
}

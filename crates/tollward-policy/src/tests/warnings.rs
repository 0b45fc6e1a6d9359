//! What is legal but surely not meant.

use crate::compile;

fn warnings(text: &str) -> Vec<String> {
    let compiled = compile(text.as_bytes()).unwrap_or_else(|faults| panic!("{faults:?}"));
    compiled.warnings.iter().map(ToString::to_string).collect()
}

#[track_caller]
fn warned(text: &str, places: &[&str]) {
    let warnings = warnings(text);
    assert_eq!(warnings.len(), places.len(), "{warnings:#?} in {text}");
    for (warning, place) in warnings.iter().zip(places) {
        assert!(warning.starts_with(place), "{warning}, not {place}");
        // Each says what to do about it.
        assert!(warning.contains("; "), "{warning}");
    }
}

#[test]
fn a_limit_above_others_that_binds_nobody() {
    let limit = |sharing: &str| format!("rate_limit: {{ sustained: {{ rate: 1 }}{sharing} }}");
    let (unsaid, private) = (limit(""), limit(", sharing: private"));
    warned(
        &format!("tenants: {{ system: {{ {unsaid} }} }}"),
        &[
            "1:34: warning: tenants.system.rate_limit: the limit of `system`, the root, binds nobody",
        ],
    );
    warned(
        &format!("tenants: {{ system: {{ {private} }} }}"),
        &["1:34: warning: tenants.system.rate_limit: "],
    );
    warned(
        &format!("tenants: {{ p: {{ {unsaid} }}, c: {{ parent: p }} }}"),
        &[
            "1:29: warning: tenants.p.rate_limit: the limit of `p` does not bind the tenants below it, such as `c`",
        ],
    );
    // Without anybody below, or if it says so, it is meant.
    warned(&format!("tenants: {{ p: {{ {unsaid} }} }}"), &[]);
    for sharing in ["private", "inherit", "enforce"] {
        let limit = limit(&format!(", sharing: {sharing}"));
        warned(
            &format!("tenants: {{ p: {{ {limit} }}, c: {{ parent: p }} }}"),
            &[],
        );
    }
}

#[test]
fn a_budget_that_is_overcommitted_within_its_ratio() {
    let text = |ratio: &str| {
        format!(
            "
tenants:
  p: {{ rate_limit: {{ sustained: {{ rate: 100 }}, sharing: enforce, budget: {{ mode: allocated, overcommit_ratio: {ratio} }} }} }}
  a: {{ parent: p, rate_limit: {{ sustained: {{ rate: 60 }} }} }}
  b: {{ parent: p, rate_limit: {{ sustained: {{ rate: 60 }} }} }}
"
        )
    };
    let given = warnings(&text("1.5"));
    assert_eq!(given.len(), 1, "{given:?}");
    for words in [
        "3:74: warning: tenants.p.rate_limit.budget",
        "120",
        "1.5",
        "150",
        "90",
    ] {
        assert!(given[0].contains(words), "{given:?} without {words}");
    }
    let faults = compile(text("1.1").as_bytes()).unwrap_err();
    let fault = faults[0].to_string();
    assert!(fault.contains("of which 50 was free for `b`"), "{fault}");
}

#[test]
fn a_total_above_the_rate_is_a_fault() {
    let text = "tenants: { p: { rate_limit: { sustained: { rate: 100 }, budget: { mode: allocated, total: 101 } } } }";
    let faults = compile(text.as_bytes()).unwrap_err();
    assert_eq!(faults.len(), 1, "{faults:?}");
    assert_eq!(&*faults[0].place.path, "tenants.p.rate_limit.budget.total");
}

#[test]
fn an_allow_entry_for_nobody() {
    let hash = super::sha256("k");
    let entry = format!("{{ api_key: {{ sha256: {hash} }} }}");
    warned(
        &format!("allow: [ {entry} ]"),
        &["1:10: warning: allow[0]: no API key has this hash"],
    );
    warned(
        &format!("allow: [ {entry} ]\nkeys: [ {{ sha256: {hash}, user: u }} ]"),
        &[],
    );
    // It may be a key of the directory, which is looked at by the server.
    warned(
        &format!("allow: [ {entry} ]\ndirectory: {{ url: 'sqlite:x.db' }}"),
        &[],
    );
}

#[test]
fn a_route_of_a_gateway_without_an_upstream() {
    let upstreams = "upstreams: { app: { url: 'http://127.0.0.1:9' } }\n";
    let text = format!(
        "{upstreams}
routes:
  - {{ match: /a/**, upstream: app }}
  - {{ match: /a/b, cost: 2 }}
  - {{ match: POST /a/c }}
  - {{ match: /b }}
  - {{ match: /c/**, deny: true }}
  - {{ match: /*/x }}
"
    );
    warned(
        &text,
        &[
            "7:14: warning: routes[3].match: ",
            "9:14: warning: routes[5].match: ",
        ],
    );
    warned(&format!("{text}  - {{ match: /**, upstream: app }}\n"), &[]);
    // A file for the decision API has no upstreams at all.
    warned("routes: [ { match: /b } ]", &[]);
}

#[test]
fn shared_counters_beside_a_directory_of_one_node() {
    let redis = "store: { backend: redis, url: 'redis://127.0.0.1' }\n";
    warned(redis, &["1:8: warning: store: "]);
    for fine in [
        "directory: { url: 'postgres://h/db' }",
        "directory: { url: 'sqlite::memory:' }",
        // Nobody can make a key.
        "listen: { api: '127.0.0.1:1' }",
    ] {
        warned(&format!("{redis}{fine}"), &[]);
    }
    warned("store: { backend: memory }", &[]);
}

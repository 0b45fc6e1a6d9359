//! Any path and method: the policy refuses the path, or every server behind it reads a path of the
//! same route.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use tollward_policy::{Facts, Policy, compile};

#[path = "../../crates/tollward-policy/src/tests/servers.rs"]
mod servers;

const ROUTES: &str = "
routes:
  - { match: / }
  - { match: /a }
  - { match: POST /a/b }
  - { match: /a/b }
  - { match: GET /a/*/b }
  - { match: /b/** }
  - { match: /*/a/** }
  - { match: /admin/** }
";

static POLICY: LazyLock<Policy> = LazyLock::new(|| match compile(ROUTES.as_bytes()) {
    Ok(compiled) => compiled.policy,
    Err(faults) => panic!("{faults:?}"),
});

fn route(path: &str, method: Option<&str>) -> Option<Option<String>> {
    let facts = Facts {
        path: Some(path),
        method,
        ..Facts::default()
    };
    let request = POLICY.request(&facts).ok()?;
    Some(request.explain().route)
}

// The method, and behind the first space the path: short inputs of which every byte counts.
fuzz_target!(|input: &str| {
    let (method, path) = input.split_once(' ').unwrap_or(("", input));
    let method = Some(method).filter(|method| !method.is_empty());
    if path.is_empty() {
        return;
    }
    let Some(found) = route(path, method) else {
        return;
    };
    for (server, reading) in servers::readings(path) {
        let read = route(&reading, method).map(|route| route == found);
        assert_eq!(read, Some(true), "{path:?} is {reading:?} to: {server}");
    }
});

//! Who is not limited, and when nobody is.

use tollward_testkit::upstream::Upstream;

use crate::gated::{Gated, remaining, sha256};
use crate::served::assert_problem;

fn gated(upstream: &Upstream, rest: &str) -> Gated {
    Gated::of(&format!(
        "
identity: {{ anonymous: allow }}
tenants: {{ acme: {{}} }}
keys: [ {{ sha256: {}, tenant: acme }}, {{ sha256: {}, tenant: acme }} ]
routes: [ {{ match: /**, upstream: app }}, {{ match: /closed, deny: true }} ]
upstreams: {{ app: {{ url: {} }} }}
{rest}
",
        sha256("a"),
        sha256("b"),
        upstream.url()
    ))
}

const ONE: &str = "sustained: { rate: 1, window: hour }, burst: { capacity: 1 }";

#[test]
fn the_kill_switch_lets_everybody_through_but_not_everywhere() {
    let upstream = Upstream::start();
    for word in ["shadow", "\"off\""] {
        let rest = format!("enforcement: {word}\nlimits: {{ l: {{ {ONE}, scope: ip }} }}");
        let gated = gated(&upstream, &rest);
        for _ in 0..5 {
            let answer = gated.get("/", &[]);
            assert_eq!(answer.status, 200, "{word}");
            assert_eq!(answer.header("retry-after"), None, "{word}");
            assert_eq!(answer.header("x-ratelimit-limit"), None, "{word}");
        }
        // It is about limits, not about who may come in.
        assert_problem(&gated.with_key("wrong", "/"), 401, word);
        assert_problem(&gated.get("/a%2Fb", &[]), 400, word);
    }
    assert_eq!(upstream.count(), 10);
}

#[test]
fn whoever_is_on_the_allow_list_is_not_limited() {
    let upstream = Upstream::start();
    let rest = format!(
        "limits: {{ l: {{ {ONE}, scope: ip }} }}\n\
         allow: [ {{ api_key: {{ sha256: {} }}, reason: partner }} ]",
        sha256("a")
    );
    let gated = gated(&upstream, &rest);
    for _ in 0..3 {
        let answer = gated.with_key("a", "/");
        assert_eq!(
            (answer.status, answer.header("x-ratelimit-limit")),
            (200, None)
        );
    }
    assert_eq!(remaining(&gated.with_key("b", "/")), 0);
    assert_eq!(gated.with_key("b", "/").status, 429);
    assert_eq!(gated.with_key("a", "/").status, 200);
    assert_problem(&gated.with_key("a", "/closed"), 403, "closed to all");
}

#[test]
fn limits_may_be_for_strangers_or_for_those_who_are_known() {
    let upstream = Upstream::start();
    let rest = format!(
        "limits:\n  strangers: {{ {ONE}, scope: ip, when: anonymous }}\n  \
         known: {{ {}, scope: api_key, when: authenticated }}",
        ONE.replace("capacity: 1", "capacity: 2")
    );
    let gated = gated(&upstream, &rest);
    assert_eq!(remaining(&gated.get("/", &[])), 0);
    assert_eq!(gated.get("/", &[]).status, 429);
    for key in ["a", "b"] {
        assert_eq!(remaining(&gated.with_key(key, "/")), 1);
        assert_eq!(remaining(&gated.with_key(key, "/")), 0);
        assert_eq!(gated.with_key(key, "/").status, 429);
    }
    // A wrong key does not make anybody known, nor a stranger.
    assert_eq!(gated.with_key("wrong", "/").status, 401);
}

//! Faults of structure, each with its place and its hint.

use super::super::*;
use super::assert_faults;

#[test]
fn many_faults_are_reported_at_once() {
    let text = "\
listen: { api: 8081, resp: 127.0.0.1:1 }
plans:
  free:
    rate_limit:
      algorithm: token-bucket
      sustained: { rate: 0, window: 60 }
      burst: { capacity: \"100\" }
      scop: user
  pro: { rate_limit: { burst: { capacity: 5 } } }
routes:
  - { match: /a, cost: -1 }
  - { cost: 1e3 }
guard: {}
enforcement: true
";
    assert_faults(
        text,
        &[
            "1:16: listen.api: `8081` is not an IP address with a port; write it as `127.0.0.1:8081` or `\"[::1]:8081\"`",
            "1:22: listen.resp: `resp` is not supported by this version of Tollward; remove it",
            "5:18: plans.free.rate_limit.algorithm: unknown word `token-bucket`; did you mean `token_bucket`?",
            "6:26: plans.free.rate_limit.sustained.rate: a rate of 0 is not a limit; to refuse a route say `deny: true` on it; to leave one unlimited, `allow: true`",
            "6:37: plans.free.rate_limit.sustained.window: `60` has no unit; write `60s`",
            "7:26: plans.free.rate_limit.burst.capacity: the text `100` is not a number; drop the quotes",
            "8:7: plans.free.rate_limit.scop: unknown field `scop`; did you mean `scope`?",
            "9:22: plans.pro.rate_limit: the field `sustained` is missing; add `sustained`: a mapping with `rate`",
            "11:24: routes[0].cost: `-1` is not a whole number; write a whole number from 0 to 4294967295",
            "12:5: routes[1]: the field `match` is missing; add `match`: a text of 1 to 1024 bytes",
            "12:13: routes[1].cost: `1e3` is not a whole number; write a whole number from 0 to 4294967295",
            "13:1: guard: `guard` is not supported by this version of Tollward; remove it",
            "14:14: enforcement: unknown word `true`; write `on`",
        ],
    );
}

#[test]
fn a_fault_has_its_parts() {
    let faults = parse("a: 1\nplanz: {}\n").unwrap_err();
    assert_eq!(faults.len(), 2);
    assert_eq!(
        faults[1].place,
        Place {
            line: 2,
            column: 1,
            path: "planz".into()
        }
    );
    assert_eq!(faults[1].message, "unknown field `planz`");
    assert_eq!(faults[1].hint.as_deref(), Some("did you mean `plans`?"));
    let fault = Fault::new(
        &Place {
            line: 3,
            column: 4,
            path: "".into(),
        },
        "wrong",
    );
    assert_eq!(fault.to_string(), "3:4: wrong");
}

#[test]
fn nothing_is_no_value() {
    const SAYS: &str = "has no value; remove the line or give one";
    assert_faults(
        "plans:\nroutes: ~\nstore: null",
        &[
            &format!("1:1: plans: {SAYS}"),
            &format!("2:9: routes: {SAYS}"),
            &format!("3:8: store: {SAYS}"),
        ],
    );
    assert_faults("listen:\n  api:\n", &[&format!("2:3: listen.api: {SAYS}")]);
    assert_faults("routes:\n  -\n", &[&format!("2:4: routes[0]: {SAYS}")]);
    assert_faults(
        "tenants: { null: {}, \"\": {} }",
        &[
            "1:12: tenants.null: has no name; put it in quotes if this is one",
            "1:22: tenants[\"\"]: `` cannot be a name; write 1 to 128 bytes of printable characters",
        ],
    );
}

#[test]
fn kinds_are_told_apart() {
    assert_faults(
        "plans: [a]",
        &["1:8: plans: expected a mapping, found a list"],
    );
    assert_faults(
        "routes: {}",
        &["1:9: routes: expected a list, found a mapping"],
    );
    assert_faults(
        "keys: secret",
        &["1:7: keys: expected a list, found a single value"],
    );
    assert_faults(
        "enforcement: [on]",
        &["1:14: enforcement: expected `on`, `shadow` or `off`, found a list"],
    );
    assert_faults("[]", &["1:1: expected a mapping, found a list"]);
    assert_faults("null", &["1:1: expected a mapping, found a single value"]);
    assert_faults(
        "? [a]\n: 1\n",
        &["1:3: expected a name as key, found a list"],
    );
}

#[test]
fn repeated_keys_name_both_places() {
    let text = "plans:\n  a: &x { rate_limits: {} }\n  b: *x\n  'a': *x\nplans: {}\n";
    assert_faults(
        text,
        &[
            "4:3: plans.a: given twice, first at line 2, column 3; remove one of the two",
            "5:1: plans: given twice, first at line 1, column 1; remove one of the two",
        ],
    );
    assert_faults(
        "tenants: { &a x: {}, *a : {} }",
        &["1:12: tenants.x: given twice, first at line 1, column 12; remove one of the two"],
    );
}

#[test]
fn merge_keys_and_tags_are_refused() {
    assert_faults(
        "plans:\n  a: &x {}\n  b:\n    <<: *x\n",
        &[
            "4:5: plans.b: merge keys (`<<`) are not supported; write the fields out, or use an alias for the whole value",
        ],
    );
    assert_faults(
        "enforcement: !!str on",
        &["1:14: YAML tags (`!…`) are not supported; remove the tag"],
    );
}

#[test]
fn there_is_one_document() {
    assert_faults(
        "enforcement: on\n---\nx: 1\n",
        &["2:1: a second document starts here; keep one document in the file"],
    );
    assert_faults(
        "enforcement: of\n---\n",
        &[
            "1:14: enforcement: unknown word `of`; did you mean `off`?",
            "2:1: a second document starts here; keep one document in the file",
        ],
    );
}

#[test]
fn syntax_is_one_fault() {
    assert_faults(
        "a: b: c",
        &[
            "1:5: not YAML: mapping values are not allowed in this context; put a text with `: ` in it in quotes, or check the indentation",
        ],
    );
    assert_faults(
        "plans:\n\tfree: {}\n",
        &[
            "2:2: not YAML: tabs disallowed within this context (block indentation); indent with spaces",
        ],
    );
    assert_faults(
        "x: {",
        &["1:5: not YAML: while parsing a node, did not find expected node content"],
    );
    assert_faults(
        "bad: 1\nplans: *nowhere",
        &[
            "2:8: not YAML: while parsing node, found unknown anchor; name an anchor (`&name`) that stands before it",
        ],
    );
}

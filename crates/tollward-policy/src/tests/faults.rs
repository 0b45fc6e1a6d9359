//! What is wrong only when two places are seen together.

use super::{assert_faults, faults_of, policy, sha256};
use crate::config::MAX_FAULTS;

/// The capacity of the limit that every policy has behind those of its file.
const WRONG_KEYS: u32 = 20;

#[test]
fn limits() {
    assert_faults(
        "
limits:
  a: { algorithm: sliding_window, sustained: { rate: 1 }, burst: { capacity: 2 } }
  b: { sustained: { rate: 1 }, burst: {} }
  c: { sustained: { rate: 4294967295 }, burst: { allowance: 1.001 } }
  d: { sustained: { rate: 1 }, burst: { capacity: 4294968, allowance: 1000 } }
  e: { algorithm: sliding_window, sustained: { rate: 1 }, burst: {} }
",
        &[
            "3:66: limits.a.burst: a sliding window has no burst: its capacity is `sustained.rate`; remove `burst`, or use `algorithm: token_bucket`",
            "4:39: limits.b.burst: a `burst` that says nothing; give it a `capacity` or an `allowance`, or remove it",
            "5:61: limits.c.burst.allowance: 4294967295 times this allowance is more than 4294967295; lower one of the two",
            "6:71: limits.d.burst.allowance: 4294968 times this allowance is more than 4294967295; lower one of the two",
            "7:66: limits.e.burst: a sliding window has no burst: its capacity is `sustained.rate`; remove `burst`, or use `algorithm: token_bucket`",
        ],
    );
}

#[test]
fn capacities() {
    let policy = policy(
        "
limits:
  a: { sustained: { rate: 4294967295 }, burst: { allowance: 1 } }
  b: { sustained: { rate: 1 }, burst: { allowance: 1.999 } }
  c: { sustained: { rate: 10 }, burst: { allowance: 1.55 } }
  d: { sustained: { rate: 10 }, burst: { capacity: 3, allowance: 2 } }
  e: { sustained: { rate: 10 }, burst: { capacity: 3 } }
  f: { sustained: { rate: 10 } }
  g: { algorithm: sliding_window, sustained: { rate: 10, window: 5m } }
",
    );
    let capacities: Vec<_> = policy
        .limits()
        .iter()
        .map(|limit| limit.limit.capacity())
        .collect();
    assert_eq!(capacities, [u32::MAX, 1, 15, 6, 3, 10, 10, WRONG_KEYS]);
}

#[test]
fn plans() {
    assert_faults(
        "
identity: { anonymous: { plan: fre } }
plans:
  free: { rate_limit: { sustained: { rate: 1 } }, rate_limits: { a: { sustained: { rate: 1 } } } }
  none: {}
  empty: { rate_limits: {} }
tenants: { acme: { plan: nonee } }
keys: [{ sha256: 0000000000000000000000000000000000000000000000000000000000000000, tenant: acme, plan: platinum }]
",
        &[
            "2:32: identity.anonymous.plan: there is no plan `fre`; did you mean `free`?",
            "4:9: plans.free: both `rate_limit` and `rate_limits`; move the one limit into `rate_limits`, under a name",
            "5:9: plans.none: a plan without a limit; give it `rate_limit` or `rate_limits`",
            "6:10: plans.empty: a plan without a limit; give it `rate_limit` or `rate_limits`",
            "7:26: tenants.acme.plan: there is no plan `nonee`; did you mean `none`?",
            "8:104: keys[0].plan: there is no plan `platinum`; add it under `plans`",
        ],
    );
}

#[test]
fn routes() {
    assert_faults(
        "
routes:
  - { match: /a, deny: true, allow: true }
  - { match: /b, deny: true, cost: 2 }
  - { match: /c, allow: true, rate_limit: { sustained: { rate: 1 } } }
  - { match: /d, allow: true, rate_limits: { x: { sustained: { rate: 1 } } } }
  - { match: /e, rate_limit: { sustained: { rate: 1 } }, rate_limits: { x: { sustained: { rate: 1 } } } }
  - { match: /f, rate_limit: { sustained: { rate: 1 }, burst: {} } }
  - { match: e }
  - { match: /f/ }
",
        &[
            "3:5: routes[0]: both `deny` and `allow`; keep the one you mean",
            "4:5: routes[1]: a route that is denied or allowed to all is not limited; remove `cost` and its limits, or `deny`/`allow`",
            "5:5: routes[2]: a route that is denied or allowed to all is not limited; remove `cost` and its limits, or `deny`/`allow`",
            "6:5: routes[3]: a route that is denied or allowed to all is not limited; remove `cost` and its limits, or `deny`/`allow`",
            "7:5: routes[4]: both `rate_limit` and `rate_limits`; move the one limit into `rate_limits`, under a name",
            "8:63: routes[5].rate_limit.burst: a `burst` that says nothing; give it a `capacity` or an `allowance`, or remove it",
            "9:14: routes[6].match: a path begins with `/`; write for example `/v1/jobs/**`",
            "10:14: routes[7].match: matches the same as the route in line 8: `/f`; make one route of the two",
        ],
    );
}

#[test]
fn a_bad_match_hides_no_other_fault_of_its_route() {
    assert_faults(
        "
upstreams: { app: { url: http://127.0.0.1:1 } }
routes:
  - { match: v1/a, upstream: ap }
  - { match: /b*, deny: true, allow: true }
  - { match: /c, upstream: app, rate_limit: { sustained: { rate: 2 } } }
  - { match: /c, upstream: app, rate_limit: { sustained: { rate: 2 } } }
  - { match: /c, rate_limit: { sustained: { rate: 2 }, burst: {} } }
  - { match: d, upstream: app, rate_limit: { sustained: { rate: 2 } } }
",
        &[
            "4:14: routes[0].match: a path begins with `/`; write for example `/v1/jobs/**`",
            "4:30: routes[0].upstream: there is no upstream `ap`; did you mean `app`?",
            "5:5: routes[1]: both `deny` and `allow`; keep the one you mean",
            "5:14: routes[1].match: `b*` mixes `*` with text; `*` stands for a whole segment, `**` for the rest of the path",
            "7:14: routes[3].match: matches the same as the route in line 6: `/c`; make one route of the two",
            "8:14: routes[4].match: matches the same as the route in line 6: `/c`; make one route of the two",
            "8:63: routes[4].rate_limit.burst: a `burst` that says nothing; give it a `capacity` or an `allowance`, or remove it",
            "9:14: routes[5].match: a path begins with `/`; write for example `/v1/jobs/**`",
        ],
    );
}

#[test]
fn the_same_route_many_times() {
    let line = "  - { match: /a }\n";
    let text = format!("routes:\n{}", line.repeat(5));
    let faults = faults_of(&text);
    assert_eq!(faults.len(), 4);
    for fault in faults {
        assert!(fault.contains("the route in line 2: `/a`"), "{fault}");
    }
}

#[test]
fn tenants() {
    assert_faults(
        "
tenants:
  system: { parent: acme }
  acme: { parent: system }
  a: { parent: b }
  b: { parent: c }
  c: { parent: a }
  below: { parent: a }
  self: { parent: self }
  lost: { parent: acmee }
  far: { parent: elsewhere }
  under: { parent: lost }
",
        &[
            "3:21: tenants.system.parent: `system` is the root and has no parent; remove it",
            "5:16: tenants.a.parent: `a` would be its own ancestor; break the circle",
            "6:16: tenants.b.parent: `b` would be its own ancestor; break the circle",
            "7:16: tenants.c.parent: `c` would be its own ancestor; break the circle",
            "9:19: tenants.self.parent: `self` would be its own ancestor; break the circle",
            "10:19: tenants.lost.parent: there is no tenant `acmee`; did you mean `acme`?",
            "11:18: tenants.far.parent: there is no tenant `elsewhere`; add it under `tenants`",
        ],
    );
}

/// Of equally near names the first is offered, every time.
#[test]
fn hints_do_not_change_from_run_to_run() {
    let text = "tenants: { ab1: {}, ab2: {}, ab3: {}, ab4: {}, x: { parent: ab5 } }";
    for _ in 0..20 {
        assert_faults(
            text,
            &["1:61: tenants.x.parent: there is no tenant `ab5`; did you mean `ab1`?"],
        );
    }
}

#[test]
fn keys() {
    let (one, two) = (sha256("one"), sha256("two"));
    let upper = one.to_uppercase();
    let text = format!(
        "
keys:
  - {{ sha256: {one}, tenant: a }}
  - {{ sha256: {two} }}
  - {{ sha256: {upper}, user: b }}
"
    );
    assert_faults(
        &text,
        &[
            "3:89: keys[0].tenant: there is no tenant `a`; add it under `tenants`",
            "4:5: keys[1]: a key that belongs to nobody; give it a `tenant`, a `user` or a `client`",
            "5:15: keys[2].sha256: this key is listed twice; remove one",
        ],
    );
}

#[test]
fn five_faults_of_five_kinds_at_once() {
    assert_faults(
        "
identity: { anonymous: { plan: fre } }
plans: { free: { rate_limit: { sustained: { rate: 1 } } } }
limits: { x: { sustained: { rate: 1 }, burst: {} } }
routes: [{ match: /a* }, { match: /b, deny: true, cost: 1 }]
tenants: { a: { parent: a } }
",
        &[
            "2:32: identity.anonymous.plan: there is no plan `fre`; did you mean `free`?",
            "4:47: limits.x.burst: a `burst` that says nothing; give it a `capacity` or an `allowance`, or remove it",
            "5:19: routes[0].match: `a*` mixes `*` with text; `*` stands for a whole segment, `**` for the rest of the path",
            "5:26: routes[1]: a route that is denied or allowed to all is not limited; remove `cost` and its limits, or `deny`/`allow`",
            "6:25: tenants.a.parent: `a` would be its own ancestor; break the circle",
        ],
    );
}

#[test]
fn more_faults_than_anybody_reads_are_counted() {
    let mut text = String::from("tenants:\n");
    for n in 0..MAX_FAULTS + 2 {
        text.push_str(&format!("  t{n}: {{ plan: p{n} }}\n"));
    }
    let faults = faults_of(&text);
    assert_eq!(faults.len(), MAX_FAULTS + 1);
    assert_eq!(faults[MAX_FAULTS], "102:17: 2 more faults not shown");
    assert_eq!(
        faults[0],
        "2:15: tenants.t0.plan: there is no plan `p0`; add it under `plans`"
    );
}

/// Many names that are not there, and many that are: no hint may cost their product.
#[test]
fn many_unknown_names_are_reported_soon() {
    let mut text = String::from("tenants:\n");
    for n in 0..5000 {
        text.push_str(&format!(
            "  tenant-number-{n}: {{ parent: tenant-numero-{n} }}\n"
        ));
    }
    assert_eq!(faults_of(&text).len(), MAX_FAULTS + 1);
}

/// Faults of one place and faults of two are reported together, and none because of another.
#[test]
fn faults_of_all_kinds_at_once() {
    assert_faults(
        "
limts: {}
plans:
  free: { rate_limit: { sustained: { rate: 0 } } }
  none: {}
limits: { x: { sustained: { rate: 1 }, burst: { capacity: x } }, y: { sustained: { rate: 1 }, burst: {} } }
routes: [{ match: /a* }, { match: /b, cost: -1 }, { match: /b }]
tenants: { a: { parent: a, plan: free }, b: { plam: free } }
keys: [{ sha256: 0000000000000000000000000000000000000000000000000000000000000000, tenant: '' }]
",
        &[
            "2:1: limts: unknown field `limts`; did you mean `limits`?",
            "4:44: plans.free.rate_limit.sustained.rate: a rate of 0 is not a limit; to refuse a route say `deny: true` on it; to leave one unlimited, `allow: true`",
            "5:9: plans.none: a plan without a limit; give it `rate_limit` or `rate_limits`",
            "6:59: limits.x.burst.capacity: `x` is not a whole number; write a whole number from 1 to 4294967295",
            "6:102: limits.y.burst: a `burst` that says nothing; give it a `capacity` or an `allowance`, or remove it",
            "7:19: routes[0].match: `a*` mixes `*` with text; `*` stands for a whole segment, `**` for the rest of the path",
            "7:45: routes[1].cost: `-1` is not a whole number; write a whole number from 0 to 4294967295",
            "7:60: routes[2].match: matches the same as the route in line 7: `/b`; make one route of the two",
            "8:25: tenants.a.parent: `a` would be its own ancestor; break the circle",
            "8:47: tenants.b.plam: unknown field `plam`; did you mean `plan`?",
            "9:92: keys[0].tenant: the text is empty; write a text of 1 to 256 bytes",
        ],
    );
}

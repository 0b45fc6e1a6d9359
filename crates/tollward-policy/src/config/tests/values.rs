//! Faults of single values, each with its place and its hint.

use super::{assert_faults, shown};

/// That `value` under `key` has this fault, whose place is `under.key`.
#[track_caller]
fn assert_value(under: &str, key: &str, value: &str, expected: &str) {
    let text = format!("{under}: {{ {key}: {value} }}");
    let column = under.len() + key.len() + 7;
    assert_faults(&text, &[&format!("1:{column}: {under}.{key}: {expected}")]);
}

/// The faults of one limit, without the path down to it.
#[track_caller]
fn assert_limit(limit: &str, expected: &[&str]) {
    let found = shown(&format!("limits:\n  x: {{ {limit} }}"));
    let found: Vec<_> = found
        .iter()
        .map(|fault| fault.replace("limits.x.", ""))
        .collect();
    assert_eq!(found, expected, "in {limit}");
}

#[test]
fn numbers_are_plain_decimal_digits() {
    let hint = "write a whole number from 1 to 1000000";
    for text in ["1e3", "0x10", "1_000", "+1", "-1", "1.0", "ten", "\"ten\""] {
        let shown = text.trim_matches('"');
        let expected = format!("`{shown}` is not a whole number; {hint}");
        assert_value("listen", "max_connections", text, &expected);
    }
    for text in ["0", "1000001", "4294967296", "99999999999999999999999999"] {
        let expected = format!("`{text}` is out of range; {hint}");
        assert_value("listen", "max_connections", text, &expected);
    }
    assert_value(
        "listen",
        "max_connections",
        "010",
        &format!("`010` starts with a zero; {hint}"),
    );
    assert_value(
        "listen",
        "max_connections",
        "'10'",
        "the text `10` is not a number; drop the quotes",
    );
    assert_value(
        "store",
        "max_buckets",
        "1023",
        "`1023` is out of range; write a whole number from 1024 to 4294967295",
    );
    assert_faults(
        "identity: { ip: { ipv6_prefix: 129 } }",
        &[
            "1:32: identity.ip.ipv6_prefix: `129` is out of range; write a whole number from 1 to 128",
        ],
    );
}

#[test]
fn flags_are_true_or_false() {
    assert_limit(
        "sustained: { rate: 1 }, shadow: yes",
        &["2:40: shadow: `yes` is neither true nor false; write `true` or `false`"],
    );
    assert_limit(
        "sustained: { rate: 1 }, shadow: \"true\"",
        &["2:40: shadow: the text `true` is neither true nor false; drop the quotes"],
    );
}

#[test]
fn windows_have_units_and_bounds() {
    let expected = "write `second`, `minute`, `hour`, `day` or a duration such as `30s`";
    let cases = [
        ("60", "`60` has no unit; write `60s`"),
        ("\"60\"", "`60` has no unit; write `60s`"),
        ("1500ms", "windows are whole seconds; write `2s`"),
        ("1.5s", &format!("windows are whole seconds; {expected}")),
        ("0s", "`0s` is out of range; write `1s` to `366d`"),
        ("367d", "`367d` is out of range; write `1s` to `366d`"),
        (
            "99999999999999999999d",
            "`99999999999999999999d` is out of range; write `1s` to `366d`",
        ),
        (
            "18446744073709551615d",
            "`18446744073709551615d` is out of range; write `1s` to `366d`",
        ),
        (
            "minutes",
            "`minutes` is not a window; did you mean `minute`?",
        ),
        ("never", &format!("`never` is not a window; {expected}")),
        (
            "1h30m",
            "`1h30m` has an unknown unit; write a number with one of `s`, `m`, `h` or `d`, such as `90m`",
        ),
    ];
    for (window, expected) in cases {
        assert_limit(
            &format!("sustained: {{ rate: 1, window: {window} }}"),
            &[&format!("2:38: sustained.window: {expected}")],
        );
    }
}

#[test]
fn deadlines_have_units_and_bounds() {
    let range = "write `1ms` to `10s`";
    let cases = [
        ("5", "`5` has no unit; write `5ms`".to_owned()),
        ("123456789", format!("`123456789` has no unit; {range}")),
        ("0ms", format!("`0ms` is out of range; {range}")),
        ("10001ms", format!("`10001ms` is out of range; {range}")),
        ("1m", format!("`1m` is out of range; {range}")),
        (
            "18446744073709551615s",
            format!("`18446744073709551615s` is out of range; {range}"),
        ),
        (
            "1.5ms",
            format!("durations are whole milliseconds; {range}"),
        ),
        ("5us", format!("`5us` has an unknown unit; {range}")),
        ("second", format!("`second` is not a duration; {range}")),
        ("-1ms", format!("`-1ms` is not a duration; {range}")),
    ];
    for (deadline, expected) in cases {
        assert_value("store", "deadline", deadline, &expected);
    }
    for sound in ["1ms", "5ms", "10000ms", "10s", "\"250ms\""] {
        assert_faults(&format!("store: {{ deadline: {sound} }}"), &[]);
    }
}

#[test]
fn prefixes_are_short_and_have_no_braces() {
    let hint = "write 1 to 24 characters of ASCII without spaces and braces";
    for prefix in [
        "",
        "a b",
        "{a}",
        "a{",
        "}",
        "é",
        "1234567890123456789012345",
    ] {
        let expected = format!("`{prefix}` cannot be a prefix; {hint}");
        assert_value("store", "prefix", &format!("\"{prefix}\""), &expected);
    }
    for sound in ["a", "tollward:", "123456789012345678901234", "!-z|~"] {
        assert_faults(&format!("store: {{ prefix: \"{sound}\" }}"), &[]);
    }
}

#[test]
fn words_of_the_store() {
    assert_faults(
        "store: { backend: rediss, on_failure: deny, clock: sever }",
        &[
            "1:19: store.backend: unknown word `rediss`; did you mean `redis`?",
            "1:39: store.on_failure: unknown word `deny`; write `local`, `open` or `closed`",
            "1:52: store.clock: unknown word `sever`; did you mean `server`?",
        ],
    );
    assert_limit(
        "sustained: { rate: 1 }, on_failure: close, consistency: synced",
        &[
            "2:44: on_failure: unknown word `close`; did you mean `closed`?",
            "2:64: consistency: `synced` is not supported by this version of Tollward; write `exact`",
        ],
    );
}

#[test]
fn allowances_have_three_decimals() {
    let hint = "write a number from 1 to 1000 with at most three decimals";
    for text in ["1.0005", "1.", ".5", "1e1", "-1", "01.5", "1.-5", "1,5x"] {
        let text = text.replace(',', ".");
        assert_limit(
            &format!("sustained: {{ rate: 1 }}, burst: {{ allowance: {text} }}"),
            &[&format!(
                "2:52: burst.allowance: `{text}` is not a decimal number; {hint}"
            )],
        );
    }
    for text in ["0.999", "1000.001", "99999999999999"] {
        assert_limit(
            &format!("sustained: {{ rate: 1 }}, burst: {{ allowance: {text} }}"),
            &[&format!(
                "2:52: burst.allowance: `{text}` is out of range; {hint}"
            )],
        );
    }
    assert_limit(
        "sustained: { rate: 1 }, burst: { allowance: '1.5' }",
        &["2:52: burst.allowance: the text `1.5` is not a number; drop the quotes"],
    );
}

#[test]
fn words_and_fields_of_other_versions_are_refused() {
    let not = "is not supported by this version of Tollward";
    assert_limit(
        "sustained: { rate: 1 }, consistency: leased, adaptive: trust, sync_interval: 1s",
        &[
            &format!("2:45: consistency: `leased` {not}; write `exact`"),
            &format!("2:63: adaptive: `trust` {not}; write `none`"),
            &format!("2:70: sync_interval: `sync_interval` {not}; remove it"),
        ],
    );
    let unsupported = [
        ("", vec!["guard", "adaptive"]),
        ("listen", vec!["grpc", "resp"]),
    ];
    for (under, fields) in unsupported {
        for field in fields {
            let text = if under.is_empty() {
                format!("{field}: x")
            } else {
                format!("{under}: {{ {field}: x }}")
            };
            let found = shown(&text);
            assert!(
                found.len() == 1 && found[0].ends_with(&format!("`{field}` {not}; remove it")),
                "{found:?}"
            );
        }
    }
}

#[test]
fn scopes_are_sets_of_words() {
    let rest = "sustained: { rate: 1 }, scope:";
    assert_limit(
        &format!("{rest} []"),
        &[
            "2:39: scope: the list is empty; write `global`, `tenant`, `user`, `ip`, `route`, `client`, `api_key` or `upstream`",
        ],
    );
    assert_limit(
        &format!("{rest} [user, ip, user]"),
        &["2:50: scope[2]: `user` is given twice; remove one of the two"],
    );
    assert_limit(
        &format!("{rest} [user, global]"),
        &["2:46: scope[1]: `global` cannot stand beside other words; remove it, or the others"],
    );
    assert_limit(
        &format!("{rest} [usr, upstreem]"),
        &[
            "2:40: scope[0]: unknown word `usr`; did you mean `user`?",
            "2:45: scope[1]: unknown word `upstreem`; did you mean `upstream`?",
        ],
    );
}

#[test]
fn addresses_have_an_address_and_a_port() {
    for text in [
        "8081",
        "localhost:8081",
        "127.0.0.1",
        "\":8081\"",
        "\"::1:80810\"",
    ] {
        let found = shown(&format!("listen: {{ admin: {text} }}"));
        assert_eq!(found.len(), 1, "{text}");
        assert!(
            found[0].ends_with("; write it as `127.0.0.1:8081` or `\"[::1]:8081\"`"),
            "{found:?}"
        );
    }
}

#[test]
fn networks_have_no_host_bits() {
    let cases = [
        (
            "192.0.2.7/24",
            "`192.0.2.7/24` has bits set behind its prefix; write `192.0.2.0/24`",
        ),
        (
            "2001:db8::1/32",
            "`2001:db8::1/32` has bits set behind its prefix; write `2001:db8::/32`",
        ),
        (
            "192.0.2.0/33",
            "`192.0.2.0/33` is not a network; write it as `192.0.2.0/24` or `192.0.2.7`",
        ),
        (
            "example.com",
            "`example.com` is not a network; write it as `192.0.2.0/24` or `192.0.2.7`",
        ),
        (
            "::ffff:192.0.2.1",
            "`::ffff:192.0.2.1` is IPv4 written as IPv6; write `192.0.2.1/32`",
        ),
        (
            "::ffff:10.0.0.0/104",
            "`::ffff:10.0.0.0/104` is IPv4 written as IPv6; write `10.0.0.0/8`",
        ),
    ];
    for (text, expected) in cases {
        assert_faults(
            &format!("allow:\n- cidr: {text}\n"),
            &[&format!("2:9: allow[0].cidr: {expected}")],
        );
    }
}

#[test]
fn an_allow_entry_names_one_caller() {
    assert_faults(
        "allow: [{ reason: x }, { user: a, cidr: 10.0.0.1/8, tenant: b }]\ndeny: [{ reason: x }]",
        &[
            "1:9: allow[0]: names no caller; give `cidr`, `api_key`, `user`, `client` or `tenant`",
            "1:24: allow[1]: has cidr and user and tenant at once; make them entries of their own",
            "1:41: allow[1].cidr: `10.0.0.1/8` has bits set behind its prefix; write `10.0.0.0/8`",
            "2:8: deny[0]: names no caller; give `cidr`, `api_key`, `user`, `client` or `tenant`",
        ],
    );
}

#[test]
fn secrets_are_refused_and_never_shown() {
    let text = "\
keys:
  - { key: hunter2, tenant: a }
  - { secret: hunter2 }
  - { sha256: hunter2 }
  - { sha256: 12345678hunter2hunter2hunter2hunter2hunter2hunter2hunter2hunter2 }
  - hunter2
allow:
  - api_key: hunter2
  - api_key: { key: hunter2 }
  - secret: hunter2
";
    let found = shown(text);
    assert!(
        !found.iter().any(|fault| fault.contains("hunter2")),
        "{found:#?}"
    );
    let hash = "give the SHA-256 of the key as `sha256`: `printf %s KEY | sha256sum`";
    assert!(
        found.contains(&format!("2:7: keys[0].key: unknown field `key`; {hash}")),
        "{found:#?}"
    );
    assert!(found.contains(&format!(
        "3:7: keys[1].secret: unknown field `secret`; {hash}"
    )));
    assert!(found.contains(&format!(
        "4:15: keys[2].sha256: not a SHA-256: expected 64 hexadecimal digits; {hash}"
    )));
    assert!(found.contains(
        &"6:5: keys[4]: expected a mapping with `sha256`, found a single value".to_owned()
    ));
    let allow = found
        .iter()
        .filter(|fault| fault.contains("`api_key: { sha256: … }`"));
    assert_eq!(allow.count(), 2, "{found:#?}");
}

#[test]
fn names_keep_to_their_letters() {
    let long = "a".repeat(65);
    let text = format!("plans: {{ -a: {{}}, a b: {{}}, {long}: {{}}, a.b_c-D9: {{}} }}");
    let rule = "write 1 to 64 letters, digits, `.`, `_` or `-`, the first a letter or digit";
    assert_faults(
        &text,
        &[
            &format!("1:10: plans.-a: `-a` cannot be a name; {rule}"),
            &format!("1:18: plans[\"a b\"]: `a b` cannot be a name; {rule}"),
            &format!(
                "1:27: plans[\"{0}…\"]: `{0}…` cannot be a name; {rule}",
                &long[1..]
            ),
        ],
    );
    let tenant = "é".repeat(65);
    let found = shown(&format!(
        "tenants: {{ \"{tenant}\": {{}}, \"a\\e[31m\": {{}} }}"
    ));
    assert_eq!(found.len(), 2);
    assert!(
        found[1].contains("`a\\u{1b}[31m` cannot be a name"),
        "{found:?}"
    );
}

#[test]
fn ids_are_short_and_printable() {
    let hint = "write a text of 1 to 256 bytes";
    let cases = [
        ("\"\"".to_owned(), "the text is empty"),
        ("é".repeat(129), "the text has 258 bytes, more than 256"),
        (
            "\"a\\n\"".to_owned(),
            "the text holds the unprintable character U+000A",
        ),
        (
            "\"a\\u202e\"".to_owned(),
            "the text holds the unprintable character U+202E",
        ),
    ];
    for (id, expected) in cases {
        assert_faults(
            &format!("allow:\n- user: {id}\n"),
            &[&format!("2:9: allow[0].user: {expected}; {hint}")],
        );
    }
    assert_faults(
        "allow:\n- user: |\n    a\n",
        &[&format!(
            "3:5: allow[0].user: the text holds the unprintable character U+000A; {hint}"
        )],
    );
}

#[test]
fn headers_are_given_once() {
    assert_faults(
        "response: { headers: [ietf, none, ietf] }",
        &[
            "1:29: response.headers[1]: unknown word `none`; write `x-ratelimit`, `ietf` or `ietf-06`",
        ],
    );
    assert_faults(
        "response: { headers: [ietf, ietf], body: rfc }",
        &[
            "1:29: response.headers[1]: `ietf` is given twice; remove one of the two",
            "1:42: response.body: unknown word `rfc`; write `problem`, `nested`, `flat` or `oauth`",
        ],
    );
}

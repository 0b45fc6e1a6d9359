//! Faults of what the gateway needs: its settings, upstreams, and who calls.

use super::super::{AccessLog, Anonymous, Jwks};
use super::{assert_faults, parsed, shown};

#[test]
fn timeouts_have_units_and_bounds() {
    let range = "write `1ms` to `1d`";
    let table = [
        ("10", "`10` has no unit; write `10s`".to_owned()),
        ("0s", format!("`0s` is out of range; {range}")),
        (
            "86400001ms",
            format!("`86400001ms` is out of range; {range}"),
        ),
        ("2d", format!("`2d` is out of range; {range}")),
        ("1.5s", format!("durations are whole milliseconds; {range}")),
        ("soon", format!("`soon` is not a duration; {range}")),
        ("5w", format!("`5w` has an unknown unit; {range}")),
    ];
    for (time, expected) in &table {
        for field in ["header_timeout", "idle_timeout"] {
            let column = 14 + field.len();
            assert_faults(
                &format!("gateway: {{ {field}: {time} }}"),
                &[&format!("1:{column}: gateway.{field}: {expected}")],
            );
        }
        for field in ["connect_timeout", "response_timeout", "idle_timeout"] {
            assert_faults(
                &format!("upstreams:\n  a:\n    url: http://a\n    {field}: {time}\n"),
                &[&format!(
                    "4:{}: upstreams.a.{field}: {expected}",
                    field.len() + 7
                )],
            );
        }
    }
    for sound in ["1ms", "1d", "24h", "86400s"] {
        parsed(&format!("gateway: {{ idle_timeout: {sound} }}"));
    }
}

#[test]
fn jitters_and_waits_have_bounds() {
    assert_faults(
        "response: { jitter: 3600001ms }",
        &["1:21: response.jitter: `3600001ms` is out of range; write `0ms` to `1h`"],
    );
    for (sound, millis) in [("0s", 0), ("0ms", 0), ("1h", 3_600_000), ("250ms", 250)] {
        let file = parsed(&format!("response: {{ jitter: {sound} }}"));
        assert_eq!(
            file.response.unwrap().jitter.unwrap().value.as_millis(),
            millis
        );
    }
    assert_faults(
        "limits: { x: { sustained: { rate: 1 }, strategy: queue, queue: { max_wait: 61m, max_queue: 0 } } }",
        &[
            "1:76: limits.x.queue.max_wait: `61m` is out of range; write `1ms` to `1h`",
            "1:92: limits.x.queue.max_queue: `0` is out of range; write a whole number from 1 to 4294967295",
        ],
    );
    assert_faults(
        "limits: { x: { sustained: { rate: 1 }, strategy: degrade, degrade: {} } }",
        &[
            "1:68: limits.x.degrade: the field `upstream` is missing; add `upstream`: a text of 1 to 256 bytes",
        ],
    );
}

#[test]
fn numbers_of_the_gateway() {
    let table = [
        ("workers", "1025", "0 to 1024"),
        ("max_connections", "0", "1 to 1000000"),
        ("max_header_bytes", "8191", "8192 to 524288"),
        ("max_header_bytes", "524289", "8192 to 524288"),
        ("max_body", "0", "1 to 9007199254740991"),
        ("max_body", "9007199254740992", "1 to 9007199254740991"),
        (
            "max_body",
            "99999999999999999999999",
            "1 to 9007199254740991",
        ),
    ];
    for (field, number, range) in table {
        assert_faults(
            &format!("gateway: {{ {field}: {number} }}"),
            &[&format!(
                "1:{}: gateway.{field}: `{number}` is out of range; write a whole number from {range}",
                field.len() + 14
            )],
        );
    }
    let file = parsed("gateway: { max_body: 9007199254740991 }");
    let most = file.gateway.unwrap().max_body.unwrap().value;
    assert_eq!(most, 9_007_199_254_740_991);
    assert_faults(
        "gateway: { max_body: 10MB, tls: { cert: a } }",
        &[
            "1:22: gateway.max_body: `10MB` is not a whole number; write a whole number from 1 to 9007199254740991",
            "1:33: gateway.tls: the field `key` is missing; add `key`: a text of 1 to 4096 bytes",
        ],
    );
}

#[test]
fn an_access_log_is_a_word_or_a_file() {
    let table = [
        ("off", AccessLog::Off),
        ("\"off\"", AccessLog::Off),
        ("stdout", AccessLog::Stdout),
        ("access.log", AccessLog::File("access.log".into())),
        ("./on", AccessLog::File("./on".into())),
        ("/var/log/a b", AccessLog::File("/var/log/a b".into())),
    ];
    for (text, expected) in table {
        let file = parsed(&format!("gateway: {{ access_log: {text} }}"));
        assert_eq!(file.gateway.unwrap().access_log.unwrap().value, expected);
    }
    for word in ["on", "true", "false", "stderr", "none"] {
        assert_faults(
            &format!("gateway: {{ access_log: {word} }}"),
            &[&format!(
                "1:24: gateway.access_log: `{word}` is not a place for a log; write `off`, `stdout` or the path of a file; `./{word}` is a file"
            )],
        );
    }
}

#[test]
fn an_upstream_has_one_url_or_several() {
    assert_faults(
        "upstreams: { a: {}, b: { url: http://b, urls: [http://c] }, c: { uri: http://c } }",
        &[
            "1:17: upstreams.a: has no server; add `url: http://HOST:PORT`, or `urls` with a list of them",
            "1:24: upstreams.b: has both `url` and `urls`; move the one into `urls`",
            "1:64: upstreams.c: has no server; add `url: http://HOST:PORT`, or `urls` with a list of them",
            "1:66: upstreams.c.uri: unknown field `uri`; did you mean `url`?",
        ],
    );
    assert_faults(
        "upstreams: { a: { url: http://a, protocol: h2, host: kept, max_connections: 0 }, b c: { url: http://b } }",
        &[
            "1:44: upstreams.a.protocol: unknown word `h2`; write `http1` or `http2`",
            "1:54: upstreams.a.host: unknown word `kept`; write `keep` or `target`",
            "1:77: upstreams.a.max_connections: `0` is out of range; write a whole number from 1 to 1000000",
            "1:82: upstreams[\"b c\"]: `b c` cannot be a name; write 1 to 64 letters, digits, `.`, `_` or `-`, the first a letter or digit",
        ],
    );
}

#[test]
fn headers_are_names_that_say_nothing_else() {
    let own = "choose a header of its own";
    let write = "write a header such as `X-Api-Key`";
    let long = "x".repeat(129);
    for name in ["''", "'X Key'", "'X:Key'", "é", "\"a\\n\"", &long] {
        let found = shown(&format!("identity: {{ api_key: {{ header: {name} }} }}"));
        assert_eq!(found.len(), 1, "{name}");
        assert!(
            found[0].starts_with("1:32: identity.api_key.header: ")
                && found[0].ends_with(&format!("cannot be the name of a header; {write}")),
            "{found:?}"
        );
    }
    for name in [
        "Host",
        "connection",
        "Transfer-Encoding",
        "Content-Length",
        "TE",
        "Upgrade",
        "Proxy-Authorization",
        "X-Forwarded-For",
        "x-forwarded-user",
        "Forwarded",
        "Cookie",
        "X-RateLimit-Limit",
        "RateLimit-Policy",
        "X-Tollward-User",
    ] {
        for place in ["api_key", "user", "client"] {
            assert_faults(
                &format!("identity: {{ {place}: {{ header: {name} }} }}"),
                &[&format!(
                    "1:{}: identity.{place}.header: `{name}` says something else already; {own}",
                    place.len() + 25
                )],
            );
        }
    }
    for name in ["X-Api-Key", "apikey", "Authorization", "x_key", "X-Forward"] {
        let file = parsed(&format!("identity: {{ api_key: {{ header: {name} }} }}"));
        let header = file.identity.unwrap().api_key.unwrap().header.unwrap();
        assert_eq!(header.value.as_str(), name.to_ascii_lowercase());
    }
}

#[test]
fn an_identity_says_something() {
    assert_faults(
        "identity: { user: {}, client: {}, ip: { header: x-real-ip, trusted_proxies: [10.0.0.1/8] } }",
        &[
            "1:19: identity.user: says nothing; give it `header` or `jwt`, or remove it",
            "1:31: identity.client: says nothing; give it `header` or `basic`, or remove it",
            "1:49: identity.ip.header: unknown word `x-real-ip`; write `x-forwarded-for` or `forwarded`",
            "1:78: identity.ip.trusted_proxies[0]: `10.0.0.1/8` has bits set behind its prefix; write `10.0.0.0/8`",
        ],
    );
    assert_faults(
        "identity: { user: { jwt: { claim: sub, algorithm: HS256, audience: '' } } }",
        &[
            "1:26: identity.user.jwt: the field `jwks` is missing; add `jwks`: a file, or a URL such as `https://login.example.com/jwks.json`",
            "1:51: identity.user.jwt.algorithm: unknown word `HS256`; did you mean `RS256`?",
            "1:68: identity.user.jwt.audience: the text is empty; write a text of 1 to 1024 bytes",
        ],
    );
}

#[test]
fn keys_of_tokens_are_in_a_file_or_at_a_url() {
    let table = [
        ("keys.json", Jwks::File("keys.json".into())),
        ("/etc/keys.json", Jwks::File("/etc/keys.json".into())),
        ("http://a/k?x=1", Jwks::Url("http://a/k?x=1".into())),
    ];
    for (text, expected) in table {
        let file = parsed(&format!(
            "identity: {{ user: {{ jwt: {{ jwks: {text} }} }} }}"
        ));
        let jwt = file.identity.unwrap().user.unwrap().jwt.unwrap();
        assert_eq!(jwt.jwks.value, expected);
    }
    assert_faults(
        "identity: { user: { jwt: { jwks: file:///keys.json } } }",
        &[
            "1:34: identity.user.jwt.jwks: neither `http://` nor `https://`; write for example `http://127.0.0.1:9000`",
        ],
    );
}

#[test]
fn anonymous_is_a_word_or_a_plan() {
    for (text, expected) in [("reject", Anonymous::Reject), ("allow", Anonymous::Allow)] {
        let file = parsed(&format!("identity: {{ anonymous: {text} }}"));
        assert_eq!(file.identity.unwrap().anonymous, Some(expected));
    }
    assert_faults(
        "identity: { anonymous: rejct }",
        &["1:24: identity.anonymous: unknown word `rejct`; did you mean `reject`?"],
    );
    assert_faults(
        "identity: { anonymous: free }",
        &[
            "1:24: identity.anonymous: unknown word `free`; write `reject`, `allow` or `{ plan: NAME }`",
        ],
    );
    assert_faults(
        "identity: { anonymous: {} }",
        &[
            "1:24: identity.anonymous: the field `plan` is missing; add `plan`: a text of 1 to 256 bytes",
        ],
    );
    assert_faults(
        "identity: { anonymous: [reject] }",
        &["1:24: identity.anonymous: expected a mapping with `plan`, found a list"],
    );
}

//! What is written and what comes of it.

use super::super::*;
use super::{FULL, assert_faults, parsed, shown};

fn limit(text: &str) -> RateLimit {
    let mut file = parsed(&format!("limits:\n  x: {text}\n"));
    file.limits.remove(0).1
}

#[test]
fn a_full_file_is_read() {
    let file = parsed(FULL);
    let listen = file.listen.unwrap();
    assert_eq!(listen.gateway.unwrap().value.to_string(), "0.0.0.0:8080");
    assert_eq!(listen.api.unwrap().value.to_string(), "127.0.0.1:8081");
    assert_eq!(listen.admin.unwrap().value.to_string(), "[::1]:8082");
    let peers: Vec<_> = listen
        .api_peers
        .iter()
        .map(|peer| peer.value.to_string())
        .collect();
    assert_eq!(peers, ["10.0.0.0/8", "::1/128", "192.0.2.7/32"]);
    assert_eq!(listen.max_connections.unwrap().value, 10_000);
    let store = file.store.unwrap();
    assert_eq!(store.backend.unwrap().value, Backend::Redis);
    assert_eq!(store.max_buckets.unwrap().value, 1_000_000);
    assert_eq!(
        store.url.unwrap().value.to_string(),
        "rediss-cluster://tollward:***@redis-1:7000,[2001:db8::1]:6379"
    );
    assert_eq!(store.prefix.unwrap().value, "shop:");
    assert_eq!(store.deadline.unwrap().value.as_millis(), 20);
    assert_eq!(store.on_failure.unwrap().value, OnFailure::Open);
    assert_eq!(store.clock.unwrap().value, StoreClock::Client);
    let tls = store.tls.unwrap();
    assert_eq!(tls.ca.unwrap().value, "/etc/tollward/ca.pem");
    assert_eq!(tls.cert.unwrap().value, "client.pem");
    assert_eq!(tls.key.unwrap().value, "client.key");
    let identity = file.identity.unwrap();
    let Some(Anonymous::Plan(plan)) = identity.anonymous else {
        panic!("{:?}", identity.anonymous);
    };
    assert_eq!(plan.value, "free");
    let ip = identity.ip.unwrap();
    assert_eq!(ip.trusted_proxies.len(), 2);
    assert_eq!(ip.header.unwrap().value, ForwardingHeader::Forwarded);
    assert_eq!(ip.ipv6_prefix.unwrap().value, 56);
    let key = identity.api_key.unwrap();
    assert_eq!(key.header.unwrap().value, "x-key");
    assert!(key.forward.unwrap().value);
    let user = identity.user.unwrap();
    assert_eq!(user.header.unwrap().value, "x-user-id");
    let jwt = user.jwt.unwrap();
    let jwks = Jwks::Url("https://login.example.com/jwks.json?v=1".to_owned());
    assert_eq!(jwt.jwks.value, jwks);
    assert_eq!(jwt.claim.unwrap().value, "email");
    assert_eq!(jwt.algorithm.unwrap().value, JwtAlgorithm::ES256);
    assert_eq!(jwt.issuer.unwrap().value, "https://login.example.com/");
    assert_eq!(jwt.audience.unwrap().value, "api");
    let client = identity.client.unwrap();
    assert_eq!(client.header.unwrap().value, "x-client-id");
    assert!(client.basic.unwrap().value);
    assert_eq!(
        identity.unknown_tenant.unwrap().value,
        UnknownTenant::Reject
    );
    assert_eq!(file.enforcement.unwrap().value, Enforcement::On);
    let paths = file.paths.unwrap();
    assert_eq!(paths.case.unwrap().value, PathCase::Fold);
    assert_eq!(paths.encoded_slash.unwrap().value, EncodedSlash::Keep);
    let response = file.response.unwrap();
    let styles: Vec<_> = response
        .headers
        .unwrap()
        .value
        .iter()
        .map(|s| s.value)
        .collect();
    let all = [
        HeaderStyle::XRateLimit,
        HeaderStyle::Ietf,
        HeaderStyle::Ietf06,
    ];
    assert_eq!(styles, all);
    assert_eq!(response.jitter.unwrap().value.as_millis(), 500);
    assert_eq!(response.body.unwrap().value, BodyStyle::Problem);
    assert_eq!(response.limit.unwrap().value, LimitShown::Rate);
    assert!(response.expose_headers.unwrap().value);
}

#[test]
fn limits_of_a_full_file_are_read() {
    let file = parsed(FULL);
    let names: Vec<_> = file
        .plans
        .iter()
        .map(|(name, _)| name.value.as_str())
        .collect();
    assert_eq!(names, ["free", "pro", "same-as-free"]);
    let pro = &file.plans[1].1;
    assert!(pro.rate_limit.is_none());
    let (name, per_day) = &pro.rate_limits[1];
    assert_eq!((name.place.line, name.place.column), (33, 7));
    assert_eq!(&*name.place.path, "plans.pro.rate_limits.per-day");
    assert_eq!(per_day.sustained.window.as_ref().unwrap().value, 86_400);
    assert_eq!(
        per_day
            .burst
            .as_ref()
            .unwrap()
            .allowance
            .as_ref()
            .unwrap()
            .value,
        1250
    );
    let system = &file.limits[0].1;
    assert_eq!(
        system.algorithm.as_ref().unwrap().value,
        Algorithm::SlidingWindow
    );
    assert_eq!(system.sustained.rate.value, u32::MAX);
    assert_eq!(system.sustained.window.as_ref().unwrap().value, 31_622_400);
    assert_eq!(
        system.scope.as_ref().unwrap().value[0].value,
        ScopeWord::Global
    );
    assert_eq!(system.cost.as_ref().unwrap().value, 0);
    assert!(!system.response_headers.as_ref().unwrap().value);
    assert!(system.shadow.as_ref().unwrap().value);
    assert_eq!(system.on_failure.as_ref().unwrap().value, OnFailure::Closed);
    let scope = file.limits[1].1.scope.as_ref().unwrap();
    let words: Vec<_> = scope.value.iter().map(|word| word.value).collect();
    assert_eq!(words, [ScopeWord::Ip, ScopeWord::Route]);
    assert_eq!(&*scope.value[1].place.path, "limits.per-ip.scope[1]");
}

#[test]
fn the_gateway_of_a_full_file_is_read() {
    let file = parsed(FULL);
    let (name, app) = &file.upstreams[0];
    assert_eq!(name.value, "app");
    let hosts: Vec<_> = app
        .urls
        .iter()
        .map(|url| (&*url.value.host, url.value.port))
        .collect();
    assert_eq!(hosts, [("10.0.0.1", 9000), ("2001:db8::1", 443)]);
    assert_eq!(&*app.urls[1].place.path, "upstreams.app.urls[1]");
    assert_eq!(&*app.urls[1].value.path, "/base");
    let millis =
        |time: &Option<Spanned<std::time::Duration>>| time.as_ref().unwrap().value.as_millis();
    assert_eq!(millis(&app.connect_timeout), 250);
    assert_eq!(millis(&app.response_timeout), 60_000);
    assert_eq!(millis(&app.idle_timeout), 86_400_000);
    assert_eq!(app.protocol.as_ref().unwrap().value, Protocol::Http2);
    assert_eq!(app.host.as_ref().unwrap().value, HostHeader::Keep);
    assert_eq!(
        app.tls.as_ref().unwrap().ca.as_ref().unwrap().value,
        "ca.pem"
    );
    assert_eq!(app.max_connections.as_ref().unwrap().value, 8);
    assert_eq!(app.rate_limits.len(), 2);
    assert!(file.upstreams[1].1.url.is_some() && file.upstreams[1].1.rate_limit.is_some());
    assert_eq!(file.routes[0].upstream.as_ref().unwrap().value, "app");
    let gateway = file.gateway.as_ref().unwrap();
    assert_eq!(gateway.workers.as_ref().unwrap().value, 0);
    assert_eq!(millis(&gateway.header_timeout), 5000);
    assert_eq!(millis(&gateway.idle_timeout), 90_000);
    assert_eq!(gateway.max_connections.as_ref().unwrap().value, 100);
    assert_eq!(gateway.max_header_bytes.as_ref().unwrap().value, 8192);
    assert_eq!(gateway.max_body.as_ref().unwrap().value, 8_589_934_592);
    assert_eq!(
        gateway.access_log.as_ref().unwrap().value,
        AccessLog::Stdout
    );
    assert_eq!(gateway.tls.as_ref().unwrap().key.value, "gate.key");
    let queued = &file.limits[1].1;
    assert_eq!(queued.strategy.as_ref().unwrap().value, Strategy::Queue);
    let queue = queued.queue.as_ref().unwrap();
    assert_eq!(millis(&queue.max_wait), 2000);
    assert_eq!(queue.max_queue.as_ref().unwrap().value, 50);
    let degraded = &app.rate_limits[0].1;
    assert_eq!(degraded.strategy.as_ref().unwrap().value, Strategy::Degrade);
    assert_eq!(degraded.degrade.as_ref().unwrap().upstream.value, "cheap");
    assert_eq!(file.keys[0].client.as_ref().unwrap().value, "web");
}

#[test]
fn callers_and_routes_of_a_full_file_are_read() {
    let file = parsed(FULL);
    assert_eq!(file.routes[0].match_.value, "POST /v1/chat/completions");
    assert_eq!(&*file.routes[0].match_.place.path, "routes[0].match");
    assert_eq!(file.routes[0].cost.as_ref().unwrap().value, 5);
    assert_eq!(file.routes[2].rate_limits.len(), 2);
    assert!(file.routes[3].deny.as_ref().unwrap().value);
    assert!(file.routes[4].allow.as_ref().unwrap().value);
    let (name, acme) = &file.tenants[0];
    assert_eq!(name.value, "acme");
    assert_eq!(acme.parent.as_ref().unwrap().value, file.tenants[1].0.value);
    assert_eq!(
        &*file.tenants[1].0.place.path,
        "tenants[\"Großkunde & Söhne\"]"
    );
    assert_eq!(file.keys[0].sha256.value[..3], [0x2b, 0xb8, 0x0d]);
    assert_eq!(file.keys[1].sha256.value[31], 0x5c);
    assert_eq!(
        file.allow[0].cidr.as_ref().unwrap().value.to_string(),
        "192.0.2.0/24"
    );
    let key = file.allow[1].api_key.as_ref().unwrap();
    assert_eq!(key.sha256.value, file.keys[0].sha256.value);
    assert_eq!(&*key.sha256.place.path, "allow[1].api_key.sha256");
}

#[test]
fn a_text_without_content_means_defaults() {
    for text in [
        "",
        "\n\n",
        "# only a comment\n",
        "---\n",
        "---\n...\n",
        "{}",
        "\u{FEFF}",
        "\u{FEFF}{}",
    ] {
        let file = parsed(text);
        assert!(file.plans.is_empty() && file.listen.is_none(), "{text:?}");
        assert_eq!((file.place.line, &*file.place.path), (1, ""));
    }
}

#[test]
fn a_byte_order_mark_takes_no_column() {
    assert_faults(
        "\u{FEFF}planz: {}",
        &["1:1: planz: unknown field `planz`; did you mean `plans`?"],
    );
}

#[test]
fn windows_are_words_or_durations() {
    let cases = [
        ("second", 1),
        ("minute", 60),
        ("hour", 3600),
        ("day", 86_400),
        ("1s", 1),
        ("30s", 30),
        ("5m", 300),
        ("90m", 5400),
        ("2h", 7200),
        ("7d", 604_800),
        ("366d", 31_622_400),
        ("\"30s\"", 30),
        ("2000ms", 2),
    ];
    for (text, seconds) in cases {
        let limit = limit(&format!("{{ sustained: {{ rate: 1, window: {text} }} }}"));
        assert_eq!(limit.sustained.window.unwrap().value, seconds, "{text}");
    }
}

#[test]
fn allowances_are_read_exactly() {
    let cases = [
        ("1", 1000),
        ("1.5", 1500),
        ("1.005", 1005),
        ("2.50", 2500),
        ("1000", 1_000_000),
        ("1000.0", 1_000_000),
    ];
    for (text, thousandths) in cases {
        let limit = limit(&format!(
            "{{ sustained: {{ rate: 1 }}, burst: {{ allowance: {text} }} }}"
        ));
        assert_eq!(
            limit.burst.unwrap().allowance.unwrap().value,
            thousandths,
            "{text}"
        );
    }
}

#[test]
fn words_may_be_quoted() {
    for text in ["off", "\"off\"", "'off'"] {
        let file = parsed(&format!("enforcement: {text}"));
        assert_eq!(file.enforcement.unwrap().value, Enforcement::Off);
    }
}

#[test]
fn headers_are_a_word_a_list_or_none() {
    for (text, count) in [
        ("ietf", 1),
        ("[ietf]", 1),
        ("none", 0),
        ("[]", 0),
        ("[ietf, x-ratelimit]", 2),
    ] {
        let file = parsed(&format!("response: {{ headers: {text} }}"));
        assert_eq!(
            file.response.unwrap().headers.unwrap().value.len(),
            count,
            "{text}"
        );
    }
}

#[test]
fn an_alias_has_the_line_of_its_anchor_and_the_path_of_its_use() {
    let file = parsed(
        "plans:\n  a: { rate_limit: &x { sustained: { rate: 7 } } }\n  b: { rate_limit: *x }\n",
    );
    let rate = &file.plans[1].1.rate_limit.as_ref().unwrap().sustained.rate;
    assert_eq!(rate.value, 7);
    assert_eq!(
        rate.place,
        Place {
            line: 2,
            column: 44,
            path: "plans.b.rate_limit.sustained.rate".into()
        }
    );
}

#[test]
fn json_is_read() {
    let compact = r#"{"plans":{"free":{"rate_limit":{"sustained":{"rate":10,"window":"minute"},"burst":{"allowance":1.5},"shadow":false}}},"routes":[{"match":"\/v1\/\u00e9\t"}]}"#;
    // A tab is no part of an id, but was read as one.
    assert_faults(
        compact,
        &[
            "1:138: routes[0].match: the text holds the unprintable character U+0009; write a text of 1 to 1024 bytes",
        ],
    );
    let compact = compact.replace("\\t", "\\\"\\\\");
    let file = parsed(&compact);
    assert_eq!(file.routes[0].match_.value, "/v1/é\"\\");
    let value: serde_json::Value = serde_json::from_str(&compact).unwrap();
    let spaced = format!("{value:#}");
    let tabbed = spaced.replace("  ", "\t");
    for pretty in [spaced.replace('\n', "\r\n"), tabbed, spaced] {
        let again = parsed(&pretty);
        assert_eq!(
            again.plans[0]
                .1
                .rate_limit
                .as_ref()
                .unwrap()
                .sustained
                .rate
                .value,
            10
        );
        assert_eq!(again.routes[0].match_.value, "/v1/é\"\\");
        assert!(again.routes[0].match_.place.line > 10);
    }
}

#[test]
fn json_spells_characters_as_surrogate_pairs() {
    let text = r#"{"tenants": {"a\ud83d\ude00\\ud83d": {"plan": "\uD83D\uDE00"}}, "x": 1}"#;
    assert_faults(
        text,
        &[
            "1:65: x: unknown field `x`; the fields here are listen, store, directory, audit, usage, identity, plans, limits, routes, cors, upstreams, gateway, tenants, keys, allow, deny, enforcement, paths, response",
        ],
    );
    let file = parsed(&text.replace(", \"x\": 1", ""));
    assert_eq!(file.tenants[0].0.value, "a😀\\ud83d");
    assert_eq!(file.tenants[0].1.plan.as_ref().unwrap().value, "😀");
    // A half of a pair is no character, in JSON or YAML.
    assert_eq!(shown(r#"{"tenants": {"a\ud83d": {}}}"#).len(), 1);
}

#[test]
fn did_you_mean_takes_the_nearest() {
    let words = ["free", "pro", "enterprise"];
    assert_eq!(did_you_mean("fre", words), Some("free"));
    assert_eq!(did_you_mean("Enterprize", words), Some("enterprise"));
    assert_eq!(did_you_mean("rpo", words), Some("pro"));
    assert_eq!(did_you_mean("gold", words), None);
    assert_eq!(did_you_mean("x", words), None);
    assert_eq!(did_you_mean("", words), None);
    assert_eq!(
        did_you_mean("rate-limit", ["rate_limits", "rate_limit"]),
        Some("rate_limit")
    );
    assert_eq!(did_you_mean(&"p".repeat(1_000_000), words), None);
}

#[test]
fn words_know_how_they_are_written() {
    let words: Vec<_> = ScopeWord::ALL.iter().map(|word| word.word()).collect();
    assert_eq!(
        words,
        [
            "global", "tenant", "user", "ip", "route", "client", "api_key", "upstream"
        ]
    );
}

//! Where counters live: what the file says, what it leaves out, and what does not go together.

use std::time::Duration;

use tollward_core::OnFailure;

use super::{assert_faults, faults_of, policy};
use crate::config::{RedisKind, StoreClock};
use crate::{ClientCertificate, Facts, RedisOptions, RedisTls, Settings, compile};

fn settings(text: &str) -> Settings {
    match compile(text.as_bytes()) {
        Ok(compiled) => compiled.settings,
        Err(_) => panic!("{:#?}\nin\n{text}", faults_of(text)),
    }
}

#[test]
fn a_file_that_says_nothing_means_memory() {
    for text in ["", "store: {}", "store: { backend: memory }"] {
        let settings = settings(text);
        assert_eq!(settings.redis_url, None);
        assert_eq!(settings.redis_options, RedisOptions::default());
        assert_eq!(settings.max_buckets, 4_000_000);
    }
    let default = RedisOptions::default();
    assert_eq!(default.prefix, "tollward:");
    assert_eq!(default.deadline, Duration::from_millis(5));
    assert_eq!(default.clock, StoreClock::Server);
    assert_eq!(default.tls, RedisTls::default());
}

#[test]
fn all_of_it() {
    let settings = settings(
        "
store:
  backend: redis
  url: rediss://ann:hunter2@redis.example.com/3
  prefix: 'shop:'
  deadline: 2s
  on_failure: closed
  clock: client
  tls: { ca: /ca.pem, cert: a.pem, key: a.key }
",
    );
    let url = settings.redis_url.unwrap();
    assert!(matches!(url.kind, RedisKind::Standalone(_)) && url.tls);
    assert_eq!(url.password.as_deref(), Some("hunter2"));
    assert_eq!(
        settings.redis_options,
        RedisOptions {
            prefix: "shop:".into(),
            deadline: Duration::from_secs(2),
            clock: StoreClock::Client,
            tls: RedisTls {
                ca: Some("/ca.pem".into()),
                client: Some(ClientCertificate {
                    cert: "a.pem".into(),
                    key: "a.key".into(),
                }),
            },
        }
    );
}

/// `--redis` takes Redis whatever the file says, and then they do something.
#[test]
fn options_may_stand_without_redis() {
    let options = "prefix: a, deadline: 1ms, clock: client, on_failure: open, tls: { ca: x }";
    for backend in ["", "backend: memory, "] {
        let settings = settings(&format!("store: {{ {backend}{options} }}"));
        assert_eq!(settings.redis_url, None);
        assert_eq!(settings.redis_options.prefix, "a");
        assert_eq!(settings.redis_options.tls.ca, Some("x".into()));
    }
}

#[test]
fn backend_and_url_go_together() {
    assert_faults(
        "store: { backend: redis }",
        &[
            "1:19: store.backend: `backend: redis` without a `url`; add `url: redis://HOST:6379`; or remove `backend`, and start with `--redis URL`",
        ],
    );
    assert_faults(
        "store: { backend: memory, url: redis://h }",
        &[
            "1:32: store.url: a `url` with `backend: memory`; remove one of the two, or write `backend: redis`",
        ],
    );
    assert_faults(
        "store: { url: redis://h }",
        &["1:15: store.url: a `url` without `backend: redis`; add `backend: redis`"],
    );
    // One is there, but broken: it is not missed as well.
    assert_faults(
        "store: { backend: redis, url: http://h }",
        &[
            "1:31: store.url: `http://` is not known; write `redis://`, `rediss://`, `unix://`, `redis-cluster://` or `redis-sentinel://`",
        ],
    );
    assert_faults(
        "store: { backend: rediss, url: redis://h }",
        &["1:19: store.backend: unknown word `rediss`; did you mean `redis`?"],
    );
}

#[test]
fn certificates_go_together() {
    let redis = "backend: redis, url: rediss://h";
    for (tls, expected) in [
        ("{ cert: a }", "`cert` without `key`; give both or neither"),
        (
            "{ ca: c, key: a }",
            "`key` without `cert`; give both or neither",
        ),
        (
            "{}",
            "a `tls` that says nothing; give it `ca`, or `cert` and `key`, or remove it",
        ),
    ] {
        assert_faults(
            &format!("store: {{ {redis}, tls: {tls} }}"),
            &[&format!("1:48: store.tls: {expected}")],
        );
    }
    for scheme in ["redis://h", "unix:///r", "redis-cluster://h"] {
        let faults = faults_of(&format!(
            "store: {{ backend: redis, url: '{scheme}', tls: {{ ca: c }} }}"
        ));
        assert_eq!(faults.len(), 1, "{faults:?}");
        assert!(
            faults[0].ends_with(
                "store.tls: `tls` with a `url` that does not use it; remove it, or write `rediss://`, `rediss-cluster://` or `rediss-sentinel://`"
            ),
            "{faults:?}"
        );
    }
    assert_faults(
        "store: { tls: { cert: '', key: a, pem: b } }",
        &[
            "1:23: store.tls.cert: the text is empty; write a text of 1 to 4096 bytes",
            "1:35: store.tls.pem: unknown field `pem`; the fields here are ca, cert, key",
        ],
    );
}

#[test]
fn limits_inherit_what_holds_without_the_store() {
    let limits = "
plans:
  p: { rate_limit: { sustained: { rate: 1 } } }
limits:
  a: { sustained: { rate: 1 }, on_failure: local }
  b: { sustained: { rate: 1 }, on_failure: open }
  c: { sustained: { rate: 1 }, on_failure: closed }
routes:
  - { match: /r, rate_limits: { x: { sustained: { rate: 1 } }, y: { sustained: { rate: 1 }, on_failure: open } } }
";
    let stores = [
        ("", OnFailure::Local),
        ("store: { on_failure: local }", OnFailure::Local),
        ("store: { on_failure: open }", OnFailure::Open),
        ("store: { on_failure: closed }", OnFailure::Closed),
    ];
    for (store, own) in stores {
        let policy = policy(&format!("{store}{limits}"));
        let facts = Facts {
            plan: Some("p"),
            path: Some("/r"),
            ..Facts::default()
        };
        let charges = policy.request(&facts).unwrap().charges();
        let found: Vec<_> = charges
            .iter()
            .map(|(_, _, charge)| (charge.name, charge.on_failure))
            .collect();
        let expected = [
            ("limit:a", OnFailure::Local),
            ("limit:b", OnFailure::Open),
            ("limit:c", OnFailure::Closed),
            ("plan:p", own),
            ("route:/r#x", own),
            ("route:/r#y", OnFailure::Open),
        ];
        assert_eq!(found, expected, "{store}");
    }
}

/// Neither in what is shown of sound settings, nor in a fault, wherever the URL is broken.
#[test]
fn passwords_are_never_shown() {
    let sound = [
        "redis://ann:hunter2@h",
        "redis://:hunter2@h/1",
        "unix:///r?user=ann&pass=hunter2",
        "rediss-cluster://ann:hunter2@a,b",
        "redis-sentinel://:hunter2@a,b/m",
    ];
    for url in sound {
        let text = format!("store: {{ backend: redis, url: '{url}' }}");
        let compiled = compile(text.as_bytes()).unwrap();
        let url = compiled.settings.redis_url.clone().unwrap();
        assert_eq!(url.password.as_deref(), Some("hunter2"));
        let shown = format!("{compiled:?} {url:?} {url:#?} {url}");
        assert!(!shown.contains("hunter2"), "{shown}");
        let file = format!("{:?}", crate::config::parse(&text));
        assert!(!file.contains("hunter2"), "{file}");
        let faults = faults_of(&format!("store: {{ backend: memory, url: '{url}' }}"));
        assert_eq!(faults.len(), 1);
    }
    let broken = [
        "hunter2",
        "redis:hunter2@h",
        "hunter2@redis://h",
        "redis://hunter2@h",
        "redis://ann:hunter2",
        "redis://ann:hunter2@",
        "redis://ann:hunter2@h:x",
        "redis://ann:hunter2@h:0",
        "redis://ann:hunter2@h/x",
        "redis://ann:hunter2@h?x",
        "redis://ann:hunter2%@h",
        "redis://ann:hunter2%ff@h",
        "redis://ann:x/hunter2@h",
        "redis://ann:x?hunter2@h",
        "redis://ann:x#hunter2@h",
        "redis://ann:x@hunter2@h",
        "redis://ann:x hunter2@h",
        "redis://ann:x[hunter2",
        "redis://[hunter2",
        "redis://h/hunter2",
        "redis-cluster://ann:hunter2@h/1",
        "redis-cluster://a,hunter2:,b",
        "redis-sentinel://ann:hunter2@h",
        "redis-sentinel://h/hunter2!",
        "unix://hunter2",
        "unix:///r?hunter2",
        "unix:///r?db=hunter2",
        "unix:///r?pass=x&hunter2",
        "unix:///r?user=hunter2",
    ];
    for url in broken {
        for text in [
            format!("store: {{ backend: redis, url: \"{url}\" }}"),
            format!("store:\n  backend: redis\n  url: {url}\n"),
        ] {
            let faults = faults_of(&text);
            assert!(!faults.is_empty(), "{text}");
            for fault in faults {
                assert!(!fault.contains("hunter2"), "{fault}\nin\n{text}");
            }
        }
    }
}

/// In a flow mapping a comma ends a text that has no quotes.
#[test]
fn pieces_of_a_url_are_not_shown() {
    assert_faults(
        "store: { backend: redis, url: redis://ann:a,hunter2@h }",
        &[
            "1:31: store.url: a port is not a number from 1 to 65535; write `HOST:PORT`; behind a user and password an `@`, as in `:PASSWORD@HOST:PORT`",
            "1:45: store: an unknown field without a value; put the URL in quotes if it has a comma, or remove the field",
        ],
    );
}

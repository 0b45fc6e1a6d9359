//! Another upstream while requests are under way.

use std::fs;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread;

use tollward_testkit::http::head;
use tollward_testkit::upstream::{Upstream, answer};

use crate::gated::sha256;
use crate::process_gateway::GatewayProcess;
use crate::served::until;

fn config(url: &str) -> String {
    format!(
        "
identity: {{ anonymous: allow }}
limits:
  per-ip: {{ sustained: {{ rate: 1, window: 366d }}, burst: {{ capacity: 1000000 }}, scope: ip }}
routes: [ {{ match: /**, upstream: app }} ]
upstreams: {{ app: {{ url: {url} }} }}
"
    )
}

#[test]
fn another_address_takes_effect_and_no_request_is_lost() {
    let named =
        |name: &'static str| Upstream::answering(move |_| answer(200, &[], name.as_bytes()));
    let (old, new) = (named("old"), named("new"));
    let (mut process, _folder, file) = GatewayProcess::of(&config(&old.url()), &[]);
    let (served, ends) = (AtomicUsize::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut connection = process.connect();
                let mut is_new = false;
                while !ends.load(SeqCst) {
                    let answer = connection.request("GET", "/", &[], b"").unwrap();
                    assert_eq!(answer.status, 200, "{}", answer.text());
                    // Never back again.
                    assert!(!is_new || answer.text() == "new");
                    is_new = answer.text() == "new";
                    served.fetch_add(1, SeqCst);
                }
                assert!(is_new);
            });
        }
        until("some load", || served.load(SeqCst) > 200);
        assert_eq!(new.count(), 0);
        let next = file.with_extension("next");
        fs::write(&next, config(&new.url())).unwrap();
        fs::rename(&next, &file).unwrap();
        process.reload();
        let before = served.load(SeqCst);
        until("some load", || served.load(SeqCst) > before + 200);
        ends.store(true, SeqCst);
    });
    assert_eq!(old.count() + new.count(), served.load(SeqCst));
    // What was spent stays spent.
    let answer = process.connect().request("GET", "/", &[], b"").unwrap();
    let left = crate::gated::remaining(&answer);
    assert_eq!(1_000_000 - left, served.load(SeqCst) as u64 + 1);

    // What cannot be used changes nothing, nor does what leads nowhere.
    for (count, bad) in ["upstreams: { app: { url: nonsense } }", "limits: {}"]
        .iter()
        .enumerate()
    {
        fs::write(&file, bad).unwrap();
        process.process.signal("HUP");
        let failed = "tollward_config_reloads_total{result=\"failed\"}";
        let failed = format!("{failed} {}\n", count + 1);
        until("a failed reload", || process.metrics().contains(&failed));
        let answer = process.connect().request("GET", "/", &[], b"").unwrap();
        assert_eq!((answer.status, &*answer.text()), (200, "new"));
    }
    process.end();
}

/// What is a secret when a request comes is one when it goes.
#[test]
fn a_key_is_not_passed_on_because_keys_are_elsewhere_now() {
    let upstream = Upstream::start();
    let config = |header: &str| {
        format!(
            "
identity: {{ api_key: {{ header: {header} }} }}
limits:
  line: {{ sustained: {{ rate: 12, window: minute }}, burst: {{ capacity: 1 }}, scope: ip, strategy: queue, queue: {{ max_wait: 5s }} }}
tenants: {{ acme: {{}} }}
keys: [ {{ sha256: {}, tenant: acme }} ]
routes: [ {{ match: /**, upstream: app }} ]
upstreams: {{ app: {{ url: {} }} }}
",
            sha256("secret"),
            upstream.url()
        )
    };
    let (mut process, _folder, file) = GatewayProcess::of(&config("X-Old"), &[]);
    let mut connection = process.connect();
    let key = [("x-old", "secret")];
    let answer = connection.request("GET", "/now", &key, b"").unwrap();
    assert_eq!(answer.status, 200);
    connection
        .send(head("GET", "/later", &key, 0).as_bytes())
        .unwrap();
    let decided = "tollward_decision_sources_total{source=\"memory\"} 2\n";
    until("a decision", || process.metrics().contains(decided));
    fs::write(&file, config("X-New")).unwrap();
    process.reload();
    assert_eq!(upstream.count(), 1, "it should still wait");
    assert_eq!(connection.read(false).unwrap().status, 200);
    let seen = upstream.last();
    assert_eq!(seen.header("x-tollward-tenant"), Some("acme"));
    assert_eq!(seen.header("x-old"), None);
    process.end();
}

//! Callers on the deny-list.

use serde_json::{Value, json};

use crate::site::{Caller, Site, TRUSTING, done, refused, sha256};

const CONFIG: &str = "
limits: { each: { sustained: { rate: 1, window: 366d }, burst: { capacity: 1000 }, scope: [user, client, tenant] } }
tenants: { acme: {}, shop: { parent: acme }, other: {} }
";

fn config(rest: &str) -> String {
    let key = |key: &str, tenant: &str| format!("{{ sha256: {}, tenant: {tenant} }}", sha256(key));
    let keys = [
        key("acme-1", "acme"),
        key("acme-2", "acme"),
        key("shop", "shop"),
        key("other", "other"),
    ];
    format!("{TRUSTING}{CONFIG}keys: [ {} ]\n{rest}", keys.join(", "))
}

/// Whom an entry denies, and whom it does not.
struct Case {
    entry: Value,
    /// As the audit trail calls it.
    identifier: String,
    out: Vec<Caller<'static>>,
    others: Vec<Caller<'static>>,
}

fn cases() -> Vec<Case> {
    let case = |entry: Value,
                identifier: &str,
                out: &[Caller<'static>],
                others: &[Caller<'static>]| Case {
        entry,
        identifier: identifier.to_owned(),
        out: out.to_vec(),
        others: others.to_vec(),
    };
    let key = Caller::key;
    let of_key = format!("api_key:{}", &sha256("acme-1")[..12]);
    vec![
        case(
            json!({ "cidr": "192.0.2.0/24" }),
            "cidr:192.0.2.0/24",
            &[
                key("other").from("192.0.2.7"),
                Caller::user("ann").from("192.0.2.8"),
            ],
            &[key("other").from("198.51.100.7"), key("other")],
        ),
        case(
            json!({ "user": "ann" }),
            "user:ann",
            &[
                Caller::user("ann"),
                Caller {
                    user: Some("ann"),
                    ..key("acme-1")
                },
            ],
            &[Caller::user("bob"), key("acme-1")],
        ),
        case(
            json!({ "client": "scraper" }),
            "client:scraper",
            &[
                Caller::client("scraper"),
                Caller {
                    client: Some("scraper"),
                    ..key("acme-1")
                },
            ],
            &[Caller::client("web"), key("acme-1")],
        ),
        case(
            json!({ "tenant": "acme" }),
            "tenant:acme",
            &[key("acme-1"), key("acme-2"), key("shop")],
            &[key("other")],
        ),
        case(
            json!({ "api_key_sha256": sha256("acme-1") }),
            &of_key,
            &[key("acme-1")],
            &[key("acme-2"), key("shop")],
        ),
    ]
}

/// The same entry with a reason.
fn with_reason(entry: &Value) -> Value {
    let mut entry = entry.clone();
    entry["reason"] = json!("abuse");
    entry
}

#[track_caller]
fn denied(site: &Site, callers: &[Caller<'_>]) {
    let passed = site.upstream.count();
    for caller in callers {
        site.refuses(caller, 403, "denied");
    }
    assert_eq!(site.upstream.count(), passed);
}

#[track_caller]
fn admitted(site: &Site, callers: &[Caller<'_>]) {
    for caller in callers {
        site.admits(caller);
    }
}

#[test]
fn by_the_api_until_they_are_taken_off() {
    let site = Site::of(&config(""));
    for case in cases() {
        let left = || -> Vec<_> { case.out.iter().map(|it| site.left(it)).collect() };
        admitted(&site, &case.out);
        let before = left();
        let made = site.made("deny", &with_reason(&case.entry));
        assert_eq!(made["reason"], "abuse", "{made}");
        denied(&site, &case.out);
        refused(&site.post("deny", &with_reason(&case.entry)), 409, "exists");
        // Neither the allow-list nor the kill switch is stronger.
        let allow = site.made("allow", &with_reason(&case.entry));
        denied(&site, &case.out);
        let allow = format!("allow/{}", allow["id"].as_str().unwrap());
        site.changed("DELETE", &allow, &Value::Null);
        for mode in [json!("off"), json!("shadow"), Value::Null] {
            site.changed("PUT", "enforcement", &json!({ "mode": mode }));
            denied(&site, &case.out);
        }
        let target = format!("deny/{}", made["id"].as_str().unwrap());
        assert_eq!(site.shown(&target), made);
        site.changed("DELETE", &target, &Value::Null);
        assert_eq!(left(), before, "what was refused was charged");
        admitted(&site, &case.out);

        // Nobody else is concerned.
        let made = site.made("deny", &with_reason(&case.entry));
        admitted(&site, &case.others);
        let target = format!("deny/{}", made["id"].as_str().unwrap());
        site.changed("DELETE", &target, &Value::Null);
        let mut events = site.events(&case.identifier);
        events.retain(|event| event.contains("denylist"));
        let once = ["rate_limit_denylist_added", "rate_limit_denylist_removed"];
        assert_eq!(events, [once, once].concat());
    }
}

/// An entry as the file has it.
fn written(entry: &Value) -> String {
    match entry["api_key_sha256"].as_str() {
        Some(hash) => format!("{{ api_key: {{ sha256: {hash} }}, reason: abuse }}"),
        None => with_reason(entry).to_string(),
    }
}

#[test]
fn by_the_file_until_it_is_changed() {
    let site = Site::of(&config(""));
    for case in cases() {
        let entry = written(&case.entry);
        for rest in [
            format!("deny: [ {entry} ]\n"),
            format!("deny: [ {entry} ]\nallow: [ {entry} ]\nenforcement: \"off\"\n"),
        ] {
            done(&site.reload(&config(&rest)), 200);
            denied(&site, &case.out);
            admitted(&site, &case.others);
        }
        let listed = site.shown("deny");
        assert_eq!(listed["items"][0]["id"], "deny[0]", "{listed}");
        assert_eq!(listed["items"][0]["source"], "file");
        let same = refused(
            &site.post("deny", &with_reason(&case.entry)),
            409,
            "read_only",
        );
        assert_eq!(same["place"], "deny[0]");
        let delete = site.ask("DELETE", "deny/deny%5B0%5D", &Value::Null);
        refused(&delete, 409, "read_only");
        done(&site.reload(&config("")), 200);
        admitted(&site, &case.out);
    }
}

#[test]
fn a_key_of_the_directory_by_its_id_and_after_it_is_gone() {
    let site = Site::of(&config(""));
    let (id, secret) = site.key(&json!({ "tenant": "other" }));
    let made = site.made("deny", &json!({ "key_id": id, "reason": "leaked" }));
    assert_eq!(made["kind"], "api_key");
    assert_eq!(made["value"], sha256(&secret)[..12]);
    site.refuses(&Caller::key(&secret), 403, "denied");
    // An entry stays when what it names is deleted: it may come back.
    site.changed("DELETE", &format!("keys/{id}"), &Value::Null);
    site.refuses(&Caller::key(&secret), 401, "unknown_key");
    assert_eq!(site.shown("deny")["items"][0], made);

    site.made("tenants", &json!({ "id": "brief" }));
    site.made("deny", &json!({ "tenant": "brief", "reason": "fraud" }));
    let brief = json!({ "tenant": "brief" });
    for _ in 0..2 {
        refused(&site.check(&brief), 403, "denied");
        site.changed("DELETE", "tenants/brief", &Value::Null);
        refused(&site.check(&brief), 403, "denied");
        site.made("tenants", &json!({ "id": "brief" }));
    }
    site.made("deny", &json!({ "tenant": "not-yet", "reason": "fraud" }));
    refused(&site.check(&json!({ "tenant": "not-yet" })), 403, "denied");
}

#[test]
fn a_denied_address_is_told_nothing_of_keys() {
    let site = Site::of(&config("deny: [ { cidr: 192.0.2.0/24, reason: abuse } ]\n"));
    let guess = |ip| Caller::key("guess").from(ip);
    // Far more guesses than an address has.
    for _ in 0..10 {
        site.refuses(&guess("192.0.2.1"), 403, "denied");
    }
    site.refuses(&Caller::default().from("192.0.2.1"), 403, "denied");
    // They were not counted as guesses: there are as many as there were when it is allowed to.
    done(&site.reload(&config("")), 200);
    let statuses = |ip| -> Vec<u16> {
        let ask = |_| site.get("/", &guess(ip).headers()).status;
        (0..22).map(ask).collect()
    };
    let fresh = statuses("198.51.100.1");
    assert_eq!(fresh, [[401; 20].as_slice(), &[429, 429]].concat());
    assert_eq!(statuses("192.0.2.1"), fresh);
}

/// Its successor would be on no list.
#[test]
fn a_denied_key_is_not_rotated() {
    let site = Site::of(TRUSTING);
    let keys = [(); 2].map(|()| site.key(&json!({ "user": "ann" })));
    let deny = format!(
        "{TRUSTING}deny: [ {{ api_key: {{ sha256: {} }}, reason: leaked }} ]\n",
        sha256(&keys[0].1)
    );
    assert_eq!(site.reload(&deny).status, 200);
    site.made("deny", &json!({ "key_id": keys[1].0, "reason": "leaked" }));
    for (id, secret) in &keys {
        site.refuses(&Caller::key(secret), 403, "denied");
        let rotated = site.post(&format!("keys/{id}/rotate"), &json!({}));
        refused(&rotated, 409, "denied");
    }
}

//! The text of a key, read back.

use std::net::IpAddr;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use tollward_core::Key;

use super::{policy, tagged};
use crate::scope::{Identity, ScopeBytes, push_value};
use crate::{Facts, KeyText, KeyTextError, OwnedKey};

/// What is known by a text.
const NAMED: [Identity; 4] = [
    Identity::Tenant,
    Identity::User,
    Identity::Client,
    Identity::Route,
];

/// A value that a caller may have, with what it is.
fn value() -> impl Strategy<Value = (Identity, Vec<u8>)> {
    let text = || "[a-zA-Z0-9._:/@+-]{0,12}".prop_map(String::into_bytes);
    let odd = vec(any::<u8>(), 0..8);
    let ip = any::<IpAddr>().prop_map(|ip| match ip {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    });
    prop_oneof![
        4 => (select(&NAMED[..]), text()),
        1 => (select(&NAMED[..]), odd),
        2 => ip.prop_map(|octets| (Identity::Ip, octets)),
        1 => Just((Identity::Unknown, Vec::new())),
        1 => any::<[u8; 32]>().prop_map(|hash| (Identity::ApiKey, hash.to_vec())),
    ]
}

fn key() -> impl Strategy<Value = OwnedKey> {
    let family = prop_oneof![
        select(&["plan", "plan/per-day", "limit:per-ip", "route:/v1/**", ""][..])
            .prop_map(str::to_owned),
        "[ -~]{0,12}",
    ];
    (family, vec(value(), 0..3)).prop_map(|(family, values)| {
        let mut scope = ScopeBytes::new();
        for (identity, value) in &values {
            push_value(*identity, value, &mut scope);
        }
        let scope = scope.to_vec();
        OwnedKey { family, scope }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_readable_text_is_read_back(key in key()) {
        let text = KeyText(key.key()).to_string();
        let expected = if tagged(&text).1.starts_with('#') {
            Err(KeyTextError::Hashed)
        } else {
            Ok(key)
        };
        prop_assert_eq!(text.parse::<OwnedKey>(), expected);
    }

    #[test]
    fn what_is_read_is_what_would_be_written(text in "[{}0-9a-f|=#. -~\u{80}-\u{ff}]{0,50}") {
        if let Ok(key) = text.parse::<OwnedKey>() {
            prop_assert_eq!(KeyText(key.key()).to_string(), text);
        }
    }

    #[test]
    fn a_text_with_one_character_changed_is_another_key(key in key(), at in any::<prop::sample::Index>(), to in any::<char>()) {
        let text = KeyText(key.key()).to_string();
        let mut changed: Vec<char> = text.chars().collect();
        let at = at.index(changed.len());
        changed[at] = to;
        let changed: String = changed.into_iter().collect();
        match changed.parse::<OwnedKey>() {
            Ok(read) => prop_assert!(changed == text || read != key),
            Err(error) => prop_assert!(!error.to_string().is_empty()),
        }
    }
}

#[test]
fn what_is_wrong_with_a_text_is_told() {
    let scope = |identity, value: &[u8]| {
        let mut scope = ScopeBytes::new();
        push_value(identity, value, &mut scope);
        scope
    };
    let alice = scope(Identity::User, b"alice");
    let key = Key {
        family: "plan",
        scope: &alice,
    };
    let text = KeyText(key).to_string();
    let (tag, _) = tagged(&text);
    assert_eq!(text, format!("{{{tag}}}plan|user=alice"));
    assert_eq!(text.parse::<OwnedKey>().unwrap().key(), key);
    let table = [
        (String::new(), KeyTextError::NoTag),
        ("plan|user=alice".into(), KeyTextError::NoTag),
        ("{".into(), KeyTextError::NoTag),
        (format!("tollward:{text}"), KeyTextError::Prefixed),
        (format!(" {text}"), KeyTextError::Prefixed),
        ("{00000}plan|user=alice".into(), KeyTextError::OtherTag),
        ("{}plan|user=alice".into(), KeyTextError::OtherTag),
        (text.replace("alice", "bob"), KeyTextError::OtherTag),
        (format!("{{{tag}}}#0123456789abcdef"), KeyTextError::Hashed),
        (format!("{text} "), KeyTextError::Malformed),
        (format!("{text}|"), KeyTextError::Malformed),
        (format!("{text}|size=1"), KeyTextError::Malformed),
        (format!("{{{tag}}}plan|ip=alice"), KeyTextError::Malformed),
        (format!("{{{tag}}}plan|ip=1.2.3"), KeyTextError::Malformed),
        // A hash of the key is never read out in full.
        (format!("{{{tag}}}plan|api_key=00"), KeyTextError::Malformed),
        // An address in another notation than ours would be another text of the same bucket.
        (format!("{{{tag}}}plan|ip=0::1"), KeyTextError::Malformed),
    ];
    for (text, error) in table {
        assert_eq!(text.parse::<OwnedKey>(), Err(error), "{text:?}");
    }
}

#[test]
fn limits_of_a_family() {
    let policy = policy(
        "
plans:
  free: { rate_limit: { sustained: { rate: 1 }, scope: user } }
  pro: { rate_limits: { per-day: { sustained: { rate: 9, window: day }, scope: user } } }
  team: { rate_limit: { sustained: { rate: 5 }, scope: user, on_failure: closed } }
limits: { free: { sustained: { rate: 1 }, scope: user } }
store: { backend: redis, url: redis://127.0.0.1 }
",
    );
    let names = |text: &str| -> Vec<String> {
        let key = OwnedKey {
            family: text.into(),
            scope: Vec::new(),
        };
        let charges = policy.charges_to(key.key());
        let names = charges.map(|(limit, charge)| {
            assert_eq!((charge.name, charge.cost), (&*limit.name, 0));
            assert_eq!(charge.key, key.key());
            limit.name.to_string()
        });
        names.collect()
    };
    assert_eq!(names("plan"), ["plan:free", "plan:team"]);
    assert_eq!(names("plan/per-day"), ["plan:pro/per-day"]);
    assert_eq!(names("limit:free"), ["limit:free"]);
    assert!(names("plan:free").is_empty());
    // And the key of a request is one of them.
    let facts = Facts {
        user: Some("alice"),
        plan: Some("team"),
        ..Facts::default()
    };
    let charges = policy.request(&facts).unwrap().charges();
    let mut keys = charges.iter().map(|(_, _, charge)| charge.key);
    let text = KeyText(keys.nth(1).unwrap()).to_string();
    let read: OwnedKey = text.parse().unwrap();
    assert_eq!(names(&read.family), ["plan:free", "plan:team"]);
}

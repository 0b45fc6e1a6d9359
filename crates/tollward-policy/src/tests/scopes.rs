//! Whose bucket, for every word of a scope and whatever is known.

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use tollward_core::Key;

use super::{charged, policy, sha256, tagged};
use crate::config::ScopeWord;
use crate::policy::hash_of;
use crate::scope::{Caller, CallerIp, ScopeBytes, encode, values};
use crate::{ApiKey, Change, Facts, KeyText, MAX_KEY_TEXT, Policy};

const SECRET: &str = "s3cret";
const IP: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 7));

fn with_scope(scope: &str) -> Policy {
    let rules = policy(&format!(
        "
limits: {{ x: {{ sustained: {{ rate: 1 }}, scope: {scope} }} }}
routes: [ {{ match: /r }} ]
"
    ));
    // A key that proves nothing but itself.
    rules.with(vec![Change::Key {
        hash: hash_of(SECRET),
        key: Some(ApiKey::default()),
    }])
}

/// The key of the only charge; none if there is no charge.
fn key<'p>(policy: &'p Policy, facts: &Facts<'p>) -> Option<(String, Vec<u8>)> {
    let charges = policy.request(facts).unwrap().charges();
    let (_, _, charge) = charges.iter().next()?;
    assert_eq!(charges.iter().len(), 1);
    Some((charge.key.family.to_owned(), charge.key.scope.to_vec()))
}

/// Who may stand for a word, best first.
const CHAINS: [(&str, &[&str]); 5] = [
    ("tenant", &["tenant", "user", "client", "api_key", "ip"]),
    ("user", &["user", "client", "api_key", "ip"]),
    ("client", &["client", "api_key", "ip"]),
    ("api_key", &["api_key", "ip"]),
    ("ip", &["ip"]),
];

#[test]
fn the_next_proven_identity_stands_in() {
    const FACTS: [&str; 5] = ["tenant", "user", "client", "api_key", "ip"];
    for (word, chain) in CHAINS {
        let single = with_scope(word);
        let composite = with_scope(&format!("[{word}, route]"));
        for subset in 0..32_u32 {
            let known: Vec<&str> = (0..5)
                .filter(|bit| subset & (1 << bit) != 0)
                .map(|bit| FACTS[bit])
                .collect();
            let given = |fact: &str, value| known.contains(&fact).then_some(value);
            let facts = Facts {
                tenant: given("tenant", "t"),
                user: given("user", "u"),
                client: given("client", "c"),
                api_key: given("api_key", SECRET),
                ip: known.contains(&"ip").then_some(IP),
                ..Facts::default()
            };
            let by = chain.iter().find(|fact| known.contains(fact)).copied();
            let by = by.unwrap_or("unknown");
            for policy in [&single, &composite] {
                let explained = policy.request(&facts).unwrap().explain();
                let skipped = word == "ip" && by == "unknown" && std::ptr::eq(policy, &single);
                if skipped {
                    assert!(explained.charges.is_empty(), "{word} of {known:?}");
                    continue;
                }
                let scope = &explained.charges[0].scope[0];
                assert_eq!((scope.word, scope.by), (word, by), "{word} of {known:?}");
                let value = match by {
                    "tenant" => "t",
                    "user" => "u",
                    "client" => "c",
                    "api_key" => &sha256(SECRET)[..12],
                    "ip" => "192.0.2.7",
                    _ => "",
                };
                assert_eq!(scope.value, value, "{word} of {known:?}");
            }
        }
    }
}

#[test]
fn keys_as_they_are_written() {
    let facts = Facts {
        tenant: Some("t"),
        user: Some("u"),
        client: Some("c"),
        ip: Some(IP),
        path: Some("/r"),
        ..Facts::default()
    };
    let bare = Facts::default();
    let table = [
        ("global", facts, "limit:x"),
        ("global", bare, "limit:x"),
        ("tenant", facts, "limit:x|tenant=t"),
        ("user", facts, "limit:x|user=u"),
        ("client", facts, "limit:x|client=c"),
        ("ip", facts, "limit:x|ip=192.0.2.7"),
        ("route", facts, "limit:x|route=/r"),
        ("route", bare, "limit:x|route="),
        ("tenant", bare, "limit:x|unknown="),
        ("[user, route]", facts, "limit:x|user=u|route=/r"),
        ("[route, user]", facts, "limit:x|route=/r|user=u"),
        ("[ip, route]", bare, "limit:x|unknown=|route="),
        ("[tenant, user]", bare, "limit:x|unknown=|unknown="),
        ("[user, ip]", facts, "limit:x|user=u|ip=192.0.2.7"),
    ];
    for (scope, facts, expected) in table {
        let policy = with_scope(scope);
        assert_eq!(charged(&policy, &facts), [format!("limit:x {expected} 1")]);
    }
}

/// A caller whose address nobody could tell is limited by address all the same, together with all the
/// others of whom that is true.
#[test]
fn unknown_addresses_share_a_bucket() {
    let policy = policy("limits: { x: { scope: ip, sustained: { rate: 1 } } }");
    let given = Facts::default();
    let unknown = Facts {
        ip_is_unknown: true,
        ..given
    };
    assert_eq!(charged(&policy, &given), [""; 0]);
    assert_eq!(charged(&policy, &unknown), ["limit:x limit:x|unknown= 1"]);
}

#[test]
fn an_empty_text_is_a_missing_fact() {
    let policy = with_scope("tenant");
    let facts = Facts {
        tenant: Some(""),
        plan: Some(""),
        user: Some(""),
        client: Some(""),
        api_key: Some(""),
        method: Some(""),
        path: Some(""),
        ..Facts::default()
    };
    assert_eq!(key(&policy, &facts), key(&policy, &Facts::default()));
    let request = policy.request(&facts).unwrap();
    assert!(request.route.is_none() && request.plan.is_none());
}

#[test]
fn strange_ids_have_buckets_of_their_own() {
    let (policy, long) = (with_scope("user"), "x".repeat(1 << 20));
    let longer = format!("{long}x");
    let ids = [
        "1.2.3.4", "a", "A", "a\0", "\0", "a\r\nb", "a\nb", "{a}", "{", "}", ":", "|", "=", "#",
        "a|user=b", "a=b", "#a", " ", "a ", "é", "e\u{301}", "\u{202e}", "%00", "unknown", "..",
        &long, &longer,
    ];
    let mut texts = HashSet::new();
    for id in ids {
        let facts = Facts {
            user: Some(id),
            ..Facts::default()
        };
        let (family, scope) = key(&policy, &facts).unwrap();
        let text = KeyText(Key {
            family: &family,
            scope: &scope,
        })
        .to_string();
        assert!(is_sound(&text), "{text}");
        assert!(texts.insert(text), "{id:?}");
    }
    // An id that looks like an address is no address, and nobody is nobody's namesake.
    let by_ip = Facts {
        ip: Some(IpAddr::from([1, 2, 3, 4])),
        ..Facts::default()
    };
    let client = Facts {
        client: Some("a"),
        ..Facts::default()
    };
    for facts in [by_ip, client, Facts::default()] {
        let (family, scope) = key(&policy, &facts).unwrap();
        let text = KeyText(Key {
            family: &family,
            scope: &scope,
        })
        .to_string();
        assert!(texts.insert(text), "{facts:?}");
    }
}

#[test]
fn addresses_are_grouped_by_prefix() {
    let of = |policy: &Policy, ip: IpAddr| {
        let facts = Facts {
            ip: Some(ip),
            ..Facts::default()
        };
        let (family, scope) = charges_key(policy, &facts);
        KeyText(Key {
            family: &family,
            scope: &scope,
        })
        .to_string()
    };
    let by_64 = with_scope("ip");
    let v4 = IpAddr::from([1, 2, 3, 4]);
    let mapped = IpAddr::V6(Ipv4Addr::new(1, 2, 3, 4).to_ipv6_mapped());
    assert_eq!(of(&by_64, v4), of(&by_64, mapped));
    assert_ne!(of(&by_64, v4), of(&by_64, IpAddr::from([1, 2, 3, 5])));
    // The same bytes as an IPv6 address that is not IPv4 in disguise.
    assert_ne!(of(&by_64, v4), of(&by_64, "::102:304".parse().unwrap()));

    let base = u128::from("2001:db8:1:2::".parse::<Ipv6Addr>().unwrap());
    let address = |bits: u128| IpAddr::V6(Ipv6Addr::from(bits));
    let distinct = |policy: &Policy, addresses: &mut dyn Iterator<Item = u128>| {
        let keys: HashSet<String> = addresses.map(|bits| of(policy, address(bits))).collect();
        keys.len()
    };
    let mut of_one_64 = (0..10_000).map(|n: u128| base + n * 0x1234_5678_9abc);
    assert_eq!(distinct(&by_64, &mut of_one_64), 1);
    let mut of_many_64 = (0..1000).map(|n| base + (n << 64));
    assert_eq!(distinct(&by_64, &mut of_many_64), 1000);

    for (prefix, expected) in [(1, 1), (48, 1), (63, 128), (64, 256), (65, 256), (128, 256)] {
        let text = format!(
            "{{ identity: {{ ip: {{ ipv6_prefix: {prefix} }} }}, limits: {{ x: {{ sustained: {{ rate: 1 }}, scope: ip }} }} }}"
        );
        let mut addresses = (0..256).map(|n| base + (n << 64));
        assert_eq!(
            distinct(&policy(&text), &mut addresses),
            expected,
            "{prefix}"
        );
    }
}

fn charges_key<'p>(policy: &'p Policy, facts: &Facts<'p>) -> (String, Vec<u8>) {
    key(policy, facts).unwrap()
}

#[test]
fn bytes_that_are_no_scope_still_have_names_of_their_own() {
    let scopes: [&[u8]; 9] = [
        b"",
        b"\0",
        b"a",
        b"b",
        b"key-1",
        b"\x02\x01\0\0\0a",
        b"\x02\x01\0\0\0ab",
        b"\x02\x02\0\0\0a",
        b"\x09\x01\0\0\0a",
    ];
    let texts = scopes.map(|scope| KeyText(Key { family: "x", scope }).to_string());
    assert_eq!(
        HashSet::from(texts.clone()).len(),
        scopes.len(),
        "{texts:?}"
    );
}

fn is_sound(name: &str) -> bool {
    let (_, text) = tagged(name);
    name.len() <= MAX_KEY_TEXT
        && text
            .bytes()
            .all(|b| b.is_ascii_graphic() && b != b'{' && b != b'}')
}

/// Stored keys hold them: these must be so on every node and in every version.
#[test]
fn names_are_pinned() {
    let key = [&b"\x04\x20\0\0\0"[..], &[7; 32][..]].concat();
    let v6 = b"\x05\x10\0\0\0\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\0";
    let table: [(&str, &[u8], &str); 7] = [
        ("limit:system", b"", "{799f7}limit:system"),
        ("plan", b"\x00\0\0\0\0", "{2c75c}plan|unknown="),
        ("plan", b"\x02\x05\0\0\0alice", "{5b19b}plan|user=alice"),
        (
            "plan/per-day",
            b"\x02\x05\0\0\0alice",
            "{5b19b}plan/per-day|user=alice",
        ),
        ("plan", v6, "{2dd75}plan|ip=2001:db8::"),
        ("plan", &key, "{58eea}#a2921fff597c3ac2cde0fc38f912880d"),
        (
            "limit:x",
            b"\xff",
            "{94776}#d55c48ad0c845594284d439fd04498d6",
        ),
    ];
    for (family, scope, expected) in table {
        assert_eq!(KeyText(Key { family, scope }).to_string(), expected);
    }
}

#[test]
fn the_longest_readable_text_has_33_bytes() {
    let name = |user: &str| {
        let scope = encoded(&vec![(ScopeWord::User, user.to_owned())]);
        KeyText(Key {
            family: "plan",
            scope: &scope,
        })
        .to_string()
    };
    let fits = name(&"x".repeat(23));
    assert_eq!(tagged(&fits).1, format!("plan|user={}", "x".repeat(23)));
    assert_eq!(fits.len(), MAX_KEY_TEXT);
    let hashed = name(&"x".repeat(24));
    assert!(tagged(&hashed).1.starts_with('#'), "{hashed}");
    assert_eq!(hashed.len(), MAX_KEY_TEXT);
}

/// Tags spread callers over the slots of a cluster: no slot of 1024 has ten times its part.
#[test]
fn tags_spread() {
    let mut slots = [0; 1024];
    for n in 0..100_000 {
        let scope = encoded(&vec![(ScopeWord::User, format!("user-{n}"))]);
        let name = KeyText(Key {
            family: "plan",
            scope: &scope,
        })
        .to_string();
        slots[usize::from_str_radix(tagged(&name).0, 16).unwrap() % slots.len()] += 1;
    }
    let (most, least) = (slots.iter().max(), slots.iter().min());
    assert!(most < Some(&200) && least > Some(&30), "{most:?} {least:?}");
}

type Values = Vec<(ScopeWord, String)>;

/// Values that contain what the encoding itself is made of.
fn scope_values() -> impl Strategy<Value = Values> {
    let words = [
        ScopeWord::Tenant,
        ScopeWord::User,
        ScopeWord::Client,
        ScopeWord::Route,
        ScopeWord::Upstream,
    ];
    let pieces = select(
        &[
            "a",
            "b",
            "\u{1}",
            "\u{2}",
            "\u{3}\u{1}\0\0\0",
            "\0",
            "|",
            "=",
            "user=",
        ][..],
    );
    let value = vec(pieces, 1..4).prop_map(|pieces| pieces.concat());
    vec((select(words.to_vec()), value), 0..4)
}

fn encoded(values: &Values) -> ScopeBytes {
    let mut bytes = ScopeBytes::new();
    for (word, value) in values {
        let of = |own: ScopeWord| (own == *word).then_some(value.as_str());
        let caller = Caller {
            tenant: of(ScopeWord::Tenant),
            user: of(ScopeWord::User),
            client: of(ScopeWord::Client),
            ..Caller::default()
        };
        let (route, upstream) = (of(ScopeWord::Route), of(ScopeWord::Upstream));
        encode(*word, &caller, route, upstream, &mut bytes);
    }
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn keys_are_injective(lists in vec((select(&["plan", "plan/a", "limit:x", "a|b"][..]), scope_values()), 40)) {
        let mut by_bytes = HashMap::new();
        let mut by_text = HashMap::new();
        for (family, list) in &lists {
            let bytes = encoded(list);
            let name = KeyText(Key { family, scope: &bytes }).to_string();
            prop_assert!(is_sound(&name), "{}", name);
            let (tag, text) = tagged(&name);
            // Of the scope alone.
            let other = KeyText(Key { family: "another", scope: &bytes }).to_string();
            prop_assert_eq!(tagged(&other).0, tag);
            let text = text.to_owned();
            prop_assert_eq!(values(&bytes).count(), list.len());
            prop_assert_eq!(*by_text.entry(text).or_insert((family, list)), (family, list));
            prop_assert_eq!(*by_bytes.entry(bytes.to_vec()).or_insert(list), list);
        }
        // And the same list has the same bytes.
        for (_, list) in &lists {
            prop_assert_eq!(encoded(list), encoded(&list.clone()));
        }
    }

    #[test]
    fn addresses_are_injective(one in any::<[u8; 16]>(), other in any::<[u8; 16]>(), prefix in 1_u8..=128) {
        let net = |ip: [u8; 16]| u128::from_be_bytes(ip) >> (128 - u32::from(prefix));
        let is_v4 = |ip: [u8; 16]| Ipv6Addr::from(ip).to_ipv4_mapped().is_some();
        prop_assume!(!is_v4(one) && !is_v4(other));
        let ip = |ip: [u8; 16]| CallerIp::new(IpAddr::from(ip), prefix);
        prop_assert_eq!(ip(one) == ip(other), net(one) == net(other));
    }
}

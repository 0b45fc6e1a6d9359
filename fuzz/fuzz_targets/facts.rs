//! Any facts: charges and explanations come out, whatever callers send, and the names of buckets stay
//! what stores can take.
#![no_main]

use std::net::IpAddr;
use std::sync::LazyLock;

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use tollward_policy::{Facts, KeyText, MAX_KEY_TEXT, Policy, Treatment, compile};

/// The key `k` is acme's, the key `u` is ann's.
const CONFIG: &str = "
identity: { anonymous: { plan: free }, ip: { ipv6_prefix: 56 } }
plans:
  free: { rate_limit: { sustained: { rate: 1 }, scope: user } }
  p: { rate_limits: { a: { sustained: { rate: 1 }, scope: [tenant, user, client, api_key, ip, route] } } }
limits:
  all: { sustained: { rate: 1 }, scope: global, cost: 4294967295 }
  ip: { sustained: { rate: 1 }, scope: ip, when: anonymous }
  known: { sustained: { rate: 1 }, scope: [client, route], when: authenticated, shadow: true }
tenants: { a: { plan: p }, b: { parent: a } }
keys:
  - { sha256: 8254c329a92850f6d539dd376f4816ee2764517da5e0235514af433164480d7a, tenant: a }
  - { sha256: 0bfe935e70c321c7ca3afc75ce0d0ca2f98b5422e008bb31c00c6d7f1f1c0ad6, user: u, plan: p }
allow: [{ cidr: 192.0.2.0/24 }, { user: r }, { tenant: b }]
routes:
  - { match: POST /a, cost: 4294967295 }
  - { match: /a/**, rate_limit: { sustained: { rate: 1 }, scope: [ip, route] } }
  - { match: /d, deny: true }
  - { match: /o, allow: true }
";

static POLICY: LazyLock<Policy> = LazyLock::new(|| match compile(CONFIG.as_bytes()) {
    Ok(compiled) => compiled.policy,
    Err(faults) => panic!("{faults:?}"),
});

#[derive(Arbitrary, Debug)]
struct Input<'a> {
    tenant: Option<&'a str>,
    plan: Option<&'a str>,
    user: Option<&'a str>,
    client: Option<&'a str>,
    api_key: Option<&'a str>,
    ip: Option<IpAddr>,
    method: Option<&'a str>,
    path: Option<&'a str>,
    cost: u32,
}

fuzz_target!(|input: Input<'_>| {
    let facts = Facts {
        tenant: input.tenant,
        plan: input.plan,
        user: input.user,
        client: input.client,
        api_key: input.api_key,
        ip: input.ip,
        method: input.method,
        path: input.path,
        cost: input.cost,
        ..Facts::default()
    };
    let request = match POLICY.request(&facts) {
        Ok(request) => request,
        Err(rejection) => {
            assert!(!rejection.to_string().is_empty());
            return;
        }
    };
    let charges = request.charges();
    for (_, limit, charge) in charges.iter() {
        let name = KeyText(charge.key).to_string();
        assert!(name.len() <= MAX_KEY_TEXT, "{name}");
        let is_sound = |byte: u8| byte.is_ascii_graphic() && byte != b'{' && byte != b'}';
        let parts = name.strip_prefix('{').and_then(|rest| rest.split_once('}'));
        let sound = parts.is_some_and(|(tag, text)| tag.len() == 5 && text.bytes().all(is_sound));
        assert!(sound, "{name}");
        assert!(charge.cost == 0 || input.cost > 0);
        assert_eq!(charge.name, &*limit.name);
    }
    let explained = request.explain();
    if request.treatment == Treatment::Limited {
        assert_eq!(explained.charges.len(), charges.iter().len());
    } else {
        assert!(explained.charges.is_empty() && explained.reason.is_some());
    }
});

//! Who calls: what the file says of it, and what requests are made of it.

use std::net::IpAddr;

use super::{assert_faults, charged, faults_of, policy, sha256};
use crate::config::{ForwardingHeader, JwtAlgorithm};
use crate::{
    Anonymous, ApiKey, Bypass, Facts, IdentityOptions, JwksSource, JwtOptions, KeyText, Policy,
    Rejection, Strategy, Treatment,
};

fn identity(text: &str) -> IdentityOptions {
    policy(&format!("identity: {text}")).identity().clone()
}

#[test]
fn what_holds_unless_the_file_says() {
    let default = IdentityOptions::default();
    assert_eq!(default.api_key.header, "x-api-key");
    assert!(!default.api_key.forward && !default.basic);
    assert_eq!(default.forwarding, ForwardingHeader::XForwardedFor);
    assert_eq!(default.anonymous, Anonymous::Unsaid);
    for text in ["", "identity: {}", "identity: { api_key: {}, ip: {} }"] {
        assert_eq!(*policy(text).identity(), default);
    }
}

#[test]
fn what_the_file_says() {
    let all = identity(
        "
  api_key: { header: X-Key, forward: true }
  user:
    header: X-User
    jwt: { jwks: keys.json }
  client: { header: X-Client, basic: true }
  ip: { trusted_proxies: [10.0.0.0/8, 2001:db8::/32], header: forwarded }
  anonymous: allow
",
    );
    assert_eq!(all.api_key.header, "x-key");
    assert!(all.api_key.forward && all.basic);
    assert_eq!(all.user_header.as_ref().unwrap(), "x-user");
    assert_eq!(all.client_header.as_ref().unwrap(), "x-client");
    let jwt = JwtOptions {
        jwks: JwksSource::File("keys.json".into()),
        claim: "sub".into(),
        algorithm: JwtAlgorithm::RS256,
        issuer: None,
        audience: None,
    };
    assert_eq!(all.jwt, Some(jwt));
    assert_eq!(all.trusted_proxies.len(), 2);
    assert_eq!(all.forwarding, ForwardingHeader::Forwarded);
    assert_eq!(all.anonymous, Anonymous::Allow);
    let jwt = identity(
        "{ user: { jwt: { jwks: https://a/k, claim: email, algorithm: EdDSA, issuer: i, audience: a } } }",
    );
    let expected = JwtOptions {
        jwks: JwksSource::Url("https://a/k".into()),
        claim: "email".into(),
        algorithm: JwtAlgorithm::EdDSA,
        issuer: Some("i".into()),
        audience: Some("a".into()),
    };
    assert_eq!(jwt.jwt, Some(expected));
}

#[test]
fn trusted_peers() {
    let options = identity("{ ip: { trusted_proxies: [10.0.0.0/8, 192.0.2.7, 2001:db8::/32] } }");
    let table = [
        ("10.1.2.3", true),
        ("::ffff:10.1.2.3", true),
        ("192.0.2.7", true),
        ("192.0.2.8", false),
        ("2001:db8::1", true),
        ("2001:db9::1", false),
        // IPv4 in other disguises is not IPv4.
        ("::10.1.2.3", false),
    ];
    for (ip, trusted) in table {
        assert_eq!(options.trusts(ip.parse().unwrap()), trusted, "{ip}");
    }
    assert!(!IdentityOptions::default().trusts(IpAddr::from([127, 0, 0, 1])));
}

#[test]
fn a_header_says_one_thing() {
    assert_faults(
        "identity: { api_key: { header: X-A }, user: { header: x-a }, client: { header: X-a } }",
        &[
            "1:55: identity.user.header: the same header as that of `identity.api_key`; choose a header of its own",
            "1:80: identity.client.header: the same header as that of `identity.api_key`; choose a header of its own",
        ],
    );
    let taken = "`Authorization` is what `jwt` and `basic` read; choose a header of its own";
    assert_faults(
        "identity: { api_key: { header: Authorization }, client: { basic: true } }",
        &[&format!("1:32: identity.api_key.header: {taken}")],
    );
    assert_faults(
        "identity: { api_key: { header: Authorization }, user: { jwt: { jwks: k } } }",
        &[&format!("1:32: identity.api_key.header: {taken}")],
    );
    assert!(
        faults_of("identity: { api_key: { header: Authorization }, client: { basic: false } }")
            .is_empty()
    );
}

/// Those of whom nothing is proven: not a tenant, not an address.
#[test]
fn anonymous_callers_are_refused_if_the_file_says_so() {
    let keys = format!(
        "tenants: {{ t: {{}} }}\nkeys: [{{ sha256: {}, tenant: t }}]\nallow: [{{ api_key: {{ sha256: {} }} }}, {{ cidr: 192.0.2.0/24 }}]\nroutes: [{{ match: /open, allow: true }}, {{ match: /shut, deny: true }}]",
        sha256("k"),
        sha256("listed")
    );
    let none = Facts::default();
    let office = Facts {
        ip: Some(IpAddr::from([192, 0, 2, 1])),
        ..none
    };
    let anonymous = [
        none,
        office,
        Facts {
            tenant: Some("t"),
            ..none
        },
        Facts {
            user: Some(""),
            client: Some(""),
            api_key: Some(""),
            ..none
        },
        Facts {
            path: Some("/shut"),
            ..none
        },
    ];
    let proven = [
        Facts {
            user: Some("u"),
            ..none
        },
        Facts {
            client: Some("c"),
            ..none
        },
        Facts {
            api_key: Some("k"),
            ..none
        },
    ];
    let plan = "plans: { free: { rate_limit: { sustained: { rate: 1 } } } }\n";
    for (said, refused) in [
        ("{}", false),
        ("{ anonymous: allow }", false),
        ("{ anonymous: { plan: free } }", false),
        ("{ anonymous: reject }", true),
    ] {
        let policy = policy(&format!("{plan}identity: {said}\n{keys}"));
        for facts in &anonymous {
            let request = policy.request(facts);
            match &request {
                Ok(request) => assert!(request.is_anonymous() && !refused, "{said} {facts:?}"),
                Err(rejection) => assert!(
                    *rejection == Rejection::Anonymous && refused,
                    "{said} {facts:?}"
                ),
            }
        }
        // Nobody has to prove anything where everybody is let through.
        let open = Facts {
            path: Some("/open"),
            ..none
        };
        assert!(policy.request(&open).unwrap().is_anonymous(), "{said}");
        for facts in &proven {
            assert!(
                !policy.request(facts).unwrap().is_anonymous(),
                "{said} {facts:?}"
            );
        }
    }
    assert_eq!(
        Rejection::Anonymous.to_string(),
        "the request has no credentials: an API key, a user or a client is needed"
    );
}

fn with_keys() -> Policy {
    policy(&format!(
        "
limits: {{ x: {{ sustained: {{ rate: 1 }}, scope: client }} }}
tenants: {{ t: {{}} }}
keys:
  - {{ sha256: {web}, client: web }}
  - {{ sha256: {all}, tenant: t, user: u, client: c }}
allow: [{{ api_key: {{ sha256: {listed} }} }}]
",
        web = sha256("web"),
        all = sha256("all"),
        listed = sha256("listed"),
    ))
}

#[test]
fn a_key_proves_a_client() {
    let policy = with_keys();
    let none = Facts::default();
    let key = |secret| Facts {
        api_key: Some(secret),
        ..none
    };
    assert_eq!(
        charged(&policy, &key("web")),
        ["limit:x limit:x|client=web 1"]
    );
    let request = policy.request(&key("all")).unwrap();
    assert_eq!(
        (request.tenant(), request.user(), request.client()),
        (Some("t"), Some("u"), Some("c"))
    );
    let of = |client| Facts {
        client: Some(client),
        ..key("web")
    };
    assert_eq!(
        charged(&policy, &of("web")),
        ["limit:x limit:x|client=web 1"]
    );
    let mismatch = policy.request(&of("Web")).unwrap_err();
    assert_eq!(mismatch, Rejection::KeyMismatch("client"));
    assert_eq!(
        mismatch.to_string(),
        "the API key belongs to another client"
    );
}

#[test]
fn what_is_known_of_a_key() {
    let policy = with_keys();
    let web = ApiKey {
        client: Some("web".into()),
        ..ApiKey::default()
    };
    assert_eq!(policy.key("web"), Ok(&web));
    assert_eq!(policy.key("all").unwrap().tenant.as_deref(), Some("t"));
    // That it is on the allow-list makes it no key.
    for unknown in ["", "Web", "web ", "nobody", "listed"] {
        assert_eq!(
            policy.key(unknown),
            Err(Rejection::UnknownKey),
            "{unknown:?}"
        );
    }
}

/// A trusted proxy that does not say for whom it asks.
#[test]
fn the_address_of_a_proxy_is_not_on_the_allow_list() {
    let policy = policy(
        "
limits: { x: { sustained: { rate: 1 }, scope: ip } }
allow: [{ cidr: 10.0.0.0/8, reason: office }, { user: root, reason: operator }]
",
    );
    let facts = Facts {
        ip: Some(IpAddr::from([10, 0, 0, 1])),
        ..Facts::default()
    };
    let proxy = Facts {
        ip_is_proxy: true,
        ..facts
    };
    let root = Facts {
        user: Some("root"),
        ..proxy
    };
    let treatment = |facts: &Facts<'static>| policy.request(facts).unwrap().treatment;
    assert_eq!(
        treatment(&facts),
        Treatment::Bypassed(Bypass::AllowList("office"))
    );
    assert_eq!(treatment(&proxy), Treatment::Limited);
    assert_eq!(charged(&policy, &proxy), ["limit:x limit:x|ip=10.0.0.1 1"]);
    assert_eq!(
        treatment(&root),
        Treatment::Bypassed(Bypass::AllowList("operator"))
    );
}

/// A tenant alone does not prove who calls; a door that has authenticated the caller says so.
#[test]
fn an_authenticated_caller_is_not_anonymous() {
    let policy = policy(
        "
identity: { anonymous: reject }
limits:
  known: { scope: tenant, when: authenticated, sustained: { rate: 1 } }
  strangers: { scope: tenant, when: anonymous, sustained: { rate: 1 } }
",
    );
    let claimed = Facts {
        tenant: Some("t"),
        ..Facts::default()
    };
    let proven = Facts {
        is_authenticated: true,
        ..claimed
    };
    assert_eq!(policy.request(&claimed).unwrap_err(), Rejection::Anonymous);
    assert!(!policy.request(&proven).unwrap().is_anonymous());
    let expected = ["limit:known limit:known|tenant=t 1"];
    assert_eq!(charged(&policy, &proven), expected);
}

#[test]
fn wrong_keys_are_charged_to_the_address() {
    for text in [
        "",
        "enforcement: shadow",
        "enforcement: off",
        "store: { on_failure: closed }",
    ] {
        let policy = policy(text);
        let of = |ip: &str| {
            let charges = policy.wrong_key_charges(ip.parse::<IpAddr>().ok());
            assert_eq!(charges.iter().len(), 1);
            let (id, limit, charge) = charges.iter().next().unwrap();
            assert!(std::ptr::eq(limit, &policy.limits()[id]));
            assert_eq!(
                (charge.name, charge.key.family),
                ("wrong_keys", "wrong_keys")
            );
            assert_eq!((charge.cost, charge.shadow), (1, false));
            assert_eq!(charge.on_failure, tollward_core::OnFailure::Local);
            let numbers = (
                charge.limit.capacity(),
                charge.limit.rate(),
                charge.limit.window().as_secs(),
            );
            assert_eq!(numbers, (20, 10, 60));
            assert!(!limit.headers && limit.strategy == Strategy::Reject);
            KeyText(charge.key).to_string()
        };
        assert!(of("192.0.2.7").ends_with("}wrong_keys|ip=192.0.2.7"));
        assert_eq!(of("::ffff:192.0.2.7"), of("192.0.2.7"));
        assert_ne!(of("192.0.2.8"), of("192.0.2.7"));
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:1"));
        assert_ne!(of("2001:db8:0:1::1"), of("2001:db8::1"));
        assert!(of("no address").ends_with("}wrong_keys|unknown="));
    }
    // It is nobody's ordinary limit, and the file does not say it.
    let one = policy("limits: { x: { sustained: { rate: 1 } } }");
    let names = |limits: &[crate::PolicyLimit]| {
        limits
            .iter()
            .map(|it| it.name.to_string())
            .collect::<Vec<_>>()
    };
    assert_eq!(one.written_limits(), 1);
    assert_eq!(names(one.limits()), ["limit:x", "wrong_keys"]);
    assert_eq!(policy("").written_limits(), 0);
    let facts = Facts {
        ip: Some(IpAddr::from([192, 0, 2, 7])),
        ..Facts::default()
    };
    assert!(policy("").request(&facts).unwrap().charges().is_empty());
}

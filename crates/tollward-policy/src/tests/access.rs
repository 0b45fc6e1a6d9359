//! Who is refused, who has to prove who it is, and to which tenant a caller belongs.

use std::net::IpAddr;
use std::sync::Arc;

use super::{charged, policy, sha256};
use crate::policy::hash_of;
use crate::{
    ApiKey, Bypass, Change, Denial, Facts, List, Listed, ListedCaller, Misconfigured, Policy,
    Rejection, Suspended, TenantEntry, TenantLimit, Treatment, UserEntry,
};

const NONE: Facts<'static> = Facts {
    tenant: None,
    plan: None,
    user: None,
    client: None,
    api_key: None,
    ip: None,
    ip_is_proxy: false,
    ip_is_unknown: false,
    is_authenticated: false,
    method: None,
    path: None,
    path_is_kept: false,
    cost: 1,
};

fn key(secret: &str) -> Facts<'_> {
    Facts {
        api_key: Some(secret),
        ..NONE
    }
}

fn user(user: &str) -> Facts<'_> {
    Facts {
        user: Some(user),
        ..NONE
    }
}

fn tenant(tenant: &str) -> Facts<'_> {
    Facts {
        tenant: Some(tenant),
        ..NONE
    }
}

fn ip(text: &str) -> Facts<'static> {
    let ip: IpAddr = text.parse().unwrap();
    Facts {
        ip: Some(ip),
        ..NONE
    }
}

fn treatment<'p>(policy: &'p Policy, facts: &Facts<'p>) -> Treatment<'p> {
    policy.request(facts).unwrap().treatment
}

fn listed(id: &str, list: List, who: Listed) -> Change {
    let reason = "abuse".into();
    Change::Listed {
        id: id.into(),
        entry: Some((list, ListedCaller { who, reason })),
    }
}

fn below(id: &str, parent: &str, suspended: bool) -> Change {
    Change::Tenant {
        id: id.into(),
        entry: Some(TenantEntry {
            parent: Some(parent.into()),
            suspended,
            ..TenantEntry::default()
        }),
    }
}

/// Every kind of caller, on the lists of the file and of the directory. Each is allowed as well.
#[test]
fn the_deny_list_beats_the_allow_list_and_the_kill_switch() {
    let text = |enforcement: &str| {
        format!(
            "
enforcement: {enforcement}
limits: {{ x: {{ sustained: {{ rate: 1 }} }} }}
tenants: {{ bad: {{}}, below: {{ parent: bad }}, good: {{}} }}
keys: [ {{ sha256: {k}, tenant: good }}, {{ sha256: {of_tenant}, tenant: below }} ]
allow: [ {{ cidr: 0.0.0.0/0 }}, {{ user: eve }}, {{ client: bot }}, {{ tenant: bad }}, {{ tenant: below }}, {{ api_key: {{ sha256: {k} }} }} ]
deny:
  - {{ cidr: 198.51.100.0/24, reason: abuse }}
  - {{ user: eve, reason: abuse }}
  - {{ client: bot, reason: abuse }}
  - {{ tenant: bad, reason: abuse }}
  - {{ api_key: {{ sha256: {k} }}, reason: abuse }}
",
            k = sha256("k"),
            of_tenant = sha256("of-tenant"),
        )
    };
    let denied = Treatment::Denied(Denial::DenyList("abuse"));
    let callers = [
        ip("198.51.100.7"),
        ip("::ffff:198.51.100.7"),
        user("eve"),
        Facts {
            client: Some("bot"),
            ..NONE
        },
        tenant("bad"),
        // With the tenants below it.
        tenant("below"),
        key("of-tenant"),
        key("k"),
        // Credentials of such an address are not even looked at.
        Facts {
            api_key: Some("wrong"),
            ..ip("198.51.100.7")
        },
    ];
    for enforcement in ["on", "shadow", "off"] {
        let policy = policy(&text(enforcement));
        for facts in &callers {
            assert_eq!(treatment(&policy, facts), denied, "{enforcement} {facts:?}");
            assert!(policy.request(facts).unwrap().payable().is_none());
        }
        for facts in [ip("198.51.101.7"), user("Eve"), tenant("good")] {
            assert_ne!(
                treatment(&policy, &facts),
                denied,
                "{enforcement} {facts:?}"
            );
        }
    }
}

#[test]
fn the_directory_denies_and_forgives() {
    let base = policy("tenants: { bad: {}, below: { parent: bad } }");
    let net = Listed::Net("198.51.100.0/24".parse().unwrap());
    let denying = base.with(vec![
        listed("1", List::Deny, net),
        listed("2", List::Deny, Listed::Tenant("bad".into())),
        listed("3", List::Deny, Listed::Tenant("nowhere".into())),
        listed("4", List::Allow, Listed::Tenant("below".into())),
    ]);
    let denied = Treatment::Denied(Denial::DenyList("abuse"));
    let callers = [ip("198.51.100.7"), tenant("below"), tenant("nowhere")];
    for facts in &callers {
        assert_eq!(treatment(&denying, facts), denied, "{facts:?}");
        assert_eq!(treatment(&base, facts), Treatment::Limited, "{facts:?}");
    }
    // The root is above everybody, also above those who have no tenant.
    let closed = base.with(vec![listed(
        "1",
        List::Deny,
        Listed::Tenant("system".into()),
    )]);
    for facts in [NONE, user("ann"), tenant("below"), tenant("unknown")] {
        assert_eq!(treatment(&closed, &facts), denied, "{facts:?}");
    }
    // A new file changes nothing about it.
    let reloaded = policy("tenants: { bad: {}, below: { parent: bad } }").for_people_of(&denying);
    assert_eq!(treatment(&reloaded, &callers[1]), denied);
    let gone = |id: &str| Change::Listed {
        id: id.into(),
        entry: None,
    };
    let forgiving = denying.with(vec![gone("1"), gone("2"), gone("3")]);
    assert_eq!(treatment(&forgiving, &callers[0]), Treatment::Limited);
    assert_eq!(
        treatment(&forgiving, &callers[1]),
        Treatment::Bypassed(Bypass::AllowList("abuse"))
    );
}

#[test]
fn what_is_suspended_is_refused_whatever_the_allow_list_says() {
    let base = policy("limits: { x: { sustained: { rate: 1 } } }").with(vec![
        below("partner", "system", false),
        below("acme", "partner", false),
        Change::Key {
            hash: hash_of("k"),
            key: Some(ApiKey {
                tenant: Some("acme".into()),
                ..ApiKey::default()
            }),
        },
        listed("1", List::Allow, Listed::Key(hash_of("k"))),
        listed("2", List::Allow, Listed::Tenant("acme".into())),
        listed("3", List::Allow, Listed::User("ann".into())),
    ]);
    let suspended = |what| Treatment::Denied(Denial::Suspended(what));
    assert!(matches!(
        treatment(&base, &key("k")),
        Treatment::Bypassed(_)
    ));

    let tenant_suspended = base.with(vec![below("acme", "partner", true)]);
    assert_eq!(
        treatment(&tenant_suspended, &key("k")),
        suspended(Suspended::Tenant("acme"))
    );
    // With all that is below it.
    let partner_suspended = base.with(vec![below("partner", "system", true)]);
    let by_partner = suspended(Suspended::Tenant("partner"));
    assert_eq!(treatment(&partner_suspended, &key("k")), by_partner);
    assert_eq!(treatment(&partner_suspended, &tenant("acme")), by_partner);
    let acme = partner_suspended.tenant("acme").unwrap();
    assert_eq!(acme.suspended_by(), Some("partner"));
    let resumed = partner_suspended.with(vec![below("partner", "system", false)]);
    assert!(matches!(
        treatment(&resumed, &key("k")),
        Treatment::Bypassed(_)
    ));

    let key_suspended = base.with(vec![Change::Key {
        hash: hash_of("k"),
        key: Some(ApiKey {
            tenant: Some("acme".into()),
            suspended: true,
            ..ApiKey::default()
        }),
    }]);
    assert_eq!(
        treatment(&key_suspended, &key("k")),
        suspended(Suspended::Key)
    );
    assert!(matches!(
        treatment(&key_suspended, &tenant("acme")),
        Treatment::Bypassed(_)
    ));

    let user_suspended = base.with(vec![Change::User {
        id: "ann".into(),
        entry: Some(UserEntry {
            suspended: true,
            ..UserEntry::default()
        }),
    }]);
    assert_eq!(
        treatment(&user_suspended, &user("ann")),
        suspended(Suspended::User)
    );
    let off = user_suspended.with(vec![Change::Enforcement(Some(
        crate::config::Enforcement::Off,
    ))]);
    assert_eq!(treatment(&off, &user("ann")), suspended(Suspended::User));
}

/// What is suspended in the directory stays so when the file gets an entry of the same name.
#[test]
fn a_reload_lifts_no_suspension() {
    let suspended = policy("").with(vec![
        below("acme", "system", true),
        Change::Key {
            hash: hash_of("k"),
            key: Some(ApiKey {
                user: Some("ann".into()),
                suspended: true,
                ..ApiKey::default()
            }),
        },
    ]);
    let file = format!(
        "tenants: {{ acme: {{}} }}\nkeys: [ {{ sha256: {}, user: ann }} ]",
        sha256("k")
    );
    let reloaded = policy(&file).for_people_of(&suspended);
    let by = |what| Treatment::Denied(Denial::Suspended(what));
    let acme = by(Suspended::Tenant("acme"));
    assert_eq!(treatment(&reloaded, &tenant("acme")), acme);
    assert_eq!(treatment(&reloaded, &key("k")), by(Suspended::Key));
    let resumed = reloaded.with(vec![
        below("acme", "system", false),
        Change::Key {
            hash: hash_of("k"),
            key: None,
        },
    ]);
    assert_eq!(treatment(&resumed, &tenant("acme")), Treatment::Limited);
    assert_eq!(treatment(&resumed, &key("k")), Treatment::Limited);
}

/// A user of the directory is charged to its tenant, by that tenant's plan, and to those above it.
#[test]
fn a_user_belongs_to_its_tenant() {
    let limit = "{ sustained: { rate: 2 }, sharing: enforce }";
    let limit = Arc::new(TenantLimit::parse(limit).unwrap());
    let base = policy(
        "plans: { lite: { rate_limit: { sustained: { rate: 5 }, scope: tenant } } }
tenants: { other: {} }",
    );
    let policy = base.with(vec![
        Change::Tenant {
            id: "partner".into(),
            entry: Some(TenantEntry {
                plan: Some("lite".into()),
                limit: Some(limit),
                ..TenantEntry::default()
            }),
        },
        below("acme", "partner", false),
        Change::User {
            id: "bob".into(),
            entry: Some(UserEntry {
                tenant: Some("acme".into()),
                ..UserEntry::default()
            }),
        },
        Change::Key {
            hash: hash_of("of-bob"),
            key: Some(ApiKey {
                user: Some("bob".into()),
                ..ApiKey::default()
            }),
        },
    ]);
    let expected = [
        "plan:lite plan|tenant=acme 1",
        "tenant:partner tenant|tenant=partner 1",
    ];
    assert_eq!(charged(&policy, &user("bob")), expected);
    assert_eq!(charged(&policy, &key("of-bob")), expected);
    let request = policy.request(&user("bob")).unwrap();
    assert_eq!(
        (request.tenant(), request.plan()),
        (Some("acme"), Some("lite"))
    );
    // A tenant that the request itself names, or its key, takes precedence.
    let named = Facts {
        tenant: Some("other"),
        ..user("bob")
    };
    assert_eq!(policy.request(&named).unwrap().tenant(), Some("other"));
    // But the suspension of the user's own tenant holds whatever tenant is named.
    let suspended = policy.with(vec![below("acme", "partner", true)]);
    for facts in [user("bob"), named, key("of-bob")] {
        assert_eq!(
            treatment(&suspended, &facts),
            Treatment::Denied(Denial::Suspended(Suspended::Tenant("acme"))),
            "{facts:?}"
        );
    }
    // Without its tenant the user is not free.
    let lost = policy.with(vec![Change::Tenant {
        id: "acme".into(),
        entry: None,
    }]);
    assert_eq!(
        lost.request(&user("bob")).err(),
        Some(Rejection::Misconfigured(Misconfigured::Tenant(
            "acme".into()
        )))
    );
}

/// Who has to prove who it is: by what the route says, and by what the file says of anonymous callers.
#[test]
fn a_route_says_whether_credentials_are_needed() {
    let policy_of = |anonymous: &str| {
        policy(&format!(
            "
identity: {{ anonymous: {anonymous} }}
plans: {{ free: {{ rate_limit: {{ sustained: {{ rate: 1 }}, scope: ip }} }} }}
keys: [ {{ sha256: {}, user: ann }} ]
routes:
  - {{ match: /required, auth: required }}
  - {{ match: /optional, auth: optional }}
  - {{ match: /none, auth: none }}
  - {{ match: /open, allow: true }}
  - {{ match: /guarded, allow: true, auth: required }}
  - {{ match: /unsaid }}
",
            sha256("right")
        ))
    };
    let ask = |policy: &Policy, path: &str, secret: Option<&str>| {
        let facts = Facts {
            path: Some(path),
            api_key: secret,
            ..ip("192.0.2.1")
        };
        match policy.request(&facts) {
            Ok(request) => Ok(request.user().map(str::to_owned)),
            Err(rejection) => Err(rejection),
        }
    };
    let ann = || Ok(Some("ann".to_owned()));
    let asked = Err(Rejection::Anonymous);
    let wrong = Err(Rejection::UnknownKey);
    for anonymous in ["reject", "allow", "{ plan: free }"] {
        let policy = policy_of(anonymous);
        let unsaid = match anonymous {
            "reject" => asked.clone(),
            _ => Ok(None),
        };
        for (path, without, with_wrong, with_right) in [
            ("/required", asked.clone(), wrong.clone(), ann()),
            ("/optional", Ok(None), wrong.clone(), ann()),
            // Credentials are not read there, be they right or wrong.
            ("/none", Ok(None), Ok(None), Ok(None)),
            ("/open", Ok(None), Ok(None), Ok(None)),
            ("/guarded", asked.clone(), wrong.clone(), ann()),
            ("/unsaid", unsaid, wrong.clone(), ann()),
        ] {
            assert_eq!(ask(&policy, path, None), without, "{anonymous} {path}");
            let got = ask(&policy, path, Some("wrong"));
            assert_eq!(got, with_wrong, "{anonymous} {path}");
            let got = ask(&policy, path, Some("right"));
            assert_eq!(got, with_right, "{anonymous} {path}");
        }
    }
    // Those who show nothing are charged as anonymous callers are.
    let policy = policy_of("{ plan: free }");
    let facts = Facts {
        path: Some("/none"),
        ..ip("192.0.2.1")
    };
    assert_eq!(charged(&policy, &facts), ["plan:free plan|ip=192.0.2.1 1"]);
}

/// Where the method is not known, the route that asks for more counts.
#[test]
fn an_unknown_method_opens_nothing() {
    let policy = policy(
        "
routes:
  - { match: GET /x, auth: none }
  - { match: POST /x, auth: required }
",
    );
    let facts = Facts {
        path: Some("/x"),
        ..NONE
    };
    assert_eq!(policy.request(&facts).err(), Some(Rejection::Anonymous));
}

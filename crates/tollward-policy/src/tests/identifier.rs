//! Callers as records name them.

use super::{policy, sha256};
use crate::Facts;

const CONFIG: &str = "
plans: { p: { rate_limit: { sustained: { rate: 1 }, scope: user } } }
limits:
  all: { sustained: { rate: 1 }, scope: global }
  route: { sustained: { rate: 1 }, scope: [route, client] }
  key: { sustained: { rate: 1 }, scope: api_key }
  ip: { sustained: { rate: 1 }, scope: ip }
tenants: { acme: {} }
routes: [ { match: /a, cost: 3 } ]
";

#[test]
fn the_name_is_that_of_whom_the_limit_counts() {
    let text = format!(
        "{CONFIG}keys: [ {{ sha256: {}, tenant: acme }} ]",
        sha256("k")
    );
    let policy = policy(&text);
    let nobody = Facts::default();
    let ip = Facts {
        ip: Some("192.0.2.7".parse().unwrap()),
        ..nobody
    };
    let v6 = Facts {
        ip: Some("2001:db8::1:2:3:4".parse().unwrap()),
        ..nobody
    };
    let key = Facts {
        api_key: Some("k"),
        ..ip
    };
    let key_and_user = Facts {
        user: Some("al\0ice"),
        ..key
    };
    let all = Facts {
        client: Some("app"),
        ..key_and_user
    };
    let of_key = format!("api_key:{}", &sha256("k")[..12]);
    for (facts, expected) in [
        (nobody, ["unknown"; 5]),
        (ip, ["ip:192.0.2.7"; 5]),
        (v6, ["ip:2001:db8::"; 5]),
        (key, [&of_key, &of_key, &of_key, "ip:192.0.2.7", &of_key]),
        (
            key_and_user,
            [
                "user:al\u{fffd}ice",
                &of_key,
                &of_key,
                "ip:192.0.2.7",
                "user:al\u{fffd}ice",
            ],
        ),
        (
            all,
            [
                "user:al\u{fffd}ice",
                "client:app",
                &of_key,
                "ip:192.0.2.7",
                "user:al\u{fffd}ice",
            ],
        ),
    ] {
        let facts = Facts {
            plan: Some("p"),
            ..facts
        };
        let request = policy.request(&facts).unwrap();
        let limits = [
            "limit:all",
            "limit:route",
            "limit:key",
            "limit:ip",
            "plan:p",
        ];
        let named = limits.map(|name| {
            let limit = policy.limits().iter().find(|it| *it.name == *name);
            let identifier = request.identifier(limit.unwrap());
            let text = identifier.to_string();
            assert_eq!(identifier.into_owned().to_string(), text);
            text
        });
        assert_eq!(named, expected, "{facts:?}");
    }
}

#[test]
fn a_name_is_cut_where_it_is_too_long_to_keep() {
    let policy = policy(CONFIG);
    let user = "é".repeat(300);
    for start in ["", "x"] {
        let user = format!("{start}{user}");
        let facts = Facts {
            user: Some(&user),
            plan: Some("p"),
            ..Facts::default()
        };
        let request = policy.request(&facts).unwrap();
        let limit = policy.limits().iter().find(|it| &*it.name == "plan:p");
        let name = request.identifier(limit.unwrap()).to_string();
        let kept = name.strip_prefix("user:").unwrap();
        assert!(user.starts_with(kept));
        assert!((255..=256).contains(&kept.len()), "{}", kept.len());
    }
}

#[test]
fn what_else_is_recorded_of_a_request() {
    let policy = policy(CONFIG);
    for (tenant, known) in [
        (None, None),
        (Some("acme"), Some("acme")),
        (Some("system"), Some("system")),
        (Some("stranger"), None),
    ] {
        let facts = Facts {
            tenant,
            ..Facts::default()
        };
        let request = policy.request(&facts).unwrap();
        assert_eq!(request.known_tenant_id(), known);
        assert_eq!((request.tokens(), request.key_hash()), (1, None));
    }
    let facts = Facts {
        path: Some("/a"),
        cost: u32::MAX,
        ..Facts::default()
    };
    let request = policy.request(&facts).unwrap();
    assert_eq!(request.tokens(), 3 * u64::from(u32::MAX));
    let ip = policy.address_identifier("::ffff:192.0.2.7".parse::<std::net::IpAddr>().unwrap());
    assert_eq!(ip.to_string(), "ip:192.0.2.7");
}

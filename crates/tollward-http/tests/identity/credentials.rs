//! API keys, HTTP Basic, and what peers say of users and clients.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::HeaderName;
use http::request::Parts;
use serde_json::json;
use tollward_http::{AuthFailure, Identified, Proofs, TokenFault, identify};
use tollward_policy::config::JwtAlgorithm;
use tollward_policy::{Change, IdentityOptions, JwtOptions, Policy};

use crate::keys::{Signer, jwks};
use crate::{NOW, head, peer, policy, sender, source};

/// The hashes are of `secret-1` (of the client `app`), `secret-2` (of `other`) and `secret-3` (of a user).
const KEYS: &str = "
keys:
  - { sha256: f7e7c36e458e80e6b6a2c67d0a9ec09bd718dadd7bfa8d6bf6e7ad526e46c2f7, client: app }
  - { sha256: f4b6bb6548129dacf11c1a9c4dffffefd4aa6b21fcf4e9754cc03b731cbe7c25, client: other }
  - { sha256: 2c7d3470d617514ede9f8b07e2912811351e6efe42cdc07b661a790b6659d486, user: ann }
";

const STRANGER: &str = "192.0.2.1";
const PROXY: &str = "10.0.0.1";

fn options() -> IdentityOptions {
    IdentityOptions {
        user_header: Some(HeaderName::from_static("x-user-id")),
        client_header: Some(HeaderName::from_static("x-client-id")),
        basic: true,
        trusted_proxies: vec!["10.0.0.0/8".parse().unwrap()],
        ..IdentityOptions::default()
    }
}

fn known<'r>(
    options: &IdentityOptions,
    from: &str,
    head: &'r Parts,
) -> Result<Identified<'r>, AuthFailure> {
    let policy: Policy = policy(KEYS);
    identify(options, &Proofs::default(), &policy, peer(from), head, NOW)
}

fn basic(pair: &str) -> String {
    format!("Basic {}", STANDARD.encode(pair))
}

/// Key, user and client.
fn who(
    options: &IdentityOptions,
    from: &str,
    headers: &[(&str, &[u8])],
) -> Result<[Option<String>; 3], AuthFailure> {
    let head = head(headers);
    let sender = known(options, from, &head)?;
    let facts = sender.facts();
    Ok([facts.api_key, facts.user, facts.client].map(|fact| fact.map(str::to_owned)))
}

fn facts(key: Option<&str>, user: Option<&str>, client: Option<&str>) -> [Option<String>; 3] {
    [key, user, client].map(|fact| fact.map(str::to_owned))
}

fn nobody() -> [Option<String>; 3] {
    facts(None, None, None)
}

#[test]
fn the_request_itself_is_told_as_it_is() {
    let head = head(&[]);
    let sender = sender(&options(), STRANGER, &head).unwrap();
    let facts = sender.facts();
    assert_eq!((facts.method, facts.path), (Some("GET"), Some("/a")));
    assert_eq!((facts.tenant, facts.plan, facts.cost), (None, None, 1));
}

#[test]
fn a_key_is_in_its_header_once() {
    let by = |headers: &[(&str, &[u8])]| who(&options(), STRANGER, headers);
    assert_eq!(by(&[]), Ok(nobody()));
    assert_eq!(by(&[("x-api-key", b"k")]), Ok(facts(Some("k"), None, None)));
    assert_eq!(
        by(&[("x-api-key", "k\u{e9}".as_bytes())]),
        Ok(facts(Some("ké"), None, None))
    );
    for headers in [
        &[("x-api-key", &b""[..])][..],
        &[("x-api-key", b"k\tk")],
        &[("x-api-key", b"k\xff")],
        &[("x-api-key", "k\u{85}".as_bytes())],
        &[("x-api-key", b"k"), ("x-api-key", b"k")],
        &[("x-api-key", b"k"), ("X-Api-Key", b"")],
    ] {
        assert_eq!(by(headers), Err(AuthFailure::BadCredentials), "{headers:?}");
    }
    // The secret is not in what is logged.
    let head = head(&[("x-api-key", b"s3cret")]);
    let shown = format!("{:?}", known(&options(), STRANGER, &head));
    assert!(!shown.contains("s3cret"), "{shown}");
}

#[test]
fn a_key_may_be_a_bearer_token() {
    let mut options = options();
    options.basic = false;
    options.api_key.header = http::header::AUTHORIZATION;
    let by = |value: &str| who(&options, STRANGER, &[("authorization", value.as_bytes())]);
    for value in ["Bearer k", "bearer k", "BEARER  k"] {
        assert_eq!(by(value), Ok(facts(Some("k"), None, None)), "{value}");
    }
    for value in [
        "k",
        "Bearer",
        "Bearer ",
        "Bearerk",
        "Basic azpr",
        "",
        "Bearer k\tk",
        "Bearer\tk",
    ] {
        assert_eq!(by(value), Err(AuthFailure::BadCredentials), "{value}");
    }
    let two = [
        ("authorization", &b"Bearer k"[..]),
        ("authorization", b"Bearer l"),
    ];
    assert_eq!(
        who(&options, STRANGER, &two),
        Err(AuthFailure::BadCredentials)
    );
    assert_eq!(
        who(&options, STRANGER, &[("x-api-key", b"k")]),
        Ok(nobody())
    );
}

#[test]
fn a_client_proves_itself_by_one_of_its_keys() {
    let by = |value: &str| who(&options(), STRANGER, &[("authorization", value.as_bytes())]);
    let app = facts(Some("secret-1"), None, Some("app"));
    assert_eq!(by(&basic("app:secret-1")), Ok(app.clone()));
    assert_eq!(
        by(&basic("app:secret-1").replace("Basic", "bAsIc")),
        Ok(app)
    );
    for wrong in [
        basic("app:secret-2"),
        basic("other:secret-1"),
        basic("app:"),
        basic(":secret-1"),
        basic("app"),
        basic(""),
        basic("app:secret-1 "),
        basic("app: secret-1"),
        basic("App:secret-1"),
        basic("app:secret-3"),
        basic(":secret-3"),
        basic("ann:secret-3"),
        basic("app:unknown"),
        "Basic".to_owned(),
        "Basic !".to_owned(),
        format!("Basic {}", STANDARD.encode(b"app:\xff")),
        "Basic\t".to_owned() + &STANDARD.encode("app:secret-1"),
        format!("{} x", basic("app:secret-1")),
    ] {
        assert_eq!(by(&wrong), Err(AuthFailure::BadCredentials), "{wrong}");
    }
    let pair = basic("app:secret-1");
    let twice = [
        ("authorization", pair.as_bytes()),
        ("authorization", pair.as_bytes()),
    ];
    assert_eq!(
        who(&options(), STRANGER, &twice),
        Err(AuthFailure::BadCredentials)
    );
}

#[test]
fn two_proofs_must_agree() {
    let pair = basic("app:secret-1");
    let both = |key: &str, from: &str, more: (&str, &str)| {
        let headers = [
            ("authorization", pair.as_bytes()),
            ("x-api-key", key.as_bytes()),
            (more.0, more.1.as_bytes()),
        ];
        who(&options(), from, &headers)
    };
    let app = facts(Some("secret-1"), None, Some("app"));
    assert_eq!(both("secret-1", STRANGER, ("x", "")), Ok(app.clone()));
    assert_eq!(
        both("secret-2", STRANGER, ("x", "")),
        Err(AuthFailure::Ambiguous)
    );
    assert_eq!(
        both("secret-1", PROXY, ("x-client-id", "app")),
        Ok(app.clone())
    );
    assert_eq!(
        both("secret-1", PROXY, ("x-client-id", "other")),
        Err(AuthFailure::Ambiguous)
    );
    assert_eq!(
        both("secret-1", STRANGER, ("x-client-id", "other")),
        Ok(app)
    );
}

#[test]
fn what_is_not_ours_is_the_upstreams() {
    let mut none = options();
    none.basic = false;
    for value in ["Bearer x.y.z", "Basic garbage", "Digest x", "", "x"] {
        let headers = [
            ("authorization", value.as_bytes()),
            ("authorization", b"more"),
        ];
        assert_eq!(who(&none, STRANGER, &headers), Ok(nobody()), "{value}");
    }
    for value in ["Bearer x.y.z", "Digest x", "", "x"] {
        let headers = [("authorization", value.as_bytes())];
        assert_eq!(who(&options(), STRANGER, &headers), Ok(nobody()), "{value}");
    }
}

#[test]
fn only_trusted_peers_speak_for_others() {
    let said: &[(&str, &[u8])] = &[("x-user-id", b"ann"), ("x-client-id", b"app")];
    assert_eq!(
        who(&options(), PROXY, said),
        Ok(facts(None, Some("ann"), Some("app")))
    );
    assert_eq!(
        who(&options(), "::ffff:10.0.0.1", said),
        Ok(facts(None, Some("ann"), Some("app")))
    );
    assert_eq!(who(&options(), STRANGER, said), Ok(nobody()));
    // Not even if they say that a proxy asks.
    let spoofed = [said, &[("x-forwarded-for", &b"10.0.0.1"[..])]].concat();
    assert_eq!(who(&options(), STRANGER, &spoofed), Ok(nobody()));
    let nothing = IdentityOptions {
        user_header: None,
        client_header: None,
        ..options()
    };
    assert_eq!(who(&nothing, PROXY, said), Ok(nobody()));
    assert_eq!(who(&options(), PROXY, &[("x-user-id", b"")]), Ok(nobody()));
    for headers in [
        &[("x-user-id", &b"ann"[..]), ("x-user-id", b"bob")][..],
        &[("x-user-id", b"\xff")],
        &[("x-client-id", b"a\tb")],
    ] {
        assert_eq!(who(&options(), PROXY, headers), Err(AuthFailure::Ambiguous));
        assert_eq!(who(&options(), STRANGER, headers), Ok(nobody()));
    }
}

#[test]
fn the_owner_of_a_key_is_who_the_policy_says() {
    let policy = policy(KEYS);
    let options = options();
    let read = |from: &str, key: &str, user: &str| {
        let head = head(&[
            ("x-api-key", key.as_bytes()),
            ("x-user-id", user.as_bytes()),
        ]);
        let sender = identify(
            &options,
            &Proofs::default(),
            &policy,
            peer(from),
            &head,
            NOW,
        )
        .unwrap();
        let request = policy.request(&sender.facts());
        request.map(|request| [request.user(), request.client()].map(|it| it.map(str::to_owned)))
    };
    let ann = [Some("ann".to_owned()), None];
    assert_eq!(read(STRANGER, "secret-3", "ann"), Ok(ann.clone()));
    // A stranger's word is not even a contradiction.
    assert_eq!(read(STRANGER, "secret-3", "bob"), Ok(ann));
    assert!(read(PROXY, "secret-3", "bob").is_err());
    assert_eq!(
        read(STRANGER, "secret-1", "bob"),
        Ok([None, Some("app".to_owned())])
    );
    assert!(read(STRANGER, "unknown", "ann").is_err());
}

#[test]
fn the_scheme_alone_says_what_is_meant() {
    let signer = Signer::ed25519();
    let proofs = Proofs::default();
    proofs
        .set_jwks(source(), &jwks(&[signer.jwk(None)]))
        .unwrap();
    let options = IdentityOptions {
        jwt: Some(JwtOptions {
            jwks: source(),
            claim: "sub".into(),
            algorithm: JwtAlgorithm::EdDSA,
            issuer: None,
            audience: None,
        }),
        ..options()
    };
    let policy = policy(KEYS);
    let by = |from: &str, headers: &[(&str, &[u8])]| {
        let head = head(headers);
        let sender = identify(&options, &proofs, &policy, peer(from), &head, NOW)?;
        let facts = sender.facts();
        Ok([facts.api_key, facts.user, facts.client].map(|fact| fact.map(str::to_owned)))
    };
    let claims = json!({ "sub": "ann", "exp": NOW });
    let token = signer.token(JwtAlgorithm::EdDSA, &json!({ "alg": "EdDSA" }), &claims);
    let bearer = format!("Bearer {token}");
    let ann = facts(None, Some("ann"), None);
    assert_eq!(
        by(STRANGER, &[("authorization", bearer.as_bytes())]),
        Ok(ann.clone())
    );
    let pair = basic("app:secret-1");
    let app = facts(Some("secret-1"), None, Some("app"));
    assert_eq!(by(STRANGER, &[("authorization", pair.as_bytes())]), Ok(app));
    for value in [format!("Basic {token}"), basic(&token)] {
        let found = by(STRANGER, &[("authorization", value.as_bytes())]);
        assert_eq!(found, Err(AuthFailure::BadCredentials));
    }
    for value in [
        "Bearer",
        "Bearer secret-1",
        &pair.replace("Basic", "Bearer"),
    ] {
        let found = by(STRANGER, &[("authorization", value.as_bytes())]);
        assert_eq!(found, Err(AuthFailure::BadToken(TokenFault::Malformed)));
    }
    // A token and a peer's word.
    let said = |user: &'static [u8]| [("authorization", bearer.as_bytes()), ("x-user-id", user)];
    assert_eq!(by(PROXY, &said(b"ann")), Ok(ann.clone()));
    assert_eq!(by(PROXY, &said(b"bob")), Err(AuthFailure::Ambiguous));
    assert_eq!(by(STRANGER, &said(b"bob")), Ok(ann));
}

#[test]
fn failures_have_their_status() {
    for (failure, status, guess) in [
        (AuthFailure::BadCredentials, 401, true),
        (AuthFailure::BadToken(TokenFault::Expired), 401, false),
        (AuthFailure::Ambiguous, 400, false),
        (AuthFailure::NoProofs, 503, false),
    ] {
        let problem = failure.problem();
        assert_eq!(problem.status.as_u16(), status);
        assert_eq!(problem.to_json()["detail"], failure.to_string());
        assert_eq!(failure.is_guess(), guess);
    }
}

/// While the directory's keys cannot be verified, HTTP Basic gets the same answer as a key in its header: 503, and
/// it does not count as a guess.
#[test]
fn basic_with_a_stale_directory_is_unavailable() {
    let policy = policy(KEYS).with(vec![Change::Closed(true)]);
    let ask = |pair: &str| {
        let value = basic(pair);
        let head = head(&[("authorization", value.as_bytes())]);
        let found = identify(
            &options(),
            &Proofs::default(),
            &policy,
            peer(STRANGER),
            &head,
            NOW,
        );
        found.map(|_| ())
    };
    let failure = ask("app:of-the-directory").unwrap_err();
    assert_eq!(failure, AuthFailure::Unverifiable);
    assert_eq!(failure.status(), http::StatusCode::SERVICE_UNAVAILABLE);
    assert!(!failure.is_guess());
    // The file's keys are known whatever becomes of the directory.
    assert_eq!(ask("app:secret-1"), Ok(()));
    assert_eq!(ask("other:secret-1"), Err(AuthFailure::BadCredentials));
}

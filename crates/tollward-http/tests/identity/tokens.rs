//! Tokens that prove a user, and those that prove nothing.

use http::request::Parts;
use ring::hmac;
use serde_json::{Value, json};
use tollward_http::{AuthFailure, Proofs, TokenFault, identify};
use tollward_policy::config::JwtAlgorithm;
use tollward_policy::{IdentityOptions, JwksSource, JwtOptions};

use crate::keys::{Signer, base64url, jwks, unsigned};
use crate::{NOW, head, peer, policy, source};

fn options(algorithm: JwtAlgorithm) -> JwtOptions {
    JwtOptions {
        jwks: source(),
        claim: "sub".into(),
        algorithm,
        issuer: None,
        audience: None,
    }
}

fn bearing(token: &str) -> Parts {
    head(&[("authorization", format!("Bearer {token}").as_bytes())])
}

/// The user that a token proves.
fn user_at(jwt: JwtOptions, proofs: &Proofs, token: &str, now: u64) -> Result<String, AuthFailure> {
    let options = IdentityOptions {
        jwt: Some(jwt),
        ..IdentityOptions::default()
    };
    let (head, policy) = (bearing(token), policy(""));
    let sender = identify(&options, proofs, &policy, peer("192.0.2.1"), &head, now)?;
    Ok(sender.facts().user.unwrap().to_owned())
}

fn user(jwt: JwtOptions, proofs: &Proofs, token: &str) -> Result<String, AuthFailure> {
    user_at(jwt, proofs, token, NOW)
}

fn bad(fault: TokenFault) -> Result<String, AuthFailure> {
    Err(AuthFailure::BadToken(fault))
}

fn ann() -> Result<String, AuthFailure> {
    Ok("ann".to_owned())
}

fn claims() -> Value {
    json!({ "sub": "ann", "exp": NOW + 100 })
}

/// Proofs with one key, and that key.
fn one_key() -> (Proofs, Signer) {
    let (proofs, signer) = (Proofs::default(), Signer::ed25519());
    proofs
        .set_jwks(source(), &jwks(&[signer.jwk(Some("k"))]))
        .unwrap();
    (proofs, signer)
}

const ED: JwtAlgorithm = JwtAlgorithm::EdDSA;

/// A token with the usual header.
fn signed(signer: &Signer, claims: &Value) -> String {
    signer.token(ED, &json!({ "alg": "EdDSA", "kid": "k" }), claims)
}

#[test]
fn every_algorithm_is_verified() {
    let (p256, p384, ed25519) = (Signer::p256(), Signer::p384(), Signer::ed25519());
    let all = [
        (JwtAlgorithm::RS256, Signer::rsa()),
        (JwtAlgorithm::RS384, Signer::rsa()),
        (JwtAlgorithm::RS512, Signer::rsa()),
        (JwtAlgorithm::PS256, Signer::rsa()),
        (JwtAlgorithm::ES256, &p256),
        (JwtAlgorithm::ES384, &p384),
        (JwtAlgorithm::EdDSA, &ed25519),
    ];
    let proofs = Proofs::default();
    let keys = [Signer::rsa(), &p256, &p384, &ed25519];
    let keys: Vec<_> = keys.iter().map(|key| key.jwk(Some("k"))).collect();
    proofs.set_jwks(source(), &jwks(&keys)).unwrap();
    for (algorithm, signer) in all {
        let header = json!({ "alg": algorithm.word(), "kid": "k", "typ": "JWT" });
        let token = signer.token(algorithm, &header, &claims());
        assert_eq!(
            user(options(algorithm), &proofs, &token),
            ann(),
            "{algorithm:?}"
        );
        // No other algorithm takes it, and none is taken from the token.
        for (other, _) in all {
            let as_other = user(options(other), &proofs, &token);
            if other != algorithm {
                assert_eq!(
                    as_other,
                    bad(TokenFault::Algorithm),
                    "{algorithm:?} {other:?}"
                );
            }
        }
        // Any change is one too many.
        let (start, mark) = token.rsplit_once('.').unwrap();
        let more = json!({ "sub": "root", "exp": NOW + 100 });
        let forged = format!("{}.{mark}", unsigned(&header, &more));
        assert_eq!(
            user(options(algorithm), &proofs, &forged),
            bad(TokenFault::Signature)
        );
        let zeros = base64url(&vec![0; mark.len() * 3 / 4]);
        let forged = format!("{start}.{zeros}");
        assert_eq!(
            user(options(algorithm), &proofs, &forged),
            bad(TokenFault::Signature)
        );
    }
}

/// The example of RFC 7515, appendix A.3.
#[test]
fn a_token_that_others_made_is_verified() {
    let key = json!({
        "kty": "EC", "crv": "P-256",
        "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",
        "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0",
    });
    let token = "eyJhbGciOiJFUzI1NiJ9.\
        eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFt\
        cGxlLmNvbS9pc19yb290Ijp0cnVlfQ.\
        DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSA\
        pmWQxfKTUJqPP3-Kg6NU1Q";
    let proofs = Proofs::default();
    proofs.set_jwks(source(), &jwks(&[key])).unwrap();
    let jwt = || JwtOptions {
        claim: "iss".into(),
        ..options(JwtAlgorithm::ES256)
    };
    assert_eq!(
        user_at(jwt(), &proofs, token, 1_300_819_380),
        Ok("joe".to_owned())
    );
    assert_eq!(user(jwt(), &proofs, token), bad(TokenFault::Expired));
}

#[test]
fn a_signature_of_one_padding_is_none_of_another() {
    let proofs = Proofs::default();
    proofs
        .set_jwks(source(), &jwks(&[Signer::rsa().jwk(None)]))
        .unwrap();
    for (said, done) in [
        (JwtAlgorithm::RS256, JwtAlgorithm::PS256),
        (JwtAlgorithm::PS256, JwtAlgorithm::RS256),
        (JwtAlgorithm::RS512, JwtAlgorithm::RS256),
    ] {
        let token = Signer::rsa().token(done, &json!({ "alg": said.word() }), &claims());
        assert_eq!(
            user(options(said), &proofs, &token),
            bad(TokenFault::Signature)
        );
    }
}

#[test]
fn the_public_key_is_no_secret() {
    let proofs = Proofs::default();
    let jwk = Signer::rsa().jwk(Some("k"));
    let set = jwks(std::slice::from_ref(&jwk));
    proofs.set_jwks(source(), &set).unwrap();
    let modulus = jwk["n"].as_str().unwrap();
    let whole = jwk.to_string();
    for secret in [modulus.as_bytes(), whole.as_bytes(), &set] {
        let key = hmac::Key::new(hmac::HMAC_SHA256, secret);
        for (alg, fault) in [
            ("HS256", TokenFault::Algorithm),
            ("RS256", TokenFault::Signature),
        ] {
            let signed = unsigned(&json!({ "alg": alg, "kid": "k" }), &claims());
            let mark = hmac::sign(&key, signed.as_bytes());
            let token = format!("{signed}.{}", base64url(mark.as_ref()));
            assert_eq!(
                user(options(JwtAlgorithm::RS256), &proofs, &token),
                bad(fault)
            );
        }
    }
}

#[test]
fn a_token_that_is_not_signed_proves_nothing() {
    let (proofs, signer) = one_key();
    for alg in ["none", "None", "NONE", "nOnE", "", "eddsa", "EdDSA "] {
        let header = json!({ "alg": alg, "kid": "k" });
        let bare = format!("{}.", unsigned(&header, &claims()));
        let token = signer.token(ED, &header, &claims());
        for token in [bare, token] {
            let found = user(options(ED), &proofs, &token);
            assert_eq!(found, bad(TokenFault::Algorithm), "{alg}");
        }
    }
    for header in [
        json!({ "kid": "k" }),
        json!({ "alg": ["EdDSA"] }),
        json!({ "alg": null }),
    ] {
        let token = signer.token(ED, &header, &claims());
        assert_eq!(
            user(options(ED), &proofs, &token),
            bad(TokenFault::Algorithm)
        );
    }
    let bare = format!("{}.", unsigned(&json!({ "alg": "EdDSA" }), &claims()));
    assert_eq!(
        user(options(ED), &proofs, &bare),
        bad(TokenFault::Signature)
    );
}

#[test]
fn the_key_is_the_one_that_is_named() {
    let (one, other) = (Signer::ed25519(), Signer::ed25519());
    let proofs = Proofs::default();
    proofs
        .set_jwks(
            source(),
            &jwks(&[one.jwk(Some("one")), other.jwk(Some("other"))]),
        )
        .unwrap();
    let by = |signer: &Signer, id: Value| {
        let token = signer.token(ED, &json!({ "alg": "EdDSA", "kid": id }), &claims());
        user(options(ED), &proofs, &token)
    };
    assert_eq!(by(&one, json!("one")), ann());
    assert_eq!(by(&other, json!("other")), ann());
    assert_eq!(by(&one, json!("other")), bad(TokenFault::Signature));
    assert_eq!(by(&one, json!("One")), bad(TokenFault::UnknownKey));
    assert_eq!(by(&one, json!("")), bad(TokenFault::UnknownKey));
    assert_eq!(by(&one, json!(1)), bad(TokenFault::Malformed));
    // Without a name, only if there is no choice.
    let unnamed = one.token(ED, &json!({ "alg": "EdDSA" }), &claims());
    assert_eq!(
        user(options(ED), &proofs, &unnamed),
        bad(TokenFault::UnknownKey)
    );
    let keys = [one.jwk(Some("one")), Signer::p256().jwk(Some("other"))];
    proofs.set_jwks(source(), &jwks(&keys)).unwrap();
    assert_eq!(user(options(ED), &proofs, &unnamed), ann());
}

#[test]
fn a_key_may_be_kept_for_one_algorithm() {
    let kept = |word: &str| {
        let mut key = Signer::rsa().jwk(Some("k"));
        key["alg"] = word.into();
        key
    };
    let with = |keys: &[Value], algorithm: JwtAlgorithm| {
        let proofs = Proofs::default();
        proofs.set_jwks(source(), &jwks(keys)).unwrap();
        let header = json!({ "alg": algorithm.word(), "kid": "k" });
        let token = Signer::rsa().token(algorithm, &header, &claims());
        user(options(algorithm), &proofs, &token)
    };
    let (rs256, ps256) = (JwtAlgorithm::RS256, JwtAlgorithm::PS256);
    assert_eq!(with(&[kept("RS256")], rs256), ann());
    assert_eq!(with(&[kept("RS256")], ps256), bad(TokenFault::UnknownKey));
    assert_eq!(with(&[kept("RS256"), kept("PS256")], rs256), ann());
    assert_eq!(with(&[kept("RS256"), kept("PS256")], ps256), ann());
}

#[test]
fn keys_that_were_replaced_prove_nothing_more() {
    let (proofs, old) = one_key();
    let token = signed(&old, &claims());
    assert_eq!(user(options(ED), &proofs, &token), ann());
    let new = Signer::ed25519();
    proofs
        .set_jwks(source(), &jwks(&[new.jwk(Some("k"))]))
        .unwrap();
    assert_eq!(
        user(options(ED), &proofs, &token),
        bad(TokenFault::Signature)
    );
    assert_eq!(user(options(ED), &proofs, &signed(&new, &claims())), ann());
    // Keys that are not sound change nothing.
    assert!(proofs.set_jwks(source(), b"{}").is_err());
    assert_eq!(user(options(ED), &proofs, &signed(&new, &claims())), ann());
}

#[test]
fn keys_of_another_place_prove_nothing() {
    let (proofs, signer) = one_key();
    let token = signed(&signer, &claims());
    for other in [
        JwksSource::File("other.json".into()),
        JwksSource::Url("keys.json".into()),
    ] {
        let moved = JwtOptions {
            jwks: other.clone(),
            ..options(ED)
        };
        let nothing = Err(AuthFailure::NoProofs);
        assert_eq!(user(moved.clone(), &proofs, &token), nothing);
        assert_eq!(user(options(ED), &proofs, &token), ann());
        let (proofs, keys) = (Proofs::default(), jwks(&[signer.jwk(Some("k"))]));
        proofs.set_jwks(other, &keys).unwrap();
        assert_eq!(user(moved, &proofs, &token), ann());
        assert_eq!(user(options(ED), &proofs, &token), nothing);
    }
}

#[test]
fn without_keys_nothing_can_be_said() {
    let token = signed(&Signer::ed25519(), &claims());
    let proofs = Proofs::default();
    assert_eq!(
        user(options(ED), &proofs, &token),
        Err(AuthFailure::NoProofs)
    );
    assert_eq!(
        user(options(ED), &proofs, "garbage"),
        bad(TokenFault::Malformed)
    );
}

#[test]
fn a_token_has_its_time() {
    let (proofs, signer) = one_key();
    let at =
        |claims: &Value, now: u64| user_at(options(ED), &proofs, &signed(&signer, claims), now);
    let claims = json!({ "sub": "ann", "nbf": 1_000, "exp": 2_000.5 });
    assert_eq!(at(&claims, 939), bad(TokenFault::NotYet));
    assert_eq!(at(&claims, 940), ann());
    assert_eq!(at(&claims, 2_060), ann());
    assert_eq!(at(&claims, 2_061), bad(TokenFault::Expired));
    let whole = json!({ "sub": "ann", "exp": 2_000 });
    assert_eq!(at(&whole, 2_059), ann());
    assert_eq!(at(&whole, 2_060), bad(TokenFault::Expired));
    assert_eq!(at(&json!({ "sub": "ann", "exp": -5 }), 0), ann());
    assert_eq!(
        at(&json!({ "sub": "ann", "exp": -60 }), 0),
        bad(TokenFault::Expired)
    );
    for claims in [
        json!({ "sub": "ann" }),
        json!({ "sub": "ann", "exp": null }),
        json!({ "sub": "ann", "exp": "9999999999" }),
        json!({ "sub": "ann", "exp": [9_999_999_999_u64] }),
        json!({ "sub": "ann", "exp": 9_999_999_999_u64, "nbf": "0" }),
    ] {
        assert_eq!(at(&claims, NOW), bad(TokenFault::Malformed), "{claims}");
    }
}

#[test]
fn issuer_and_audience_count_if_they_are_asked_for() {
    let (proofs, signer) = one_key();
    let with = |issuer: Option<&str>, audience: Option<&str>, more: Value| {
        let jwt = JwtOptions {
            issuer: issuer.map(Into::into),
            audience: audience.map(Into::into),
            ..options(ED)
        };
        let mut claims = claims();
        claims
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        user(jwt, &proofs, &signed(&signer, &claims))
    };
    assert_eq!(with(None, None, json!({ "iss": "x", "aud": "y" })), ann());
    let issued = |more| with(Some("https://id.example"), None, more);
    assert_eq!(issued(json!({ "iss": "https://id.example" })), ann());
    for iss in [
        json!("https://id.example/"),
        json!(null),
        json!(["https://id.example"]),
    ] {
        assert_eq!(issued(json!({ "iss": iss })), bad(TokenFault::Issuer));
    }
    assert_eq!(issued(json!({})), bad(TokenFault::Issuer));
    let meant = |more| with(None, Some("api"), more);
    for aud in [json!("api"), json!(["web", "api"])] {
        assert_eq!(meant(json!({ "aud": aud })), ann());
    }
    for aud in [
        json!("API"),
        json!([]),
        json!(["web"]),
        json!([["api"]]),
        json!({ "api": 1 }),
    ] {
        assert_eq!(meant(json!({ "aud": aud })), bad(TokenFault::Audience));
    }
    assert_eq!(meant(json!({})), bad(TokenFault::Audience));
}

#[test]
fn the_user_is_what_the_claim_says() {
    let (proofs, signer) = one_key();
    let named = |claim: &str, value: Value| {
        let jwt = JwtOptions {
            claim: claim.into(),
            ..options(ED)
        };
        let token = signed(&signer, &json!({ "exp": NOW, claim: value }));
        user(jwt, &proofs, &token)
    };
    assert_eq!(
        named("email", json!("ann@example.com")),
        Ok("ann@example.com".to_owned())
    );
    assert_eq!(named("https://x/id", json!("é")), Ok("é".to_owned()));
    assert_eq!(named("sub", json!(42)), Ok("42".to_owned()));
    assert_eq!(named("sub", json!(-7)), Ok("-7".to_owned()));
    assert_eq!(named("sub", json!(u64::MAX)), Ok(u64::MAX.to_string()));
    for value in [
        json!(""),
        json!(null),
        json!(1.5),
        json!(["ann"]),
        json!({}),
        json!(true),
    ] {
        assert_eq!(named("sub", value), bad(TokenFault::Claim));
    }
    let none = signed(&signer, &json!({ "exp": NOW }));
    assert_eq!(user(options(ED), &proofs, &none), bad(TokenFault::Claim));
}

#[test]
fn what_is_no_token_proves_nothing() {
    let (proofs, signer) = one_key();
    let good = signed(&signer, &claims());
    assert_eq!(user(options(ED), &proofs, &good), ann());
    for end in 0..good.len() {
        let found = user(options(ED), &proofs, &good[..end]);
        assert!(
            matches!(found, Err(AuthFailure::BadToken(_))),
            "{end} {found:?}"
        );
    }
    for more in ["=", ".", ".e30", "A", " A", "==="] {
        let found = user(options(ED), &proofs, &format!("{good}{more}"));
        assert!(
            matches!(found, Err(AuthFailure::BadToken(_))),
            "{more} {found:?}"
        );
    }
    for garbage in [
        "",
        ".",
        "..",
        "...",
        "a.b.c",
        "e30.e30.",
        "W10.e30.e30",
        "é.é.é",
    ] {
        let found = user(options(ED), &proofs, garbage);
        assert!(
            matches!(found, Err(AuthFailure::BadToken(_))),
            "{garbage} {found:?}"
        );
    }
    let critical = json!({ "alg": "EdDSA", "kid": "k", "crit": ["b64"], "b64": false });
    let token = signer.token(ED, &critical, &claims());
    assert_eq!(
        user(options(ED), &proofs, &token),
        bad(TokenFault::Malformed)
    );
}

#[test]
fn a_token_has_at_most_8_kib() {
    let (proofs, signer) = one_key();
    let sized = |padding: usize| {
        let pad = "x".repeat(padding);
        signed(&signer, &json!({ "sub": "ann", "exp": NOW, "pad": pad }))
    };
    let most = (5_000..7_000)
        .map(sized)
        .take_while(|token| token.len() <= 8 * 1024)
        .last();
    let most = most.unwrap();
    assert!(most.len() > 8 * 1024 - 4);
    assert_eq!(user(options(ED), &proofs, &most), ann());
    assert_eq!(
        user(options(ED), &proofs, &sized(7_000)),
        bad(TokenFault::Malformed)
    );
    let deep = format!("{}.e30.e30", base64url("[".repeat(5_000).as_bytes()));
    assert_eq!(
        user(options(ED), &proofs, &deep),
        bad(TokenFault::Malformed)
    );
    let huge = "a".repeat(1_000_000);
    assert_eq!(
        user(options(ED), &proofs, &huge),
        bad(TokenFault::Malformed)
    );
}

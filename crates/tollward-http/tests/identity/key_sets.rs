//! Key sets that are taken, and those that are not.

use serde_json::{Value, json};
use tollward_http::{JwksFault, Proofs};

use crate::keys::{Signer, base64url, jwks};
use crate::source;

fn fault(keys: &[Value]) -> JwksFault {
    Proofs::default()
        .set_jwks(source(), &jwks(keys))
        .unwrap_err()
}

fn with(mut key: Value, member: &str, value: Value) -> Value {
    key[member] = value;
    key
}

#[test]
fn faults_name_their_place() {
    let good = Signer::p256().jwk(Some("a"));
    let rsa = Signer::rsa().jwk(None);
    let short = base64url(&[0xff; 128]);
    let zero = base64url(&[&[0][..], &[0xff; 256]].concat());
    for (bad, place) in [
        (json!(7), "keys[1]"),
        (json!({}), "keys[1].kty"),
        (json!({ "kty": 5 }), "keys[1].kty"),
        (json!({ "kty": "RSA" }), "keys[1].n"),
        (with(rsa.clone(), "n", json!("!")), "keys[1].n"),
        (with(rsa.clone(), "n", json!("AQAB=")), "keys[1].n"),
        (with(rsa.clone(), "n", json!(short)), "keys[1].n"),
        (with(rsa.clone(), "n", json!(zero)), "keys[1].n"),
        (with(rsa.clone(), "e", json!(65_537)), "keys[1].e"),
        (with(rsa.clone(), "kid", json!(1)), "keys[1].kid"),
        (with(rsa.clone(), "alg", json!(1)), "keys[1].alg"),
        (with(rsa, "key_ops", json!("verify")), "keys[1].key_ops"),
        (with(good.clone(), "x", json!("AAAA")), "keys[1].x"),
        (with(good.clone(), "y", json!(null)), "keys[1].y"),
        (
            json!({ "kty": "OKP", "crv": "Ed25519", "x": "AAAA" }),
            "keys[1].x",
        ),
        (Signer::p256().jwk(Some("a")), "keys[1].kid"),
    ] {
        let fault = fault(&[good.clone(), bad.clone()]);
        assert_eq!(fault.place, place, "{bad}");
        assert!(
            fault.to_string().starts_with(&format!("{place}: ")),
            "{fault}"
        );
    }
    for text in [
        &b""[..],
        b"x",
        b"{}",
        b"[]",
        b"{\"keys\":{}}",
        b"{\"keys\":[]}",
    ] {
        let fault = Proofs::default().set_jwks(source(), text).unwrap_err();
        assert_eq!(fault.place, "", "{fault}");
    }
}

#[test]
fn keys_for_something_else_are_passed_over() {
    let good = Signer::ed25519().jwk(Some("a"));
    let others = [
        json!({ "kty": "oct", "k": "c2VjcmV0", "kid": "a" }),
        json!({ "kty": "EC", "crv": "secp256k1", "x": "AA", "y": "AA" }),
        json!({ "kty": "OKP", "crv": "X25519", "x": "AA" }),
        json!({ "kty": "new" }),
        with(Signer::p256().jwk(Some("a")), "use", json!("enc")),
        with(Signer::p256().jwk(Some("a")), "key_ops", json!(["sign"])),
    ];
    let proofs = Proofs::default();
    for other in &others {
        let alone = proofs
            .set_jwks(source(), &jwks(std::slice::from_ref(other)))
            .unwrap_err();
        assert_eq!(alone.place, "", "{other}");
    }
    proofs
        .set_jwks(source(), &jwks(&[&others[..], &[good]].concat()))
        .unwrap();
}

#[test]
fn a_set_has_a_bound() {
    let key = |index: usize| with(json!({ "kty": "new" }), "kid", json!(index.to_string()));
    let mut keys: Vec<Value> = (0..255).map(key).collect();
    keys.push(Signer::ed25519().jwk(None));
    let proofs = Proofs::default();
    proofs.set_jwks(source(), &jwks(&keys)).unwrap();
    keys.push(key(999));
    assert!(proofs.set_jwks(source(), &jwks(&keys)).is_err());
    let padding = with(
        Signer::ed25519().jwk(None),
        "pad",
        json!("x".repeat(256 * 1024)),
    );
    assert!(proofs.set_jwks(source(), &jwks(&[padding])).is_err());
}

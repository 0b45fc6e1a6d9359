//! Keys, made here, and what they sign.

use std::sync::OnceLock;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use num_bigint::BigUint;
use ring::rand::{SecureRandom, SystemRandom};
use ring::rsa::{KeyPairComponents, PublicKeyComponents};
use ring::signature::{self, EcdsaKeyPair, Ed25519KeyPair, KeyPair, RsaKeyPair};
use serde_json::{Value, json};
use tollward_policy::config::JwtAlgorithm;

/// A key that signs tokens.
pub(crate) enum Signer {
    Rsa(RsaKeyPair),
    P256(EcdsaKeyPair),
    P384(EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
}

impl Signer {
    /// The same key for all tests: it takes long to make one.
    pub(crate) fn rsa() -> &'static Self {
        static KEY: OnceLock<Signer> = OnceLock::new();
        KEY.get_or_init(|| Self::Rsa(rsa_key()))
    }

    pub(crate) fn p256() -> Self {
        Self::P256(ecdsa_key(&signature::ECDSA_P256_SHA256_FIXED_SIGNING))
    }

    pub(crate) fn p384() -> Self {
        Self::P384(ecdsa_key(&signature::ECDSA_P384_SHA384_FIXED_SIGNING))
    }

    pub(crate) fn ed25519() -> Self {
        let document = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        Self::Ed25519(Ed25519KeyPair::from_pkcs8(document.as_ref()).unwrap())
    }

    /// The public half, as a member of a key set.
    pub(crate) fn jwk(&self, id: Option<&str>) -> Value {
        let mut jwk = match self {
            Self::Rsa(key) => {
                let public = PublicKeyComponents::<Vec<u8>>::from(key.public());
                json!({ "kty": "RSA", "n": base64url(&public.n), "e": base64url(&public.e) })
            }
            Self::P256(key) => point("P-256", key.public_key().as_ref()),
            Self::P384(key) => point("P-384", key.public_key().as_ref()),
            Self::Ed25519(key) => {
                let x = base64url(key.public_key().as_ref());
                json!({ "kty": "OKP", "crv": "Ed25519", "x": x })
            }
        };
        if let Some(id) = id {
            jwk["kid"] = id.into();
        }
        jwk
    }

    pub(crate) fn sign(&self, algorithm: JwtAlgorithm, message: &[u8]) -> Vec<u8> {
        let dice = SystemRandom::new();
        match self {
            Self::Rsa(key) => {
                let padding: &'static dyn signature::RsaEncoding = match algorithm {
                    JwtAlgorithm::RS384 => &signature::RSA_PKCS1_SHA384,
                    JwtAlgorithm::RS512 => &signature::RSA_PKCS1_SHA512,
                    JwtAlgorithm::PS256 => &signature::RSA_PSS_SHA256,
                    _ => &signature::RSA_PKCS1_SHA256,
                };
                let mut mark = vec![0; key.public().modulus_len()];
                key.sign(padding, &dice, message, &mut mark).unwrap();
                mark
            }
            Self::P256(key) | Self::P384(key) => key.sign(&dice, message).unwrap().as_ref().into(),
            Self::Ed25519(key) => key.sign(message).as_ref().into(),
        }
    }

    /// A token with this header and these claims.
    pub(crate) fn token(&self, algorithm: JwtAlgorithm, header: &Value, claims: &Value) -> String {
        let signed = unsigned(header, claims);
        let mark = self.sign(algorithm, signed.as_bytes());
        format!("{signed}.{}", base64url(&mark))
    }
}

/// The two parts of a token that are signed.
pub(crate) fn unsigned(header: &Value, claims: &Value) -> String {
    let part = |json: &Value| base64url(json.to_string().as_bytes());
    format!("{}.{}", part(header), part(claims))
}

pub(crate) fn base64url(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// A key set.
pub(crate) fn jwks(keys: &[Value]) -> Vec<u8> {
    json!({ "keys": keys }).to_string().into_bytes()
}

fn point(curve: &str, uncompressed: &[u8]) -> Value {
    let (x, y) = uncompressed[1..].split_at(uncompressed.len() / 2);
    json!({ "kty": "EC", "crv": curve, "x": base64url(x), "y": base64url(y) })
}

fn ecdsa_key(algorithm: &'static signature::EcdsaSigningAlgorithm) -> EcdsaKeyPair {
    let dice = SystemRandom::new();
    let document = EcdsaKeyPair::generate_pkcs8(algorithm, &dice).unwrap();
    EcdsaKeyPair::from_pkcs8(algorithm, document.as_ref(), &dice).unwrap()
}

/// A key of 2048 bits. No library of ours makes them.
fn rsa_key() -> RsaKeyPair {
    let (one, e) = (BigUint::from(1_u32), BigUint::from(65_537_u32));
    let (first, second) = (prime(), prime());
    let (p, q) = (first.clone().max(second.clone()), first.min(second));
    let (below_p, below_q) = (&p - &one, &q - &one);
    let d = e.modinv(&(&below_p * &below_q)).unwrap();
    let q_inverse = q.modinv(&p).unwrap();
    let components = KeyPairComponents {
        public_key: PublicKeyComponents {
            n: (&p * &q).to_bytes_be(),
            e: e.to_bytes_be(),
        },
        dP: (&d % &below_p).to_bytes_be(),
        dQ: (&d % &below_q).to_bytes_be(),
        qInv: q_inverse.to_bytes_be(),
        d: d.to_bytes_be(),
        p: p.to_bytes_be(),
        q: q.to_bytes_be(),
    };
    RsaKeyPair::from_components(&components).unwrap()
}

/// A prime of 1024 bits, the highest two of which are set, and to which the public exponent fits.
fn prime() -> BigUint {
    let small: Vec<u32> = (3..2000).filter(|n| (2..*n).all(|d| n % d != 0)).collect();
    let (zero, one, two) = (BigUint::ZERO, BigUint::from(1_u32), BigUint::from(2_u32));
    let mut bytes = [0; 128];
    loop {
        SystemRandom::new().fill(&mut bytes).unwrap();
        bytes[0] |= 0xc0;
        bytes[127] |= 1;
        let number = BigUint::from_bytes_be(&bytes);
        let divides = |by: u32| &number % by == zero;
        let below = &number - &one;
        // Of numbers this long, next to none are what Fermat takes for primes and are not.
        if !small.iter().any(|by| divides(*by))
            && &below % 65_537_u32 != zero
            && two.modpow(&below, &number) == one
        {
            return number;
        }
    }
}

//! The keys that tokens are signed with (RFC 7517).
//!
//! Signatures are verified by `ring`, which is here for TLS already. The crates that do all of JWT bring
//! a second set of cryptography, and more algorithms than should ever be tried.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{self, RsaPublicKeyComponents, UnparsedPublicKey};
use serde_json::{Map, Value};
use tollward_policy::config::JwtAlgorithm;

/// The longest key set.
pub const MAX_JWKS_BYTES: usize = 256 * 1024;
/// The most keys in a set.
const MAX_KEYS: usize = 256;
/// How long an RSA key is.
const RSA_BITS: std::ops::RangeInclusive<usize> = 2048..=8192;

/// Why a key set is not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JwksFault {
    /// Where, as in `keys[2].n`; empty for the whole.
    pub place: String,
    /// What is wrong there.
    pub what: &'static str,
}

impl fmt::Display for JwksFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.place {
            "" => f.write_str(self.what),
            place => write!(f, "{place}: {}", self.what),
        }
    }
}

impl std::error::Error for JwksFault {}

/// A key set, read.
#[derive(Debug, Default)]
pub(super) struct Jwks {
    keys: Vec<Jwk>,
}

#[derive(Debug)]
pub(super) struct Jwk {
    id: Option<Box<str>>,
    /// The algorithm that it is kept for.
    algorithm: Option<Box<str>>,
    material: Material,
}

#[derive(Debug, PartialEq, Eq)]
enum Material {
    Rsa {
        n: Vec<u8>,
        e: Vec<u8>,
    },
    /// An uncompressed point.
    P256(Vec<u8>),
    /// An uncompressed point.
    P384(Vec<u8>),
    Ed25519(Vec<u8>),
}

impl Jwks {
    /// Reads a set. Keys that are for something else or of a kind that no algorithm of ours uses are
    /// passed over; those that are broken are not.
    pub(super) fn read(text: &[u8]) -> Result<Self, JwksFault> {
        let whole = |what| JwksFault {
            place: String::new(),
            what,
        };
        if text.len() > MAX_JWKS_BYTES {
            return Err(whole("more than 256 KiB"));
        }
        let set: Value = serde_json::from_slice(text).map_err(|_| whole("this is not JSON"))?;
        let listed = set.get("keys").and_then(Value::as_array);
        let listed = listed.ok_or(whole("there is no list `keys`"))?;
        if listed.len() > MAX_KEYS {
            return Err(whole("more than 256 keys"));
        }
        let mut keys: Vec<Jwk> = Vec::new();
        for (index, key) in listed.iter().enumerate() {
            let fault = |(member, what): Fault| JwksFault {
                place: format!(
                    "keys[{index}]{}{member}",
                    if member.is_empty() { "" } else { "." }
                ),
                what,
            };
            let members = key
                .as_object()
                .ok_or(fault(("", "this is not an object")))?;
            let Some(key) = Jwk::read(members).map_err(fault)? else {
                continue;
            };
            if keys.iter().any(|other| other.is_twin_of(&key)) {
                return Err(fault(("kid", "another key of this kind has the same")));
            }
            keys.push(key);
        }
        if keys.is_empty() {
            return Err(whole("there is no key that could verify a token"));
        }
        Ok(Self { keys })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// The key of this id for this algorithm; without an id, the only one for it.
    pub(super) fn find(&self, algorithm: JwtAlgorithm, id: Option<&str>) -> Option<&Jwk> {
        let fits = |key: &&Jwk| key.fits(algorithm) && (id.is_none() || key.id.as_deref() == id);
        let mut fitting = self.keys.iter().filter(fits);
        let key = fitting.next()?;
        fitting.next().is_none().then_some(key)
    }
}

/// A member, and what is wrong with it.
type Fault = (&'static str, &'static str);

impl Jwk {
    fn read(members: &Map<String, Value>) -> Result<Option<Self>, Fault> {
        let text = |name: &'static str| match members.get(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(&**text)),
            Some(_) => Err((name, "this is not a text")),
        };
        let verifies = match members.get("key_ops") {
            None => true,
            Some(Value::Array(uses)) => uses.iter().any(|word| word == "verify"),
            Some(_) => return Err(("key_ops", "this is not a list")),
        };
        if !verifies || text("use")?.is_some_and(|word| word != "sig") {
            return Ok(None);
        }
        let kind = text("kty")?.ok_or(("kty", "this is missing"))?;
        let material = match (kind, text("crv")?) {
            ("RSA", _) => rsa(members)?,
            ("EC", Some("P-256")) => Material::P256(point(members, 32)?),
            ("EC", Some("P-384")) => Material::P384(point(members, 48)?),
            ("OKP", Some("Ed25519")) => Material::Ed25519(sized(members, "x", 32)?),
            _ => return Ok(None),
        };
        Ok(Some(Self {
            id: text("kid")?.map(Into::into),
            algorithm: text("alg")?.map(Into::into),
            material,
        }))
    }

    /// Whether nothing could tell the two apart.
    fn is_twin_of(&self, other: &Self) -> bool {
        let same =
            std::mem::discriminant(&self.material) == std::mem::discriminant(&other.material);
        self.id.is_some() && self.id == other.id && self.algorithm == other.algorithm && same
    }

    fn fits(&self, algorithm: JwtAlgorithm) -> bool {
        use JwtAlgorithm as A;
        let material = match &self.material {
            Material::Rsa { .. } => matches!(algorithm, A::RS256 | A::RS384 | A::RS512 | A::PS256),
            Material::P256(_) => algorithm == A::ES256,
            Material::P384(_) => algorithm == A::ES384,
            Material::Ed25519(_) => algorithm == A::EdDSA,
        };
        material
            && self
                .algorithm
                .as_deref()
                .is_none_or(|word| word == algorithm.word())
    }

    /// Whether this key made the signature, by an algorithm that it fits.
    pub(super) fn verifies(&self, algorithm: JwtAlgorithm, message: &[u8], mark: &[u8]) -> bool {
        let verified = match &self.material {
            Material::Rsa { n, e } => {
                let parameters = match algorithm {
                    JwtAlgorithm::RS256 => &signature::RSA_PKCS1_2048_8192_SHA256,
                    JwtAlgorithm::RS384 => &signature::RSA_PKCS1_2048_8192_SHA384,
                    JwtAlgorithm::RS512 => &signature::RSA_PKCS1_2048_8192_SHA512,
                    JwtAlgorithm::PS256 => &signature::RSA_PSS_2048_8192_SHA256,
                    _ => return false,
                };
                RsaPublicKeyComponents { n, e }.verify(parameters, message, mark)
            }
            Material::P256(point) => {
                let key = UnparsedPublicKey::new(&signature::ECDSA_P256_SHA256_FIXED, point);
                key.verify(message, mark)
            }
            Material::P384(point) => {
                let key = UnparsedPublicKey::new(&signature::ECDSA_P384_SHA384_FIXED, point);
                key.verify(message, mark)
            }
            Material::Ed25519(key) => {
                UnparsedPublicKey::new(&signature::ED25519, key).verify(message, mark)
            }
        };
        verified.is_ok()
    }
}

fn rsa(members: &Map<String, Value>) -> Result<Material, Fault> {
    let (n, e) = (bytes(members, "n")?, bytes(members, "e")?);
    if n.first() == Some(&0) || e.first() == Some(&0) {
        return Err(("n", "numbers do not start with a zero"));
    }
    let bits = n.len() * 8 - n.first().map_or(0, |byte| byte.leading_zeros() as usize);
    if !RSA_BITS.contains(&bits) {
        return Err(("n", "an RSA key has 2048 to 8192 bits"));
    }
    Ok(Material::Rsa { n, e })
}

fn point(members: &Map<String, Value>, size: usize) -> Result<Vec<u8>, Fault> {
    let mut point = vec![4];
    point.extend(sized(members, "x", size)?);
    point.extend(sized(members, "y", size)?);
    Ok(point)
}

fn sized(members: &Map<String, Value>, name: &'static str, size: usize) -> Result<Vec<u8>, Fault> {
    let bytes = bytes(members, name)?;
    if bytes.len() == size {
        Ok(bytes)
    } else {
        Err((name, "this is too long or too short for its curve"))
    }
}

fn bytes(members: &Map<String, Value>, name: &'static str) -> Result<Vec<u8>, Fault> {
    let text = members.get(name).ok_or((name, "this is missing"))?;
    let text = text.as_str().ok_or((name, "this is not a text"))?;
    let bytes = URL_SAFE_NO_PAD.decode(text);
    bytes.map_err(|_| (name, "this is not base64url without padding"))
}

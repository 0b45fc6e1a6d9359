//! Tokens that prove a user (RFC 7519, RFC 8725).

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value};
use tollward_policy::JwtOptions;

use super::jwks::Jwks;

/// The longest token.
const MAX_BYTES: usize = 8 * 1024;
/// By how much clocks may differ.
const LEEWAY_SECS: f64 = 60.0;

/// What is wrong with a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenFault {
    /// It is not a token, or its claims are not what they must be.
    Malformed,
    /// It is signed by another algorithm than the one that is believed.
    Algorithm,
    /// No key that we know could have signed it.
    UnknownKey,
    /// The key did not sign this.
    Signature,
    /// It does not hold any more.
    Expired,
    /// It does not hold yet.
    NotYet,
    /// Somebody else issued it.
    Issuer,
    /// It was issued for somebody else.
    Audience,
    /// It does not name the user.
    Claim,
}

impl fmt::Display for TokenFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Malformed => "it is not well-formed",
            Self::Algorithm => "it is signed by another algorithm",
            Self::UnknownKey => "its key is not known",
            Self::Signature => "its signature is wrong",
            Self::Expired => "it has expired",
            Self::NotYet => "it is not valid yet",
            Self::Issuer => "its issuer is another",
            Self::Audience => "it is for another audience",
            Self::Claim => "it does not say who the user is",
        })
    }
}

impl std::error::Error for TokenFault {}

/// The user that a token proves at this moment, in Unix seconds.
pub(super) fn verify(
    options: &JwtOptions,
    jwks: &Jwks,
    token: &str,
    now: u64,
) -> Result<String, TokenFault> {
    if token.len() > MAX_BYTES {
        return Err(TokenFault::Malformed);
    }
    let (signed, signature) = token.rsplit_once('.').ok_or(TokenFault::Malformed)?;
    let (header, claims) = signed.split_once('.').ok_or(TokenFault::Malformed)?;
    let header = object(header)?;
    if header.get("alg").and_then(Value::as_str) != Some(options.algorithm.word()) {
        return Err(TokenFault::Algorithm);
    }
    // What must be understood is not: we know no extensions.
    if header.contains_key("crit") {
        return Err(TokenFault::Malformed);
    }
    let id = match header.get("kid") {
        None => None,
        Some(Value::String(id)) => Some(&**id),
        Some(_) => return Err(TokenFault::Malformed),
    };
    let key = jwks.find(options.algorithm, id);
    let key = key.ok_or(TokenFault::UnknownKey)?;
    if !key.verifies(options.algorithm, signed.as_bytes(), &decoded(signature)?) {
        return Err(TokenFault::Signature);
    }
    let claims = object(claims)?;
    check_times(&claims, now)?;
    check_parties(options, &claims)?;
    user(&claims, &options.claim)
}

fn check_times(claims: &Map<String, Value>, now: u64) -> Result<(), TokenFault> {
    // Seconds fit a float for longer than the sun will last.
    #[allow(clippy::cast_precision_loss)]
    let now = now as f64;
    let date = |claim: &Value| claim.as_f64().ok_or(TokenFault::Malformed);
    let expires = claims.get("exp").ok_or(TokenFault::Malformed)?;
    if now >= date(expires)? + LEEWAY_SECS {
        return Err(TokenFault::Expired);
    }
    match claims.get("nbf") {
        Some(begins) if now + LEEWAY_SECS < date(begins)? => Err(TokenFault::NotYet),
        _ => Ok(()),
    }
}

fn check_parties(options: &JwtOptions, claims: &Map<String, Value>) -> Result<(), TokenFault> {
    let is = |claim: &Value, wanted: &str| claim.as_str() == Some(wanted);
    if let Some(issuer) = &options.issuer
        && !claims.get("iss").is_some_and(|claim| is(claim, issuer))
    {
        return Err(TokenFault::Issuer);
    }
    if let Some(audience) = &options.audience {
        let names = |claim: &Value| match claim {
            Value::Array(all) => all.iter().any(|one| is(one, audience)),
            one => is(one, audience),
        };
        if !claims.get("aud").is_some_and(names) {
            return Err(TokenFault::Audience);
        }
    }
    Ok(())
}

fn user(claims: &Map<String, Value>, name: &str) -> Result<String, TokenFault> {
    match claims.get(name) {
        Some(Value::String(user)) if !user.is_empty() => Ok(user.clone()),
        Some(Value::Number(user)) if !user.is_f64() => Ok(user.to_string()),
        _ => Err(TokenFault::Claim),
    }
}

fn object(part: &str) -> Result<Map<String, Value>, TokenFault> {
    serde_json::from_slice(&decoded(part)?).map_err(|_| TokenFault::Malformed)
}

fn decoded(part: &str) -> Result<Vec<u8>, TokenFault> {
    URL_SAFE_NO_PAD
        .decode(part)
        .map_err(|_| TokenFault::Malformed)
}

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use arc_swap::ArcSwap;
use tollward_policy::{JwksSource, JwtOptions};

use super::jwks::{Jwks, JwksFault};
use super::jwt;
use super::{AuthFailure, TokenFault};

/// What proofs of identity are checked against, beside the policy: the keys of tokens.
///
/// It has none until it is told of some, and fetches nothing.
#[derive(Debug, Default)]
pub struct Proofs {
    held: ArcSwap<Held>,
    missed: AtomicBool,
}

/// Keys, and where they are from.
#[derive(Debug, Default)]
struct Held {
    source: Option<JwksSource>,
    jwks: Jwks,
}

impl Proofs {
    /// Takes the keys of a JSON Web Key Set instead of those it has. If the set is not sound, it says
    /// where, and those it has stay. They prove nothing where the keys are to be from another source.
    ///
    /// Keys for other uses and of unknown kinds are passed over. A set has at most 256 KiB and 256
    /// keys, and at least one that is of use.
    pub fn set_jwks(&self, source: JwksSource, text: &[u8]) -> Result<(), JwksFault> {
        self.held.store(Arc::new(Held {
            source: Some(source),
            jwks: Jwks::read(text)?,
        }));
        Ok(())
    }

    /// Forgets all keys: nobody is proven by a token until there are others.
    pub fn forget(&self) {
        self.held.store(Arc::default());
    }

    /// Whether a token named a key that was not there since this was last asked: there may be new ones.
    pub fn take_missed(&self) -> bool {
        self.missed.load(Relaxed) && self.missed.swap(false, Relaxed)
    }

    /// The user that a token proves at this moment, in Unix seconds.
    pub(super) fn user(
        &self,
        options: &JwtOptions,
        token: &str,
        now: u64,
    ) -> Result<String, AuthFailure> {
        let held = self.held.load();
        let none = Jwks::default();
        let is_theirs = held.source.as_ref() == Some(&options.jwks);
        let jwks = if is_theirs { &held.jwks } else { &none };
        let verified = jwt::verify(options, jwks, token, now);
        if verified == Err(TokenFault::UnknownKey) {
            self.missed.store(true, Relaxed);
        }
        match verified {
            // The token may be as good as any: we cannot tell.
            Err(TokenFault::UnknownKey) if jwks.is_empty() => Err(AuthFailure::NoProofs),
            verified => verified.map_err(AuthFailure::BadToken),
        }
    }
}

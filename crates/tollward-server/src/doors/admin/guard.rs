//! Who may do what: tokens, roles, and how often a wrong token may be tried.

use std::marker::PhantomData;
use std::net::IpAddr;

use axum::extract::FromRequestParts;
use http::StatusCode;
use http::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use http::request::Parts;
use tollward_core::InvalidLimit;
use tracing::info;

use super::attempts::Attempts;
use super::failure::Failure;
use super::{Office, Shared, secret};
use crate::doors::token;

/// What a token may do; each may do all that the ones before it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Role {
    /// See everything but tokens.
    Read,
    /// Keep the service running: buckets, boosts, keys, allow-list, enforcement, reload.
    Operate,
    /// Say who exists: tenants, users, tokens.
    Admin,
}

impl Role {
    pub(super) const ALL: [Self; 3] = [Self::Read, Self::Operate, Self::Admin];

    /// As it is written.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Operate => "operate",
            Self::Admin => "admin",
        }
    }

    /// The role of this name.
    pub(super) fn of(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.word() == word)
    }
}

/// Somebody who has shown a token.
#[derive(Clone, Debug)]
pub(super) struct Caller {
    /// As it is written down: `admin`, or `token:` and the token's name, which no other valid token has.
    pub(super) actor: String,
    /// Tells apart what callers want to be done once: `admin`, or the token's id, which no other token ever
    /// has.
    pub(super) id: String,
    pub(super) role: Role,
    pub(super) address: IpAddr,
}

/// What opens everything below `/admin/v1`.
pub(super) struct Guard {
    /// The token that the server was started with.
    token: String,
    attempts: Attempts,
}

impl Guard {
    pub(super) fn new(token: String) -> Result<Self, InvalidLimit> {
        Ok(Self {
            token,
            attempts: Attempts::new()?,
        })
    }

    /// Who calls, if the token is right. A wrong one is counted against the address; a right one always
    /// works.
    pub(super) fn admit(
        &self,
        office: &Office,
        headers: &HeaderMap,
        address: IpAddr,
    ) -> Result<Caller, Failure> {
        let sent = headers.get(AUTHORIZATION).map(HeaderValue::as_bytes);
        let Some(sent) = token::bearer(sent) else {
            return Err(unauthorised());
        };
        if token::is(sent, &self.token) {
            return Ok(Caller {
                actor: "admin".to_owned(),
                id: "admin".to_owned(),
                role: Role::Admin,
                address,
            });
        }
        let known = office
            .mirror
            .token(&secret::hash(sent), office.now_ms())
            .and_then(|token| Some((Role::of(&token.role)?, token)));
        match known {
            Some((role, token)) => Ok(Caller {
                actor: format!("token:{}", token.name),
                id: token.id,
                role,
                address,
            }),
            None => Err(self.wrong(office, address)),
        }
    }

    /// Tells everybody who should know of a wrong token. The log has no more lines of it than an address has
    /// attempts.
    fn wrong(&self, office: &Office, address: IpAddr) -> Failure {
        let clock = office.engine.clock();
        let now = clock.now();
        office.metrics.wrong_token();
        let identifier = office.engine.active().policy().address_identifier(address);
        office.records.wrong_token(identifier, clock.calendar(now));
        match self.attempts.wrong(address, now) {
            Ok(()) => {
                info!(from = %address, "a wrong token at the admin door");
                unauthorised()
            }
            Err(secs) => Failure::new(
                StatusCode::TOO_MANY_REQUESTS,
                "wrong_tokens",
                format!(
                    "Too many wrong tokens came from your network. Another may be tried in {secs} s; the \
                     right one always works."
                ),
            )
            .retry_after(secs),
        }
    }
}

fn unauthorised() -> Failure {
    Failure::new(
        StatusCode::UNAUTHORIZED,
        "unauthorised",
        "Send `Authorization: Bearer` with the admin token: TOLLWARD_ADMIN_TOKEN of the server, the one that \
         it printed when it started, or one made at /admin/v1/tokens.",
    )
}

/// The caller of a request that needs at least the role `R`.
pub(super) struct By<R>(pub(super) Caller, pub(super) PhantomData<R>);

/// A role that a request needs.
pub(super) trait Needs {
    const ROLE: Role;
}

/// See [`Role::Read`].
pub(super) enum Read {}
/// See [`Role::Operate`].
pub(super) enum Operate {}
/// See [`Role::Admin`].
pub(super) enum Administer {}

impl Needs for Read {
    const ROLE: Role = Role::Read;
}

impl Needs for Operate {
    const ROLE: Role = Role::Operate;
}

impl Needs for Administer {
    const ROLE: Role = Role::Admin;
}

impl<R: Needs> FromRequestParts<Shared> for By<R> {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &Shared) -> Result<Self, Failure> {
        // The door has put it there; without it nobody gets further, whatever the door forgot.
        let caller = parts.extensions.get::<Caller>().ok_or_else(unauthorised)?;
        if caller.role < R::ROLE {
            let (needed, has) = (R::ROLE.word(), caller.role.word());
            return Err(Failure::new(
                StatusCode::FORBIDDEN,
                "role",
                format!("This needs a token with the role `{needed}`; yours has `{has}`."),
            )
            .with("needed", needed)
            .with("role", has));
        }
        Ok(Self(caller.clone(), PhantomData))
    }
}

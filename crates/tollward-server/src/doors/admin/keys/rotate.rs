//! Keys that replace keys, and keys that are revoked by a `POST`.

use axum::extract::State;
use serde::Deserialize;
use tollward_directory::{Edit, Key};
use tollward_policy::{List, Listed, ListedCaller};
use utoipa::ToSchema;

use super::view::{Made, View, told};
use super::{
    missing, must_be_ahead, must_be_ours, must_not_be_in_file, must_not_be_revoked, put_new, revoke,
};
use crate::doors::admin::answer::Answer;
use crate::doors::admin::failure::Failure;
use crate::doors::admin::guard::{By, Operate};
use crate::doors::admin::input::{Body, Id};
use crate::doors::admin::moment::Moment;
use crate::doors::admin::once::OnceKey;
use crate::doors::admin::precondition::IfMatch;
use crate::doors::admin::secret::{hex, made_id};
use crate::doors::admin::span::Span;
use crate::doors::admin::work::{Begun, Changed, Work};
use crate::doors::admin::{Shared, unmade};

/// How a key is to be replaced.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::doors::admin) struct Rotation {
    /// How long the old key stays valid beside the new one, `0s` to `365d`: `24h` unless told otherwise.
    overlap: Option<Span>,
    /// When the new key expires; as the old one did, unless told otherwise.
    expires_at: Option<Moment>,
}

const DAY_MS: i64 = 86_400_000;
const MAX_OVERLAP_MS: i64 = 365 * DAY_MS;

/// Replaces a key
///
/// A new key is made for the same tenant, user, client and plan. The old one stays valid for the overlap.
#[utoipa::path(post, path = "/admin/v1/keys/{id}/rotate", tag = "keys", request_body = Rotation,
    params(("id" = String, Path, description = "The old key's id")),
    responses(
        (status = 201, description = "The new key, with its secret", body = Made),
        (status = 404, description = "There is none"),
        (status = 409, description = "It was revoked, is suspended or denied, was replaced already, or is written in the configuration file"),
    ))]
pub(in crate::doors::admin) async fn rotate_key(
    By(caller, ..): By<Operate>,
    State(shared): State<Shared>,
    Id(id): Id,
    expected: IfMatch,
    once: OnceKey,
    body: Body<Rotation>,
) -> Result<Answer, Failure> {
    must_be_ours(&shared, &id)?;
    let once = once.of(&body);
    let mut work = match Work::begin_once(&shared, caller, once).await? {
        Begun::New(work) => work,
        Begun::Again(answer) => return Ok(answer),
    };
    let before = work.edit.key(&id).await?.ok_or_else(|| missing(&id))?;
    expected.check(before.version)?;
    must_not_be_revoked(&before)?;
    must_not_be_suspended(&before)?;
    must_not_be_in_file(&shared, &before)?;
    must_not_be_denied(&mut work.edit, &before, &shared).await?;
    must_not_be_replaced(&mut work.edit, &id).await?;
    let overlap_ms = body.value.overlap.map_or(DAY_MS, |overlap| overlap.0);
    if overlap_ms > MAX_OVERLAP_MS {
        let message = "the overlap is too long";
        return Err(Failure::invalid("overlap", message, "write `0s` to `365d`"));
    }
    let expires_at = body.value.expires_at.or(before.expires_at.map(Moment));
    must_be_ahead(expires_at, work.edit.now_ms())?;
    let ends = work.edit.now_ms().saturating_add(overlap_ms);
    let old = Key {
        expires_at: Some(before.expires_at.map_or(ends, |earlier| earlier.min(ends))),
        ..before.clone()
    };
    let old = work.edit.put_key(old).await?;
    let new = Key {
        id: made_id("key").map_err(unmade)?,
        replaces: Some(id.clone()),
        expires_at: expires_at.map(|moment| moment.0),
        revoked_at: None,
        last_used_at: None,
        version: 0,
        ..before.clone()
    };
    let (new, secret) = put_new(&mut work.edit, new).await?;
    work.record(Changed {
        event: "key_rotated",
        identifier: format!("key:{id}"),
        before: Some(told(&before)),
        after: Some(told(&old)),
    });
    work.record(Changed {
        event: "key_created",
        identifier: format!("key:{}", new.id),
        before: None,
        after: Some(told(&new)),
    });
    let answer = Answer::created(&Made::new(&new, secret, Some(&old)))?;
    work.commit(answer).await
}

fn must_not_be_suspended(key: &Key) -> Result<(), Failure> {
    match key.suspended_at {
        Some(at) => {
            let detail = format!(
                "The key is suspended since {}. Resume it first.",
                Moment(at)
            );
            Err(Failure::conflict("suspended", detail))
        }
        None => Ok(()),
    }
}

/// Refuses to replace a key on the deny-list: its successor would be on no list.
async fn must_not_be_denied(edit: &mut Edit, key: &Key, shared: &Shared) -> Result<(), Failure> {
    let in_file = {
        let active = shared.engine.active();
        let mut denied = active.policy().file_list(List::Deny).iter();
        let is_it = |caller: &&ListedCaller| match &caller.who {
            Listed::Key(hash) => hex(hash) == key.hash,
            _ => false,
        };
        denied.find(is_it).map(|caller| caller.reason.to_string())
    };
    let listed = edit.listed(List::Deny.word(), "api_key", &key.hash).await?;
    match in_file.or(listed.map(|entry| entry.reason)) {
        Some(reason) => {
            let detail =
                format!("The key is on the deny-list ({reason}). Take it off the list first.");
            Err(Failure::conflict("denied", detail))
        }
        None => Ok(()),
    }
}

/// Refuses to replace a key twice: the second successor would expire with the old key.
async fn must_not_be_replaced(edit: &mut Edit, id: &str) -> Result<(), Failure> {
    let Some(successor) = edit.successor(id).await? else {
        return Ok(());
    };
    let detail = format!(
        "The key was replaced by {:?} at {}. Rotate that one, or make a new key.",
        successor.id,
        Moment(successor.created_at)
    );
    Err(Failure::conflict("replaced", detail).with("successor", successor.id))
}

/// Revokes a key
///
/// As `DELETE` does. When there is no time to look first, `If-Match: *` revokes it whatever its version.
#[utoipa::path(post, path = "/admin/v1/keys/{id}/revoke", tag = "keys",
    params(("id" = String, Path, description = "The key's id")),
    responses(
        (status = 200, description = "The key, revoked", body = View),
        (status = 404, description = "There is none"),
        (status = 409, description = "It is written in the configuration file"),
    ))]
pub(in crate::doors::admin) async fn revoke_key(
    By(caller, ..): By<Operate>,
    State(shared): State<Shared>,
    Id(id): Id,
    expected: IfMatch,
) -> Result<Answer, Failure> {
    revoke(&shared, caller, &id, &expected).await
}

//! Tenants, users and API keys suspended and resumed.
//!
//! What is suspended stays as it is, but its requests are refused (403, `suspended`) on all nodes within a
//! second, whatever the allow-list and the enforcement say.

use axum::extract::State;
use serde::Deserialize;
use serde_json::{Value, json};
use tollward_directory::{DirectoryError, Edit, Key, Tenant, User};
use tollward_policy::ROOT;
use utoipa::ToSchema;

use super::answer::Answer;
use super::failure::Failure;
use super::guard::{By, Caller, Operate};
use super::input::{Id, Text, read_json};
use super::moment::Moment;
use super::names::{self, MAX_TEXT};
use super::precondition::IfMatch;
use super::work::{Changed, Work};
use super::{Shared, keys, tenants, users};

/// Why something is suspended.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Suspension {
    /// The reason, for those who read this later.
    #[schema(min_length = 1, max_length = 256, example = "invoice 4711 is overdue")]
    reason: Option<String>,
}

impl Suspension {
    /// Reads a body; an empty one gives no reason.
    fn read(body: &Text) -> Result<Self, Failure> {
        let suspension: Self = match body.0.trim_ascii() {
            [] | b"null" => Self::default(),
            text => read_json(text)?,
        };
        if let Some(reason) = &suspension.reason {
            names::text("reason", reason, MAX_TEXT)?;
        }
        Ok(suspension)
    }
}

/// Something that can be suspended.
trait Suspendable: Clone + Sized + Send {
    /// What the audit trail calls it.
    const KIND: &'static str;
    const SUSPENDED: &'static str;
    const RESUMED: &'static str;

    /// The one of this id that may be changed.
    async fn found(shared: &Shared, edit: &mut Edit, id: &str) -> Result<Self, Failure>;
    async fn put(self, edit: &mut Edit) -> Result<Self, DirectoryError>;
    fn version(&self) -> i64;
    fn since(&mut self) -> &mut Option<i64>;
    fn reason(&mut self) -> &mut Option<String>;
    fn answer(self) -> Result<Answer, Failure>;
}

/// What every entity has.
macro_rules! fields {
    () => {
        fn version(&self) -> i64 {
            self.version
        }

        fn since(&mut self) -> &mut Option<i64> {
            &mut self.suspended_at
        }

        fn reason(&mut self) -> &mut Option<String> {
            &mut self.suspended_reason
        }
    };
}

impl Suspendable for Tenant {
    const KIND: &'static str = "tenant";
    const SUSPENDED: &'static str = "tenant_suspended";
    const RESUMED: &'static str = "tenant_resumed";

    async fn found(shared: &Shared, edit: &mut Edit, id: &str) -> Result<Self, Failure> {
        if id == ROOT {
            let detail = format!(
                "`{ROOT}` is the root: everybody is below it. Suspend single tenants instead."
            );
            return Err(Failure::conflict("root", detail));
        }
        // The suspension of a tenant that the file has too holds for both.
        match edit.tenant(id).await? {
            Some(tenant) => Ok(tenant),
            None => {
                tenants::change::must_be_ours(shared, id).map_err(or_deny)?;
                Err(tenants::missing(id))
            }
        }
    }

    async fn put(self, edit: &mut Edit) -> Result<Self, DirectoryError> {
        edit.put_tenant(self).await
    }

    fields!();

    fn answer(self) -> Result<Answer, Failure> {
        Answer::ok(&tenants::view::View::new(self))
    }
}

impl Suspendable for User {
    const KIND: &'static str = "user";
    const SUSPENDED: &'static str = "user_suspended";
    const RESUMED: &'static str = "user_resumed";

    async fn found(_: &Shared, edit: &mut Edit, id: &str) -> Result<Self, Failure> {
        edit.user(id).await?.ok_or_else(|| users::missing(id))
    }

    async fn put(self, edit: &mut Edit) -> Result<Self, DirectoryError> {
        edit.put_user(self).await
    }

    fields!();

    fn answer(self) -> Result<Answer, Failure> {
        Answer::ok(&users::View::from(self))
    }
}

impl Suspendable for Key {
    const KIND: &'static str = "key";
    const SUSPENDED: &'static str = "key_suspended";
    const RESUMED: &'static str = "key_resumed";

    async fn found(shared: &Shared, edit: &mut Edit, id: &str) -> Result<Self, Failure> {
        keys::must_be_ours(shared, id).map_err(or_deny)?;
        let key = edit.key(id).await?.ok_or_else(|| keys::missing(id))?;
        keys::must_not_be_revoked(&key)?;
        Ok(key)
    }

    async fn put(self, edit: &mut Edit) -> Result<Self, DirectoryError> {
        edit.put_key(self).await
    }

    fields!();

    fn answer(self) -> Result<Answer, Failure> {
        Answer::ok(&keys::view::View::from(&self))
    }
}

/// What the file has cannot be suspended, but it can be denied.
fn or_deny(failure: Failure) -> Failure {
    failure.with("hint", "put it on the deny-list: POST /admin/v1/deny")
}

/// Suspends it for this reason, or resumes it without one.
async fn set<T: Suspendable>(
    shared: &Shared,
    caller: Caller,
    id: &str,
    expected: &IfMatch,
    suspension: Option<Suspension>,
) -> Result<Answer, Failure> {
    let mut work = Work::begin(shared, caller).await?;
    let mut entity = T::found(shared, &mut work.edit, id).await?;
    expected.check(entity.version())?;
    if entity.since().is_some() == suspension.is_some() {
        return entity.answer();
    }
    let before = told(&mut entity);
    *entity.since() = suspension.as_ref().map(|_| work.edit.now_ms());
    let event = match suspension {
        Some(_) => T::SUSPENDED,
        None => T::RESUMED,
    };
    *entity.reason() = suspension.and_then(|suspension| suspension.reason);
    let mut entity = entity.put(&mut work.edit).await?;
    work.record(Changed {
        event,
        identifier: format!("{}:{id}", T::KIND),
        before: Some(before),
        after: Some(told(&mut entity)),
    });
    work.commit(entity.answer()?).await
}

/// What the audit trail tells of something that is gone, with since when it was suspended.
pub(super) fn with_suspension(mut told: Value, since: Option<i64>) -> Value {
    if let Some(since) = since {
        told["suspended_at"] = Moment(since).to_string().into();
    }
    told
}

fn told(entity: &mut impl Suspendable) -> Value {
    json!({ "suspended": entity.since().is_some(), "reason": entity.reason() })
}

/// Suspends a tenant
///
/// Its requests and those of the tenants below it are refused until it is resumed. Nothing is deleted.
#[utoipa::path(post, path = "/admin/v1/tenants/{id}/suspend", tag = "tenants", request_body = Option<Suspension>,
    params(("id" = String, Path, description = "The tenant's name")),
    responses(
        (status = 200, description = "The tenant, suspended", body = tenants::view::View),
        (status = 404, description = "There is none"),
        (status = 409, description = "It is written in the configuration file, or it is the root"),
    ))]
pub(super) async fn suspend_tenant(
    By(caller, ..): By<Operate>,
    State(shared): State<Shared>,
    Id(id): Id,
    expected: IfMatch,
    body: Text,
) -> Result<Answer, Failure> {
    let suspension = Suspension::read(&body)?;
    let answer = set::<Tenant>(&shared, caller, &id, &expected, Some(suspension)).await?;
    Ok(tenants::change::computed(&shared, answer).await)
}

/// Resumes a tenant
#[utoipa::path(post, path = "/admin/v1/tenants/{id}/resume", tag = "tenants",
    params(("id" = String, Path, description = "The tenant's name")),
    responses(
        (status = 200, description = "The tenant as it is now", body = tenants::view::View),
        (status = 404, description = "There is none"),
        (status = 409, description = "It is written in the configuration file, or it is the root"),
    ))]
pub(super) async fn resume_tenant(
    By(caller, ..): By<Operate>,
    State(shared): State<Shared>,
    Id(id): Id,
    expected: IfMatch,
) -> Result<Answer, Failure> {
    let answer = set::<Tenant>(&shared, caller, &id, &expected, None).await?;
    Ok(tenants::change::computed(&shared, answer).await)
}

/// Suspends a user
///
/// The user's requests are refused until the user is resumed, however the user is proven.
#[utoipa::path(post, path = "/admin/v1/users/{id}/suspend", tag = "users", request_body = Option<Suspension>,
    params(("id" = String, Path, description = "The user's name")),
    responses((status = 200, description = "The user, suspended", body = users::View), (status = 404, description = "There is none")))]
pub(super) async fn suspend_user(
    By(caller, ..): By<Operate>,
    State(shared): State<Shared>,
    Id(id): Id,
    expected: IfMatch,
    body: Text,
) -> Result<Answer, Failure> {
    let suspension = Suspension::read(&body)?;
    set::<User>(&shared, caller, &id, &expected, Some(suspension)).await
}

/// Resumes a user
#[utoipa::path(post, path = "/admin/v1/users/{id}/resume", tag = "users",
    params(("id" = String, Path, description = "The user's name")),
    responses((status = 200, description = "The user as it is now", body = users::View), (status = 404, description = "There is none")))]
pub(super) async fn resume_user(
    By(caller, ..): By<Operate>,
    State(shared): State<Shared>,
    Id(id): Id,
    expected: IfMatch,
) -> Result<Answer, Failure> {
    set::<User>(&shared, caller, &id, &expected, None).await
}

/// Suspends a key
///
/// Unlike a key that was revoked, it can be resumed.
#[utoipa::path(post, path = "/admin/v1/keys/{id}/suspend", tag = "keys", request_body = Option<Suspension>,
    params(("id" = String, Path, description = "The key's id")),
    responses(
        (status = 200, description = "The key, suspended", body = keys::view::View),
        (status = 404, description = "There is none"),
        (status = 409, description = "It was revoked, or it is written in the configuration file"),
    ))]
pub(super) async fn suspend_key(
    By(caller, ..): By<Operate>,
    State(shared): State<Shared>,
    Id(id): Id,
    expected: IfMatch,
    body: Text,
) -> Result<Answer, Failure> {
    let suspension = Suspension::read(&body)?;
    set::<Key>(&shared, caller, &id, &expected, Some(suspension)).await
}

/// Resumes a key
#[utoipa::path(post, path = "/admin/v1/keys/{id}/resume", tag = "keys",
    params(("id" = String, Path, description = "The key's id")),
    responses(
        (status = 200, description = "The key as it is now", body = keys::view::View),
        (status = 404, description = "There is none"),
        (status = 409, description = "It was revoked, or it is written in the configuration file"),
    ))]
pub(super) async fn resume_key(
    By(caller, ..): By<Operate>,
    State(shared): State<Shared>,
    Id(id): Id,
    expected: IfMatch,
) -> Result<Answer, Failure> {
    set::<Key>(&shared, caller, &id, &expected, None).await
}

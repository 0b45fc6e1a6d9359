//! Users.

use axum::extract::State;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tollward_directory::{Edit, User};
use tollward_policy::Policy;
use utoipa::{IntoParams, ToSchema};

use super::answer::Answer;
use super::failure::Failure;
use super::guard::{Administer, By, Read};
use super::input::{Asked, Body, Id, read_value};
use super::moment::Moment;
use super::names::{self, MAX_TEXT};
use super::once::OnceKey;
use super::paging::{Items, page};
use super::patch::patched;
use super::precondition::IfMatch;
use super::suspend::with_suspension;
use super::work::{Begun, Changed, Work};
use super::{Shared, tenants};

/// A user as it is to be.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewUser {
    /// The user's name, for ever: 1 to 256 bytes of printable characters.
    #[schema(min_length = 1, max_length = 256, example = "alice")]
    id: String,
    /// The tenant that the user belongs to: the user's requests are charged to it, however the user is proven.
    #[schema(min_length = 1, max_length = 128)]
    tenant: Option<String>,
    /// The user's plan, which goes before the tenant's.
    plan: Option<String>,
    /// Whether the user's e-mail address was verified.
    #[serde(default)]
    email_verified: bool,
    /// Whatever else is known of the user: at most 16 KiB.
    #[serde(default)]
    attributes: Map<String, Value>,
}

/// Changes of a user, as a merge patch: what is left out stays, null removes.
#[derive(Debug, ToSchema)]
#[schema(as = UserPatch)]
#[expect(dead_code, reason = "describes what is read field by field")]
pub(super) struct Patch {
    /// The tenant that the user belongs to: the user's requests are charged to it, however the user is proven.
    tenant: Option<String>,
    /// The user's plan.
    plan: Option<String>,
    /// Whether the user's e-mail address was verified.
    email_verified: Option<bool>,
    /// Attributes to change; null removes one.
    attributes: Option<Map<String, Value>>,
}

const PATCHED: [&str; 4] = ["tenant", "plan", "email_verified", "attributes"];

/// A user.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = User)]
pub(super) struct View {
    /// The user's name.
    id: String,
    /// The tenant that the user belongs to: the user's requests are charged to it, however the user is proven.
    tenant: Option<String>,
    /// The user's plan.
    plan: Option<String>,
    /// When the user was suspended; null if the user is not.
    suspended_at: Option<Moment>,
    /// Why the user was suspended.
    suspended_reason: Option<String>,
    /// Whether the user's e-mail address was verified.
    email_verified: bool,
    /// Whatever else is known.
    attributes: Map<String, Value>,
    /// When the entry was made.
    created_at: Moment,
    /// When it was last changed.
    updated_at: Moment,
    /// The version, for `If-Match`.
    version: i64,
}

impl From<User> for View {
    fn from(user: User) -> Self {
        Self {
            attributes: names::stored_attributes(&user.attributes),
            id: user.id,
            tenant: user.tenant,
            plan: user.plan,
            suspended_at: user.suspended_at.map(Moment),
            suspended_reason: user.suspended_reason,
            email_verified: user.email_verified,
            created_at: Moment(user.created_at),
            updated_at: Moment(user.updated_at),
            version: user.version,
        }
    }
}

impl NewUser {
    /// Checks it, and makes a row of it.
    async fn checked(
        self,
        edit: &mut Edit,
        policy: &Policy,
        before: Option<&User>,
    ) -> Result<User, Failure> {
        names::text("id", &self.id, MAX_TEXT)?;
        names::plan(self.plan.as_deref(), policy)?;
        if let Some(tenant) = &self.tenant {
            tenants::must_exist("tenant", tenant, edit, policy).await?;
        }
        Ok(User {
            attributes: names::attributes(&self.attributes)?,
            id: self.id,
            tenant: self.tenant,
            plan: self.plan,
            email_verified: self.email_verified,
            ..before.cloned().unwrap_or_default()
        })
    }
}

/// What the audit trail tells of a user.
fn told(user: &User) -> Value {
    json!({
        "tenant": user.tenant,
        "plan": user.plan,
        "email_verified": user.email_verified,
        "attributes": names::stored_attributes(&user.attributes),
    })
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Wanted {
    /// Only users of this tenant.
    tenant: Option<String>,
    /// The most items on the page; 100 unless told otherwise.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
    /// The `next` of the page before.
    after: Option<String>,
}

/// Lists users
#[utoipa::path(get, path = "/admin/v1/users", tag = "users", params(Wanted),
    responses((status = 200, description = "A page of users, in the order of their names", body = Items<View>)))]
pub(super) async fn list_users(
    _: By<Read>,
    State(shared): State<Shared>,
    Asked(wanted): Asked<Wanted>,
) -> Result<Answer, Failure> {
    let page = page(wanted.limit, wanted.after)?;
    let listed = shared
        .directory
        .users(wanted.tenant.as_deref(), &page)
        .await?;
    Answer::ok(&Items {
        items: listed.items.into_iter().map(View::from).collect(),
        next: listed.next,
    })
}

/// Shows a user
#[utoipa::path(get, path = "/admin/v1/users/{id}", tag = "users",
    params(("id" = String, Path, description = "The user's name")),
    responses((status = 200, description = "The user", body = View), (status = 404, description = "There is none")))]
pub(super) async fn show_user(
    _: By<Read>,
    State(shared): State<Shared>,
    Id(id): Id,
) -> Result<Answer, Failure> {
    let user = shared.directory.user(&id).await?;
    Answer::ok(&View::from(user.ok_or_else(|| missing(&id))?))
}

/// Makes a user
#[utoipa::path(post, path = "/admin/v1/users", tag = "users", request_body = NewUser,
    responses(
        (status = 201, description = "The user", body = View),
        (status = 409, description = "There is one already"),
    ))]
pub(super) async fn create_user(
    By(caller, ..): By<Administer>,
    State(shared): State<Shared>,
    once: OnceKey,
    body: Body<NewUser>,
) -> Result<Answer, Failure> {
    let once = once.of(&body);
    let mut work = match Work::begin_once(&shared, caller, once).await? {
        Begun::New(work) => work,
        Begun::Again(answer) => return Ok(answer),
    };
    let id = body.value.id.clone();
    if work.edit.user(&id).await?.is_some() {
        let detail = format!("There is a user {id:?} already.");
        return Err(Failure::conflict("exists", detail));
    }
    let active = shared.engine.active();
    let user = body
        .value
        .checked(&mut work.edit, active.policy(), None)
        .await?;
    drop(active);
    let user = work.edit.put_user(user).await?;
    work.record(Changed {
        event: "user_created",
        identifier: format!("user:{id}"),
        before: None,
        after: Some(told(&user)),
    });
    let answer = Answer::created(&View::from(user))?;
    work.commit(answer).await
}

/// Changes a user
#[utoipa::path(patch, path = "/admin/v1/users/{id}", tag = "users", request_body = Patch,
    params(("id" = String, Path, description = "The user's name")),
    responses((status = 200, description = "The user as it is now", body = View), (status = 404, description = "There is none")))]
pub(super) async fn change_user(
    By(caller, ..): By<Administer>,
    State(shared): State<Shared>,
    Id(id): Id,
    expected: IfMatch,
    body: Body<Map<String, Value>>,
) -> Result<Answer, Failure> {
    let mut work = Work::begin(&shared, caller).await?;
    let before = work.edit.user(&id).await?.ok_or_else(|| missing(&id))?;
    expected.check(before.version)?;
    let mut current = match told(&before) {
        Value::Object(current) => current,
        _ => Map::new(),
    };
    current.retain(|_, value| !value.is_null());
    current.insert("id".to_owned(), id.clone().into());
    let user: NewUser = read_value(patched(current, body.value, &PATCHED)?)?;
    let active = shared.engine.active();
    let user = user
        .checked(&mut work.edit, active.policy(), Some(&before))
        .await?;
    drop(active);
    let after = work.edit.put_user(user).await?;
    work.record(Changed {
        event: "user_changed",
        identifier: format!("user:{id}"),
        before: Some(told(&before)),
        after: Some(told(&after)),
    });
    let answer = Answer::ok(&View::from(after))?;
    work.commit(answer).await
}

/// Deletes a user
///
/// The user's keys, boosts and entries of the allow-list go too.
#[utoipa::path(delete, path = "/admin/v1/users/{id}", tag = "users",
    params(("id" = String, Path, description = "The user's name")),
    responses((status = 200, description = "The user as it was", body = View), (status = 404, description = "There is none")))]
pub(super) async fn delete_user(
    By(caller, ..): By<Administer>,
    State(shared): State<Shared>,
    Id(id): Id,
    expected: IfMatch,
) -> Result<Answer, Failure> {
    let mut work = Work::begin(&shared, caller).await?;
    let user = work.edit.user(&id).await?.ok_or_else(|| missing(&id))?;
    expected.check(user.version)?;
    work.edit.delete_user(&id).await?;
    work.record(Changed {
        event: "user_deleted",
        identifier: format!("user:{id}"),
        before: Some(with_suspension(told(&user), user.suspended_at)),
        after: None,
    });
    let mut answer = Answer::ok(&View::from(user))?;
    answer.version = None;
    work.commit(answer).await
}

pub(super) fn missing(id: &str) -> Failure {
    Failure::not_found("user", &names::shortened(id))
}

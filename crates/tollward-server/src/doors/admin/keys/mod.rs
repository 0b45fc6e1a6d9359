//! API keys: made, shown, changed, revoked.

pub(super) mod rotate;
pub(super) mod view;

use axum::extract::State;
use serde::Deserialize;
use serde_json::{Map, Value};
use tollward_directory::{Edit, Key, KeyFilter};
use tollward_policy::Policy;
use utoipa::{IntoParams, ToSchema};

use self::view::{Made, View, told};
use super::answer::Answer;
use super::failure::Failure;
use super::guard::{By, Caller, Operate, Read};
use super::input::{Asked, Body, Id, read_value};
use super::moment::Moment;
use super::names::{self, MAX_TEXT};
use super::once::OnceKey;
use super::paging::{FileFirst, Items, page};
use super::patch::patched;
use super::precondition::IfMatch;
use super::secret::{Kind, Secret, hex, made_id};
use super::work::{Begun, Changed, Work};
use super::{Shared, lists, tenants, unmade};

/// A key to be made. It belongs to a tenant, a user or a client.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewKey {
    /// What people call it.
    #[serde(default)]
    #[schema(max_length = 256, example = "backend of acme")]
    name: String,
    /// The tenant that it proves.
    #[schema(min_length = 1, max_length = 128, example = "acme")]
    tenant: Option<String>,
    /// The user that it proves.
    #[schema(min_length = 1, max_length = 256)]
    user: Option<String>,
    /// The client that it proves.
    #[schema(min_length = 1, max_length = 256)]
    client: Option<String>,
    /// A plan that goes before the user's and the tenant's.
    plan: Option<String>,
    /// When it expires; null for never.
    expires_at: Option<Moment>,
}

/// Changes of a key, as a merge patch: what is left out stays, null removes.
#[derive(Debug, ToSchema)]
#[schema(as = KeyPatch)]
#[expect(dead_code, reason = "describes what is read field by field")]
pub(super) struct Patch {
    /// What people call it.
    name: Option<String>,
    /// A plan that goes before the user's and the tenant's.
    plan: Option<String>,
    /// When it expires.
    expires_at: Option<Moment>,
}

const PATCHED: [&str; 3] = ["name", "plan", "expires_at"];

/// What of a key can be changed.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Changeable {
    #[serde(default)]
    name: String,
    plan: Option<String>,
    expires_at: Option<Moment>,
}

impl NewKey {
    /// Checks it, and makes a row of it that still lacks a secret.
    async fn checked(self, edit: &mut Edit, policy: &Policy) -> Result<Key, Failure> {
        check_name(&self.name)?;
        names::plan(self.plan.as_deref(), policy)?;
        for (place, text) in [("user", &self.user), ("client", &self.client)] {
            if let Some(text) = text {
                names::text(place, text, MAX_TEXT)?;
            }
        }
        if let Some(tenant) = &self.tenant {
            tenants::must_exist("tenant", tenant, edit, policy).await?;
        }
        if self.tenant.is_none() && self.user.is_none() && self.client.is_none() {
            let hint = "give it a `tenant`, a `user` or a `client`";
            return Err(Failure::invalid(
                "tenant",
                "the key belongs to nobody",
                hint,
            ));
        }
        must_be_ahead(self.expires_at, edit.now_ms())?;
        Ok(Key {
            id: made_id("key").map_err(unmade)?,
            name: self.name,
            tenant: self.tenant,
            user: self.user,
            client: self.client,
            plan: self.plan,
            expires_at: self.expires_at.map(|moment| moment.0),
            ..Key::default()
        })
    }
}

fn check_name(name: &str) -> Result<(), Failure> {
    match name {
        "" => Ok(()),
        name => names::text("name", name, MAX_TEXT),
    }
}

/// Refuses an end that is over.
pub(super) fn must_be_ahead(ends: Option<Moment>, now_ms: i64) -> Result<(), Failure> {
    match ends {
        Some(moment) if moment.0 <= now_ms => {
            let message = format!("{moment} is over: it is {}", Moment(now_ms));
            let hint = "write a moment that is still to come";
            Err(Failure::invalid("expires_at", message, hint))
        }
        _ => Ok(()),
    }
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Wanted {
    /// Only keys of this tenant.
    tenant: Option<String>,
    /// Only keys of this user.
    user: Option<String>,
    /// Also keys that were revoked.
    revoked: Option<bool>,
    /// The most items on the page; 100 unless told otherwise.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
    /// The `next` of the page before.
    after: Option<String>,
}

/// Lists keys
///
/// Those of the configuration file come first. They are known by the beginning of their SHA-256.
#[utoipa::path(get, path = "/admin/v1/keys", tag = "keys", params(Wanted),
    responses((status = 200, description = "A page of keys", body = Items<View>)))]
pub(super) async fn list_keys(
    _: By<Read>,
    State(shared): State<Shared>,
    Asked(wanted): Asked<Wanted>,
) -> Result<Answer, Failure> {
    let page = page(wanted.limit, wanted.after)?;
    let filter = KeyFilter {
        tenant: wanted.tenant,
        user: wanted.user,
        revoked: wanted.revoked.unwrap_or(false),
    };
    let written = of_file(shared.engine.active().policy(), &filter);
    let FileFirst {
        mut items,
        rest,
        mut next,
    } = FileFirst::of(written, page);
    if let Some(page) = rest {
        let listed = shared.directory.keys(&filter, &page).await?;
        items.extend(listed.items.iter().map(View::from));
        next = listed.next;
    }
    Answer::ok(&Items { items, next })
}

/// The keys of the file that are asked for, in the order of their ids.
fn of_file(policy: &Policy, filter: &KeyFilter) -> Vec<View> {
    let is = |wanted: &Option<String>, has: &Option<Box<str>>| {
        wanted.is_none() || wanted.as_deref() == has.as_deref()
    };
    let wanted = policy
        .file_keys()
        .filter(|(_, key)| is(&filter.tenant, &key.tenant) && is(&filter.user, &key.user));
    let mut wanted: Vec<_> = wanted.collect();
    wanted.sort_unstable_by_key(|(hash, _)| **hash);
    wanted
        .into_iter()
        .map(|(hash, key)| View::written(hash, key))
        .collect()
}

/// The key of the file with this id.
fn written(policy: &Policy, id: &str) -> Option<View> {
    let start = id.strip_prefix(view::FILE_ID)?;
    let mut keys = policy.file_keys();
    let (hash, key) = keys.find(|(hash, _)| hex(*hash).get(..start.len().max(1)) == Some(start))?;
    let view = View::written(hash, key);
    (view.id() == id).then_some(view)
}

/// Refuses to change what the file has.
pub(super) fn must_be_ours(shared: &Shared, id: &str) -> Result<(), Failure> {
    match written(shared.engine.active().policy(), id) {
        None => Ok(()),
        Some(_) => {
            let place = format!("keys ({id})");
            let file = shared.config.source();
            Err(Failure::read_only("key", id, &file, &place))
        }
    }
}

/// Refuses to revoke or replace a key that the file has too: it would stay valid.
pub(super) fn must_not_be_in_file(shared: &Shared, key: &Key) -> Result<(), Failure> {
    let active = shared.engine.active();
    let mut hashes = active.policy().file_keys().map(|(hash, _)| hex(hash));
    if !hashes.any(|hash| hash == key.hash) {
        return Ok(());
    }
    let file = shared.config.source();
    let detail = format!(
        "The key {:?} is also written in {file}, under `keys`, and would stay valid. Remove it there first, or put \
         it on the deny-list.",
        key.id
    );
    Err(Failure::conflict("read_only", detail).with("file", &*file))
}

/// Shows a key
#[utoipa::path(get, path = "/admin/v1/keys/{id}", tag = "keys",
    params(("id" = String, Path, description = "The key's id")),
    responses((status = 200, description = "The key", body = View), (status = 404, description = "There is none")))]
pub(super) async fn show_key(
    _: By<Read>,
    State(shared): State<Shared>,
    Id(id): Id,
) -> Result<Answer, Failure> {
    if let Some(view) = written(shared.engine.active().policy(), &id) {
        return Answer::ok(&view);
    }
    let key = shared.directory.key(&id).await?;
    Answer::ok(&View::from(&key.ok_or_else(|| missing(&id))?))
}

/// Makes a key
///
/// Its secret is in this answer and nowhere else.
#[utoipa::path(post, path = "/admin/v1/keys", tag = "keys", request_body = NewKey,
    responses((status = 201, description = "The key, with its secret", body = Made)))]
pub(super) async fn create_key(
    By(caller, ..): By<Operate>,
    State(shared): State<Shared>,
    once: OnceKey,
    body: Body<NewKey>,
) -> Result<Answer, Failure> {
    let once = once.of(&body);
    let mut work = match Work::begin_once(&shared, caller, once).await? {
        Begun::New(work) => work,
        Begun::Again(answer) => return Ok(answer),
    };
    let active = shared.engine.active();
    let key = body.value.checked(&mut work.edit, active.policy()).await?;
    drop(active);
    let (key, secret) = put_new(&mut work.edit, key).await?;
    work.record(Changed {
        event: "key_created",
        identifier: format!("key:{}", key.id),
        before: None,
        after: Some(told(&key)),
    });
    let answer = Answer::created(&Made::new(&key, secret, None))?;
    work.commit(answer).await
}

/// Stores a key with a new secret.
async fn put_new(edit: &mut Edit, key: Key) -> Result<(Key, Secret), Failure> {
    let secret = Secret::made(Kind::Key).map_err(unmade)?;
    let key = Key {
        prefix: secret.prefix().to_owned(),
        hash: secret.hash(),
        ..key
    };
    Ok((edit.put_key(key).await?, secret))
}

/// Changes a key
#[utoipa::path(patch, path = "/admin/v1/keys/{id}", tag = "keys", request_body = Patch,
    params(("id" = String, Path, description = "The key's id")),
    responses(
        (status = 200, description = "The key as it is now", body = View),
        (status = 404, description = "There is none"),
        (status = 409, description = "It was revoked, or it is written in the configuration file"),
    ))]
pub(super) async fn change_key(
    By(caller, ..): By<Operate>,
    State(shared): State<Shared>,
    Id(id): Id,
    expected: IfMatch,
    body: Body<Map<String, Value>>,
) -> Result<Answer, Failure> {
    must_be_ours(&shared, &id)?;
    let mut work = Work::begin(&shared, caller).await?;
    let before = work.edit.key(&id).await?.ok_or_else(|| missing(&id))?;
    expected.check(before.version)?;
    must_not_be_revoked(&before)?;
    let mut current = Map::new();
    current.insert("name".to_owned(), before.name.clone().into());
    if let Some(plan) = &before.plan {
        current.insert("plan".to_owned(), plan.clone().into());
    }
    if let Some(ends) = before.expires_at {
        current.insert("expires_at".to_owned(), Moment(ends).to_string().into());
    }
    let key: Changeable = read_value(patched(current, body.value, &PATCHED)?)?;
    check_name(&key.name)?;
    names::plan(key.plan.as_deref(), shared.engine.active().policy())?;
    let expires_at = key.expires_at.map(|moment| moment.0);
    if expires_at != before.expires_at {
        must_be_ahead(key.expires_at, work.edit.now_ms())?;
    }
    let changed = Key {
        name: key.name,
        plan: key.plan,
        expires_at,
        ..before.clone()
    };
    let after = work.edit.put_key(changed).await?;
    work.record(Changed {
        event: "key_changed",
        identifier: format!("key:{id}"),
        before: Some(told(&before)),
        after: Some(told(&after)),
    });
    let answer = Answer::ok(&View::from(&after))?;
    work.commit(answer).await
}

/// Revokes a key
///
/// It is refused on all nodes within a second, and taken off the allow-list. It cannot be made valid again, and
/// stays in the list of those that were revoked.
#[utoipa::path(delete, path = "/admin/v1/keys/{id}", tag = "keys",
    params(("id" = String, Path, description = "The key's id")),
    responses(
        (status = 200, description = "The key, revoked", body = View),
        (status = 404, description = "There is none"),
        (status = 409, description = "It is written in the configuration file"),
    ))]
pub(super) async fn delete_key(
    By(caller, ..): By<Operate>,
    State(shared): State<Shared>,
    Id(id): Id,
    expected: IfMatch,
) -> Result<Answer, Failure> {
    revoke(&shared, caller, &id, &expected).await
}

async fn revoke(
    shared: &Shared,
    caller: Caller,
    id: &str,
    expected: &IfMatch,
) -> Result<Answer, Failure> {
    must_be_ours(shared, id)?;
    let mut work = Work::begin(shared, caller).await?;
    let before = work.edit.key(id).await?.ok_or_else(|| missing(id))?;
    expected.check(before.version)?;
    if before.revoked_at.is_some() {
        return Answer::ok(&View::from(&before));
    }
    must_not_be_in_file(shared, &before)?;
    let key = Key {
        revoked_at: Some(work.edit.now_ms()),
        ..before.clone()
    };
    let after = work.edit.put_key(key).await?;
    // Whoever has found it is not to be let through.
    lists::disallow_key(&mut work, &before.hash).await?;
    work.record(Changed {
        event: "key_revoked",
        identifier: format!("key:{id}"),
        before: Some(told(&before)),
        after: Some(told(&after)),
    });
    let answer = Answer::ok(&View::from(&after))?;
    work.commit(answer).await
}

/// Refuses to do anything with a key that was revoked.
pub(super) fn must_not_be_revoked(key: &Key) -> Result<(), Failure> {
    match key.revoked_at {
        Some(at) => {
            let detail = format!("The key was revoked at {}. Make a new one.", Moment(at));
            Err(Failure::conflict("revoked", detail))
        }
        None => Ok(()),
    }
}

pub(super) fn missing(id: &str) -> Failure {
    Failure::not_found("key", &names::shortened(id))
}

//! The allow-list: callers that no limit concerns.

use std::net::IpAddr;

use axum::extract::State;
use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tollward_directory::{Allow, Conflict, DirectoryError, Edit, Key};
use tollward_policy::{Allowed, AllowedCaller, Policy};
use utoipa::ToSchema;

use super::answer::Answer;
use super::failure::Failure;
use super::guard::{By, Operate, Read};
use super::input::{Asked, Body, Id};
use super::keys::must_not_be_revoked;
use super::moment::Moment;
use super::names::{self, MAX_TENANT, MAX_TEXT};
use super::once::OnceKey;
use super::paging::{FileFirst, Items, Paging};
use super::precondition::IfMatch;
use super::secret::{hex, made_id};
use super::work::{Begun, Changed, Work};
use super::{Shared, unmade};

/// An entry to be made: one caller, and why.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewEntry {
    /// A network or an address.
    #[schema(example = "192.0.2.0/24")]
    cidr: Option<String>,
    /// A user.
    #[schema(min_length = 1, max_length = 256)]
    user: Option<String>,
    /// A tenant.
    #[schema(min_length = 1, max_length = 128)]
    tenant: Option<String>,
    /// The SHA-256 of an API key, in hexadecimal digits.
    #[schema(pattern = "^[0-9A-Fa-f]{64}$")]
    api_key_sha256: Option<String>,
    /// The id of an API key of the directory.
    key_id: Option<String>,
    /// Why it is never limited.
    #[schema(min_length = 1, max_length = 256, example = "internal")]
    reason: String,
}

/// What an entry of the allow-list names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = AllowKind)]
pub(super) enum Kind {
    Cidr,
    User,
    Tenant,
    ApiKey,
}

impl Kind {
    fn word(self) -> &'static str {
        match self {
            Self::Cidr => "cidr",
            Self::User => "user",
            Self::Tenant => "tenant",
            Self::ApiKey => "api_key",
        }
    }
}

/// An entry of the allow-list.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = AllowEntry)]
pub(super) struct View {
    /// Its id.
    id: String,
    /// What `value` is: `cidr`, `user`, `tenant` or `api_key`.
    kind: String,
    /// Whom it lets through; of an API key, the first twelve digits of its SHA-256.
    value: String,
    /// Why.
    reason: String,
    /// Where it is written.
    source: super::source::Origin,
    /// When it was made; null for one of the file.
    created_at: Option<Moment>,
    /// The version, for `If-Match`; null for one of the file.
    version: Option<i64>,
}

impl From<&Allow> for View {
    fn from(entry: &Allow) -> Self {
        Self {
            id: entry.id.clone(),
            kind: entry.kind.clone(),
            value: shown(&entry.kind, &entry.value),
            reason: entry.reason.clone(),
            source: super::source::Origin::Directory,
            created_at: Some(Moment(entry.created_at)),
            version: Some(entry.version),
        }
    }
}

/// A hash is shown as far as it takes to know it again.
fn shown(kind: &str, value: &str) -> String {
    match kind {
        "api_key" => value.chars().take(12).collect(),
        _ => value.to_owned(),
    }
}

/// An entry of the file, which is known by its place there.
fn of_file(index: usize, entry: &AllowedCaller) -> View {
    let (kind, value, reason) = written(entry);
    View {
        id: format!("allow[{index}]"),
        kind: kind.word().to_owned(),
        value: shown(kind.word(), &value),
        reason: reason.to_owned(),
        source: super::source::Origin::File,
        created_at: None,
        version: None,
    }
}

fn written(entry: &AllowedCaller) -> (Kind, String, &str) {
    let (kind, value) = match &entry.who {
        Allowed::Net(net) => (Kind::Cidr, net.to_string()),
        Allowed::User(user) => (Kind::User, user.to_string()),
        Allowed::Tenant(tenant) => (Kind::Tenant, tenant.to_string()),
        Allowed::Key(hash) => (Kind::ApiKey, hex(hash)),
    };
    (kind, value, &entry.reason)
}

impl NewEntry {
    /// Whom it names, if it names one.
    async fn caller(&self, edit: &mut Edit) -> Result<(Kind, String), Failure> {
        let given = [
            (&self.cidr, "cidr"),
            (&self.user, "user"),
            (&self.tenant, "tenant"),
            (&self.api_key_sha256, "api_key_sha256"),
            (&self.key_id, "key_id"),
        ];
        let mut given = given
            .into_iter()
            .filter_map(|(value, name)| Some((value.as_deref()?, name)));
        let (Some((value, name)), None) = (given.next(), given.next()) else {
            let hint =
                "give exactly one of `cidr`, `user`, `tenant`, `api_key_sha256` and `key_id`";
            return Err(Failure::invalid(
                "",
                "the entry names no caller, or several",
                hint,
            ));
        };
        Ok(match name {
            "cidr" => (Kind::Cidr, network(value)?.to_string()),
            "user" => {
                names::text("user", value, MAX_TEXT)?;
                (Kind::User, value.to_owned())
            }
            "tenant" => {
                names::text("tenant", value, MAX_TENANT)?;
                (Kind::Tenant, value.to_owned())
            }
            "api_key_sha256" => {
                let hash = digest(value)?;
                if let Some(key) = edit.key_by_hash(&hash).await? {
                    must_be_valid(&key, edit.now_ms())?;
                }
                (Kind::ApiKey, hash)
            }
            _ => {
                let key = edit.key(value).await?.ok_or_else(|| {
                    let message = format!("there is no key {:?}", names::shortened(value));
                    Failure::invalid("key_id", message, "send the id of a key")
                })?;
                must_be_valid(&key, edit.now_ms())?;
                (Kind::ApiKey, key.hash)
            }
        })
    }
}

/// Refuses a key that is to be refused itself.
fn must_be_valid(key: &Key, now_ms: i64) -> Result<(), Failure> {
    must_not_be_revoked(key)?;
    match key.expires_at {
        Some(at) if at <= now_ms => {
            let detail = format!("The key has expired at {}. Make a new one.", Moment(at));
            Err(Failure::conflict("expired", detail))
        }
        _ => Ok(()),
    }
}

/// Reads a network as the file has it: no bits behind the prefix, no IPv4 in IPv6.
fn network(text: &str) -> Result<IpNet, Failure> {
    let parsed = match text.parse::<IpAddr>() {
        Ok(address) => Some(IpNet::from(address)),
        Err(_) => text.parse::<IpNet>().ok(),
    };
    let write = "write it as `192.0.2.0/24` or `192.0.2.7`";
    let net = parsed.ok_or_else(|| Failure::invalid("cidr", "not a network", write))?;
    if net.trunc() != net {
        let hint = format!("write `{}`", net.trunc());
        return Err(Failure::invalid(
            "cidr",
            "it has bits set behind its prefix",
            &hint,
        ));
    }
    if let IpAddr::V6(v6) = net.addr()
        && v6.to_ipv4_mapped().is_some()
        && net.prefix_len() >= 96
    {
        return Err(Failure::invalid(
            "cidr",
            "it is IPv4 written as IPv6",
            "write it as IPv4",
        ));
    }
    Ok(net)
}

fn digest(text: &str) -> Result<String, Failure> {
    let is_digest = text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !is_digest {
        let hint = "write 64 hexadecimal digits, never the key itself: `printf %s KEY | sha256sum`";
        return Err(Failure::invalid("api_key_sha256", "not a SHA-256", hint));
    }
    Ok(text.to_ascii_lowercase())
}

/// The place in the file where the same caller is named.
fn in_file(policy: &Policy, kind: Kind, value: &str) -> Option<usize> {
    policy.file_allow().iter().position(|entry| {
        let (other_kind, other, _) = written(entry);
        other_kind == kind && other == value
    })
}

fn told(entry: &Allow) -> Value {
    json!({ "kind": entry.kind, "value": shown(&entry.kind, &entry.value), "reason": entry.reason })
}

/// Lists the allow-list
///
/// The entries of the configuration file come first.
#[utoipa::path(get, path = "/admin/v1/allow", tag = "allow", params(Paging),
    responses((status = 200, description = "A page of entries", body = Items<View>)))]
pub(super) async fn list_allow(
    _: By<Read>,
    State(shared): State<Shared>,
    Asked(paging): Asked<Paging>,
) -> Result<Answer, Failure> {
    let written = {
        let active = shared.engine.active();
        let entries = active.policy().file_allow().iter().enumerate();
        entries
            .map(|(index, entry)| of_file(index, entry))
            .collect()
    };
    let FileFirst {
        mut items,
        rest,
        mut next,
    } = FileFirst::of(written, paging.page()?);
    if let Some(page) = rest {
        let listed = shared.directory.allow(&page).await?;
        items.extend(listed.items.iter().map(View::from));
        next = listed.next;
    }
    Answer::ok(&Items { items, next })
}

/// Shows an entry of the allow-list
#[utoipa::path(get, path = "/admin/v1/allow/{id}", tag = "allow",
    params(("id" = String, Path, description = "The entry's id")),
    responses((status = 200, description = "The entry", body = View), (status = 404, description = "There is none")))]
pub(super) async fn show_allow(
    _: By<Read>,
    State(shared): State<Shared>,
    Id(id): Id,
) -> Result<Answer, Failure> {
    if let Some(index) = file_index(&id) {
        let active = shared.engine.active();
        let entry = active.policy().file_allow().get(index);
        let entry = entry.ok_or_else(|| missing(&id))?;
        return Answer::ok(&of_file(index, entry));
    }
    let entry = shared.directory.allow_entry(&id).await?;
    Answer::ok(&View::from(&entry.ok_or_else(|| missing(&id))?))
}

/// Puts a caller on the allow-list
#[utoipa::path(post, path = "/admin/v1/allow", tag = "allow", request_body = NewEntry,
    responses((status = 201, description = "The entry", body = View), (status = 409, description = "The caller is on the list already; or the key was revoked, or has expired")))]
pub(super) async fn create_allow(
    By(caller, ..): By<Operate>,
    State(shared): State<Shared>,
    once: OnceKey,
    body: Body<NewEntry>,
) -> Result<Answer, Failure> {
    let once = once.of(&body);
    let mut work = match Work::begin_once(&shared, caller, once).await? {
        Begun::New(work) => work,
        Begun::Again(answer) => return Ok(answer),
    };
    names::text("reason", &body.value.reason, MAX_TEXT)?;
    let (kind, value) = body.value.caller(&mut work.edit).await?;
    if let Some(index) = in_file(shared.engine.active().policy(), kind, &value) {
        let place = format!("allow[{index}]");
        let id = shown(kind.word(), &value);
        return Err(Failure::read_only(
            "entry for",
            &id,
            &shared.config.source(),
            &place,
        ));
    }
    let entry = Allow {
        id: made_id("allow").map_err(unmade)?,
        kind: kind.word().to_owned(),
        value,
        reason: body.value.reason,
        ..Allow::default()
    };
    let entry = match work.edit.put_allow(entry).await {
        Err(DirectoryError::Conflict(Conflict::Exists)) => {
            let detail = "This caller is on the allow-list already.";
            return Err(Failure::conflict("exists", detail));
        }
        put => put?,
    };
    work.record(Changed {
        event: "rate_limit_whitelist_added",
        identifier: format!("{}:{}", entry.kind, shown(&entry.kind, &entry.value)),
        before: None,
        after: Some(told(&entry)),
    });
    let answer = Answer::created(&View::from(&entry))?;
    work.commit(answer).await
}

/// Takes a caller off the allow-list
#[utoipa::path(delete, path = "/admin/v1/allow/{id}", tag = "allow",
    params(("id" = String, Path, description = "The entry's id")),
    responses(
        (status = 200, description = "The entry as it was", body = View),
        (status = 404, description = "There is none"),
        (status = 409, description = "It is written in the configuration file"),
    ))]
pub(super) async fn delete_allow(
    By(caller, ..): By<Operate>,
    State(shared): State<Shared>,
    Id(id): Id,
    expected: IfMatch,
) -> Result<Answer, Failure> {
    if let Some(index) = file_index(&id)
        && index < shared.engine.active().policy().file_allow().len()
    {
        return Err(Failure::read_only(
            "entry",
            &id,
            &shared.config.source(),
            &id,
        ));
    }
    let mut work = Work::begin(&shared, caller).await?;
    let entry = work
        .edit
        .allow_entry(&id)
        .await?
        .ok_or_else(|| missing(&id))?;
    expected.check(entry.version)?;
    remove(&mut work, &entry).await?;
    let mut answer = Answer::ok(&View::from(&entry))?;
    answer.version = None;
    work.commit(answer).await
}

async fn remove(work: &mut Work, entry: &Allow) -> Result<(), Failure> {
    work.edit.delete_allow(&entry.id).await?;
    work.record(Changed {
        event: "rate_limit_whitelist_removed",
        identifier: format!("{}:{}", entry.kind, shown(&entry.kind, &entry.value)),
        before: Some(told(entry)),
        after: None,
    });
    Ok(())
}

/// Takes an API key off the list, if it is there.
pub(super) async fn remove_key(work: &mut Work, hash: &str) -> Result<(), Failure> {
    match work.edit.allow_of(Kind::ApiKey.word(), hash).await? {
        Some(entry) => remove(work, &entry).await,
        None => Ok(()),
    }
}

/// The index of an entry of the file, of an id that says so.
fn file_index(id: &str) -> Option<usize> {
    id.strip_prefix("allow[")?.strip_suffix(']')?.parse().ok()
}

fn missing(id: &str) -> Failure {
    Failure::not_found("entry of the allow-list", &names::shortened(id))
}

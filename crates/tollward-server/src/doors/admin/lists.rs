//! The allow-list and the deny-list: callers that no limit applies to, and callers that are refused.

use std::net::IpAddr;

use axum::extract::State;
use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tollward_directory::{Conflict, DirectoryError, Edit, Key, ListEntry};
use tollward_policy::{List, Listed, ListedCaller, Policy};
use utoipa::ToSchema;

use super::answer::Answer;
use super::failure::Failure;
use super::guard::{By, Caller, Operate, Read};
use super::input::{Asked, Body, Id};
use super::keys::must_not_be_revoked;
use super::moment::Moment;
use super::names::{self, MAX_TENANT, MAX_TEXT};
use super::once::OnceKey;
use super::paging::{FileFirst, Items, Paging};
use super::precondition::IfMatch;
use super::secret::{hex, made_id};
use super::work::{Begun, Changed, Work};
use super::{Shared, tenants, unmade};

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
    /// A client.
    #[schema(min_length = 1, max_length = 256)]
    client: Option<String>,
    /// A tenant. On the deny-list, also the tenants below it.
    #[schema(min_length = 1, max_length = 128)]
    tenant: Option<String>,
    /// The SHA-256 of an API key, in hexadecimal digits.
    #[schema(pattern = "^[0-9A-Fa-f]{64}$")]
    api_key_sha256: Option<String>,
    /// The id of an API key of the directory.
    key_id: Option<String>,
    /// Why it is listed.
    #[schema(min_length = 1, max_length = 256, example = "internal")]
    reason: String,
}

/// What an entry of a list names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = ListKind)]
pub(super) enum Kind {
    Cidr,
    User,
    Client,
    Tenant,
    ApiKey,
}

impl Kind {
    fn word(self) -> &'static str {
        match self {
            Self::Cidr => "cidr",
            Self::User => "user",
            Self::Client => "client",
            Self::Tenant => "tenant",
            Self::ApiKey => "api_key",
        }
    }
}

/// An entry of the allow-list or the deny-list.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ListEntry)]
pub(super) struct View {
    /// Its id.
    id: String,
    /// What `value` is: `cidr`, `user`, `client`, `tenant` or `api_key`.
    kind: String,
    /// The caller; of an API key, the first twelve digits of its SHA-256.
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

impl From<&ListEntry> for View {
    fn from(entry: &ListEntry) -> Self {
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
fn of_file(list: List, index: usize, entry: &ListedCaller) -> View {
    let (kind, value, reason) = written(entry);
    View {
        id: format!("{}[{index}]", list.word()),
        kind: kind.word().to_owned(),
        value: shown(kind.word(), &value),
        reason: reason.to_owned(),
        source: super::source::Origin::File,
        created_at: None,
        version: None,
    }
}

fn written(entry: &ListedCaller) -> (Kind, String, &str) {
    let (kind, value) = match &entry.who {
        Listed::Net(net) => (Kind::Cidr, net.to_string()),
        Listed::User(user) => (Kind::User, user.to_string()),
        Listed::Client(client) => (Kind::Client, client.to_string()),
        Listed::Tenant(tenant) => (Kind::Tenant, tenant.to_string()),
        Listed::Key(hash) => (Kind::ApiKey, hex(hash)),
    };
    (kind, value, &entry.reason)
}

impl NewEntry {
    /// Whom it names, if it names one.
    async fn caller(
        &self,
        list: List,
        edit: &mut Edit,
        policy: &Policy,
    ) -> Result<(Kind, String), Failure> {
        let given = [
            (&self.cidr, "cidr"),
            (&self.user, "user"),
            (&self.client, "client"),
            (&self.tenant, "tenant"),
            (&self.api_key_sha256, "api_key_sha256"),
            (&self.key_id, "key_id"),
        ];
        let mut given = given
            .into_iter()
            .filter_map(|(value, name)| Some((value.as_deref()?, name)));
        let (Some((value, name)), None) = (given.next(), given.next()) else {
            let hint = "give exactly one of `cidr`, `user`, `client`, `tenant`, `api_key_sha256` and `key_id`";
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
            "client" => {
                names::text("client", value, MAX_TEXT)?;
                (Kind::Client, value.to_owned())
            }
            "tenant" => {
                names::text("tenant", value, MAX_TENANT)?;
                if list == List::Allow {
                    tenants::must_exist("tenant", value, edit, policy).await?;
                }
                (Kind::Tenant, value.to_owned())
            }
            "api_key_sha256" => {
                let hash = digest(value)?;
                if let Some(key) = edit.key_by_hash(&hash).await? {
                    must_be_valid(list, &key, edit.now_ms())?;
                }
                (Kind::ApiKey, hash)
            }
            _ => {
                let key = edit.key(value).await?.ok_or_else(|| {
                    let message = format!("there is no key {:?}", names::shortened(value));
                    Failure::invalid("key_id", message, "send the id of a key")
                })?;
                must_be_valid(list, &key, edit.now_ms())?;
                (Kind::ApiKey, key.hash)
            }
        })
    }
}

/// Refuses to allow a key that is not valid any more.
fn must_be_valid(list: List, key: &Key, now_ms: i64) -> Result<(), Failure> {
    if list == List::Deny {
        return Ok(());
    }
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
fn in_file(policy: &Policy, list: List, kind: Kind, value: &str) -> Option<usize> {
    policy.file_list(list).iter().position(|entry| {
        let (other_kind, other, _) = written(entry);
        other_kind == kind && other == value
    })
}

fn told(entry: &ListEntry) -> Value {
    json!({ "kind": entry.kind, "value": shown(&entry.kind, &entry.value), "reason": entry.reason })
}

/// Lists the allow-list
///
/// The entries of the configuration file come first.
#[utoipa::path(get, path = "/admin/v1/allow", tag = "lists", params(Paging),
    responses((status = 200, description = "A page of entries", body = Items<View>)))]
pub(super) async fn list_allow(
    _: By<Read>,
    State(shared): State<Shared>,
    Asked(paging): Asked<Paging>,
) -> Result<Answer, Failure> {
    listed(List::Allow, &shared, paging).await
}

/// Lists the deny-list
///
/// The entries of the configuration file come first.
#[utoipa::path(get, path = "/admin/v1/deny", tag = "lists", params(Paging),
    responses((status = 200, description = "A page of entries", body = Items<View>)))]
pub(super) async fn list_deny(
    _: By<Read>,
    State(shared): State<Shared>,
    Asked(paging): Asked<Paging>,
) -> Result<Answer, Failure> {
    listed(List::Deny, &shared, paging).await
}

async fn listed(list: List, shared: &Shared, paging: Paging) -> Result<Answer, Failure> {
    let written = {
        let active = shared.engine.active();
        let entries = active.policy().file_list(list).iter().enumerate();
        entries
            .map(|(index, entry)| of_file(list, index, entry))
            .collect()
    };
    let FileFirst {
        mut items,
        rest,
        mut next,
    } = FileFirst::of(written, paging.page()?);
    if let Some(page) = rest {
        let listed = shared.directory.list_entries(list.word(), &page).await?;
        items.extend(listed.items.iter().map(View::from));
        next = listed.next;
    }
    Answer::ok(&Items { items, next })
}

/// Shows an entry of the allow-list
#[utoipa::path(get, path = "/admin/v1/allow/{id}", tag = "lists",
    params(("id" = String, Path, description = "The entry's id")),
    responses((status = 200, description = "The entry", body = View), (status = 404, description = "There is none")))]
pub(super) async fn show_allow(
    _: By<Read>,
    State(shared): State<Shared>,
    Id(id): Id,
) -> Result<Answer, Failure> {
    show(List::Allow, &shared, &id).await
}

/// Shows an entry of the deny-list
#[utoipa::path(get, path = "/admin/v1/deny/{id}", tag = "lists",
    params(("id" = String, Path, description = "The entry's id")),
    responses((status = 200, description = "The entry", body = View), (status = 404, description = "There is none")))]
pub(super) async fn show_deny(
    _: By<Read>,
    State(shared): State<Shared>,
    Id(id): Id,
) -> Result<Answer, Failure> {
    show(List::Deny, &shared, &id).await
}

async fn show(list: List, shared: &Shared, id: &str) -> Result<Answer, Failure> {
    if let Some(index) = file_index(list, id) {
        let active = shared.engine.active();
        let entry = active.policy().file_list(list).get(index);
        let entry = entry.ok_or_else(|| missing(list, id))?;
        return Answer::ok(&of_file(list, index, entry));
    }
    let entry = shared.directory.list_entry(id).await?;
    let entry = entry.filter(|entry| entry.list == list.word());
    Answer::ok(&View::from(&entry.ok_or_else(|| missing(list, id))?))
}

/// Puts a caller on the allow-list
///
/// No limit applies to it from then on. An entry proves nothing: a key on the list must exist and be valid.
#[utoipa::path(post, path = "/admin/v1/allow", tag = "lists", request_body = NewEntry,
    responses((status = 201, description = "The entry", body = View), (status = 409, description = "The caller is on the list already; or the key was revoked, or has expired")))]
pub(super) async fn create_allow(
    By(caller, ..): By<Operate>,
    State(shared): State<Shared>,
    once: OnceKey,
    body: Body<NewEntry>,
) -> Result<Answer, Failure> {
    let once = once.of(&body);
    match Work::begin_once(&shared, caller, once).await? {
        Begun::New(work) => create(List::Allow, work, body.value).await,
        Begun::Again(answer) => Ok(answer),
    }
}

/// Puts a caller on the deny-list
///
/// It is refused (403) on all nodes within a second, whatever the allow-list and the enforcement say.
#[utoipa::path(post, path = "/admin/v1/deny", tag = "lists", request_body = NewEntry,
    responses((status = 201, description = "The entry", body = View), (status = 409, description = "The caller is on the list already")))]
pub(super) async fn create_deny(
    By(caller, ..): By<Operate>,
    State(shared): State<Shared>,
    once: OnceKey,
    body: Body<NewEntry>,
) -> Result<Answer, Failure> {
    let once = once.of(&body);
    match Work::begin_once(&shared, caller, once).await? {
        Begun::New(work) => create(List::Deny, work, body.value).await,
        Begun::Again(answer) => Ok(answer),
    }
}

async fn create(list: List, mut work: Work, new: NewEntry) -> Result<Answer, Failure> {
    names::text("reason", &new.reason, MAX_TEXT)?;
    let shared = work.shared.clone();
    let active = shared.engine.active();
    let (kind, value) = new.caller(list, &mut work.edit, active.policy()).await?;
    if let Some(index) = in_file(active.policy(), list, kind, &value) {
        let place = format!("{}[{index}]", list.word());
        let id = shown(kind.word(), &value);
        return Err(Failure::read_only(
            "entry for",
            &id,
            &shared.config.source(),
            &place,
        ));
    }
    drop(active);
    let entry = ListEntry {
        id: made_id(list.word()).map_err(unmade)?,
        list: list.word().to_owned(),
        kind: kind.word().to_owned(),
        value,
        reason: new.reason,
        ..ListEntry::default()
    };
    let entry = match work.edit.put_list_entry(entry).await {
        Err(DirectoryError::Conflict(Conflict::Exists)) => {
            let detail = format!("This caller is on the {}-list already.", list.word());
            return Err(Failure::conflict("exists", detail));
        }
        put => put?,
    };
    work.record(Changed {
        event: match list {
            List::Allow => "rate_limit_whitelist_added",
            List::Deny => "rate_limit_denylist_added",
        },
        identifier: identifier(&entry),
        before: None,
        after: Some(told(&entry)),
    });
    let answer = Answer::created(&View::from(&entry))?;
    work.commit(answer).await
}

/// Takes a caller off the allow-list
#[utoipa::path(delete, path = "/admin/v1/allow/{id}", tag = "lists",
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
    delete(List::Allow, &shared, caller, &id, &expected).await
}

/// Takes a caller off the deny-list
#[utoipa::path(delete, path = "/admin/v1/deny/{id}", tag = "lists",
    params(("id" = String, Path, description = "The entry's id")),
    responses(
        (status = 200, description = "The entry as it was", body = View),
        (status = 404, description = "There is none"),
        (status = 409, description = "It is written in the configuration file"),
    ))]
pub(super) async fn delete_deny(
    By(caller, ..): By<Operate>,
    State(shared): State<Shared>,
    Id(id): Id,
    expected: IfMatch,
) -> Result<Answer, Failure> {
    delete(List::Deny, &shared, caller, &id, &expected).await
}

async fn delete(
    list: List,
    shared: &Shared,
    caller: Caller,
    id: &str,
    expected: &IfMatch,
) -> Result<Answer, Failure> {
    if let Some(index) = file_index(list, id)
        && index < shared.engine.active().policy().file_list(list).len()
    {
        return Err(Failure::read_only("entry", id, &shared.config.source(), id));
    }
    let mut work = Work::begin(shared, caller).await?;
    let entry = work.edit.list_entry(id).await?;
    let entry = entry.filter(|entry| entry.list == list.word());
    let entry = entry.ok_or_else(|| missing(list, id))?;
    expected.check(entry.version)?;
    remove(list, &mut work, &entry).await?;
    let mut answer = Answer::ok(&View::from(&entry))?;
    answer.version = None;
    work.commit(answer).await
}

async fn remove(list: List, work: &mut Work, entry: &ListEntry) -> Result<(), Failure> {
    work.edit.delete_list_entry(&entry.id).await?;
    work.record(Changed {
        event: match list {
            List::Allow => "rate_limit_whitelist_removed",
            List::Deny => "rate_limit_denylist_removed",
        },
        identifier: identifier(entry),
        before: Some(told(entry)),
        after: None,
    });
    Ok(())
}

/// Takes an API key off the allow-list, if it is there.
pub(super) async fn disallow_key(work: &mut Work, hash: &str) -> Result<(), Failure> {
    let (list, kind) = (List::Allow, Kind::ApiKey);
    match work.edit.listed(list.word(), kind.word(), hash).await? {
        Some(entry) => remove(list, work, &entry).await,
        None => Ok(()),
    }
}

fn identifier(entry: &ListEntry) -> String {
    format!("{}:{}", entry.kind, shown(&entry.kind, &entry.value))
}

/// The index of an entry of the file, of an id that says so: `allow[3]`.
fn file_index(list: List, id: &str) -> Option<usize> {
    let index = id.strip_prefix(list.word())?.strip_prefix('[')?;
    index.strip_suffix(']')?.parse().ok()
}

fn missing(list: List, id: &str) -> Failure {
    let entry = format!("entry of the {}-list", list.word());
    Failure::not_found(&entry, &names::shortened(id))
}

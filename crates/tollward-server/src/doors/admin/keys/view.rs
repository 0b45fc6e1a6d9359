use serde::Serialize;
use serde_json::{Value, json};
use tollward_directory::Key;
use tollward_policy::ApiKey;
use utoipa::ToSchema;

use crate::doors::admin::moment::Moment;
use crate::doors::admin::secret::{Secret, hex};
use crate::doors::admin::source::Origin;

/// An API key. The secret is shown once, when it is made.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Key)]
pub(in crate::doors::admin) struct View {
    /// Its id.
    id: String,
    /// What people call it.
    name: String,
    /// How the secret begins; null for one of the file.
    prefix: Option<String>,
    /// The tenant that it proves.
    tenant: Option<String>,
    /// The user that it proves.
    user: Option<String>,
    /// The client that it proves.
    client: Option<String>,
    /// A plan that goes before the user's and the tenant's.
    plan: Option<String>,
    /// When it expires.
    expires_at: Option<Moment>,
    /// When it was suspended; null if it is not.
    suspended_at: Option<Moment>,
    /// Why it was suspended.
    suspended_reason: Option<String>,
    /// When it was revoked.
    revoked_at: Option<Moment>,
    /// When it was last used, to the minute or so.
    last_used_at: Option<Moment>,
    /// The id of the key that it was made to replace.
    replaces: Option<String>,
    /// Where it is written.
    source: Origin,
    /// When it was made; null for one of the file.
    created_at: Option<Moment>,
    /// When it was last changed; null for one of the file.
    updated_at: Option<Moment>,
    /// The version, for `If-Match`; null for one of the file.
    version: Option<i64>,
}

/// Begins the id of a key of the file. The beginning of its SHA-256 follows.
pub(super) const FILE_ID: &str = "sha256:";

impl View {
    /// Its id.
    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// A key of the file.
    pub(super) fn written(hash: &[u8; 32], key: &ApiKey) -> Self {
        let text = |text: &Option<Box<str>>| text.as_deref().map(str::to_owned);
        let ends = |secs: u64| Moment(i64::try_from(secs).unwrap_or(i64::MAX).saturating_mul(1000));
        Self {
            id: format!("{FILE_ID}{}", hex(&hash[..6])),
            name: String::new(),
            prefix: None,
            tenant: text(&key.tenant),
            user: text(&key.user),
            client: text(&key.client),
            plan: text(&key.plan),
            expires_at: key.expires_at.map(ends),
            suspended_at: None,
            suspended_reason: None,
            revoked_at: None,
            last_used_at: None,
            replaces: None,
            source: Origin::File,
            created_at: None,
            updated_at: None,
            version: None,
        }
    }
}

/// A key that was just made.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = MadeKey)]
pub(in crate::doors::admin) struct Made {
    #[serde(flatten)]
    key: View,
    /// The key itself, shown this once; null in an answer that is given again.
    #[schema(value_type = Option<String>)]
    secret: Option<Secret>,
    /// The key that it replaces, as it is now.
    #[serde(skip_serializing_if = "Option::is_none")]
    replaced: Option<View>,
}

impl Made {
    pub(super) fn new(key: &Key, secret: Secret, replaced: Option<&Key>) -> Self {
        Self {
            key: View::from(key),
            secret: Some(secret),
            replaced: replaced.map(View::from),
        }
    }
}

impl From<&Key> for View {
    fn from(key: &Key) -> Self {
        Self {
            id: key.id.clone(),
            name: key.name.clone(),
            prefix: Some(key.prefix.clone()),
            tenant: key.tenant.clone(),
            user: key.user.clone(),
            client: key.client.clone(),
            plan: key.plan.clone(),
            expires_at: key.expires_at.map(Moment),
            suspended_at: key.suspended_at.map(Moment),
            suspended_reason: key.suspended_reason.clone(),
            revoked_at: key.revoked_at.map(Moment),
            last_used_at: key.last_used_at.map(Moment),
            replaces: key.replaces.clone(),
            source: Origin::Directory,
            created_at: Some(Moment(key.created_at)),
            updated_at: Some(Moment(key.updated_at)),
            version: Some(key.version),
        }
    }
}

/// What the audit trail tells of a key.
pub(super) fn told(key: &Key) -> Value {
    json!({
        "name": key.name,
        "prefix": key.prefix,
        "tenant": key.tenant,
        "user": key.user,
        "client": key.client,
        "plan": key.plan,
        "expires_at": key.expires_at.map(Moment),
        "suspended_at": key.suspended_at.map(Moment),
        "revoked_at": key.revoked_at.map(Moment),
        "replaces": key.replaces,
    })
}

//! What an edit changes and nodes hold: plain data. Times are Unix milliseconds.
//!
//! In all of them `version` is 0 before the first put and counts up with every one;
//! `created_at` and `updated_at` are set by the edit, whatever they were.

/// A tenant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tenant {
    /// Its name, for ever.
    pub id: String,
    /// The tenant above it; none for those directly below the root, and for the root itself.
    pub parent: Option<String>,
    /// Its plan.
    pub plan: Option<String>,
    /// When it was suspended; none if it is not.
    pub suspended_at: Option<i64>,
    /// Why it was suspended.
    pub suspended_reason: Option<String>,
    /// Its `rate_limit`, as JSON.
    pub rate_limit: Option<String>,
    /// The sustained rate of `rate_limit`, for sums.
    pub rate: Option<u32>,
    /// The window of `rate_limit`, for sums.
    pub window_secs: Option<u32>,
    /// Whatever else is known of it, as a JSON object.
    pub attributes: String,
    /// When it was made.
    pub created_at: i64,
    /// When it was last put.
    pub updated_at: i64,
    /// How often it was put.
    pub version: i64,
}

/// A user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    /// The user's name, for ever.
    pub id: String,
    /// The tenant that the user is of.
    pub tenant: Option<String>,
    /// The user's plan.
    pub plan: Option<String>,
    /// When the user was suspended; none if the user is not.
    pub suspended_at: Option<i64>,
    /// Why the user was suspended.
    pub suspended_reason: Option<String>,
    /// Whether the user's e-mail address was verified.
    pub email_verified: bool,
    /// Whatever else is known, as a JSON object.
    pub attributes: String,
    /// When the entry was made.
    pub created_at: i64,
    /// When it was last put.
    pub updated_at: i64,
    /// How often it was put.
    pub version: i64,
}

/// An API key. The secret itself is nowhere.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Key {
    /// Its id.
    pub id: String,
    /// What people call it.
    pub name: String,
    /// How the secret begins, for people to tell keys apart.
    pub prefix: String,
    /// SHA-256 of the secret, as 64 lower-case hexadecimal digits. No other key has it.
    pub hash: String,
    /// Whom it stands for.
    pub tenant: Option<String>,
    /// Whom it stands for.
    pub user: Option<String>,
    /// Whom it stands for.
    pub client: Option<String>,
    /// A plan that goes before the user's and the tenant's.
    pub plan: Option<String>,
    /// When it expires.
    pub expires_at: Option<i64>,
    /// When it was suspended; none if it is not.
    pub suspended_at: Option<i64>,
    /// Why it was suspended.
    pub suspended_reason: Option<String>,
    /// When it was revoked. Revoked keys stay.
    pub revoked_at: Option<i64>,
    /// When it was last used, to the minute or so. Of reads only: a put leaves it as it is.
    pub last_used_at: Option<i64>,
    /// The id of the key that it was made to replace.
    pub replaces: Option<String>,
    /// When it was made.
    pub created_at: i64,
    /// When it was last put.
    pub updated_at: i64,
    /// How often it was put.
    pub version: i64,
}

/// Which keys are listed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyFilter {
    /// Those of this tenant.
    pub tenant: Option<String>,
    /// Those of this user.
    pub user: Option<String>,
    /// Also those that were revoked.
    pub revoked: bool,
}

/// An entry of the allow-list or the deny-list: a caller. A list has one entry at most of a kind and value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListEntry {
    /// Its id.
    pub id: String,
    /// The list: `allow` or `deny`.
    pub list: String,
    /// What the value is: `cidr`, `user`, `client`, `tenant` or `api_key` (the hash of one).
    pub kind: String,
    /// The caller.
    pub value: String,
    /// Why.
    pub reason: String,
    /// When it was made.
    pub created_at: i64,
    /// When it was last put.
    pub updated_at: i64,
    /// How often it was put.
    pub version: i64,
}

/// More for a tenant or a user, for a time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Boost {
    /// Its id.
    pub id: String,
    /// Whose: `tenant` or `user`.
    pub kind: String,
    /// The tenant's or the user's id.
    pub target: String,
    /// How much more, in thousandths: 2000 is twice as much.
    pub factor: u32,
    /// When it ends.
    pub ends_at: i64,
    /// Why.
    pub reason: String,
    /// When it was made.
    pub created_at: i64,
    /// When it was last put.
    pub updated_at: i64,
    /// How often it was put.
    pub version: i64,
}

/// A token of the admin API. The secret itself is nowhere.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Token {
    /// Its id.
    pub id: String,
    /// What people call it, and the audit trail its bearer.
    pub name: String,
    /// What its bearer may do: `read`, `operate` or `admin`.
    pub role: String,
    /// SHA-256 of the secret, as 64 lower-case hexadecimal digits. No other token has it.
    pub hash: String,
    /// When it expires.
    pub expires_at: Option<i64>,
    /// When it was revoked.
    pub revoked_at: Option<i64>,
    /// When it was made.
    pub created_at: i64,
    /// When it was last put.
    pub updated_at: i64,
    /// How often it was put.
    pub version: i64,
}

/// A setting of all nodes, such as `enforcement`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Setting {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
    /// When it was made.
    pub created_at: i64,
    /// When it was last put.
    pub updated_at: i64,
    /// How often it was put.
    pub version: i64,
}

//! The entities, column by column.

use crate::entity::{Beside, Entity, ROOT, Stamps};
use crate::error::DirectoryError;
use crate::people::{Boost, Key, ListEntry, Setting, Tenant, Token, User};
use crate::sql::{Fields, Statement};

type Result<T> = std::result::Result<T, DirectoryError>;

/// What every entity has.
macro_rules! stamped {
    () => {
        fn stamps(&mut self) -> Stamps<'_> {
            Stamps {
                created_at: &mut self.created_at,
                updated_at: &mut self.updated_at,
                version: &mut self.version,
            }
        }
    };
}

impl Entity for Tenant {
    const KIND: &'static str = "tenant";
    const TABLE: &'static str = "tenants";
    const FIXED: &'static [&'static str] = &[];
    const FREE: &'static [&'static str] = &[
        "parent",
        "plan",
        "suspended_at",
        "suspended_reason",
        "rate_limit",
        "rate",
        "window_secs",
        "attributes",
    ];

    fn read(fields: &mut Fields<'_>) -> Result<Self> {
        Ok(Self {
            id: fields.next()?,
            parent: Self::above(fields.next()?),
            plan: fields.next()?,
            suspended_at: fields.next()?,
            suspended_reason: fields.next()?,
            rate_limit: fields.next()?,
            rate: fields.maybe_number()?,
            window_secs: fields.maybe_number()?,
            attributes: fields.next()?,
            created_at: fields.next()?,
            updated_at: fields.next()?,
            version: fields.next()?,
        })
    }

    fn tidy(&mut self) {
        tidy_object(&mut self.attributes);
        self.parent = self.parent.take().and_then(Self::above);
    }

    fn bind(&self, statement: Statement) -> Statement {
        let parent = match self.id == ROOT {
            true => "",
            false => self.parent.as_deref().unwrap_or(ROOT),
        };
        statement
            .text(&self.id)
            .text(parent)
            .maybe_text(self.plan.as_deref())
            .maybe_number(self.suspended_at)
            .maybe_text(self.suspended_reason.as_deref())
            .maybe_text(self.rate_limit.as_deref())
            .maybe_number(self.rate.map(i64::from))
            .maybe_number(self.window_secs.map(i64::from))
            .text(&self.attributes)
    }

    fn id(&self) -> &str {
        &self.id
    }

    stamped!();
}

impl Entity for User {
    const KIND: &'static str = "user";
    const TABLE: &'static str = "users";
    const FIXED: &'static [&'static str] = &[];
    const FREE: &'static [&'static str] = &[
        "tenant_id",
        "plan",
        "suspended_at",
        "suspended_reason",
        "email_verified",
        "attributes",
    ];

    fn read(fields: &mut Fields<'_>) -> Result<Self> {
        Ok(Self {
            id: fields.next()?,
            tenant: fields.next()?,
            plan: fields.next()?,
            suspended_at: fields.next()?,
            suspended_reason: fields.next()?,
            email_verified: fields.next::<i64>()? != 0,
            attributes: fields.next()?,
            created_at: fields.next()?,
            updated_at: fields.next()?,
            version: fields.next()?,
        })
    }

    fn tidy(&mut self) {
        tidy_object(&mut self.attributes);
    }

    fn bind(&self, statement: Statement) -> Statement {
        statement
            .text(&self.id)
            .maybe_text(self.tenant.as_deref())
            .maybe_text(self.plan.as_deref())
            .maybe_number(self.suspended_at)
            .maybe_text(self.suspended_reason.as_deref())
            .number(i64::from(self.email_verified))
            .text(&self.attributes)
    }

    fn id(&self) -> &str {
        &self.id
    }

    stamped!();
}

impl Entity for Key {
    const KIND: &'static str = "key";
    const TABLE: &'static str = "api_keys";
    const LOGGED: &'static str = "hash";
    const FIXED: &'static [&'static str] = &["hash", "prefix"];
    const FREE: &'static [&'static str] = &[
        "name",
        "tenant_id",
        "user_id",
        "client",
        "plan",
        "expires_at",
        "suspended_at",
        "suspended_reason",
        "revoked_at",
        "replaces",
    ];
    const BESIDE: Option<Beside> = Some(Beside {
        column: "last_used_at",
        join: "LEFT JOIN key_uses USING (hash)",
    });
    const HELD: &'static str = "revoked_at IS NULL";

    fn read(fields: &mut Fields<'_>) -> Result<Self> {
        Ok(Self {
            id: fields.next()?,
            hash: fields.next()?,
            prefix: fields.next()?,
            name: fields.next()?,
            tenant: fields.next()?,
            user: fields.next()?,
            client: fields.next()?,
            plan: fields.next()?,
            expires_at: fields.next()?,
            suspended_at: fields.next()?,
            suspended_reason: fields.next()?,
            revoked_at: fields.next()?,
            replaces: fields.next()?,
            created_at: fields.next()?,
            updated_at: fields.next()?,
            version: fields.next()?,
            last_used_at: fields.next()?,
        })
    }

    fn bind(&self, statement: Statement) -> Statement {
        statement
            .text(&self.id)
            .text(&self.hash)
            .text(&self.prefix)
            .text(&self.name)
            .maybe_text(self.tenant.as_deref())
            .maybe_text(self.user.as_deref())
            .maybe_text(self.client.as_deref())
            .maybe_text(self.plan.as_deref())
            .maybe_number(self.expires_at)
            .maybe_number(self.suspended_at)
            .maybe_text(self.suspended_reason.as_deref())
            .maybe_number(self.revoked_at)
            .maybe_text(self.replaces.as_deref())
    }

    fn id(&self) -> &str {
        &self.id
    }

    fn logged(&self) -> &str {
        &self.hash
    }

    stamped!();
}

impl Entity for ListEntry {
    const KIND: &'static str = "listed";
    const TABLE: &'static str = "listed";
    const FIXED: &'static [&'static str] = &["list", "kind", "value"];
    const FREE: &'static [&'static str] = &["reason"];

    fn read(fields: &mut Fields<'_>) -> Result<Self> {
        Ok(Self {
            id: fields.next()?,
            list: fields.next()?,
            kind: fields.next()?,
            value: fields.next()?,
            reason: fields.next()?,
            created_at: fields.next()?,
            updated_at: fields.next()?,
            version: fields.next()?,
        })
    }

    fn bind(&self, statement: Statement) -> Statement {
        statement
            .text(&self.id)
            .text(&self.list)
            .text(&self.kind)
            .text(&self.value)
            .text(&self.reason)
    }

    fn id(&self) -> &str {
        &self.id
    }

    stamped!();
}

impl Entity for Boost {
    const KIND: &'static str = "boost";
    const TABLE: &'static str = "boosts";
    const FIXED: &'static [&'static str] = &["kind", "target"];
    const FREE: &'static [&'static str] = &["factor", "ends_at", "reason"];

    fn read(fields: &mut Fields<'_>) -> Result<Self> {
        Ok(Self {
            id: fields.next()?,
            kind: fields.next()?,
            target: fields.next()?,
            factor: fields.number()?,
            ends_at: fields.next()?,
            reason: fields.next()?,
            created_at: fields.next()?,
            updated_at: fields.next()?,
            version: fields.next()?,
        })
    }

    fn bind(&self, statement: Statement) -> Statement {
        statement
            .text(&self.id)
            .text(&self.kind)
            .text(&self.target)
            .number(i64::from(self.factor))
            .number(self.ends_at)
            .text(&self.reason)
    }

    fn id(&self) -> &str {
        &self.id
    }

    stamped!();
}

impl Entity for Token {
    const KIND: &'static str = "token";
    const TABLE: &'static str = "admin_tokens";
    const FIXED: &'static [&'static str] = &["hash"];
    const FREE: &'static [&'static str] = &["name", "role", "expires_at", "revoked_at"];
    const HELD: &'static str = "revoked_at IS NULL";

    fn read(fields: &mut Fields<'_>) -> Result<Self> {
        Ok(Self {
            id: fields.next()?,
            hash: fields.next()?,
            name: fields.next()?,
            role: fields.next()?,
            expires_at: fields.next()?,
            revoked_at: fields.next()?,
            created_at: fields.next()?,
            updated_at: fields.next()?,
            version: fields.next()?,
        })
    }

    fn bind(&self, statement: Statement) -> Statement {
        statement
            .text(&self.id)
            .text(&self.hash)
            .text(&self.name)
            .text(&self.role)
            .maybe_number(self.expires_at)
            .maybe_number(self.revoked_at)
    }

    fn id(&self) -> &str {
        &self.id
    }

    stamped!();
}

impl Entity for Setting {
    const KIND: &'static str = "setting";
    const TABLE: &'static str = "settings";
    const ID: &'static str = "name";
    const FIXED: &'static [&'static str] = &[];
    const FREE: &'static [&'static str] = &["value"];

    fn read(fields: &mut Fields<'_>) -> Result<Self> {
        Ok(Self {
            name: fields.next()?,
            value: fields.next()?,
            created_at: fields.next()?,
            updated_at: fields.next()?,
            version: fields.next()?,
        })
    }

    fn bind(&self, statement: Statement) -> Statement {
        statement.text(&self.name).text(&self.value)
    }

    fn id(&self) -> &str {
        &self.name
    }

    stamped!();
}

impl Tenant {
    /// The tenant above one, of what is stored as such.
    pub(crate) fn above(parent: String) -> Option<String> {
        Some(parent).filter(|parent| !parent.is_empty() && parent != ROOT)
    }
}

/// A JSON object, the empty one instead of no text.
fn tidy_object(text: &mut String) {
    if text.is_empty() {
        text.push_str("{}");
    }
}

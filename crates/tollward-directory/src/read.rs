//! What the directory is asked.

use crate::directory::Directory;
use crate::entity::{Entity, list, one, one_by, select};
use crate::error::DirectoryError;
use crate::page::{Listed, Page};
use crate::people::{Boost, Key, KeyFilter, ListEntry, Setting, Tenant, Token, User};
use crate::records::{AuditEvent, AuditFilter, Remembered, UsageFilter, UsageRow};
use crate::sql::{Conditions, all};
use crate::stored;

type Result<T> = std::result::Result<T, DirectoryError>;

impl Directory {
    /// A tenant.
    pub async fn tenant(&self, id: &str) -> Result<Option<Tenant>> {
        self.one(id).await
    }

    /// A user.
    pub async fn user(&self, id: &str) -> Result<Option<User>> {
        self.one(id).await
    }

    /// A key by its id.
    pub async fn key(&self, id: &str) -> Result<Option<Key>> {
        self.one(id).await
    }

    /// A key by its hash, in hexadecimal digits.
    pub async fn key_by_hash(&self, hash: &str) -> Result<Option<Key>> {
        one_by(&mut *self.reader().await?, "hash", hash).await
    }

    /// An entry of a list.
    pub async fn list_entry(&self, id: &str) -> Result<Option<ListEntry>> {
        self.one(id).await
    }

    /// A boost.
    pub async fn boost(&self, id: &str) -> Result<Option<Boost>> {
        self.one(id).await
    }

    /// An admin token.
    pub async fn token(&self, id: &str) -> Result<Option<Token>> {
        self.one(id).await
    }

    /// A setting.
    pub async fn setting(&self, name: &str) -> Result<Option<Setting>> {
        self.one(name).await
    }

    /// Tenants by their ids: all, or those directly below one. Below the root, that is `system`.
    pub async fn tenants(&self, parent: Option<&str>, page: &Page) -> Result<Listed<Tenant>> {
        let conditions = Conditions::of(select::<Tenant>()).and_text("parent = {}", parent);
        list(&mut *self.reader().await?, conditions, page).await
    }

    /// Users by their ids: all, or those of a tenant.
    pub async fn users(&self, tenant: Option<&str>, page: &Page) -> Result<Listed<User>> {
        let conditions = Conditions::of(select::<User>()).and_text("tenant_id = {}", tenant);
        list(&mut *self.reader().await?, conditions, page).await
    }

    /// Keys by their ids.
    pub async fn keys(&self, filter: &KeyFilter, page: &Page) -> Result<Listed<Key>> {
        let mut conditions = Conditions::of(select::<Key>())
            .and_text("tenant_id = {}", filter.tenant.as_deref())
            .and_text("user_id = {}", filter.user.as_deref());
        if !filter.revoked {
            conditions = conditions.and("revoked_at IS NULL");
        }
        list(&mut *self.reader().await?, conditions, page).await
    }

    /// The entries of a list, `allow` or `deny`, by their ids.
    pub async fn list_entries(&self, of: &str, page: &Page) -> Result<Listed<ListEntry>> {
        let conditions = Conditions::of(select::<ListEntry>()).and_text("list = {}", Some(of));
        list(&mut *self.reader().await?, conditions, page).await
    }

    /// Boosts by their ids, also those that have ended.
    pub async fn boosts(&self, page: &Page) -> Result<Listed<Boost>> {
        self.list(page).await
    }

    /// Admin tokens by their ids, also those that were revoked.
    pub async fn tokens(&self, page: &Page) -> Result<Listed<Token>> {
        self.list(page).await
    }

    /// The audit trail, newest first.
    pub async fn audit(&self, filter: &AuditFilter, page: &Page) -> Result<Listed<AuditEvent>> {
        let mut conditions = Conditions::of(stored::AUDIT)
            .and_text("event = {}", filter.event.as_deref())
            .and_text("actor = {}", filter.actor.as_deref())
            .and_text("identifier = {}", filter.identifier.as_deref())
            .and_number("at >= {}", filter.since_ms)
            .and_number("at < {}", filter.until_ms);
        if let Some(after) = &page.after {
            let (at, id) = stored::event_of(after)?;
            conditions = conditions.and("(at, id) < ({}, {})").number(at).number(id);
        }
        let statement = conditions.then(&format!(
            " ORDER BY at DESC, id DESC LIMIT {}",
            page.probe()
        ));
        let items = all(&mut *self.reader().await?, statement, stored::event).await?;
        Ok(page.cut(items, stored::event_name))
    }

    /// Roll-ups of usage, oldest first.
    pub async fn usage(&self, filter: &UsageFilter, page: &Page) -> Result<Listed<UsageRow>> {
        let mut conditions = Conditions::of(stored::USAGE)
            .and_number("granularity = {}", Some(filter.granularity.secs()))
            .and_text("tenant = {}", filter.tenant.as_deref())
            .and_text("plan = {}", filter.plan.as_deref())
            .and_text("route = {}", filter.route.as_deref())
            .and_number("start >= {}", filter.since)
            .and_number("start < {}", filter.until);
        if let Some(after) = &page.after {
            let (start, [tenant, plan, route]) = stored::usage_of(after)?;
            conditions = conditions
                .and("(start, tenant, plan, route) > ({}, {}, {}, {})")
                .number(start)
                .text(&tenant)
                .text(&plan)
                .text(&route);
        }
        let order = " ORDER BY start, tenant, plan, route";
        let statement = conditions.then(&format!("{order} LIMIT {}", page.probe()));
        let items = all(&mut *self.reader().await?, statement, stored::usage_row).await?;
        Ok(page.cut(items, stored::usage_name))
    }

    /// The answer that was given to `actor` under this key of theirs, unless that was a day ago.
    pub async fn recall(&self, key: &str, actor: &str, now_ms: i64) -> Result<Option<Remembered>> {
        stored::recall(&mut *self.reader().await?, key, actor, now_ms).await
    }

    async fn one<T: Entity>(&self, id: &str) -> Result<Option<T>> {
        one(&mut *self.reader().await?, id).await
    }

    async fn list<T: Entity>(&self, page: &Page) -> Result<Listed<T>> {
        let conditions = Conditions::of(select::<T>());
        list(&mut *self.reader().await?, conditions, page).await
    }
}

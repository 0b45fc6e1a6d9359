use sqlx::Executor;

use crate::directory::Directory;
use crate::entity::{Entity, many, one, one_by, put, select};
use crate::error::{Conflict, DirectoryError};
use crate::people::{Boost, Key, ListEntry, Setting, Tenant, Token, User};
use crate::records::{AuditEvent, Remembered};
use crate::sql::{first, number, placeholders, run, statement, texts, within};
use crate::transaction::Transaction;
use crate::{append, follow, stored, sums, watch};

type Result<T> = std::result::Result<T, DirectoryError>;

/// So many rows are named by their ids in one statement.
const IDS: usize = 500;
/// Trees are not as deep as this. It ends a walk that a damaged tree would lead in circles.
const MAX_DEPTH: u32 = 1000;

/// One change of the directory, all or nothing. Dropped without [`Edit::commit`], nothing was changed.
///
/// While it lasts, all other edits wait, those of other nodes too: what it reads is what it changes.
/// A call that fails leaves nothing to be done but to drop it, unless it failed by a conflict or was given
/// something invalid.
#[derive(Debug)]
pub struct Edit {
    directory: Directory,
    transaction: Transaction,
    revision: i64,
    now_ms: i64,
}

impl Directory {
    /// Begins an edit. Others that have begun are waited for.
    ///
    /// # Errors
    ///
    /// They take too long, or the database is not there.
    pub async fn edit(&self, now_ms: i64) -> Result<Edit> {
        let mut transaction = self.editing().await?;
        // The row is locked until the end, so revisions are in the order of commits.
        let next = "UPDATE counters SET value = value + 1 WHERE name = 'revision' RETURNING value";
        let revision = number(&mut transaction, statement(next)).await?;
        Ok(Edit {
            directory: self.clone(),
            transaction,
            revision: revision.unwrap_or_default(),
            now_ms,
        })
    }
}

impl Edit {
    /// The number it has in the order of edits.
    pub fn revision(&self) -> i64 {
        self.revision
    }

    /// When it is made, in Unix milliseconds.
    pub fn now_ms(&self) -> i64 {
        self.now_ms
    }

    /// A tenant.
    pub async fn tenant(&mut self, id: &str) -> Result<Option<Tenant>> {
        one(&mut self.transaction, id).await
    }

    /// Those of these tenants that there are, in no order.
    pub async fn tenants(&mut self, ids: &[String]) -> Result<Vec<Tenant>> {
        let mut found = Vec::with_capacity(ids.len());
        for some in ids.chunks(IDS) {
            found.extend(many(&mut self.transaction, some).await?);
        }
        Ok(found)
    }

    /// A user.
    pub async fn user(&mut self, id: &str) -> Result<Option<User>> {
        one(&mut self.transaction, id).await
    }

    /// A key by its id.
    pub async fn key(&mut self, id: &str) -> Result<Option<Key>> {
        one(&mut self.transaction, id).await
    }

    /// A key by its hash, in hexadecimal digits.
    pub async fn key_by_hash(&mut self, hash: &str) -> Result<Option<Key>> {
        one_by(&mut self.transaction, "hash", hash).await
    }

    /// The newest key that was made to replace another and was not revoked since.
    pub async fn successor(&mut self, id: &str) -> Result<Option<Key>> {
        let text = format!(
            "{} WHERE replaces = $1 AND revoked_at IS NULL ORDER BY created_at DESC, id LIMIT 1",
            select::<Key>()
        );
        let asked = statement(text).text(id);
        first(&mut self.transaction, asked, <Key as Entity>::read).await
    }

    /// An entry of a list.
    pub async fn list_entry(&mut self, id: &str) -> Result<Option<ListEntry>> {
        one(&mut self.transaction, id).await
    }

    /// The entry of a list, `allow` or `deny`, for the caller of this kind and value.
    pub async fn listed(
        &mut self,
        list: &str,
        kind: &str,
        value: &str,
    ) -> Result<Option<ListEntry>> {
        let text = format!(
            "{} WHERE list = $1 AND kind = $2 AND value = $3",
            select::<ListEntry>()
        );
        let asked = statement(text).text(list).text(kind).text(value);
        first(&mut self.transaction, asked, <ListEntry as Entity>::read).await
    }

    /// A boost.
    pub async fn boost(&mut self, id: &str) -> Result<Option<Boost>> {
        one(&mut self.transaction, id).await
    }

    /// An admin token.
    pub async fn token(&mut self, id: &str) -> Result<Option<Token>> {
        one(&mut self.transaction, id).await
    }

    /// An admin token of this name that is valid at the time of this edit.
    pub async fn valid_token_named(&mut self, name: &str) -> Result<Option<Token>> {
        let text = format!(
            "{} WHERE name = $1 AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > $2)",
            select::<Token>()
        );
        let asked = statement(text).text(name).number(self.now_ms);
        first(&mut self.transaction, asked, <Token as Entity>::read).await
    }

    /// A setting.
    pub async fn setting(&mut self, name: &str) -> Result<Option<Setting>> {
        one(&mut self.transaction, name).await
    }

    /// As [`Directory::recall`], as of this edit.
    pub async fn recall(&mut self, key: &str, actor: &str) -> Result<Option<Remembered>> {
        stored::recall(&mut self.transaction, key, actor, self.now_ms).await
    }

    /// How many tenants are directly below one; below the root, that is `system`.
    pub async fn children(&mut self, id: &str) -> Result<i64> {
        let count = statement("SELECT COUNT(*) FROM tenants WHERE parent = $1").text(id);
        let found = number(&mut self.transaction, count).await?;
        Ok(found.unwrap_or_default())
    }

    /// What the tenants directly below one were given: the sum of their rates for each window, in
    /// seconds, that any of them has. One of them may be left out.
    pub async fn allocated(
        &mut self,
        parent: &str,
        except: Option<&str>,
    ) -> Result<Vec<(i64, u32)>> {
        sums::allocated(&mut self.transaction, parent, except).await
    }

    /// A tenant and all below it, each behind the one it is below.
    pub async fn subtree(&mut self, id: &str) -> Result<Vec<String>> {
        let below = statement(format!(
            "WITH RECURSIVE below (id, depth) AS (SELECT id, 1 FROM tenants WHERE parent = $1 \
             UNION ALL SELECT tenants.id, below.depth + 1 FROM tenants \
             JOIN below ON tenants.parent = below.id WHERE below.depth < {MAX_DEPTH}) \
             SELECT id FROM below ORDER BY depth, id"
        ));
        let mut all = vec![id.to_owned()];
        all.extend(texts(&mut self.transaction, below.text(id)).await?);
        Ok(all)
    }

    /// Those above a tenant, the nearest first. The last is the root, or one that the directory does not
    /// have.
    pub async fn ancestors(&mut self, id: &str) -> Result<Vec<String>> {
        let above = statement(format!(
            "WITH RECURSIVE above (id, depth) AS (SELECT parent, 1 FROM tenants WHERE id = $1 \
             UNION ALL SELECT tenants.parent, above.depth + 1 FROM tenants \
             JOIN above ON tenants.id = above.id WHERE above.depth < {MAX_DEPTH}) \
             SELECT id FROM above WHERE id <> '' ORDER BY depth"
        ));
        texts(&mut self.transaction, above.text(id)).await
    }

    /// Makes a tenant, if its version is 0; else replaces the one of this version. What is stored then.
    ///
    /// # Errors
    ///
    /// [`Conflict::Exists`] or [`Conflict::Changed`]; the edit can go on.
    pub async fn put_tenant(&mut self, tenant: Tenant) -> Result<Tenant> {
        self.put(tenant).await
    }

    /// As [`Edit::put_tenant`].
    pub async fn put_user(&mut self, user: User) -> Result<User> {
        self.put(user).await
    }

    /// As [`Edit::put_tenant`]. Hash and prefix stay as they were made.
    pub async fn put_key(&mut self, key: Key) -> Result<Key> {
        self.put(key).await
    }

    /// As [`Edit::put_tenant`]. List, kind and value stay as they were made.
    pub async fn put_list_entry(&mut self, entry: ListEntry) -> Result<ListEntry> {
        self.put(entry).await
    }

    /// As [`Edit::put_tenant`]. Kind and target stay as they were made.
    pub async fn put_boost(&mut self, boost: Boost) -> Result<Boost> {
        self.put(boost).await
    }

    /// As [`Edit::put_tenant`]. The hash stays as it was made.
    pub async fn put_token(&mut self, token: Token) -> Result<Token> {
        self.put(token).await
    }

    /// As [`Edit::put_tenant`].
    pub async fn put_setting(&mut self, setting: Setting) -> Result<Setting> {
        self.put(setting).await
    }

    /// Deletes tenants with their users and what is theirs, their keys, boosts and entries of the
    /// allow-list; not the tenants below them. How many there were. It takes a few statements, however many
    /// there are.
    pub async fn delete_tenants(&mut self, ids: &[String]) -> Result<u64> {
        let mut deleted = 0;
        for some in ids.chunks(IDS) {
            let these = these(some.len());
            let users = format!("SELECT id FROM users WHERE tenant_id IN {these}");
            // Apart from each other: together they would lead past both indexes.
            let of_tenants = format!("tenant_id IN {these}");
            self.delete_keys(&of_tenants, some).await?;
            self.delete_keys(&format!("user_id IN ({users})"), some)
                .await?;
            let theirs = |whose: &str| {
                format!(
                    "(kind = 'tenant' AND {whose} IN {these}) OR (kind = 'user' AND {whose} IN ({users}))"
                )
            };
            self.delete_where::<Boost>(&theirs("target"), some).await?;
            self.delete_allowed(&theirs("value"), some).await?;
            self.delete_where::<User>(&of_tenants, some).await?;
            deleted += self
                .delete_where::<Tenant>(&format!("id IN {these}"), some)
                .await?;
        }
        Ok(deleted)
    }

    /// As [`Edit::delete_tenants`], of one. Whether there was one.
    pub async fn delete_tenant(&mut self, id: &str) -> Result<bool> {
        let deleted = self.delete_tenants(&[id.to_owned()]).await?;
        Ok(deleted > 0)
    }

    /// Deletes a user with the user's keys, boosts and entries of the allow-list. Whether there was one.
    pub async fn delete_user(&mut self, id: &str) -> Result<bool> {
        let this = [id.to_owned()];
        self.delete_keys("user_id = $1", &this).await?;
        let boosts = "kind = 'user' AND target = $1";
        self.delete_where::<Boost>(boosts, &this).await?;
        let allowed = "kind = 'user' AND value = $1";
        self.delete_allowed(allowed, &this).await?;
        self.delete::<User>(id).await
    }

    /// Deletes a key with its entry in the allow-list. Whether there was one.
    pub async fn delete_key(&mut self, id: &str) -> Result<bool> {
        let deleted = self.delete_keys("id = $1", &[id.to_owned()]).await?;
        Ok(deleted > 0)
    }

    /// Deletes an entry of a list. Whether there was one.
    pub async fn delete_list_entry(&mut self, id: &str) -> Result<bool> {
        self.delete::<ListEntry>(id).await
    }

    /// Deletes a boost. Whether there was one.
    pub async fn delete_boost(&mut self, id: &str) -> Result<bool> {
        self.delete::<Boost>(id).await
    }

    /// Deletes an admin token. Whether there was one.
    pub async fn delete_token(&mut self, id: &str) -> Result<bool> {
        self.delete::<Token>(id).await
    }

    /// Deletes a setting. Whether there was one.
    pub async fn delete_setting(&mut self, name: &str) -> Result<bool> {
        self.delete::<Setting>(name).await
    }

    /// Adds to the audit trail, if the edit is committed.
    pub async fn record(&mut self, event: &AuditEvent) -> Result<()> {
        self.record_all(std::slice::from_ref(event)).await
    }

    /// As [`Edit::record`], at once. From then on all others who record wait for the end of this edit.
    pub async fn record_all(&mut self, events: &[AuditEvent]) -> Result<()> {
        if events.is_empty() {
            return Ok(());
        }
        append::write_audit(&mut self.transaction, events).await
    }

    /// Remembers an answer for a day, from the time of this edit, whatever its own says.
    ///
    /// # Errors
    ///
    /// [`Conflict::Exists`] if there is one already.
    pub async fn remember(&mut self, answer: &Remembered) -> Result<()> {
        let now_ms = self.now_ms;
        let add = statement(
            "INSERT INTO answers (actor, request_key, fingerprint, status, body, created_at) \
             VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (actor, request_key) DO UPDATE SET \
             fingerprint = excluded.fingerprint, status = excluded.status, body = excluded.body, \
             created_at = excluded.created_at WHERE answers.created_at <= $7",
        );
        let add = add
            .text(&answer.actor)
            .text(&answer.key)
            .text(&answer.fingerprint)
            .number(answer.status.into())
            .text(&answer.body)
            .number(now_ms)
            .number(now_ms.saturating_sub(stored::REMEMBERED_MS));
        match run(&mut self.transaction, add).await? {
            0 => Err(DirectoryError::Conflict(Conflict::Exists)),
            _ => Ok(()),
        }
    }

    /// Makes it so, for ever. The revision, which nodes have applied soon.
    ///
    /// # Errors
    ///
    /// Nothing was changed, except that after [`DirectoryError::Unavailable`] nobody knows: the answer of
    /// the database may have been lost.
    pub async fn commit(mut self) -> Result<i64> {
        let tag = follow::tag()?;
        let add = statement("INSERT INTO edits (revision, tag, at) VALUES ($1, $2, $3)");
        let add = add.number(self.revision).number(tag).number(self.now_ms);
        run(&mut self.transaction, add).await?;
        if self.directory.is_shared() {
            let wake = self.transaction.execute(watch::NOTIFY);
            within(wake).await?;
        }
        self.transaction.commit().await?;
        let revision = self.revision;
        self.directory
            .0
            .committed
            .send_modify(|last| *last = revision.max(*last));
        Ok(revision)
    }

    async fn put<T: Entity>(&mut self, row: T) -> Result<T> {
        if row.id().is_empty() {
            return Err(DirectoryError::Invalid("an id is empty".to_owned()));
        }
        let row = put(&mut self.transaction, row, self.revision, self.now_ms).await?;
        let log = statement(
            "INSERT INTO changes (revision, kind, id) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING",
        );
        let log = log.number(self.revision).text(T::KIND).text(row.logged());
        run(&mut self.transaction, log).await?;
        Ok(row)
    }

    async fn delete<T: Entity>(&mut self, id: &str) -> Result<bool> {
        let this = format!("{} = $1", T::ID);
        let deleted = self.delete_where::<T>(&this, &[id.to_owned()]).await?;
        Ok(deleted > 0)
    }

    async fn delete_keys(&mut self, which: &str, ids: &[String]) -> Result<u64> {
        let theirs =
            format!("kind = 'api_key' AND value IN (SELECT hash FROM api_keys WHERE {which})");
        self.delete_allowed(&theirs, ids).await?;
        self.delete_where::<Key>(which, ids).await
    }

    /// Deletes entries of the allow-list, as [`Edit::delete_where`] does. Entries of the deny-list outlive those
    /// whom they name.
    async fn delete_allowed(&mut self, which: &str, ids: &[String]) -> Result<u64> {
        let which = format!("list = 'allow' AND ({which})");
        self.delete_where::<ListEntry>(&which, ids).await
    }

    /// Deletes the rows that a condition is true of in which `$1`, `$2`, … are the ids. How many there were.
    async fn delete_where<T: Entity>(&mut self, which: &str, ids: &[String]) -> Result<u64> {
        let next = ids.len() + 1;
        let log = statement(format!(
            "INSERT INTO changes (revision, kind, id) SELECT ${next}, ${}, {} FROM {} WHERE {which} \
             ON CONFLICT DO NOTHING",
            next + 1,
            T::LOGGED,
            T::TABLE,
        ));
        let log = log.texts(ids).number(self.revision).text(T::KIND);
        run(&mut self.transaction, log).await?;
        let delete = statement(format!("DELETE FROM {} WHERE {which}", T::TABLE)).texts(ids);
        run(&mut self.transaction, delete).await
    }
}

/// `($1, $2, $3)`
fn these(count: usize) -> String {
    placeholders(1, count)
}

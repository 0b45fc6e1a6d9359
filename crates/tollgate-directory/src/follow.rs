//! How nodes come to know what is there, and what has changed.

use std::collections::HashMap;
use std::pin::pin;

use futures_util::TryStreamExt;
use sqlx::{AnyConnection, Executor};

use crate::directory::Directory;
use crate::entity::Entity;
use crate::error::DirectoryError;
use crate::held::{Held, HeldKey, HeldTenant, HeldUser, select};
use crate::people::{Allow, Boost, Setting, Token};
use crate::sql::{Conditions, Fields, all, first, number, statement, within};

type Result<T> = std::result::Result<T, DirectoryError>;

/// So many rows are asked for by their ids in one statement.
const IDS: usize = 500;

/// What a node holds: an entry as it is now, by its id; none if it is gone.
///
/// Of those that there are many of, only what decisions need. Keys go by their hash. To a node, a key or
/// token that was revoked is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Row {
    /// A tenant.
    Tenant(String, Option<HeldTenant>),
    /// A user.
    User(String, Option<HeldUser>),
    /// A key, by its hash in hexadecimal digits.
    Key(String, Option<HeldKey>),
    /// An entry of the allow-list.
    Allow(String, Option<Allow>),
    /// A boost.
    Boost(String, Option<Boost>),
    /// An admin token.
    Token(String, Option<Token>),
    /// A setting.
    Setting(String, Option<Setting>),
}

/// What has changed since an edit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Changes {
    /// These rows, by edits up to and with `revision`.
    Rows {
        /// The last edit that all rows of are here: where to go on.
        revision: i64,
        /// As they are now, each once.
        rows: Vec<Row>,
    },
    /// It is not known any more, or the database is another one: everything has to be loaded.
    TooOld,
}

impl Directory {
    /// Everything that a node holds, as of one edit, whose number it is. Rows come as they are read.
    pub async fn load(&self, mut each: impl FnMut(Row) + Send) -> Result<i64> {
        let mut snapshot = self.snapshot().await?;
        if self.is_shared() {
            // Only as a whole it may take longer than a statement else may.
            within(snapshot.execute("SET LOCAL statement_timeout = 0")).await?;
        }
        let (revision, _) = position(&mut snapshot).await?;
        load(&mut snapshot, |id, row| each(Row::Tenant(id, Some(row)))).await?;
        load(&mut snapshot, |id, row| each(Row::User(id, Some(row)))).await?;
        load(&mut snapshot, |id, row| each(Row::Key(id, Some(row)))).await?;
        load(&mut snapshot, |id, row| each(Row::Allow(id, Some(row)))).await?;
        load(&mut snapshot, |id, row| each(Row::Boost(id, Some(row)))).await?;
        load(&mut snapshot, |id, row| each(Row::Token(id, Some(row)))).await?;
        load(&mut snapshot, |id, row| each(Row::Setting(id, Some(row)))).await?;
        snapshot.roll_back().await?;
        Ok(revision)
    }

    /// The rows that were changed by edits after one, at least those of the next edit and beyond that
    /// about `limit`.
    pub async fn changes(&self, after: i64, limit: u32) -> Result<Changes> {
        let mut snapshot = self.snapshot().await?;
        let (last, forgotten) = position(&mut snapshot).await?;
        if after < forgotten || after > last {
            snapshot.roll_back().await?;
            return Ok(Changes::TooOld);
        }
        if after == last {
            snapshot.roll_back().await?;
            return Ok(Changes::Rows {
                revision: last,
                rows: Vec::new(),
            });
        }
        let cut = statement(
            "SELECT revision FROM changes WHERE revision > $1 ORDER BY revision LIMIT 1 OFFSET $2",
        );
        let cut = cut.number(after).number(limit.into());
        let revision = number(&mut snapshot, cut).await?.unwrap_or(last);
        let log = statement(
            "SELECT DISTINCT kind, id FROM changes WHERE revision > $1 AND revision <= $2 \
             ORDER BY kind, id",
        );
        let log = log.number(after).number(revision);
        let read = |fields: &mut Fields<'_>| Ok((fields.next()?, fields.next()?));
        let mut changed = HashMap::<String, Vec<String>>::new();
        for (kind, id) in all(&mut snapshot, log, read).await? {
            changed.entry(kind).or_default().push(id);
        }
        let mut rows = Vec::new();
        look_up(&mut snapshot, &mut changed, &mut rows, Row::Tenant).await?;
        look_up(&mut snapshot, &mut changed, &mut rows, Row::User).await?;
        look_up(&mut snapshot, &mut changed, &mut rows, Row::Key).await?;
        look_up(&mut snapshot, &mut changed, &mut rows, Row::Allow).await?;
        look_up(&mut snapshot, &mut changed, &mut rows, Row::Boost).await?;
        look_up(&mut snapshot, &mut changed, &mut rows, Row::Token).await?;
        look_up(&mut snapshot, &mut changed, &mut rows, Row::Setting).await?;
        snapshot.roll_back().await?;
        Ok(Changes::Rows { revision, rows })
    }
}

/// The last edit, and the last whose rows are not known any more.
async fn position(connection: &mut AnyConnection) -> Result<(i64, i64)> {
    let both = statement(
        "SELECT (SELECT value FROM counters WHERE name = 'revision'), \
         (SELECT value FROM counters WHERE name = 'forgotten')",
    );
    let read = |fields: &mut Fields<'_>| Ok((fields.next()?, fields.next()?));
    let found = first(connection, both, read).await?;
    Ok(found.unwrap_or_default())
}

async fn load<T: Held>(
    connection: &mut AnyConnection,
    mut each: impl FnMut(String, T) + Send,
) -> Result<()> {
    let query = Conditions::of(select::<T>())
        .and(T::Of::HELD)
        .then("")
        .query()?;
    let mut stream = pin!(query.fetch(connection));
    // Each row has a deadline.
    while let Some(row) = within(stream.try_next()).await? {
        let (id, row) = read(&mut Fields::of(&row))?;
        each(id, row);
    }
    Ok(())
}

fn read<T: Held>(fields: &mut Fields<'_>) -> Result<(String, T)> {
    Ok((fields.next()?, T::read(fields)?))
}

/// The rows of one kind that were changed, as they are now.
async fn look_up<T: Held>(
    connection: &mut AnyConnection,
    changed: &mut HashMap<String, Vec<String>>,
    rows: &mut Vec<Row>,
    row: impl Fn(String, Option<T>) -> Row,
) -> Result<()> {
    let ids = changed.remove(T::Of::KIND).unwrap_or_default();
    for some in ids.chunks(IDS) {
        let these = vec!["{}"; some.len()].join(", ");
        let these = format!("{} IN ({these})", T::Of::LOGGED);
        let select = Conditions::of(select::<T>()).and(T::Of::HELD).and(&these);
        let select = some.iter().fold(select, |select, id| select.text(id));
        let found = all(connection, select.then(""), read::<T>).await?;
        let mut found: HashMap<String, T> = found.into_iter().collect();
        for id in some {
            let entry = found.remove(id);
            rows.push(row(id.clone(), entry));
        }
    }
    Ok(())
}

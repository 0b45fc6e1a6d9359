//! How nodes come to know what is there, and what has changed.

use std::collections::{BTreeSet, HashMap};
use std::pin::pin;

use futures_util::TryStreamExt;
use sqlx::{AnyConnection, Executor};

use crate::directory::Directory;
use crate::entity::Entity;
use crate::error::DirectoryError;
use crate::held::{Held, HeldKey, HeldTenant, HeldUser, select};
use crate::people::{Boost, ListEntry, Setting, Token};
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
    /// An entry of the allow-list or the deny-list.
    Listed(String, Option<ListEntry>),
    /// A boost.
    Boost(String, Option<Boost>),
    /// An admin token.
    Token(String, Option<Token>),
    /// A setting.
    Setting(String, Option<Setting>),
    /// A row that cannot be read: somebody has written what Tollward does not.
    Odd {
        /// Of which kind it is, as the log of changes calls it.
        kind: &'static str,
        /// Its id; of a key, its hash.
        id: String,
        /// Why it cannot be read.
        why: String,
    },
}

/// How far a node has come in the edits. By default, nowhere.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// The last edit that any row of is known.
    revision: i64,
    /// What tells it from another edit of this number.
    tag: i64,
    /// The last row that is known of it, by kind and id, if not all are.
    part: Option<(String, String)>,
}

impl Position {
    /// The last edit that all rows of are known.
    pub fn revision(&self) -> i64 {
        match self.part {
            Some(_) => self.revision - 1,
            None => self.revision,
        }
    }
}

/// What has changed since a node looked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Changes {
    /// These rows.
    Rows {
        /// Where to go on.
        upto: Position,
        /// As they are now, each once.
        rows: Vec<Row>,
    },
    /// It is not known any more, or the database is another one or was put back to an earlier state:
    /// everything has to be loaded.
    TooOld,
}

impl Directory {
    /// Everything that a node holds, as of one edit, whose end is where to go on. Rows come as they are read.
    pub async fn load(&self, mut each: impl FnMut(Row) + Send) -> Result<Position> {
        let mut snapshot = self.snapshot().await?;
        if self.is_shared() {
            // Only as a whole it may take longer than a statement else may.
            within(snapshot.execute("SET LOCAL statement_timeout = 0")).await?;
        }
        let upto = newest(&mut snapshot).await?;
        load(&mut snapshot, &mut each, Row::Tenant).await?;
        load(&mut snapshot, &mut each, Row::User).await?;
        load(&mut snapshot, &mut each, Row::Key).await?;
        load(&mut snapshot, &mut each, Row::Listed).await?;
        load(&mut snapshot, &mut each, Row::Boost).await?;
        load(&mut snapshot, &mut each, Row::Token).await?;
        load(&mut snapshot, &mut each, Row::Setting).await?;
        snapshot.roll_back().await?;
        Ok(upto)
    }

    /// The rows that were changed since, up to `limit`, which is at least one. An edit that fits is there as
    /// a whole or not at all.
    pub async fn changes(&self, after: &Position, limit: u32) -> Result<Changes> {
        let mut snapshot = self.snapshot().await?;
        let limit = usize::try_from(limit.max(1)).unwrap_or(usize::MAX);
        let changes = changes(&mut snapshot, after, limit).await?;
        snapshot.roll_back().await?;
        Ok(changes)
    }
}

/// Any number, to tell an edit by.
pub(crate) fn tag() -> Result<i64> {
    let mut bytes = [0; 8];
    let drawn = getrandom::getrandom(&mut bytes);
    drawn.map_err(|error| DirectoryError::Unavailable(error.to_string()))?;
    Ok(i64::from_le_bytes(bytes))
}

async fn changes(
    connection: &mut AnyConnection,
    after: &Position,
    limit: usize,
) -> Result<Changes> {
    if tag_of(connection, after.revision).await? != Some(after.tag) {
        return Ok(Changes::TooOld);
    }
    let mut logged = log(connection, after, limit.saturating_add(1)).await?;
    let upto = match logged.get(limit).map(|next| next.revision) {
        None => newest(connection).await?,
        Some(next) => {
            logged.truncate(limit);
            let part = cut(&mut logged, next);
            let revision = logged.last().map_or(after.revision, |it| it.revision);
            let tag = tag_of(connection, revision).await?.unwrap_or_default();
            Position {
                revision,
                tag,
                part,
            }
        }
    };
    let mut ids = HashMap::<String, BTreeSet<String>>::new();
    for Logged { kind, id, .. } in logged {
        ids.entry(kind).or_default().insert(id);
    }
    let mut rows = Vec::new();
    look_up(connection, &mut ids, &mut rows, Row::Tenant).await?;
    look_up(connection, &mut ids, &mut rows, Row::User).await?;
    look_up(connection, &mut ids, &mut rows, Row::Key).await?;
    look_up(connection, &mut ids, &mut rows, Row::Listed).await?;
    look_up(connection, &mut ids, &mut rows, Row::Boost).await?;
    look_up(connection, &mut ids, &mut rows, Row::Token).await?;
    look_up(connection, &mut ids, &mut rows, Row::Setting).await?;
    Ok(Changes::Rows { upto, rows })
}

/// A row that an edit changed.
struct Logged {
    revision: i64,
    kind: String,
    id: String,
}

/// The next rows behind a position.
async fn log(
    connection: &mut AnyConnection,
    after: &Position,
    limit: usize,
) -> Result<Vec<Logged>> {
    let select = Conditions::of("SELECT revision, kind, id FROM changes");
    let select = match &after.part {
        None => select.and("revision > {}").number(after.revision),
        Some((kind, id)) => select
            .and("(revision, kind, id) > ({}, {}, {})")
            .number(after.revision)
            .text(kind)
            .text(id),
    };
    let select = select.then(&format!(" ORDER BY revision, kind, id LIMIT {limit}"));
    let read = |fields: &mut Fields<'_>| {
        Ok(Logged {
            revision: fields.next()?,
            kind: fields.next()?,
            id: fields.next()?,
        })
    };
    all(connection, select, read).await
}

/// Leaves out the rows of the last edit if more of it are to come, which is `next`; unless there are no
/// others: then it is cut behind the row that is told.
fn cut(logged: &mut Vec<Logged>, next: i64) -> Option<(String, String)> {
    let whole = logged.partition_point(|it| it.revision < next);
    if whole > 0 {
        logged.truncate(whole);
        return None;
    }
    let last = logged.last()?;
    Some((last.kind.clone(), last.id.clone()))
}

/// The end of the last edit.
async fn newest(connection: &mut AnyConnection) -> Result<Position> {
    let last = statement("SELECT revision, tag FROM edits ORDER BY revision DESC LIMIT 1");
    let read = |fields: &mut Fields<'_>| {
        Ok(Position {
            revision: fields.next()?,
            tag: fields.next()?,
            part: None,
        })
    };
    Ok(first(connection, last, read).await?.unwrap_or_default())
}

/// The tag of an edit, unless it is not known any more.
async fn tag_of(connection: &mut AnyConnection, revision: i64) -> Result<Option<i64>> {
    let tag = statement("SELECT tag FROM edits WHERE revision = $1");
    number(connection, tag.number(revision)).await
}

async fn load<T: Held>(
    connection: &mut AnyConnection,
    each: &mut (impl FnMut(Row) + Send),
    row: impl Fn(String, Option<T>) -> Row,
) -> Result<()> {
    let query = Conditions::of(select::<T>())
        .and(T::Of::HELD)
        .then("")
        .query()?;
    let mut stream = pin!(query.fetch(connection));
    // Each row has a deadline.
    while let Some(found) = within(stream.try_next()).await? {
        let (id, entry) = read(&mut Fields::of(&found));
        each(told(id, entry.map(Some), &row));
    }
    Ok(())
}

/// The id of a row, and what can be read of it.
fn read<T: Held>(fields: &mut Fields<'_>) -> (String, Result<T>) {
    let id = fields.next();
    (id.unwrap_or_default(), T::read(fields))
}

fn told<T: Held>(
    id: String,
    entry: Result<Option<T>>,
    row: impl Fn(String, Option<T>) -> Row,
) -> Row {
    let kind = T::Of::KIND;
    match entry {
        Ok(entry) => row(id, entry),
        Err(DirectoryError::Unavailable(why)) => Row::Odd { kind, id, why },
        Err(error) => {
            let why = error.to_string();
            Row::Odd { kind, id, why }
        }
    }
}

/// The rows of one kind that were changed, as they are now.
async fn look_up<T: Held>(
    connection: &mut AnyConnection,
    changed: &mut HashMap<String, BTreeSet<String>>,
    rows: &mut Vec<Row>,
    row: impl Fn(String, Option<T>) -> Row,
) -> Result<()> {
    let ids = changed.remove(T::Of::KIND).unwrap_or_default();
    let ids: Vec<_> = ids.into_iter().collect();
    for some in ids.chunks(IDS) {
        let these = vec!["{}"; some.len()].join(", ");
        let these = format!("{} IN ({these})", T::Of::LOGGED);
        let select = Conditions::of(select::<T>()).and(T::Of::HELD).and(&these);
        let select = some.iter().fold(select, |select, id| select.text(id));
        let found = all(connection, select.then(""), |fields| Ok(read::<T>(fields))).await?;
        let mut found: HashMap<String, Result<T>> = found.into_iter().collect();
        for id in some {
            let entry = found.remove(id).transpose();
            rows.push(told(id.clone(), entry, &row));
        }
    }
    Ok(())
}

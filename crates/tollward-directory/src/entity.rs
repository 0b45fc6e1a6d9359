//! The tables of what edits change, and how their rows are read and written.

use sqlx::AnyConnection;

use crate::error::{Conflict, DirectoryError};
use crate::page::{Listed, Page};
use crate::sql::{Conditions, Fields, Statement, all, first, number, placeholders, statement};

/// The tenant above all others. It needs no row.
pub(crate) const ROOT: &str = "system";

type Result<T> = std::result::Result<T, DirectoryError>;

/// A row of one of the tables that edits change.
pub(crate) trait Entity: Clone + Send + Sync + Sized {
    /// What the log of changes calls it.
    const KIND: &'static str;
    const TABLE: &'static str;
    /// The column that is its id.
    const ID: &'static str = "id";
    /// The column that the log of changes knows it by.
    const LOGGED: &'static str = Self::ID;
    /// Columns that are set once.
    const FIXED: &'static [&'static str];
    /// Columns that a put replaces.
    const FREE: &'static [&'static str];
    /// What is read of another table, behind all columns.
    const BESIDE: Option<Beside> = None;
    /// Which rows nodes hold, as a condition.
    const HELD: &'static str = "1 = 1";

    /// Reads the id, the fixed and the free columns, the [`Stamps`], and what is beside.
    fn read(fields: &mut Fields<'_>) -> Result<Self>;
    /// Says the same as what is stored will be read as.
    fn tidy(&mut self) {}
    /// Binds the id, the fixed and the free columns.
    fn bind(&self, statement: Statement) -> Statement;
    fn id(&self) -> &str;
    fn logged(&self) -> &str {
        self.id()
    }
    fn stamps(&mut self) -> Stamps<'_>;
}

/// A column of another table.
pub(crate) struct Beside {
    pub(crate) column: &'static str,
    pub(crate) join: &'static str,
}

/// What an edit sets by itself.
pub(crate) struct Stamps<'a> {
    pub(crate) created_at: &'a mut i64,
    pub(crate) updated_at: &'a mut i64,
    pub(crate) version: &'a mut i64,
}

const STAMPS: [&str; 3] = ["created_at", "updated_at", "version"];

/// `SELECT … FROM …` of all columns.
pub(crate) fn select<T: Entity>() -> String {
    let beside = T::BESIDE.as_ref();
    let column = beside.map_or(String::new(), |it| format!(", {}", it.column));
    let join = beside.map_or(String::new(), |it| format!(" {}", it.join));
    format!("SELECT {}{column} FROM {}{join}", columns::<T>(), T::TABLE)
}

pub(crate) fn columns<T: Entity>() -> String {
    [&[T::ID], T::FIXED, T::FREE, &STAMPS].concat().join(", ")
}

pub(crate) async fn one<T: Entity>(connection: &mut AnyConnection, id: &str) -> Result<Option<T>> {
    one_by(connection, T::ID, id).await
}

pub(crate) async fn one_by<T: Entity>(
    connection: &mut AnyConnection,
    column: &str,
    value: &str,
) -> Result<Option<T>> {
    let text = format!("{} WHERE {column} = $1", select::<T>());
    first(connection, statement(text).text(value), T::read).await
}

/// Those of these ids that there are. As many as one statement can name.
pub(crate) async fn many<T: Entity>(
    connection: &mut AnyConnection,
    ids: &[String],
) -> Result<Vec<T>> {
    let these = placeholders(1, ids.len());
    let text = format!("{} WHERE {} IN {these}", select::<T>(), T::ID);
    all(connection, statement(text).texts(ids), T::read).await
}

/// Those of a page that the conditions are true of, by their ids.
pub(crate) async fn list<T: Entity>(
    connection: &mut AnyConnection,
    conditions: Conditions,
    page: &Page,
) -> Result<Listed<T>> {
    let statement = conditions
        .and_text(&format!("{} > {{}}", T::ID), page.after.as_deref())
        .then(&format!(" ORDER BY {} LIMIT {}", T::ID, page.probe()));
    let items = all(connection, statement, T::read).await?;
    Ok(page.cut(items, |item: &T| item.id().to_owned()))
}

/// Makes it, if its version is 0, else replaces that version of it. What is stored then, with the revision
/// for its version: one that is made anew is never taken for the one that was there before.
pub(crate) async fn put<T: Entity>(
    connection: &mut AnyConnection,
    mut row: T,
    revision: i64,
    now_ms: i64,
) -> Result<T> {
    row.tidy();
    let Stamps {
        created_at,
        updated_at,
        version,
    } = row.stamps();
    let before = *version;
    if before == 0 {
        *created_at = now_ms;
    }
    *updated_at = now_ms;
    *version = revision;
    let stamps = [now_ms, revision];
    let stored = match before {
        0 => insert(connection, &row, stamps).await?,
        _ => update(connection, &row, stamps, before).await?,
    };
    let Some(created) = stored else {
        return Err(DirectoryError::Conflict(match before {
            0 => Conflict::Exists,
            _ => Conflict::Changed,
        }));
    };
    *row.stamps().created_at = created;
    Ok(row)
}

/// When it was made; none if something is in the way.
///
/// A violated constraint would end the whole transaction on PostgreSQL, so none is ever violated.
async fn insert<T: Entity>(
    connection: &mut AnyConnection,
    row: &T,
    stamps: [i64; 2],
) -> Result<Option<i64>> {
    let width = 1 + T::FIXED.len() + T::FREE.len();
    let values: Vec<_> = (1..=width).map(|at| format!("${at}")).collect();
    let (now, version) = (format!("${}", width + 1), format!("${}", width + 2));
    let text = format!(
        "INSERT INTO {} ({}) VALUES ({}, {now}, {now}, {version}) ON CONFLICT DO NOTHING \
         RETURNING created_at",
        T::TABLE,
        columns::<T>(),
        values.join(", "),
    );
    let statement = row.bind(statement(text)).numbers(stamps);
    number(connection, statement).await
}

async fn update<T: Entity>(
    connection: &mut AnyConnection,
    row: &T,
    stamps: [i64; 2],
    before: i64,
) -> Result<Option<i64>> {
    let fixed = 1 + T::FIXED.len();
    let width = fixed + T::FREE.len();
    let is = |(at, column): (usize, &&str)| format!("{column} = ${}", at + 1);
    let same: Vec<_> = [&[T::ID], T::FIXED]
        .concat()
        .iter()
        .enumerate()
        .map(is)
        .collect();
    let is = |(at, column): (usize, &&str)| format!("{column} = ${}, ", at + fixed + 1);
    let set: String = T::FREE.iter().enumerate().map(is).collect();
    let text = format!(
        "UPDATE {} SET {set}updated_at = ${}, version = ${} WHERE {} AND version = ${} RETURNING created_at",
        T::TABLE,
        width + 1,
        width + 2,
        same.join(" AND "),
        width + 3,
    );
    let statement = row.bind(statement(text)).numbers(stamps).number(before);
    number(connection, statement).await
}

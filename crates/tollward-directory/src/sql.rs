//! Statements: each with a deadline, each row read field by field.

use std::time::Duration;

use sqlx::any::{AnyArguments, AnyRow};
use sqlx::{Any, AnyConnection, Arguments, AssertSqlSafe, Decode, Encode, Row as _, Type};

use crate::error::DirectoryError;

/// A statement that is not done by then is given up.
pub(crate) const DEADLINE: Duration = Duration::from_secs(5);

/// A statement and its values.
pub(crate) struct Statement {
    text: String,
    values: AnyArguments,
    is_invalid: bool,
}

/// A statement of our own words only: values are given to it.
pub(crate) fn statement(text: impl Into<String>) -> Statement {
    Statement {
        text: text.into(),
        values: AnyArguments::default(),
        is_invalid: false,
    }
}

impl Statement {
    /// The next value. PostgreSQL knows no NUL in texts, so none of the databases gets one.
    pub(crate) fn text(mut self, text: &str) -> Self {
        self.is_invalid |= text.contains('\0');
        self.add(text)
    }

    /// The next values.
    pub(crate) fn texts(self, texts: &[String]) -> Self {
        texts.iter().fold(self, |all, text| all.text(text))
    }

    /// The next value, or none.
    pub(crate) fn maybe_text(self, text: Option<&str>) -> Self {
        match text {
            Some(text) => self.text(text),
            None => self.add(None::<&str>),
        }
    }

    /// The next value.
    pub(crate) fn number(self, number: i64) -> Self {
        self.add(number)
    }

    /// The next values.
    pub(crate) fn numbers<const N: usize>(self, numbers: [i64; N]) -> Self {
        numbers.into_iter().fold(self, Self::number)
    }

    /// The next value, or none.
    pub(crate) fn maybe_number(self, number: Option<i64>) -> Self {
        self.add(number)
    }

    fn add<'t>(mut self, value: impl Encode<'t, Any> + Type<Any>) -> Self {
        self.is_invalid |= self.values.add(value).is_err();
        self
    }

    pub(crate) fn query(self) -> Result<Query, DirectoryError> {
        if self.is_invalid {
            let why = "a text has a character that the directory cannot keep".to_owned();
            return Err(DirectoryError::Invalid(why));
        }
        Ok(sqlx::query_with(AssertSqlSafe(self.text), self.values))
    }
}

type Query = sqlx::query::Query<'static, Any, AnyArguments>;

/// Gives up after [`DEADLINE`].
pub(crate) async fn within<T>(
    work: impl Future<Output = Result<T, sqlx::Error>>,
) -> Result<T, DirectoryError> {
    match tokio::time::timeout(DEADLINE, work).await {
        Ok(done) => done.map_err(DirectoryError::from),
        Err(_) => Err(DirectoryError::Unavailable(format!(
            "no answer within {} s",
            DEADLINE.as_secs()
        ))),
    }
}

/// Runs a statement; how many rows it changed.
pub(crate) async fn run(
    connection: &mut AnyConnection,
    statement: Statement,
) -> Result<u64, DirectoryError> {
    let done = within(statement.query()?.execute(connection)).await?;
    Ok(done.rows_affected())
}

/// The first row of the answer, read.
pub(crate) async fn first<T>(
    connection: &mut AnyConnection,
    statement: Statement,
    read: impl Fn(&mut Fields<'_>) -> Result<T, DirectoryError>,
) -> Result<Option<T>, DirectoryError> {
    let row = within(statement.query()?.fetch_optional(connection)).await?;
    row.map(|row| read(&mut Fields::of(&row))).transpose()
}

/// All rows of the answer, read. The statement bounds how many they are.
pub(crate) async fn all<T>(
    connection: &mut AnyConnection,
    statement: Statement,
    read: impl Fn(&mut Fields<'_>) -> Result<T, DirectoryError>,
) -> Result<Vec<T>, DirectoryError> {
    let rows = within(statement.query()?.fetch_all(connection)).await?;
    rows.iter().map(|row| read(&mut Fields::of(row))).collect()
}

/// The number that the answer is, if it is one.
pub(crate) async fn number(
    connection: &mut AnyConnection,
    statement: Statement,
) -> Result<Option<i64>, DirectoryError> {
    let found = first(connection, statement, |fields| fields.next::<Option<i64>>()).await?;
    Ok(found.flatten())
}

/// The texts that the answer is.
pub(crate) async fn texts(
    connection: &mut AnyConnection,
    statement: Statement,
) -> Result<Vec<String>, DirectoryError> {
    all(connection, statement, |fields| fields.next()).await
}

/// The fields of a row, from the first to the last.
pub(crate) struct Fields<'r> {
    row: &'r AnyRow,
    at: usize,
}

impl<'r> Fields<'r> {
    pub(crate) fn of(row: &'r AnyRow) -> Self {
        Self { row, at: 0 }
    }

    /// The next field.
    pub(crate) fn next<T>(&mut self) -> Result<T, DirectoryError>
    where
        T: Decode<'r, Any> + Type<Any>,
    {
        let value = self.row.try_get(self.at);
        self.at += 1;
        value.map_err(|error| unreadable(&error))
    }

    /// The next field, a whole number of a narrower kind than the database's.
    pub(crate) fn number<N: TryFrom<i64>>(&mut self) -> Result<N, DirectoryError> {
        let number = self.next::<i64>()?;
        N::try_from(number).map_err(|_| unreadable(&"a number is out of range"))
    }

    /// As [`Fields::number`], and there may be none.
    pub(crate) fn maybe_number<N: TryFrom<i64>>(&mut self) -> Result<Option<N>, DirectoryError> {
        let number = self.next::<Option<i64>>()?.map(N::try_from).transpose();
        number.map_err(|_| unreadable(&"a number is out of range"))
    }
}

/// Nothing is wrong with what was asked; somebody has written what Tollward does not.
fn unreadable(why: &dyn std::fmt::Display) -> DirectoryError {
    DirectoryError::Unavailable(format!("a row cannot be read: {why}"))
}

/// A statement that grows by conditions.
pub(crate) struct Conditions {
    statement: Statement,
    values: usize,
    is_first: bool,
}

impl Conditions {
    /// The conditions of what was selected.
    pub(crate) fn of(select: impl Into<String>) -> Self {
        Self {
            statement: statement(select),
            values: 0,
            is_first: true,
        }
    }

    /// Adds a condition in which each `{}` stands for one of the values that are added next.
    pub(crate) fn and(mut self, condition: &str) -> Self {
        let text = &mut self.statement.text;
        *text += if self.is_first { " WHERE " } else { " AND " };
        self.is_first = false;
        let mut pieces = condition.split("{}");
        *text += pieces.next().unwrap_or_default();
        for piece in pieces {
            self.values += 1;
            *text += &format!("${}{piece}", self.values);
        }
        self
    }

    /// Adds a condition about a text, if there is one to compare with.
    pub(crate) fn and_text(self, condition: &str, text: Option<&str>) -> Self {
        match text {
            Some(text) => self.and(condition).text(text),
            None => self,
        }
    }

    /// Adds a condition about a number, if there is one to compare with.
    pub(crate) fn and_number(self, condition: &str, number: Option<i64>) -> Self {
        match number {
            Some(number) => self.and(condition).number(number),
            None => self,
        }
    }

    pub(crate) fn text(mut self, text: &str) -> Self {
        self.statement = self.statement.text(text);
        self
    }

    pub(crate) fn number(mut self, number: i64) -> Self {
        self.statement = self.statement.number(number);
        self
    }

    /// The statement, with what comes behind the conditions.
    pub(crate) fn then(mut self, behind: &str) -> Statement {
        self.statement.text += behind;
        self.statement
    }
}

/// `($1, $2), ($3, $4)`: `rows` times `width` placeholders.
pub(crate) fn placeholders(rows: usize, width: usize) -> String {
    let mut text = String::with_capacity(rows * width * 6);
    for row in 0..rows {
        text += if row == 0 { "(" } else { ", (" };
        for column in 1..=width {
            let comma = if column == 1 { "" } else { ", " };
            text += &format!("{comma}${}", row * width + column);
        }
        text += ")";
    }
    text
}

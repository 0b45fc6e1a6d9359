use std::fmt;

use sqlx::error::ErrorKind;

/// Why the directory did not do what it was asked, by what the caller can do about it.
///
/// None of the texts shows a password or a stored row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DirectoryError {
    /// The database is not there, or does not answer in time: later it may. An [`Edit`](crate::Edit) whose
    /// commit ends so may have been made or not.
    Unavailable(String),
    /// What is there is in the way of the change: look at it anew.
    Conflict(Conflict),
    /// What was asked makes no sense: asking again does not help.
    Invalid(String),
    /// There is no room for it on the disk: once there is, ask again.
    Full(String),
    /// A newer Tollward has made the database. Its operator has to run that one.
    Newer {
        /// The version of the database's schema.
        found: i64,
        /// The newest that this Tollward knows.
        known: i64,
    },
}

/// What is in the way of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conflict {
    /// There is already one of this id, hash or value.
    Exists,
    /// It has another version than the one given, or is gone.
    Changed,
}

impl fmt::Display for DirectoryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unavailable(why) => write!(f, "the directory is not available: {why}"),
            Self::Conflict(Conflict::Exists) => f.write_str("there is already such an entry"),
            Self::Conflict(Conflict::Changed) => {
                f.write_str("the entry has changed since it was read")
            }
            Self::Invalid(why) => f.write_str(why),
            Self::Full(why) => write!(f, "the directory has no room left: {why}"),
            Self::Newer { found, known } => write!(
                f,
                "a newer Tollward has made the directory: its schema has the version {found}, this one knows {known}"
            ),
        }
    }
}

impl std::error::Error for DirectoryError {}

/// SQLite's codes and PostgreSQL's states that say more than "it did not work".
mod codes {
    /// SQLite: no room for the data, for the memory that connections share, or for the journal.
    pub(super) const SQLITE_FULL: [&str; 2] = ["13", "4874"];
    /// SQLite: another process writes.
    pub(super) const SQLITE_BUSY: [&str; 4] = ["5", "6", "261", "517"];
    pub(super) const POSTGRES_DISK_FULL: &str = "53100";
    /// PostgreSQL: a text that it cannot keep.
    pub(super) const POSTGRES_TEXT: &str = "22021";
}

impl DirectoryError {
    pub(crate) fn locked() -> Self {
        Self::Unavailable("another process has the file locked".to_owned())
    }
}

impl From<sqlx::Error> for DirectoryError {
    fn from(error: sqlx::Error) -> Self {
        match error {
            sqlx::Error::Database(error) => {
                // The message names tables and users, never values: these are in the details.
                let why = error.message().to_owned();
                match error.code().as_deref() {
                    _ if error.kind() == ErrorKind::UniqueViolation => {
                        Self::Conflict(Conflict::Exists)
                    }
                    Some(codes::POSTGRES_DISK_FULL) => Self::Full(why),
                    Some(code) if codes::SQLITE_FULL.contains(&code) => Self::Full(why),
                    Some(code) if codes::SQLITE_BUSY.contains(&code) => Self::locked(),
                    Some(codes::POSTGRES_TEXT) => Self::Invalid(why),
                    _ => Self::Unavailable(why),
                }
            }
            sqlx::Error::PoolTimedOut => {
                Self::Unavailable("no connection was free or could be made in time".to_owned())
            }
            // What the driver says of a URL may show a part of it.
            sqlx::Error::Configuration(_) => {
                Self::Invalid("the directory's URL is not understood".to_owned())
            }
            error => Self::Unavailable(error.to_string()),
        }
    }
}

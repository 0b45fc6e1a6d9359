use std::fmt;
use std::ops::{Deref, DerefMut};

use sqlx::pool::PoolConnection;
use sqlx::{Any, AnyConnection, AnyPool, Executor};

use crate::error::DirectoryError;
use crate::sql::within;

/// A transaction. Dropped before its end, it has changed nothing: it is rolled back when its connection goes
/// back to the pool.
///
/// Not the driver's own: that one loses count when SQLite ends a transaction by itself, as it does when the
/// disk is full, and the connection is of no use any more.
pub(crate) struct Transaction(PoolConnection<Any>);

impl Transaction {
    /// Begins one on a connection of the pool.
    pub(crate) async fn begin(pool: &AnyPool, begin: &'static str) -> Result<Self, DirectoryError> {
        let mut transaction = Self(pool.acquire().await?);
        within(transaction.execute(begin)).await?;
        Ok(transaction)
    }

    /// Makes it so.
    pub(crate) async fn commit(self) -> Result<(), DirectoryError> {
        self.end("COMMIT").await
    }

    /// Ends it as if it had not been.
    pub(crate) async fn roll_back(self) -> Result<(), DirectoryError> {
        self.end("ROLLBACK").await
    }

    async fn end(mut self, how: &'static str) -> Result<(), DirectoryError> {
        within(self.execute(how)).await.map(drop)
    }
}

impl Deref for Transaction {
    type Target = AnyConnection;

    fn deref(&self) -> &AnyConnection {
        &self.0
    }
}

impl DerefMut for Transaction {
    fn deref_mut(&mut self) -> &mut AnyConnection {
        &mut self.0
    }
}

impl fmt::Debug for Transaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transaction").finish_non_exhaustive()
    }
}

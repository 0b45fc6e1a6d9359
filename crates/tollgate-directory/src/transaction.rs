use std::fmt;
use std::ops::{Deref, DerefMut};

use sqlx::pool::PoolConnection;
use sqlx::{Any, AnyConnection, AnyPool, Executor};

use crate::error::DirectoryError;
use crate::sql::within;

/// A transaction. Dropped before its end, it has changed nothing.
///
/// Not the driver's own: that one loses count when SQLite ends a transaction by itself, as it does when the
/// disk is full, and the connection is of no use any more.
pub(crate) struct Transaction {
    connection: PoolConnection<Any>,
    /// Whether the server ends what is open when the connection is closed, which it then is. Else that is
    /// done when it goes back to the pool.
    ends_by_closing: bool,
    is_open: bool,
}

impl Transaction {
    /// Begins one on a connection of the pool.
    pub(crate) async fn begin(
        pool: &AnyPool,
        begin: &'static str,
        ends_by_closing: bool,
    ) -> Result<Self, DirectoryError> {
        let connection = pool.acquire().await?;
        let mut transaction = Self {
            connection,
            ends_by_closing,
            is_open: true,
        };
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
        within(self.execute(how)).await?;
        self.is_open = false;
        Ok(())
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        if self.is_open && self.ends_by_closing {
            self.connection.close_on_drop();
        }
    }
}

impl Deref for Transaction {
    type Target = AnyConnection;

    fn deref(&self) -> &AnyConnection {
        &self.connection
    }
}

impl DerefMut for Transaction {
    fn deref_mut(&mut self) -> &mut AnyConnection {
        &mut self.connection
    }
}

impl fmt::Debug for Transaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transaction").finish_non_exhaustive()
    }
}

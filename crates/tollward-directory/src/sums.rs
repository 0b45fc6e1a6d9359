//! What tenants were given together.

use sqlx::AnyConnection;

use crate::directory::Directory;
use crate::error::DirectoryError;
use crate::sql::{Fields, all, statement};

type Result<T> = std::result::Result<T, DirectoryError>;

impl Directory {
    /// As [`Edit::allocated`](crate::Edit::allocated), of what is committed.
    pub async fn allocated(&self, parent: &str, except: Option<&str>) -> Result<Vec<(i64, u32)>> {
        allocated(&mut *self.reader().await?, parent, except).await
    }
}

/// The sums of the rates of those directly below a tenant, one for each window.
pub(crate) async fn allocated(
    connection: &mut AnyConnection,
    parent: &str,
    except: Option<&str>,
) -> Result<Vec<(i64, u32)>> {
    let sums = statement(
        "SELECT CAST(SUM(rate) AS BIGINT), window_secs FROM tenants \
         WHERE parent = $1 AND id <> $2 AND rate IS NOT NULL AND window_secs IS NOT NULL \
         GROUP BY window_secs ORDER BY window_secs",
    );
    // No tenant has the empty name.
    let sums = sums.text(parent).text(except.unwrap_or_default());
    let read = |fields: &mut Fields<'_>| Ok((fields.next()?, fields.number()?));
    all(connection, sums, read).await
}

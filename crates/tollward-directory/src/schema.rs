//! The tables, as they came to be. A step is never changed once it was released; another is added.

use std::time::Duration;

use sqlx::{AnyConnection, AssertSqlSafe, Connection, Executor};

use crate::error::DirectoryError;
use crate::sql::{number, run, statement};

/// The steps, from an empty database on. The version of a schema is how many were taken.
const STEPS: [&str; 2] = [include_str!("schema/1.sql"), include_str!("schema/2.sql")];
const KNOWN: i64 = STEPS.len() as i64;

/// Steps over much data take their time.
const DEADLINE: Duration = Duration::from_secs(600);

/// One node at a time: the number is any that others are unlikely to use.
const POSTGRES_LOCK: &str = "SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = '600s'; \
     SELECT pg_advisory_xact_lock(7846113259201);";

/// Takes the steps that are missing, all or none.
pub(crate) async fn bring_up_to_date(
    connection: &mut AnyConnection,
    is_postgres: bool,
) -> Result<(), DirectoryError> {
    // Most often there is nothing to do, and a user without the right to make tables can do that.
    if version(connection, is_postgres).await? == KNOWN {
        return Ok(());
    }
    match tokio::time::timeout(DEADLINE, take_steps(connection, is_postgres)).await {
        Ok(done) => done,
        Err(_) => Err(DirectoryError::Unavailable(
            "the tables could not be made in time".to_owned(),
        )),
    }
}

async fn take_steps(
    connection: &mut AnyConnection,
    is_postgres: bool,
) -> Result<(), DirectoryError> {
    let begin = if is_postgres {
        "BEGIN"
    } else {
        "BEGIN IMMEDIATE"
    };
    let mut transaction = connection.begin_with(begin).await?;
    if is_postgres {
        transaction.execute(POSTGRES_LOCK).await?;
    }
    // Another node may have taken them meanwhile.
    let found = version(&mut transaction, is_postgres).await?;
    if found == 0 {
        let table =
            statement("CREATE TABLE IF NOT EXISTS tollward_schema (version BIGINT NOT NULL)");
        run(&mut transaction, table).await?;
    }
    let taken = usize::try_from(found).unwrap_or_default();
    for step in STEPS.iter().skip(taken) {
        transaction
            .execute(AssertSqlSafe(dialect(step, is_postgres)))
            .await?;
    }
    run(&mut transaction, statement("DELETE FROM tollward_schema")).await?;
    let now = statement("INSERT INTO tollward_schema (version) VALUES ($1)").number(KNOWN);
    run(&mut transaction, now).await?;
    transaction.commit().await?;
    Ok(())
}

/// How many steps were taken.
async fn version(connection: &mut AnyConnection, is_postgres: bool) -> Result<i64, DirectoryError> {
    let table = match is_postgres {
        true => {
            "SELECT COUNT(*) FROM pg_catalog.pg_class WHERE oid = to_regclass('tollward_schema')"
        }
        false => "SELECT COUNT(*) FROM sqlite_master WHERE name = 'tollward_schema'",
    };
    let tables = number(connection, statement(table)).await?;
    if tables.unwrap_or_default() == 0 {
        return Ok(0);
    }
    let version = statement("SELECT version FROM tollward_schema");
    let found = number(connection, version).await?.unwrap_or_default();
    match found > KNOWN {
        true => Err(DirectoryError::Newer {
            found,
            known: KNOWN,
        }),
        false => Ok(found),
    }
}

/// Texts compare by their bytes in both: the same order everywhere, and no index that an update of the
/// server's locales breaks.
fn dialect(step: &str, is_postgres: bool) -> String {
    match is_postgres {
        true => step.replace(" TEXT", " TEXT COLLATE \"C\""),
        false => step.to_owned(),
    }
}

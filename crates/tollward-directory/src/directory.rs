use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sqlx::any::{AnyConnectOptions, AnyPoolOptions};
use sqlx::pool::PoolConnection;
use sqlx::{Any, AnyConnection, AnyPool, ConnectOptions, Connection, Executor};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tollward_policy::DirectoryUrl;

use crate::error::DirectoryError;
use crate::schema;
use crate::sql::{number, statement, within};
use crate::transaction::Transaction;

/// A connection that is not free by then is not waited for.
const ACQUIRE: Duration = Duration::from_secs(2);
/// There is one writer at a time: this long may others be before it.
const ACQUIRE_WRITER: Duration = Duration::from_secs(4);
const SQLITE_READERS: u32 = 3;
/// One edit at a time waits for those of other nodes, and the next can begin while it ends.
const POSTGRES_EDITS: u32 = 2;
const POSTGRES_RECORDS: u32 = 2;
const POSTGRES_READERS: u32 = 3;
/// So that nodes never wait for those who ask or write.
const FOLLOWERS: u32 = 2;
/// A connection that was left in the middle of something has this long to show that it is alive.
const RELEASE: Duration = Duration::from_secs(2);
/// A file is tried again for so long if another process has locked it: SQLite itself does not wait for
/// those who make the journal of a new file.
const LOCKED: Duration = Duration::from_secs(5);
const LOCKED_PAUSE: Duration = Duration::from_millis(100);

/// Survives the machine's loss of power: every commit is on the disk before it is told. Waits for other
/// processes, but not as long as a statement may take.
const SQLITE_SETTINGS: &str = "PRAGMA busy_timeout = 3000; PRAGMA journal_mode = WAL; \
     PRAGMA synchronous = FULL; PRAGMA journal_size_limit = 67108864;";
/// Statements end on the server too, and so does the transaction of a node that hangs: its lock would
/// stop all others. Commits are on the disk before they are told, whatever the server's own setting.
const POSTGRES_SETTINGS: &str = "SET application_name = 'tollward'; SET statement_timeout = 5000; \
     SET lock_timeout = 4000; SET idle_in_transaction_session_timeout = 10000; \
     SELECT set_config('synchronous_commit', 'on', false) \
     WHERE current_setting('synchronous_commit') = 'off';";

/// Where tenants, users, keys and records are kept. Cheap to clone; all clones are one.
///
/// A directory in memory has a single connection: whoever holds an [`Edit`](crate::Edit) reads by that.
#[derive(Clone)]
pub struct Directory(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) url: DirectoryUrl,
    pools: Pools,
    /// Keeps a directory in memory alive: it ends with its last connection, and the pool throws one away when
    /// whoever waits for it is dropped at the wrong moment.
    _anchor: Option<Mutex<AnyConnection>>,
    /// The last revision that was committed by this process.
    pub(crate) committed: watch::Sender<i64>,
}

/// Connections, apart by what they are for: however many wait for one another there, they hold up nobody
/// else.
struct Pools {
    /// Those who ask.
    readers: AnyPool,
    /// Nodes that load and follow.
    followers: AnyPool,
    edits: AnyPool,
    /// What is added or removed without an edit.
    ///
    /// Of SQLite the same single connection as for edits, so that writers queue here and not in the file
    /// system.
    records: AnyPool,
}

impl fmt::Debug for Directory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Directory").field(&self.0.url).finish()
    }
}

impl Directory {
    /// Connects, and brings the tables up to date. Nodes may do so at the same time.
    ///
    /// # Errors
    ///
    /// The database is not there, is locked by another process, or was made by a newer Tollward.
    pub async fn open(url: &DirectoryUrl) -> Result<Self, DirectoryError> {
        sqlx::any::install_default_drivers();
        let options = connect_options(url)?;
        let mut anchor = None;
        let pools = match url {
            DirectoryUrl::Memory => {
                let mut connection = within(options.connect()).await?;
                schema::bring_up_to_date(&mut connection, false).await?;
                anchor = Some(Mutex::new(connection));
                let pool = sqlite(1).connect_lazy_with(options);
                Pools {
                    readers: pool.clone(),
                    followers: pool.clone(),
                    edits: pool.clone(),
                    records: pool,
                }
            }
            DirectoryUrl::Sqlite(_) => {
                prepare_sqlite(&options).await?;
                let writer = sqlite(1).acquire_timeout(ACQUIRE_WRITER);
                let writer = writer.connect_lazy_with(options.clone());
                Pools {
                    readers: sqlite(SQLITE_READERS).connect_lazy_with(options.clone()),
                    followers: sqlite(FOLLOWERS).connect_lazy_with(options),
                    edits: writer.clone(),
                    records: writer,
                }
            }
            DirectoryUrl::Postgres(_) => {
                prepare(&options, POSTGRES_SETTINGS, true).await?;
                let edits = postgres(POSTGRES_EDITS).acquire_timeout(ACQUIRE_WRITER);
                Pools {
                    readers: postgres(POSTGRES_READERS).connect_lazy_with(options.clone()),
                    followers: postgres(FOLLOWERS).connect_lazy_with(options.clone()),
                    edits: edits.connect_lazy_with(options.clone()),
                    records: postgres(POSTGRES_RECORDS).connect_lazy_with(options),
                }
            }
        };
        Ok(Self(Arc::new(Inner {
            url: url.clone(),
            pools,
            _anchor: anchor,
            committed: watch::Sender::new(0),
        })))
    }

    /// Whether it lives in the memory of this process, and is gone with it.
    pub fn is_in_memory(&self) -> bool {
        matches!(self.0.url, DirectoryUrl::Memory)
    }

    /// Whether other nodes may use it too.
    pub fn is_shared(&self) -> bool {
        matches!(self.0.url, DirectoryUrl::Postgres(_))
    }

    /// The number of the last edit.
    ///
    /// # Errors
    ///
    /// The database is not there.
    pub async fn revision(&self) -> Result<i64, DirectoryError> {
        let last = statement("SELECT value FROM counters WHERE name = 'revision'");
        let found = number(&mut *self.reader().await?, last).await?;
        Ok(found.unwrap_or_default())
    }

    /// A connection to read by.
    pub(crate) async fn reader(&self) -> Result<PoolConnection<Any>, DirectoryError> {
        Ok(self.0.pools.readers.acquire().await?)
    }

    /// A transaction that reads everything as of one moment.
    pub(crate) async fn snapshot(&self) -> Result<Transaction, DirectoryError> {
        let begin = match self.is_shared() {
            true => {
                "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL tollward.is_open = 'yes'"
            }
            false => "BEGIN",
        };
        Transaction::begin(&self.0.pools.followers, begin).await
    }

    /// A transaction that edits.
    pub(crate) async fn editing(&self) -> Result<Transaction, DirectoryError> {
        self.writing(&self.0.pools.edits).await
    }

    /// A transaction that adds or removes records.
    pub(crate) async fn recording(&self) -> Result<Transaction, DirectoryError> {
        self.writing(&self.0.pools.records).await
    }

    async fn writing(&self, pool: &AnyPool) -> Result<Transaction, DirectoryError> {
        let begin = match self.is_shared() {
            true => "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL tollward.is_open = 'yes'",
            false => "BEGIN IMMEDIATE",
        };
        Transaction::begin(pool, begin).await
    }
}

fn connect_options(url: &DirectoryUrl) -> Result<AnyConnectOptions, DirectoryError> {
    let text = match url {
        DirectoryUrl::Sqlite(_) => format!("{}?mode=rwc", url.expose()),
        DirectoryUrl::Memory => {
            // All connections of one directory, and of no other.
            static NEXT: AtomicU64 = AtomicU64::new(0);
            let name = NEXT.fetch_add(1, Relaxed);
            format!("sqlite:file:tollward-{name}?mode=memory&cache=shared")
        }
        DirectoryUrl::Postgres(_) => url.expose(),
    };
    let options: Result<AnyConnectOptions, _> = text.parse();
    Ok(options?.disable_statement_logging())
}

fn sqlite(connections: u32) -> AnyPoolOptions {
    AnyPoolOptions::new()
        .max_connections(connections)
        .acquire_timeout(ACQUIRE)
        .after_connect(|connection, _| Box::pin(set(connection, SQLITE_SETTINGS)))
        .after_release(|connection, _| Box::pin(roll_back(connection)))
}

fn postgres(connections: u32) -> AnyPoolOptions {
    AnyPoolOptions::new()
        .max_connections(connections)
        .acquire_timeout(ACQUIRE)
        .after_connect(|connection, _| Box::pin(set(connection, POSTGRES_SETTINGS)))
        // The pool waits without end for a server that does not answer, and the connection's place is
        // taken meanwhile.
        .after_release(|connection, _| Box::pin(roll_back_if_open(connection)))
}

async fn set(connection: &mut AnyConnection, settings: &'static str) -> Result<(), sqlx::Error> {
    connection.execute(settings).await.map(drop)
}

/// Most often there is nothing to roll back, and SQLite says that this is an error.
async fn roll_back(connection: &mut AnyConnection) -> Result<bool, sqlx::Error> {
    let _ = connection.execute("ROLLBACK").await;
    Ok(true)
}

/// Not in any case: if there is nothing to roll back, PostgreSQL writes that into its log.
async fn roll_back_if_open(connection: &mut AnyConnection) -> Result<bool, sqlx::Error> {
    let release = async {
        let open =
            statement("SELECT COUNT(*) WHERE current_setting('tollward.is_open', true) = 'yes'");
        // In a transaction that has failed, nothing can be asked.
        if number(connection, open).await != Ok(Some(0)) {
            connection.execute("ROLLBACK").await?;
        }
        Ok(true)
    };
    match timeout(RELEASE, release).await {
        Ok(released) => released,
        Err(_) => Err(sqlx::Error::PoolTimedOut),
    }
}

/// Connects once and brings the tables up to date. A pool would not say why it cannot.
async fn prepare(
    options: &AnyConnectOptions,
    settings: &'static str,
    is_postgres: bool,
) -> Result<(), DirectoryError> {
    let mut connection = within(options.connect()).await?;
    within(set(&mut connection, settings)).await?;
    schema::bring_up_to_date(&mut connection, is_postgres).await?;
    within(connection.close()).await
}

async fn prepare_sqlite(options: &AnyConnectOptions) -> Result<(), DirectoryError> {
    let prepared = async {
        loop {
            match prepare(options, SQLITE_SETTINGS, false).await {
                Err(error) if error == DirectoryError::locked() => sleep(LOCKED_PAUSE).await,
                done => return done,
            }
        }
    };
    let prepared = timeout(LOCKED, prepared).await;
    prepared.unwrap_or_else(|_| Err(DirectoryError::locked()))
}

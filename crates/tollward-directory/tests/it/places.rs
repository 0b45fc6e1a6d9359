//! The databases that every test of the suite runs on.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use sqlx::{Connection, Executor};
use tollward_directory::{Boost, Directory, Key, ListEntry, Setting, Tenant, Token, User};
use tollward_policy::DirectoryUrl;
use tollward_testkit::postgres::PostgresServer;

/// Runs each test on every database.
macro_rules! everywhere {
    ($($name:ident),* $(,)?) => {
        mod in_memory {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $name() { super::$name(crate::places::Place::memory()).await })*
        }
        mod in_a_file {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $name() { super::$name(crate::places::Place::file()).await })*
        }
        mod in_postgres {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $name() { super::$name(crate::places::Place::postgres()).await })*
        }
    };
}
/// Runs each test on every database that more than one process can open.
macro_rules! wherever_shared {
    ($($name:ident),* $(,)?) => {
        mod in_one_file {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $name() { super::$name(crate::places::Place::file()).await })*
        }
        mod in_one_postgres {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $name() { super::$name(crate::places::Place::postgres()).await })*
        }
    };
}
pub(crate) use {everywhere, wherever_shared};

/// A moment, in Unix milliseconds.
pub(crate) const NOW: i64 = 1_765_411_200_000;

/// Makes 20 001 keys of the tenant `bulk`, whose hashes are their numbers.
pub(crate) const BULK: &str = "INSERT INTO api_keys \
     (id, hash, prefix, name, tenant_id, created_at, updated_at, version) \
     WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n <= 20000) \
     SELECT CAST(n AS TEXT), SUBSTR('000000000000000000000000000000000000000000000000000000000000', \
     1, 58) || CAST(n + 100000 AS TEXT), '', '', 'bulk', 0, 0, 1 FROM numbers";

/// An empty database.
pub(crate) struct Place {
    pub(crate) url: DirectoryUrl,
    _kept: Kept,
}

#[expect(dead_code, reason = "kept until the test ends")]
enum Kept {
    Nothing,
    Scratch(Scratch),
    Server(Arc<PostgresServer>),
}

impl Place {
    pub(crate) fn memory() -> Self {
        Self {
            url: DirectoryUrl::Memory,
            _kept: Kept::Nothing,
        }
    }

    pub(crate) fn file() -> Self {
        let scratch = Scratch::new();
        Self {
            url: DirectoryUrl::Sqlite(scratch.path().join("a ?#%25ü.db")),
            _kept: Kept::Scratch(scratch),
        }
    }

    pub(crate) fn postgres() -> Self {
        let server = PostgresServer::shared();
        Self {
            url: server.database().parse().unwrap(),
            _kept: Kept::Server(server),
        }
    }

    pub(crate) async fn open(&self) -> Directory {
        Directory::open(&self.url).await.unwrap()
    }
}

impl Place {
    /// Runs a statement past the directory.
    pub(crate) async fn sql(&self, statement: &'static str) {
        let url = self.url.expose();
        let mut connection = sqlx::AnyConnection::connect(&url).await.unwrap();
        connection.execute(statement).await.unwrap();
    }
}

/// A directory of the file system that is removed when this is dropped.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let next = NEXT.fetch_add(1, Relaxed);
        let name = format!("tollward-directory-{}-{next}", std::process::id());
        let path = std::env::temp_dir().join(name);
        // What an earlier process of this number left.
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub(crate) fn tenant(id: &str, parent: Option<&str>) -> Tenant {
    Tenant {
        id: id.to_owned(),
        parent: parent.map(str::to_owned),
        ..Tenant::default()
    }
}

pub(crate) fn user(id: &str, tenant: &str) -> User {
    User {
        id: id.to_owned(),
        tenant: Some(tenant.to_owned()),
        ..User::default()
    }
}

/// A key whose hash is made of its id.
pub(crate) fn key(id: &str, tenant: &str) -> Key {
    Key {
        id: id.to_owned(),
        hash: hash(id),
        prefix: "tw_12345678".to_owned(),
        tenant: Some(tenant.to_owned()),
        ..Key::default()
    }
}

pub(crate) fn hash(id: &str) -> String {
    let mut digits: String = id.bytes().map(|byte| format!("{byte:02x}")).collect();
    while digits.len() < 64 {
        digits.push('0');
    }
    digits
}

pub(crate) fn allow(id: &str, kind: &str, value: &str) -> ListEntry {
    ListEntry {
        id: id.into(),
        list: "allow".into(),
        kind: kind.into(),
        value: value.into(),
        reason: "a friend".into(),
        ..ListEntry::default()
    }
}

pub(crate) fn boost(id: &str, kind: &str, target: &str) -> Boost {
    Boost {
        id: id.to_owned(),
        kind: kind.to_owned(),
        target: target.to_owned(),
        factor: 2000,
        ends_at: NOW + 60_000,
        reason: "a launch".to_owned(),
        ..Boost::default()
    }
}

pub(crate) fn token(id: &str) -> Token {
    Token {
        id: id.to_owned(),
        name: "ci".to_owned(),
        role: "operate".to_owned(),
        hash: hash(id),
        ..Token::default()
    }
}

pub(crate) fn setting(name: &str, value: &str) -> Setting {
    Setting {
        name: name.to_owned(),
        value: value.to_owned(),
        ..Setting::default()
    }
}

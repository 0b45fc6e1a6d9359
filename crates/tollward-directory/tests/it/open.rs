//! Opening: new, known, newer, locked, by many at once; and what is said when it fails.

use sqlx::{AnyConnection, Connection, Executor};
use tollward_directory::{Directory, DirectoryError};
use tollward_policy::DirectoryUrl;
use tollward_testkit::postgres::{PASSWORD, PostgresServer};

use crate::places::{NOW, Place, Scratch, everywhere, tenant, wherever_shared};

everywhere!(it_is_empty_and_shows_no_password);
wherever_shared!(
    it_is_as_it_was_left,
    many_open_it_at_once,
    a_newer_one_is_left_alone,
    one_of_the_first_schema_is_brought_up_to_date,
);

async fn it_is_empty_and_shows_no_password(place: Place) {
    let directory = place.open().await;
    assert_eq!(directory.revision().await.unwrap(), 0);
    let is_postgres = matches!(place.url, DirectoryUrl::Postgres(_));
    assert_eq!(directory.is_shared(), is_postgres);
    assert!(!format!("{directory:?} {:?}", directory.watch()).contains(PASSWORD));
}

async fn it_is_as_it_was_left(place: Place) {
    let directory = place.open().await;
    let mut edit = directory.edit(NOW).await.unwrap();
    edit.put_tenant(tenant("acme", None)).await.unwrap();
    edit.commit().await.unwrap();
    drop(directory);
    let directory = place.open().await;
    assert!(directory.tenant("acme").await.unwrap().is_some());
    assert_eq!(directory.revision().await.unwrap(), 1);
}

async fn many_open_it_at_once(place: Place) {
    let mut tasks = tokio::task::JoinSet::new();
    for n in 0..8 {
        let url = place.url.clone();
        tasks.spawn(async move {
            let directory = Directory::open(&url).await.unwrap();
            let mut edit = directory.edit(NOW).await.unwrap();
            edit.put_tenant(tenant(&n.to_string(), None)).await.unwrap();
            edit.commit().await.unwrap();
        });
    }
    tasks.join_all().await;
    assert_eq!(place.open().await.revision().await.unwrap(), 8);
}

async fn a_newer_one_is_left_alone(place: Place) {
    drop(place.open().await);
    place.sql("UPDATE tollward_schema SET version = 7").await;
    let error = Directory::open(&place.url).await.unwrap_err();
    assert_eq!(error, DirectoryError::Newer { found: 7, known: 2 });
    let text = error.to_string();
    assert!(text.contains('7') && text.contains('2'), "{text}");
}

#[tokio::test]
async fn a_locked_file_is_said_to_be() {
    let place = Place::file();
    let directory = place.open().await;
    let mut other = AnyConnection::connect(&place.url.expose()).await.unwrap();
    other.execute("BEGIN IMMEDIATE").await.unwrap();
    let locked = DirectoryError::Unavailable("another process has the file locked".to_owned());
    assert_eq!(directory.edit(NOW).await.unwrap_err(), locked);
    // Those who only read do not mind.
    assert_eq!(directory.tenant("acme").await.unwrap(), None);
    drop(place.open().await);
    other.execute("COMMIT").await.unwrap();
    directory.edit(NOW).await.unwrap().commit().await.unwrap();

    let fresh = Place::file();
    let url = format!("{}?mode=rwc", fresh.url.expose());
    let mut other = AnyConnection::connect(&url).await.unwrap();
    other.execute("BEGIN EXCLUSIVE").await.unwrap();
    assert_eq!(Directory::open(&fresh.url).await.unwrap_err(), locked);
    other.execute("ROLLBACK").await.unwrap();
    fresh.open().await;
}

#[tokio::test]
async fn what_is_no_database_is_not_available() {
    let scratch = Scratch::new();
    let nowhere = DirectoryUrl::Sqlite(scratch.path().join("no/such/place.db"));
    let error = Directory::open(&nowhere).await.unwrap_err();
    assert!(matches!(error, DirectoryError::Unavailable(_)), "{error}");
    let path = scratch.path().join("text");
    std::fs::write(
        &path,
        "this is not a database, but a text of some length\n".repeat(100),
    )
    .unwrap();
    let error = Directory::open(&DirectoryUrl::Sqlite(path))
        .await
        .unwrap_err();
    assert!(matches!(error, DirectoryError::Unavailable(_)), "{error}");
}

#[tokio::test]
async fn no_error_shows_the_password() {
    let server = PostgresServer::shared();
    let addr = server.addr();
    let wrong = "wr0ng-passw0rd";
    for (url, secret) in [
        (
            format!("postgres://tollward:{wrong}@{addr}/postgres"),
            wrong,
        ),
        (format!("postgres://nobody:{wrong}@{addr}/postgres"), wrong),
        (server.url(addr, "no-such-database"), PASSWORD),
        (server.url(([127, 0, 0, 1], 1).into(), "postgres"), PASSWORD),
        (
            format!("{}?sslmode=require", server.url(addr, "postgres")),
            PASSWORD,
        ),
    ] {
        let parsed: DirectoryUrl = url.parse().unwrap();
        let error = Directory::open(&parsed).await.unwrap_err();
        assert!(matches!(error, DirectoryError::Unavailable(_)), "{error}");
        let shown = format!("{error} {error:?} {parsed:?}");
        assert!(!shown.contains(secret), "{shown}");
    }
}

/// What was stored under the first schema is there under this one.
async fn one_of_the_first_schema_is_brought_up_to_date(place: Place) {
    let url = match place.url {
        DirectoryUrl::Postgres(_) => place.url.expose(),
        _ => format!("{}?mode=rwc", place.url.expose()),
    };
    sqlx::any::install_default_drivers();
    let mut connection = AnyConnection::connect(&url).await.unwrap();
    for statement in [
        include_str!("../../src/schema/1.sql"),
        "CREATE TABLE tollward_schema (version BIGINT NOT NULL)",
        "INSERT INTO tollward_schema VALUES (1)",
        "INSERT INTO tenants VALUES ('acme', 'system', NULL, NULL, NULL, NULL, '{}', 1, 2, 3)",
        "INSERT INTO allowed VALUES ('a1', 'user', 'alice', 'friend', 1, 2, 3)",
    ] {
        connection.execute(statement).await.unwrap();
    }
    connection.close().await.unwrap();
    let directory = place.open().await;
    let acme = directory.tenant("acme").await.unwrap().unwrap();
    assert_eq!((acme.version, acme.suspended_at), (3, None));
    let entry = directory.list_entry("a1").await.unwrap().unwrap();
    assert_eq!((&*entry.list, &*entry.value), ("allow", "alice"));
    assert_eq!(entry.version, 3);
}

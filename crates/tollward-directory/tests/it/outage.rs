//! PostgreSQL that is not there, stands still, comes back.

use std::time::Duration;

use tokio::time::{sleep, timeout};
use tollward_directory::{
    AuditEvent, Directory, DirectoryError, Page, Position, Retention, Row, UsageRow,
};
use tollward_testkit::fault::FaultProxy;
use tollward_testkit::postgres::{PASSWORD, PostgresServer};

use crate::places::{NOW, tenant};

/// Every call ends by then: the time for a connection and that for a statement, and some more.
const BY_THEN: Duration = Duration::from_secs(15);
/// A bound for machines under load.
const SOON: Duration = Duration::from_secs(60);

async fn open(server: &PostgresServer) -> Directory {
    Directory::open(&server.database().parse().unwrap())
        .await
        .unwrap()
}

async fn make(directory: &Directory, id: &str) -> Result<(), DirectoryError> {
    let mut edit = directory.edit(NOW).await?;
    edit.put_tenant(tenant(id, None)).await?;
    edit.commit().await?;
    Ok(())
}

/// Each call fails in time, and says that it may work later.
async fn is_unavailable(directory: &Directory) {
    async fn check<T>(call: impl Future<Output = Result<T, DirectoryError>>) {
        match timeout(BY_THEN, call).await.unwrap().map(drop) {
            Err(error @ DirectoryError::Unavailable(_)) => {
                assert!(!error.to_string().contains(PASSWORD));
            }
            other => panic!("{other:?}"),
        }
    }
    let start = Position::default();
    let (page, retention) = (Page::default(), Retention::default());
    let (events, rows) = ([AuditEvent::default()], [UsageRow::default()]);
    let uses = [([0; 32], NOW)];
    tokio::join!(
        check(make(directory, "meanwhile")),
        check(directory.tenant("before")),
        check(directory.tenants(None, &page)),
        check(directory.revision()),
        check(directory.load(|_: Row| {})),
        check(directory.changes(&start, 10)),
        check(directory.add_audit(&events)),
        check(directory.add_usage(&rows)),
        check(directory.touch_keys(&uses)),
        check(directory.prune(&retention)),
        check(directory.recall("key", "actor", NOW)),
    );
}

/// Works again, without anything being done about it.
async fn works_again(directory: &Directory) {
    let works = async {
        while let Err(error) = make(directory, "after").await {
            assert!(matches!(error, DirectoryError::Unavailable(_)), "{error:?}");
            sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(SOON, works).await.unwrap();
    assert!(directory.tenant("before").await.unwrap().is_some());
    assert!(directory.tenant("after").await.unwrap().is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_and_started_again() {
    let server = PostgresServer::start();
    let directory = open(&server).await;
    make(&directory, "before").await.unwrap();
    let mut edit = directory.edit(NOW).await.unwrap();
    edit.put_tenant(tenant("lost", None)).await.unwrap();
    server.kill();
    let lost = timeout(BY_THEN, edit.commit()).await.unwrap();
    assert!(
        matches!(lost, Err(DirectoryError::Unavailable(_))),
        "{lost:?}"
    );
    is_unavailable(&directory).await;
    server.restart();
    works_again(&directory).await;
    assert_eq!(directory.tenant("lost").await.unwrap(), None);
    assert_eq!(directory.tenant("meanwhile").await.unwrap(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn stopped_it_holds_nobody_up() {
    let server = PostgresServer::start();
    let directory = open(&server).await;
    make(&directory, "before").await.unwrap();
    let held = directory.edit(NOW).await.unwrap();
    server.stop();
    is_unavailable(&directory).await;
    drop(held);
    // And so often that no connection is left.
    is_unavailable(&directory).await;
    server.cont();
    works_again(&directory).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn swallowed_by_the_network_it_is_found_again() {
    let server = PostgresServer::shared();
    let url = server.database();
    let name = url.rsplit_once('/').unwrap().1.to_owned();
    let proxy = FaultProxy::start(server.addr());
    let url = server.url(proxy.addr(), &name).parse().unwrap();
    let directory = Directory::open(&url).await.unwrap();
    make(&directory, "before").await.unwrap();
    proxy.black_hole(true);
    is_unavailable(&directory).await;
    proxy.black_hole(false);
    works_again(&directory).await;
}

/// The lock that all edits take is not held for ever by one that is left.
#[tokio::test(flavor = "multi_thread")]
async fn one_who_hangs_in_an_edit_holds_the_others_up_for_seconds() {
    let server = PostgresServer::shared();
    let url = server.database();
    let name = url.rsplit_once('/').unwrap().1.to_owned();
    let proxy = FaultProxy::start(server.addr());
    let hanging = Directory::open(&server.url(proxy.addr(), &name).parse().unwrap())
        .await
        .unwrap();
    let other = Directory::open(&url.parse().unwrap()).await.unwrap();
    make(&other, "before").await.unwrap();
    let edit = hanging.edit(NOW).await.unwrap();
    proxy.black_hole(true);
    let waits = timeout(BY_THEN, make(&other, "waits")).await.unwrap();
    assert!(
        matches!(waits, Err(DirectoryError::Unavailable(_))),
        "{waits:?}"
    );
    works_again(&other).await;
    let late = timeout(BY_THEN, edit.commit()).await.unwrap();
    assert!(
        matches!(late, Err(DirectoryError::Unavailable(_))),
        "{late:?}"
    );
}

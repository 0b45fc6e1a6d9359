//! Many who want something of one PostgreSQL at once.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tollward_directory::{AuditEvent, Directory, Position, UsageRow};
use tollward_testkit::postgres::PostgresServer;

use crate::node::SOON;
use crate::places::{NOW, tenant};

async fn open(server: &PostgresServer) -> (Directory, String) {
    let url = server.database();
    let name = url.rsplit_once('/').unwrap().1.to_owned();
    let directory = Directory::open(&url.parse().unwrap()).await.unwrap();
    (directory, name)
}

/// Another node hangs in an edit, and here many wait for its end: nobody else does.
#[tokio::test(flavor = "multi_thread")]
async fn edits_that_wait_hold_up_neither_nodes_nor_readers_nor_records() {
    let server = PostgresServer::shared();
    let (here, name) = open(&server).await;
    let url = server.url(server.addr(), &name).parse().unwrap();
    let there = Directory::open(&url).await.unwrap();
    let hanging = there.edit(NOW).await.unwrap();
    let mut waiting = JoinSet::new();
    for _ in 0..20 {
        let here = here.clone();
        waiting.spawn(async move { here.edit(NOW).await.map(drop) });
    }
    let locked = format!(
        "SELECT COUNT(*) FROM pg_stat_activity WHERE datname = '{name}' AND wait_event_type = 'Lock'"
    );
    let wait = async {
        while server.sql("postgres", &locked) == "0" {
            sleep(Duration::from_millis(5)).await;
        }
        // As many as can have begun to wait by now.
        sleep(Duration::from_millis(200)).await;
    };
    timeout(SOON, wait).await.unwrap();
    here.changes(&Position::default(), 10).await.unwrap();
    here.load(|_| {}).await.unwrap();
    assert_eq!(here.tenant("acme").await.unwrap(), None);
    here.add_usage(&[UsageRow::default()]).await.unwrap();
    here.add_audit(&[AuditEvent::default()]).await.unwrap();
    drop(hanging);
    waiting.join_all().await;
    let mut edit = here.edit(NOW).await.unwrap();
    edit.put_tenant(tenant("acme", None)).await.unwrap();
    edit.commit().await.unwrap();
}

/// An edit that is refused and dropped leaves its connection to the next.
#[tokio::test(flavor = "multi_thread")]
async fn an_edit_that_is_dropped_keeps_its_connection() {
    let server = PostgresServer::shared();
    let (directory, name) = open(&server).await;
    let connections = format!("SELECT pid FROM pg_stat_activity WHERE datname = '{name}'");
    let mut seen = BTreeSet::new();
    for _ in 0..20 {
        let mut edit = directory.edit(NOW).await.unwrap();
        edit.put_tenant(tenant("acme", None)).await.unwrap();
        edit.put_tenant(tenant("acme", None)).await.unwrap_err();
        let found = server.sql("postgres", &connections);
        seen.extend(found.lines().map(str::to_owned));
        drop(edit);
    }
    // The next may have begun before the last was rolled back.
    assert!(seen.len() <= 2, "{seen:?}");
    assert_eq!(directory.revision().await.unwrap(), 0);
    assert!(!server.log().contains("no transaction in progress"));
}

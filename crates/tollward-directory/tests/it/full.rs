//! No room on the disk: writes are refused, nothing is lost, and with room it goes on by itself.

use std::path::{Path, PathBuf};
use std::process::Command;

use sqlx::{AnyConnection, Connection, Row as _};
use tollward_directory::{Directory, DirectoryError, Page, Tenant, UsageFilter, UsageRow};
use tollward_policy::DirectoryUrl;

use crate::places::{NOW, Scratch, tenant};

/// Tells the child where the small disk is.
const PLACE: &str = "TOLLWARD_TEST_FULL_PLACE";
/// What can be removed to make room.
const BALLAST: usize = 2 << 20;

/// As root, and where users may do so, it runs itself again with a disk of 4 MiB that only that process sees.
/// Elsewhere with a limit on how large a file may grow, which the kernel takes away again.
#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_refuses_writes_and_loses_nothing() {
    if let Ok(place) = std::env::var(PLACE) {
        return fill(Path::new(&place)).await;
    }
    let scratch = Scratch::new();
    let own = std::env::current_exe().unwrap();
    let small_disk = r#"mount -t tmpfs -o size=4m tmpfs "$0" && exec "$@""#;
    let small_file = r#"trap '' XFSZ; ulimit -S -f 4096 && exec "$@""#;
    let ways: [(&str, &[&str], &str); 3] = [
        ("unshare", &["--mount"], small_disk),
        ("unshare", &["--map-root-user", "--mount"], small_disk),
        ("env", &[], small_file),
    ];
    for (program, args, script) in ways {
        let works = Command::new(program)
            .args(args)
            .args(["sh", "-c", script])
            .arg(scratch.path())
            .arg("true")
            .output();
        if !works.is_ok_and(|output| output.status.success()) {
            continue;
        }
        let run = Command::new(program)
            .args(args)
            .args(["sh", "-c", script])
            .arg(scratch.path())
            .arg(own)
            .args([
                "--exact",
                "full::a_full_disk_refuses_writes_and_loses_nothing",
                "--nocapture",
            ])
            .env(PLACE, scratch.path())
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&run.stdout);
        let errors = String::from_utf8_lossy(&run.stderr);
        assert!(run.status.success(), "{text}{errors}");
        assert!(text.contains("1 passed"), "{text}");
        return;
    }
    panic!("no way to make a small disk");
}

/// In the child.
async fn fill(place: &Path) {
    let ballast = place.join("ballast");
    std::fs::write(&ballast, vec![1; BALLAST]).unwrap();
    let path = place.join("directory.db");
    let url = DirectoryUrl::Sqlite(path.clone());
    let directory = Directory::open(&url).await.unwrap();
    let mut made = Vec::new();
    let refused = loop {
        let id = format!("t{:04}", made.len());
        match make(&directory, &id).await {
            Ok(()) => made.push(id),
            Err(error) => break error,
        }
        assert!(made.len() < 5000, "it is never full");
    };
    is_full(&refused, &path);
    // Each write, and again.
    for _ in 0..3 {
        is_full(&make(&directory, "more").await.unwrap_err(), &path);
        let rows: Vec<_> = (0..2000).map(row).collect();
        is_full(&directory.add_usage(&rows).await.unwrap_err(), &path);
    }
    // What is there is still read.
    assert_eq!(ids(&directory).await, made);
    let usage = directory
        .usage(&UsageFilter::default(), &Page::default())
        .await
        .unwrap();
    assert!(usage.items.is_empty());

    make_room(&ballast);
    for n in 0..20 {
        let id = format!("u{n:04}");
        make(&directory, &id).await.unwrap();
        made.push(id);
    }
    assert_eq!(ids(&directory).await, made);
    drop(directory);
    let directory = Directory::open(&url).await.unwrap();
    assert_eq!(ids(&directory).await, made);
    assert_eq!(
        directory.revision().await.unwrap(),
        i64::try_from(made.len()).unwrap()
    );
    let mut connection = AnyConnection::connect(&url.expose()).await.unwrap();
    let answer = sqlx::query("PRAGMA integrity_check")
        .fetch_one(&mut connection)
        .await
        .unwrap();
    assert_eq!(answer.get::<String, _>(0), "ok");
}

fn row(n: i64) -> UsageRow {
    UsageRow {
        start: n,
        route: "x".repeat(500),
        ..UsageRow::default()
    }
}

async fn make(directory: &Directory, id: &str) -> Result<(), DirectoryError> {
    let mut edit = directory.edit(NOW).await?;
    let attributes = "x".repeat(9000);
    edit.put_tenant(Tenant {
        attributes,
        ..tenant(id, None)
    })
    .await?;
    edit.commit().await?;
    Ok(())
}

fn is_full(error: &DirectoryError, path: &Path) {
    match error {
        DirectoryError::Full(_) => {}
        // Not the disk is full, but the file may not grow.
        DirectoryError::Unavailable(_) if !is_small_disk(path) => {}
        error => panic!("{error:?}"),
    }
}

fn is_small_disk(path: &Path) -> bool {
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
    let place = path.parent().unwrap().display().to_string();
    mounts
        .lines()
        .any(|line| line.split(' ').nth(1) == Some(&*place))
}

fn make_room(ballast: &PathBuf) {
    std::fs::remove_file(ballast).unwrap();
    if !is_small_disk(ballast) {
        let own = std::process::id().to_string();
        let more = Command::new("prlimit")
            .args(["--pid", &own, "--fsize=unlimited:"])
            .status();
        assert!(more.unwrap().success());
    }
}

async fn ids(directory: &Directory) -> Vec<String> {
    let mut ids = Vec::new();
    let mut page = Page {
        after: None,
        limit: 1000,
    };
    loop {
        let listed = directory.tenants(None, &page).await.unwrap();
        ids.extend(listed.items.into_iter().map(|it| it.id));
        match listed.next {
            Some(next) => page.after = Some(next),
            None => return ids,
        }
    }
}

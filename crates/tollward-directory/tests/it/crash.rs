//! Killed at any moment, the process has lost nothing that it told of, and the file is whole.

use std::collections::BTreeSet;
use std::hash::{BuildHasher, RandomState};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use sqlx::{AnyConnection, Connection, Row as _};
use tollward_directory::{AuditEvent, AuditFilter, Directory, Page, Row, Tenant, UsageRow};
use tollward_policy::DirectoryUrl;

use crate::places::{NOW, Scratch, tenant};

const KILLS: u32 = 100;
/// Tells the child where to write, and under which name.
const PLACE: &str = "TOLLWARD_TEST_CRASH_PLACE";
const NAME: &str = "TOLLWARD_TEST_CRASH_NAME";

/// Run by the test below in a process of its own, it writes until it is killed; else a few times.
#[tokio::test(flavor = "multi_thread")]
async fn writes_and_tells() {
    let Ok(place) = std::env::var(PLACE) else {
        let scratch = Scratch::new();
        let path = scratch.path().join("directory.db");
        let directory = Directory::open(&DirectoryUrl::Sqlite(path)).await.unwrap();
        let told = write(&directory, "once", Some(5), Vec::new()).await;
        let told = String::from_utf8(told).unwrap();
        assert_eq!(
            told,
            "\nack once-0\n\nack once-1\n\nack once-2\n\nack once-3\n\nack once-4\n"
        );
        return;
    };
    let name = std::env::var(NAME).unwrap();
    let directory = Directory::open(&DirectoryUrl::Sqlite(place.into()))
        .await
        .unwrap();
    // What others write at the same time.
    let usage = tokio::spawn({
        let directory = directory.clone();
        async move {
            loop {
                let row = |tenant: &str| UsageRow {
                    tenant: tenant.into(),
                    requests: 1,
                    ..UsageRow::default()
                };
                directory
                    .add_usage(&[row("one"), row("two")])
                    .await
                    .unwrap();
            }
        }
    });
    write(&directory, &name, None, std::io::stdout()).await;
    usage.abort();
}

/// Makes tenants, and tells of each when it is there.
async fn write<W: Write>(directory: &Directory, name: &str, count: Option<u32>, mut to: W) -> W {
    for n in (0..).take_while(|n| count.is_none_or(|count| *n < count)) {
        let id = format!("{name}-{n}");
        let mut edit = directory.edit(NOW).await.unwrap();
        let attributes = format!(r#"{{"filler":"{}"}}"#, "x".repeat(n as usize % 3000));
        edit.put_tenant(Tenant {
            attributes,
            ..tenant(&id, None)
        })
        .await
        .unwrap();
        let event = AuditEvent {
            identifier: Some(id.clone()),
            ..AuditEvent::default()
        };
        edit.record(&event).await.unwrap();
        edit.commit().await.unwrap();
        write!(to, "\nack {id}\n").unwrap();
        to.flush().unwrap();
    }
    to
}

fn start(path: &Path, name: &str) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "crash::writes_and_tells", "--nocapture"])
        .env(PLACE, path)
        .env(NAME, name)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Kills it after a random time, now and then before it has told anything. What it told.
fn kill_sometime(mut child: Child) -> Vec<String> {
    let mut told = BufReader::new(child.stdout.take().unwrap());
    let random = RandomState::new().hash_one(child.id());
    let mut text = String::new();
    if !random.is_multiple_of(8) {
        while !text.contains("ack ") {
            assert_ne!(told.read_line(&mut text).unwrap(), 0, "{text}");
        }
    }
    std::thread::sleep(Duration::from_micros(random % 60_000));
    child.kill().unwrap();
    child.wait().unwrap();
    told.read_to_string(&mut text).unwrap();
    // The last line may be cut.
    let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
    let acks = whole.lines().filter_map(|line| line.strip_prefix("ack "));
    acks.map(str::to_owned).collect()
}

#[test]
fn killed_a_hundred_times_it_has_lost_nothing() {
    let scratch = Scratch::new();
    let path = scratch.path().join("directory.db");
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let mut told = BTreeSet::new();
    for kill in 0..KILLS {
        let child = start(&path, &kill.to_string());
        told.extend(kill_sometime(child));
        runtime.block_on(check(&path, &told, kill + 1));
    }
    assert!(told.len() > KILLS as usize, "{} were told", told.len());
}

/// The file is whole, everything told is there, and at most one more for every kill.
async fn check(path: &Path, told: &BTreeSet<String>, kills: u32) {
    let url = DirectoryUrl::Sqlite(path.to_owned());
    let directory = Directory::open(&url).await.unwrap();
    let mut found = BTreeSet::new();
    let revision = directory
        .load(|row| match row {
            Row::Tenant(id, _) => _ = found.insert(id),
            other => panic!("{other:?}"),
        })
        .await
        .unwrap()
        .revision();
    let lost: Vec<_> = told.difference(&found).collect();
    assert!(lost.is_empty(), "{lost:?}");
    assert!(found.len() <= told.len() + kills as usize);
    assert_eq!(revision, i64::try_from(found.len()).unwrap());
    // All or nothing.
    let newest = Page {
        after: None,
        limit: 1,
    };
    let newest = directory
        .audit(&AuditFilter::default(), &newest)
        .await
        .unwrap();
    assert_eq!(newest.items.first().map_or(0, |it| it.id), revision);
    let usage = directory
        .usage(&Default::default(), &Page::default())
        .await
        .unwrap();
    let counts: Vec<_> = usage.items.iter().map(|it| it.requests).collect();
    assert!(
        counts.is_empty() || (counts.len() == 2 && counts[0] == counts[1]),
        "{counts:?}"
    );

    let mut connection = AnyConnection::connect(&url.expose()).await.unwrap();
    let answer = sqlx::query("PRAGMA integrity_check")
        .fetch_one(&mut connection)
        .await
        .unwrap();
    assert_eq!(answer.get::<String, _>(0), "ok");
}

//! From decisions to what the directory and the log hold of them.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::watch;
use tollward_directory::{AuditFilter, Granularity, Page, UsageFilter, UsageRow};
use tollward_engine::Mode;
use tollward_policy::{AccessLog, DirectoryUrl, Facts, compile};
use tollward_store::MemoryStore;
use tollward_testkit::clock::ManualClock;

use super::*;

const CONFIG: &str = "
plans: { p: { rate_limit: { sustained: { rate: 2, window: hour }, scope: user } } }
tenants: { acme: { plan: p } }
keys: [ { sha256: 6ab9f1eb8f7d3388f4f9d586f66e99fd54080df2c446f0e58668b09c08a16dd0, tenant: acme } ]
routes: [ { match: /a/**, cost: 2 }, { match: /free, allow: true } ]
";

/// A server without doors.
struct Scene {
    engine: Arc<Engine>,
    clock: Arc<ManualClock>,
    directory: Directory,
    records: Records,
    recorder: Recorder,
}

impl Scene {
    async fn new(log: AccessLog) -> Self {
        let clock = Arc::new(ManualClock::new());
        let directory = Directory::open(&DirectoryUrl::Memory).await.unwrap();
        let audit = AuditSettings {
            log,
            ..AuditSettings::default()
        };
        let (records, recorder) = Records::open(
            "n1",
            directory.clone(),
            clock.clone(),
            &audit,
            &UsageSettings::default(),
        )
        .unwrap();
        let policy = compile(CONFIG.as_bytes()).unwrap().policy;
        let engine = Engine::new(policy, Arc::new(MemoryStore::new(100)), clock.clone());
        let engine = Arc::new(engine.observed_by(Arc::new(records.clone())));
        Self {
            engine,
            clock,
            directory,
            records,
            recorder,
        }
    }

    async fn ask(&self, facts: Facts<'_>) -> bool {
        let active = self.engine.active();
        let decision = self.engine.check(&active, &facts, Mode::Charge).await;
        decision.unwrap().allowed
    }

    async fn usage(&self, granularity: Granularity) -> Vec<String> {
        usage(&self.directory, granularity).await
    }

    async fn audit(&self) -> Vec<AuditEvent> {
        audit(&self.directory).await
    }
}

/// The sums of a length, as `START [TENANT] [PLAN] [ROUTE] REQUESTS REFUSALS TOKENS ERRORS`.
async fn usage(directory: &Directory, granularity: Granularity) -> Vec<String> {
    let filter = UsageFilter {
        granularity,
        ..UsageFilter::default()
    };
    let listed = directory.usage(&filter, &Page::default()).await.unwrap();
    let told = |row: UsageRow| {
        let start = row.start - ManualClock::START_SECS.cast_signed();
        let (tenant, plan, route) = (row.tenant, row.plan, row.route);
        let sums = [row.requests, row.refusals, row.tokens, row.errors];
        let sums = sums.map(|sum| sum.to_string()).join(" ");
        format!("{start} [{tenant}] [{plan}] [{route}] {sums}")
    };
    listed.items.into_iter().map(told).collect()
}

/// The events, newest first.
async fn audit(directory: &Directory) -> Vec<AuditEvent> {
    let (filter, page) = (AuditFilter::default(), Page::default());
    directory.audit(&filter, &page).await.unwrap().items
}

fn by(user: &'static str, path: &'static str) -> Facts<'static> {
    Facts {
        tenant: Some("acme"),
        user: Some(user),
        path: Some(path),
        ..Facts::default()
    }
}

async fn all_written(recorder: &mut Recorder) {
    recorder.gather();
    while recorder.write().await {}
}

#[tokio::test]
async fn usage_is_rolled_up() {
    let mut scene = Scene::new(AccessLog::Off).await;
    assert!(scene.ask(by("ann", "/a/1")).await);
    assert!(!scene.ask(by("ann", "/a/2")).await);
    assert!(scene.ask(by("bob", "/a/3")).await);
    assert!(scene.ask(by("ann", "/free")).await);
    all_written(&mut scene.recorder).await;
    scene.clock.advance(Duration::from_secs(61));
    assert!(!scene.ask(by("bob", "/a/1")).await);
    let stranger = Facts {
        tenant: Some("nobody knows"),
        cost: 7,
        ..Facts::default()
    };
    assert!(scene.ask(stranger).await);
    let failed = scene.records.upstream_failed(scene.engine.clone());
    failed(Some("acme"), Some("p"), Some("/a/**"));
    failed(Some("nobody knows"), None, None);
    all_written(&mut scene.recorder).await;
    let minutes = [
        "0 [acme] [p] [/a/**] 3 1 4 0",
        "0 [acme] [p] [/free] 1 0 1 0",
        "60 [] [] [] 1 0 7 1",
        "60 [acme] [p] [/a/**] 1 1 0 1",
    ];
    let sums = [
        "0 [] [] [] 1 0 7 1",
        "0 [acme] [p] [/a/**] 4 2 4 1",
        "0 [acme] [p] [/free] 1 0 1 0",
    ];
    assert_eq!(scene.usage(Granularity::Minute).await, minutes);
    assert_eq!(scene.usage(Granularity::Hour).await, sums);
    assert_eq!(scene.usage(Granularity::Day).await, sums);
    assert_eq!(scene.records.gaps(), Gaps::default());
}

#[tokio::test]
async fn refusals_are_events_of_an_interval() {
    let mut scene = Scene::new(AccessLog::Off).await;
    assert!(scene.ask(by("ann", "/a/1")).await);
    for _ in 0..5 {
        assert!(!scene.ask(by("ann", "/a/1")).await);
    }
    all_written(&mut scene.recorder).await;
    assert_eq!(scene.audit().await, [], "the interval is not over");
    scene.recorder.collect_refusals();
    scene.recorder.collect_refusals();
    all_written(&mut scene.recorder).await;
    let [event] = &scene.audit().await[..] else {
        panic!("one event");
    };
    let expected = AuditEvent {
        id: event.id,
        at: (ManualClock::START_SECS * 1000).cast_signed(),
        event: "rate_limit_exceeded".into(),
        severity: "warning".into(),
        identifier: Some("user:ann".into()),
        scope: Some("user".into()),
        route: Some("/a/**".into()),
        limit: Some("plan:p".into()),
        retry_after_ms: Some(3_600_000),
        count: 5,
        node: "n1".into(),
        ..AuditEvent::default()
    };
    assert_eq!(*event, expected);
}

#[tokio::test]
async fn whoever_guesses_at_keys_is_told_of() {
    let mut scene = Scene::new(AccessLog::Off).await;
    let address: std::net::IpAddr = "192.0.2.7".parse().unwrap();
    for _ in 0..30 {
        let active = scene.engine.active();
        scene.engine.wrong_key(&active, address).await;
    }
    scene.recorder.collect_refusals();
    all_written(&mut scene.recorder).await;
    let events = scene.audit().await;
    let [event] = &events[..] else {
        panic!("{events:?}");
    };
    let told = (event.identifier.as_deref(), &*event.severity, event.count);
    assert_eq!(told, (Some("ip:192.0.2.7"), "critical", 10));
    assert_eq!(scene.usage(Granularity::Minute).await, [""; 0]);
}

#[tokio::test]
async fn the_last_use_of_a_key_is_noted() {
    let mut scene = Scene::new(AccessLog::Off).await;
    let facts = Facts {
        api_key: Some("k1"),
        ..Facts::default()
    };
    let active = scene.engine.active();
    let request = active.policy().request(&facts);
    assert!(request.is_ok(), "the key is known: {request:?}");
    let hash: String = {
        let hash = request.unwrap().key_hash().copied().unwrap();
        hash.iter().map(|byte| format!("{byte:02x}")).collect()
    };
    let mut edit = scene.directory.edit(1).await.unwrap();
    let key = tollward_directory::Key {
        id: "key".into(),
        hash,
        ..tollward_directory::Key::default()
    };
    edit.put_key(key).await.unwrap();
    edit.commit().await.unwrap();
    let last_used = async || {
        scene
            .directory
            .key("key")
            .await
            .unwrap()
            .unwrap()
            .last_used_at
    };
    assert_eq!(last_used().await, None);
    assert!(scene.ask(facts).await);
    all_written(&mut scene.recorder).await;
    let start_ms = (ManualClock::START_SECS * 1000).cast_signed();
    assert_eq!(last_used().await, Some(start_ms));
}

/// While somebody holds the only connection, the directory is as good as away.
#[tokio::test]
async fn what_cannot_be_written_now_is_written_later() {
    let mut scene = Scene::new(AccessLog::Off).await;
    let edit = scene.directory.edit(1).await.unwrap();
    assert!(scene.ask(by("ann", "/a/1")).await);
    scene.records.record(AuditEvent {
        event: "something".into(),
        ..AuditEvent::default()
    });
    scene.recorder.gather();
    assert!(!scene.recorder.write().await);
    assert!(!scene.ask(by("ann", "/a/1")).await);
    scene.recorder.gather();
    drop(edit);
    while scene.recorder.write().await {}
    let usage = scene.usage(Granularity::Hour).await;
    assert_eq!(usage, ["0 [acme] [p] [/a/**] 2 1 2 0"]);
    assert_eq!(scene.audit().await.len(), 1);
    assert_eq!(scene.records.gaps(), Gaps::default());
}

/// What is recorded last is written, in both places.
#[tokio::test]
async fn nothing_is_lost_at_the_end() {
    let file = Log::new();
    let scene = Scene::new(AccessLog::File(file.0.clone())).await;
    let (stop, stopping) = watch::channel(false);
    assert!(scene.ask(by("ann", "/a/1")).await);
    assert!(!scene.ask(by("ann", "/a/1")).await);
    let changed = AuditEvent {
        at: 1000,
        event: "tenant_changed".into(),
        severity: Severity::Info.word().into(),
        ..AuditEvent::default()
    };
    scene.records.line(&changed);
    scene.records.record(AuditEvent {
        event: "reloaded".into(),
        ..changed
    });
    stop.send_replace(true);
    let Scene {
        recorder,
        directory,
        ..
    } = scene;
    recorder.run(stopping).await;
    let lines = file.lines();
    let events: Vec<_> = lines.iter().map(|line| &line["event"]).collect();
    assert_eq!(
        events,
        ["tenant_changed", "reloaded", "rate_limit_exceeded"]
    );
    assert!(lines.iter().all(|line| line["node"] == "n1"), "{lines:?}");
    let usage = usage(&directory, Granularity::Day).await;
    assert_eq!(usage, ["0 [acme] [p] [/a/**] 2 1 2 0"]);
    let audit = audit(&directory).await;
    let events: Vec<_> = audit.iter().map(|event| &*event.event).collect();
    assert_eq!(events, ["rate_limit_exceeded", "reloaded"]);
}

/// A log that cannot be written costs its lines and nothing else.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_full_disk_costs_lines() {
    let scene = Scene::new(AccessLog::File("/dev/full".into())).await;
    let event = AuditEvent {
        event: "something".into(),
        ..AuditEvent::default()
    };
    for _ in 0..100 {
        scene.records.record(event.clone());
    }
    let (stop, stopping) = watch::channel(false);
    stop.send_replace(true);
    let Scene {
        records,
        recorder,
        directory,
        ..
    } = scene;
    recorder.run(stopping).await;
    let expected = Gaps {
        audit_log: 100,
        ..Gaps::default()
    };
    assert_eq!(records.gaps(), expected);
    assert_eq!(audit(&directory).await.len(), 100);
}

#[tokio::test]
async fn a_flood_leaves_room_for_what_people_do() {
    let scene = Scene::new(AccessLog::Off).await;
    let event = AuditEvent::default();
    scene.records.0.audit.refusals(vec![event.clone(); 16_000]);
    assert_eq!(scene.records.gaps().audit_directory, 1000);
    for _ in 0..5001 {
        scene.records.record(event.clone());
    }
    assert_eq!(scene.records.gaps().audit_directory, 1001);
}

/// A file of its own, gone with this.
struct Log(PathBuf);

impl Log {
    fn new() -> Self {
        let name = format!("tollward-audit-{}", std::process::id());
        Self(std::env::temp_dir().join(name))
    }

    fn lines(&self) -> Vec<Value> {
        let text = fs::read_to_string(&self.0).unwrap();
        let line = |line| serde_json::from_str(line).unwrap();
        text.lines().map(line).collect()
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Very much is removed, and neither what happens meanwhile nor the end of the process waits for it.
#[tokio::test]
async fn what_is_old_holds_nobody_up() {
    const OLD: i64 = 40_000;
    let scene = Scene::new(AccessLog::Off).await;
    let old = |at| AuditEvent {
        at,
        ..AuditEvent::default()
    };
    let events: Vec<_> = (0..OLD).map(old).collect();
    scene.directory.add_audit(&events).await.unwrap();
    let is_left = async |until| {
        let filter = AuditFilter {
            until_ms: Some(until),
            ..AuditFilter::default()
        };
        let page = Page {
            after: None,
            limit: 1,
        };
        let listed = scene.directory.audit(&filter, &page).await.unwrap();
        !listed.items.is_empty()
    };
    assert!(scene.ask(by("ann", "/a/1")).await);
    let (stop, stopping) = watch::channel(false);
    let running = tokio::spawn(scene.recorder.run(stopping));
    // The oldest go first.
    while is_left(1).await {
        tokio::task::yield_now().await;
    }
    stop.send(true).unwrap();
    running.await.unwrap();
    assert!(is_left(OLD).await);
    assert_eq!(
        usage(&scene.directory, Granularity::Minute).await,
        ["0 [acme] [p] [/a/**] 1 0 2 0"]
    );
}

//! A new configuration while a process runs.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::process::{Process, arg};
use crate::served::{Client, Folder, get, until};

fn config(capacity: u64) -> String {
    format!(
        "plans: {{ p: {{ rate_limit: {{ sustained: {{ rate: 1, window: 366d }}, \
         burst: {{ capacity: {capacity} }}, scope: user }} }} }}\n"
    )
}

const BROKEN: &str = "
plans: { p: { rate_limit: { sustained: { rate: 0 }, scope: user } } }
limts: {}
enforcement: maybe
";

/// Limit and remaining of a user, taking nothing.
fn state(process: &Process, user: &str) -> (u64, u64) {
    let (_, answer) = ask(process, user, 0);
    (
        answer["limit"].as_u64().unwrap(),
        answer["remaining"].as_u64().unwrap(),
    )
}

fn ask(process: &Process, user: &str, cost: u32) -> (u16, Value) {
    let check = json!({ "user": user, "plan": "p", "cost": cost });
    Client::new(process.api).check(check)
}

fn metric(process: &Process, name: &str) -> Option<u64> {
    let page = get(process.admin, "/metrics").text();
    let found = page.lines().find_map(|line| line.strip_prefix(name));
    found.map(|value| value.trim().parse().unwrap())
}

const LAST_OK: &str = "tollward_config_last_reload_successful";
const OK: &str = "tollward_config_reloads_total{result=\"ok\"}";
const FAILED: &str = "tollward_config_reloads_total{result=\"failed\"}";

/// Puts another file in the place of this one, at once.
fn replace(file: &Path, text: &str) {
    let next = file.with_extension("next");
    fs::write(&next, text).unwrap();
    fs::rename(&next, file).unwrap();
}

fn serve(file: &Path) -> Process {
    Process::serve(&["--config", arg(file)])
}

#[test]
fn a_changed_file_is_in_force_and_what_is_spent_stays_spent() {
    let folder = Folder::new();
    let file = folder.write("tollward.yaml", &config(10));
    let process = serve(&file);
    assert_eq!(ask(&process, "a", 8).0, 200);
    assert_eq!(state(&process, "a"), (10, 2));

    for (capacity, left) in [(60, 52), (5, 0), (10, 2)] {
        replace(&file, &config(capacity));
        until("the new limit", || state(&process, "a").0 == capacity);
        assert_eq!(state(&process, "a"), (capacity, left));
        assert_eq!(state(&process, "b").1, capacity);
    }
    assert_eq!(ask(&process, "a", 3).0, 429);
    assert_eq!(ask(&process, "a", 2).0, 200);
    assert_eq!(
        (metric(&process, LAST_OK), metric(&process, OK)),
        (Some(1), Some(3))
    );
}

#[test]
fn a_hangup_reloads_whatever_the_file_looks_like() {
    let folder = Folder::new();
    let file = folder.write("tollward.yaml", &config(10));
    let modified = fs::metadata(&file).unwrap().modified().unwrap();
    let process = serve(&file);
    assert_eq!(ask(&process, "a", 8).0, 200);
    // As long as before, and as old: nobody sees it by looking.
    let mut same = File::options().write(true).open(&file).unwrap();
    same.write_all(config(30).as_bytes()).unwrap();
    same.set_modified(modified).unwrap();
    drop(same);
    process.signal("HUP");
    until("the new limit", || state(&process, "a").0 == 30);
    assert_eq!(state(&process, "a"), (30, 22));
    process.signal("HUP");
    until("another reload", || metric(&process, OK) >= Some(2));
    assert_eq!(state(&process, "a"), (30, 22));
}

#[test]
fn a_hangup_right_after_the_start_is_no_end() {
    let mut process = Process::serve(&[]);
    process.signal("HUP");
    until("a reload", || metric(&process, OK) == Some(1));
    process.signal("TERM");
    assert_eq!(process.wait(), Some(0));
}

#[test]
fn a_broken_file_changes_nothing_and_is_reported() {
    let folder = Folder::new();
    let file = folder.write("tollward.yaml", &config(10));
    let process = serve(&file);
    assert_eq!(ask(&process, "a", 8).0, 200);
    assert_eq!(metric(&process, LAST_OK), Some(1));

    replace(&file, BROKEN);
    process.signal("HUP");
    until("a failed reload", || metric(&process, LAST_OK) == Some(0));
    assert!(metric(&process, FAILED) >= Some(1));
    assert_eq!(state(&process, "a"), (10, 2));
    until("all faults", || process.stderr().contains("enforcement"));
    let stderr = process.stderr();
    for (place, word) in [
        (":2:48: ", "plans.p.rate_limit.sustained.rate"),
        (":3:1: ", "limts"),
        (":4:14: ", "enforcement"),
    ] {
        let fault = format!("{}{place}", file.display());
        let told = stderr
            .lines()
            .any(|line| line.starts_with(&fault) && line.contains(word));
        assert!(told, "{fault} {word}: {stderr}");
    }
    assert!(stderr.contains("old one stays in force"), "{stderr}");

    fs::remove_file(&file).unwrap();
    let failed = metric(&process, FAILED);
    process.signal("HUP");
    until("another failure", || metric(&process, FAILED) > failed);
    until("the reason", || process.stderr().contains("cannot read"));
    assert_eq!(state(&process, "a"), (10, 2));

    replace(&file, &config(20));
    until("a reload", || metric(&process, LAST_OK) == Some(1));
    assert_eq!(state(&process, "a"), (20, 12));
}

#[test]
fn a_file_swapped_behind_a_link_is_noticed() {
    let folder = Folder::new();
    for version in [10, 20] {
        folder.write(&format!("v{version}.yaml"), &config(version));
    }
    let link = folder.0.join("tollward.yaml");
    std::os::unix::fs::symlink("v10.yaml", &link).unwrap();
    let process = serve(&link);
    assert_eq!(state(&process, "a").0, 10);
    let next = folder.0.join("next");
    std::os::unix::fs::symlink("v20.yaml", &next).unwrap();
    fs::rename(&next, &link).unwrap();
    until("the new limit", || state(&process, "a").0 == 20);
}

#[test]
fn what_needs_a_restart_is_said_and_the_rest_is_in_force() {
    let folder = Folder::new();
    let file = folder.write("tollward.yaml", &config(10));
    let process = serve(&file);
    replace(&file, &(config(20) + "listen: { api: 127.0.0.1:1 }\n"));
    until("the new limit", || state(&process, "a").0 == 20);
    until("a word about it", || process.stderr().contains("restart"));
}

#[test]
fn a_file_that_is_still_being_written_is_not_read() {
    let folder = Folder::new();
    let file = folder.write("tollward.yaml", &config(10));
    let process = serve(&file);
    assert_eq!(ask(&process, "a", 8).0, 200);
    // An empty file is valid and has no limits at all.
    for round in 0..500 {
        let half = if round % 5 == 4 {
            config(20)
        } else {
            String::new()
        };
        fs::write(&file, half).unwrap();
        assert_eq!(state(&process, "a"), (10, 2), "round {round}");
        thread::sleep(Duration::from_millis(5));
    }
    until("the new limit", || state(&process, "a").0 == 20);
    assert_eq!(
        (metric(&process, OK), metric(&process, FAILED)),
        (Some(1), None)
    );
}

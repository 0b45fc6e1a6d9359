//! The directory, the audit trail and usage: what is written and what comes of it.

use std::time::Duration;

use super::super::*;
use super::{FULL, assert_faults, parsed};
use crate::{AuditSettings, DirectorySettings, Settings, UsageSettings, compile};

fn settings(text: &str) -> Settings {
    match compile(text.as_bytes()) {
        Ok(compiled) => compiled.settings,
        Err(faults) => panic!("{faults:#?}\nin\n{text}"),
    }
}

const SECOND: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_secs(86_400);

#[test]
fn records_of_a_full_file_are_read() {
    let file = parsed(FULL);
    let directory = file.directory.unwrap();
    assert_eq!(
        directory.url.unwrap().value.to_string(),
        "postgres://tollward:***@db.example.com:5433/gate?sslmode=verify-full"
    );
    assert_eq!(directory.max_stale.unwrap().value, 3600 * SECOND);
    assert_eq!(directory.stale.unwrap().value, Stale::Refuse);
    let audit = file.audit.unwrap();
    let log = AccessLog::File("/var/log/tollward/audit.log".to_owned());
    assert_eq!(audit.log.unwrap().value, log);
    assert_eq!(audit.interval.unwrap().value, 300 * SECOND);
    assert_eq!(audit.retention.unwrap().value, 365 * DAY);
    let usage = file.usage.unwrap();
    assert_eq!(usage.interval.unwrap().value, 10 * SECOND);
    let kept = usage.retention.unwrap();
    assert_eq!(kept.minute.unwrap().value, DAY);
    assert_eq!(kept.hour.unwrap().value, 30 * DAY);
    assert_eq!(kept.day.unwrap().value, 3660 * DAY);
}

#[test]
fn nothing_said_means_defaults() {
    let directory = DirectorySettings {
        url: None,
        max_stale: 600 * SECOND,
        refuse_stale: false,
    };
    let audit = AuditSettings {
        log: crate::AccessLog::Off,
        interval: 60 * SECOND,
        retention: 90 * DAY,
    };
    let usage = UsageSettings {
        interval: 5 * SECOND,
        minute: 2 * DAY,
        hour: 60 * DAY,
        day: 800 * DAY,
    };
    for text in [
        "",
        "directory: {}\naudit: {}\nusage: {}\n",
        "usage: { retention: {} }\n",
        "directory: { stale: serve }\naudit: { log: \"off\" }\n",
    ] {
        let settings = settings(text);
        assert_eq!(settings.directory, directory, "{text}");
        assert_eq!(settings.audit, audit, "{text}");
        assert_eq!(settings.usage, usage, "{text}");
    }
}

#[test]
fn what_is_said_becomes_settings() {
    let text = "\
directory: { url: \"sqlite:/var/lib/tollward.db\", max_stale: 1s, stale: refuse }
audit: { log: stdout, interval: 1h, retention: 1m }
usage: { interval: 60s, retention: { minute: 10m, hour: 1m, day: 2m } }
";
    let Settings {
        directory,
        audit,
        usage,
        ..
    } = settings(text);
    assert_eq!(
        directory,
        DirectorySettings {
            url: Some(DirectoryUrl::Sqlite("/var/lib/tollward.db".into())),
            max_stale: SECOND,
            refuse_stale: true,
        }
    );
    assert_eq!(
        audit,
        AuditSettings {
            log: crate::AccessLog::Stdout,
            interval: 3600 * SECOND,
            retention: 60 * SECOND,
        }
    );
    assert_eq!(
        usage,
        UsageSettings {
            interval: 60 * SECOND,
            minute: 600 * SECOND,
            hour: 60 * SECOND,
            day: 120 * SECOND,
        }
    );
    let log = settings("audit: { log: audit.jsonl }").audit.log;
    assert_eq!(log, crate::AccessLog::File("audit.jsonl".into()));
}

#[test]
fn two_logs_are_two_files() {
    let text = "audit: { log: a.log }\ngateway: { access_log: a.log }\n";
    let faults = compile(text.as_bytes()).unwrap_err();
    let shown: Vec<_> = faults.iter().map(ToString::to_string).collect();
    assert_eq!(
        shown,
        ["1:15: audit.log: the same file as `gateway.access_log`; write another"]
    );
    for text in [
        "audit: { log: stdout }\ngateway: { access_log: stdout }\n",
        "audit: { log: \"off\" }\ngateway: { access_log: \"off\" }\n",
        "audit: { log: a.log }\ngateway: { access_log: b.log }\n",
    ] {
        settings(text);
    }
}

#[test]
fn faults_have_places_and_remedies() {
    let table = [
        (
            "directory: sqlite:x.db",
            "1:12: directory: expected a mapping, found a single value",
        ),
        (
            "directory: { uri: x }",
            "1:14: directory.uri: unknown field `uri`; did you mean `url`?",
        ),
        (
            "directory: { max_stale: 600 }",
            "1:25: directory.max_stale: `600` has no unit; write `600s`",
        ),
        (
            "directory: { max_stale: 999ms }",
            "1:25: directory.max_stale: `999ms` is out of range; write `1s` to `7d`",
        ),
        (
            "directory: { max_stale: 8d }",
            "1:25: directory.max_stale: `8d` is out of range; write `1s` to `7d`",
        ),
        (
            "directory: { stale: open }",
            "1:21: directory.stale: unknown word `open`; write `serve` or `refuse`",
        ),
        (
            "directory: { url: ~ }",
            "1:19: directory.url: has no value; remove the line or give one",
        ),
        (
            "directory: { url: { path: x } }",
            "1:19: directory.url: expected a URL such as `sqlite:tollward.db` or `postgres://HOST/DATABASE`, found a mapping",
        ),
        (
            "audit: { log: true }",
            "1:15: audit.log: `true` is not a place for a log; write `off`, `stdout` or the path of a file; `./true` is a file",
        ),
        (
            "audit: { interval: 0s }",
            "1:20: audit.interval: `0s` is out of range; write `1s` to `1h`",
        ),
        (
            "audit: { interval: 61m }",
            "1:20: audit.interval: `61m` is out of range; write `1s` to `1h`",
        ),
        (
            "audit: { retention: 90 }",
            "1:21: audit.retention: `90` has no unit; write `90d`",
        ),
        (
            "audit: { retention: 59s }",
            "1:21: audit.retention: `59s` is out of range; write `1m` to `3660d`",
        ),
        (
            "audit: { retention: 3661d }",
            "1:21: audit.retention: `3661d` is out of range; write `1m` to `3660d`",
        ),
        (
            "usage: { interval: 61s }",
            "1:20: usage.interval: `61s` is out of range; write `1s` to `1m`",
        ),
        (
            "usage: { retention: 2d }",
            "1:21: usage.retention: expected a mapping, found a single value",
        ),
        (
            "usage: { retention: { minute: 9m } }",
            "1:31: usage.retention.minute: `9m` is out of range; write `10m` to `3660d`",
        ),
        (
            "usage: { retention: { day: 1y } }",
            "1:28: usage.retention.day: `1y` has an unknown unit; write `1m` to `3660d`",
        ),
        (
            "usage: { retention: { hours: 1d } }",
            "1:23: usage.retention.hours: unknown field `hours`; did you mean `hour`?",
        ),
    ];
    for (text, fault) in table {
        assert_faults(text, &[fault]);
    }
}

#[test]
fn a_password_is_never_shown() {
    let text = "directory: { url: \"postgres://u:hunter2@h:99999/x\" }";
    assert_faults(
        text,
        &[
            "1:19: directory.url: the port is not a number from 1 to 65535; write `HOST:PORT`; behind a user and password an `@`, as in `USER:PASSWORD@HOST:PORT`",
        ],
    );
    // In a flow mapping a comma ends the URL.
    let faults = super::shown("directory: { url: postgres://u:hun,ter2@h/x }");
    assert!(!faults.is_empty());
    assert!(!faults.concat().contains("ter2"), "{faults:?}");
    let settings = settings("directory: { url: \"postgres://u:hunter2@h/x\" }");
    let shown = format!("{settings:?}");
    assert!(shown.contains("postgres://u:***@h/x"), "{shown}");
    assert!(!shown.contains("hunter2"), "{shown}");
    let file = format!("{:?}", parsed(FULL));
    assert!(!file.contains("hunter2"), "{file}");
}

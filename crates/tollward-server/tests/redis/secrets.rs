//! The password of Redis is shown nowhere.

use tollward_policy::config::RedisUrl;
use tollward_testkit::redis::RedisServer;

use crate::nodes::{Node, plan};
use crate::process::{Said, arg, run, tollward};
use crate::served::{Folder, get, until};

const SECRET: &str = "s3cret";

/// URLs that are wrong in one way each, with the password where it belongs and where it does not.
const WRONG: [&str; 30] = [
    "redis://:s3cret@",
    "redis://:s3cret@:6379",
    "redis://:s3cret@host:port",
    "redis://:s3cret@host:0",
    "redis://:s3cret@host:65536",
    "redis://:s3cret@host/zero",
    "redis://:s3cret@host/0/1",
    "redis://:s3cret@one,two",
    "redis://:s3cret@host?db=1",
    "redis://:s3cret@host#0",
    "redis://:s3cret@ho st",
    "redis://:s3cret@[::1",
    "redis://:s3cret%zz@host",
    "redis://:s3cret%ff@host",
    "redis://:s3cret/x@host",
    "redis://:s3cret?x@host",
    "redis://:s3cret#x@host",
    "redis://s3cret@host",
    "redis://host:s3cret",
    "redis://s3cret:host:6379",
    "redis:/:s3cret@host",
    "redis//:s3cret@host",
    ":s3cret@host",
    "http://:s3cret@host",
    "reddis://:s3cret@host",
    ":s3cret@redis://host",
    "redis-sentinel://:s3cret@host",
    "redis-sentinel://:s3cret@one,two/mas ter",
    "redis-cluster://:s3cret@one,two/7",
    "redis+unix://host/redis.sock?pass=s3cret",
];

#[test]
fn a_wrong_url_is_refused_without_being_shown() {
    for url in WRONG {
        assert!(url.parse::<RedisUrl>().is_err(), "{url}");
        // The file is missing: should a URL be taken all the same, this ends too.
        let serve = ["serve", "--config", "/nowhere/tollward.yaml"];
        let flag = run(&[&serve[..], &["--redis", url]].concat());
        let variable = Said::new(tollward().args(serve).env("TOLLWARD_REDIS", url));
        for said in [flag, variable] {
            assert_eq!(
                (said.code, &*said.out),
                (Some(2), ""),
                "{url}: {}",
                said.err
            );
            assert!(
                said.err.starts_with("tollward: --redis: "),
                "{url}: {}",
                said.err
            );
            assert!(!said.err.contains(SECRET), "{url}: {}", said.err);
            assert_eq!(said.err.lines().count(), 1, "{url}: {}", said.err);
            // What is wrong, and what to do about it.
            assert!(said.err.contains("; "), "{url}: {}", said.err);
        }
    }
}

#[test]
fn a_url_that_is_no_text_is_refused_without_being_shown() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let url = OsStr::from_bytes(b"redis://:s3cret\xff@host");
    let serve = ["serve", "--config", "/nowhere/tollward.yaml"];
    for command in [
        tollward().args(serve).arg("--redis").arg(url),
        tollward().args(serve).env("TOLLWARD_REDIS", url),
    ] {
        let said = Said::new(command);
        assert_eq!((said.code, &*said.out), (Some(2), ""), "{}", said.err);
        assert!(!said.err.contains(SECRET), "{}", said.err);
    }
}

#[test]
fn mistakes_on_the_command_line_do_not_show_it() {
    const URL: &str = "redis://:s3cret@host";
    let equals = format!("--rediss={URL}");
    for args in [
        &["--redis", URL, "--redis", URL][..],
        &["--rediss", URL],
        &[&*equals],
        &["-r", URL],
        // Forgotten before it, or given twice behind it.
        &[URL],
        &["--redis", URL, URL],
    ] {
        let said = run(&[&["serve", "--config", "/nowhere/tollward.yaml"], args].concat());
        assert_eq!(
            (said.code, &*said.out),
            (Some(2), ""),
            "{args:?}: {}",
            said.err
        );
        assert!(!said.err.contains(SECRET), "{args:?}: {}", said.err);
    }
}

#[test]
fn faults_of_a_file_do_not_show_it() {
    let folder = Folder::new();
    let check = |text: &str| {
        let file = folder.write("store.yaml", text);
        for args in [
            &["check-config", arg(&file)][..],
            &["serve", "--config", arg(&file)],
            &["explain", "--config", arg(&file)],
        ] {
            let said = run(args);
            assert!(matches!(said.code, Some(1 | 2)), "{text}: {}", said.out);
            let all = format!("{}{}", said.out, said.err);
            assert!(
                all.contains("store.yaml:1:") || all.contains("store.yaml:2:"),
                "{all}"
            );
            assert!(!all.contains(SECRET), "{text}: {all}");
        }
    };
    for url in WRONG {
        check(&format!("store: {{ backend: redis, url: '{url}' }}\n"));
        check(&format!("store:\n  url: '{url}'\n"));
    }
    let good = "redis://:s3cret@127.0.0.1";
    for text in [
        format!("store: {{ url: '{good}' }}"),
        format!("store: {{ backend: memory, url: '{good}' }}"),
        format!("store: {{ backend: redis, url: ['{good}'] }}"),
        format!("store: {{ backend: redis, uri: '{good}' }}"),
        format!("store: {{ backend: redis, url: '{good}', url: '{good}' }}"),
        format!("store: {{ backend: redis, url: '{good}, prefix: x }}"),
        format!("store: {{ backend: redis, url: '{good}', tls: {{ ca: x }} }}"),
        format!("store: {{ backend: redis, url: '{good}', deadline: 1h }}"),
        format!("store: '{good}'"),
        format!("store: ['{good}']"),
        format!("redis: '{good}'"),
        "store: { backend: redis, url: redis://:abc,s3cret@host }".to_owned(),
        "store: { backend: redis, url: redis://:s3cret@host: x }".to_owned(),
    ] {
        check(&(text + "\n"));
    }
}

#[test]
fn a_url_in_another_field_is_not_shown() {
    let folder = Folder::new();
    let good = "redis://:s3cret@127.0.0.1:6379/0";
    for text in [
        format!("store: {{ backend: '{good}' }}"),
        format!("store: {{ prefix: '{good}' }}"),
        format!("store: {{ deadline: '{good}' }}"),
        format!("store: {{ on_failure: '{good}' }}"),
        format!("store:\n  {good}: 1"),
    ] {
        let file = folder.write("store.yaml", &text);
        let said = run(&["check-config", arg(&file)]);
        assert_eq!(
            (said.code, &*said.err),
            (Some(1), ""),
            "{text}: {}",
            said.out
        );
        assert!(!said.out.contains(SECRET), "{text}: {}", said.out);
    }
}

/// A node that is not let in, after some attempts.
fn assert_silent(what: &str, url: &str) {
    let node = Node::begin(&plan(10), &["--redis", url], &[]);
    until(what, || node.metric("tollward_redis_connects_total") >= 4.0);
    let (status, answer) = node.ask("alice", 1);
    assert_eq!(
        (status, &answer["source"]),
        (200, &"local".into()),
        "{what}"
    );
    let told = || node.process.stderr().contains("`on_failure` decides");
    until("a word about it", told);
    let metrics = get(node.process.admin, "/metrics").text();
    for said in [node.process.output(), metrics] {
        assert!(!said.contains(SECRET), "{what}: {said}");
    }
}

#[test]
fn a_node_that_is_not_let_in_does_not_show_it() {
    let redis = RedisServer::builder().password("another").start();
    let at = redis.addr();
    assert_silent("a wrong password", &format!("redis://:s3cret@{at}"));
    assert_silent("a wrong user", &format!("redis://somebody:s3cret@{at}"));
    assert_silent("no password", &format!("redis://{at}"));
    let socket = redis.socket();
    let url = format!("redis+unix://{}?pass=s3cret", socket.display());
    assert_silent("a wrong password at a socket", &url);
}

/// A server that does not know `AUTH` repeats what it was told.
#[test]
fn a_server_that_repeats_it_is_not_quoted() {
    let redis = RedisServer::builder()
        .args(&["--rename-command", "AUTH", "NOT-AUTH"])
        .start();
    let at = redis.addr();
    assert_silent("an unknown command", &format!("redis://:s3cret@{at}"));
    assert_silent("a user too", &format!("redis://s3cret-user:s3cret@{at}"));
}

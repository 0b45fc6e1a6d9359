//! Which Redis it is: the file's, that of `--redis`, that of `TOLLWARD_REDIS`. And faults of the file.

use std::net::TcpListener;

use tollward_testkit::redis::RedisServer;

use crate::nodes::{Node, plan};
use crate::process::{arg, run};
use crate::served::Folder;

/// The plan, with more in its `store`.
fn stored(more: &str) -> String {
    plan(10).replace("deadline: 2s", &format!("deadline: 2s, {more}"))
}

fn has_alice(redis: &RedisServer) -> bool {
    let keys = redis.command(&["KEYS", "*user=alice"]);
    !keys.as_array().is_empty()
}

#[test]
fn the_flag_beats_the_variable_and_both_beat_the_file() {
    let servers: Vec<RedisServer> = (0..3).map(|_| RedisServer::start()).collect();
    let [file, env, flag] = [0, 1, 2].map(|index: usize| servers[index].url());
    let in_file = stored(&format!("backend: redis, url: '{file}'"));
    let in_memory = stored("backend: memory, max_buckets: 5000");
    let variable = [("TOLLWARD_REDIS", &*env)];
    let flag = ["--redis", &*flag];
    for (config, has_flag, has_variable, chosen) in [
        (&in_file, false, false, 0),
        (&in_file, false, true, 1),
        (&in_file, true, true, 2),
        (&in_memory, true, false, 2),
        (&in_memory, false, true, 1),
    ] {
        let args = if has_flag { &flag[..] } else { &[] };
        let env = if has_variable { &variable[..] } else { &[] };
        let node = Node::begin(config, args, env);
        node.until_up();
        let (status, answer) = node.ask("alice", 1);
        assert_eq!((status, &answer["source"]), (200, &"redis".into()));
        for (index, redis) in servers.iter().enumerate() {
            assert_eq!(has_alice(redis), index == chosen, "{index} of {chosen}");
            redis.command(&["FLUSHALL"]);
        }
    }
    // And without any of them it is memory.
    let node = Node::begin(&in_memory, &[], &[]);
    assert_eq!(node.ask("alice", 1).1["source"], "memory");
}

#[test]
fn an_empty_variable_is_none() {
    let node = Node::begin(&plan(10), &[], &[("TOLLWARD_REDIS", "")]);
    assert_eq!(node.ask("alice", 1).1["source"], "memory");
}

#[test]
fn faults_of_the_store_have_a_place_and_a_remedy() {
    let folder = Folder::new();
    let good = "url: 'redis://127.0.0.1'";
    let cases = [
        ("backend: redis", "1:19: store.backend: ", "url: redis://"),
        (good, "1:15: store.url: ", "add `backend: redis`"),
        (
            &format!("backend: memory, {good}"),
            "1:32: store.url: ",
            "write `backend: redis`",
        ),
        (
            "backend: redis, url: '127.0.0.1:6379'",
            "1:31: store.url: ",
            "redis://127.0.0.1:6379",
        ),
        (
            "backend: redis, url: 'http://h'",
            "1:31: store.url: ",
            "`redis://`",
        ),
        (
            "backend: redis, url: 'redis://a,b'",
            "1:31: store.url: ",
            "redis-cluster://",
        ),
        (
            "backend: redis, url: 'redis-sentinel://a,b'",
            "1:31: store.url: ",
            "/MASTER",
        ),
        (
            "prefix: 'more-than-twenty-four-bytes'",
            "1:18: store.prefix: ",
            "1 to 24 characters",
        ),
        ("prefix: 'a{b}'", "1:18: store.prefix: ", "without spaces"),
        ("prefix: ''", "1:18: store.prefix: ", "1 to 24 characters"),
        ("deadline: 0s", "1:20: store.deadline: ", "1ms"),
        ("deadline: 1m", "1:20: store.deadline: ", "10s"),
        (
            "on_failure: ajar",
            "1:22: store.on_failure: ",
            "`local`, `open` or `closed`",
        ),
        ("clock: mine", "1:17: store.clock: ", "server"),
        (
            &format!("backend: redis, {good}, tls: {{ ca: ca.pem }}"),
            "store.tls: ",
            "rediss://",
        ),
        (
            &format!("backend: redis, {good}, urls: x"),
            "store.urls: ",
            "did you mean `url`?",
        ),
    ];
    for (store, place, hint) in cases {
        let file = folder.write("store.yaml", &format!("store: {{ {store} }}\n"));
        let said = run(&["check-config", arg(&file)]);
        assert_eq!(
            (said.code, &*said.err),
            (Some(1), ""),
            "{store}: {}",
            said.out
        );
        let lines: Vec<&str> = said.out.lines().collect();
        assert_eq!(lines.len(), 1, "{store}: {}", said.out);
        assert!(lines[0].contains(place), "{store}: {}", said.out);
        assert!(lines[0].contains(hint), "{store}: {}", said.out);
    }
    let file = folder.write(
        "store.yaml",
        &format!("store: {{ backend: redis, {good} }}\n"),
    );
    assert_eq!(run(&["check-config", arg(&file)]).code, Some(0));
}

#[test]
fn a_certificate_that_cannot_be_read_is_named() {
    let folder = Folder::new();
    let store = "backend: redis, url: 'rediss://127.0.0.1', tls: { ca: /nowhere/ca.pem }";
    let file = folder.write("store.yaml", &format!("store: {{ {store} }}\n"));
    // The address is taken: should the file not be missed, this ends too.
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let api = taken.local_addr().unwrap().to_string();
    let said = run(&["serve", "--config", arg(&file), "--api", &api]);
    assert_eq!((said.code, &*said.out), (Some(2), ""), "{}", said.err);
    assert!(said.err.contains("/nowhere/ca.pem"), "{}", said.err);
}

//! The fixtures themselves: servers, cluster, sentinels.
#![allow(clippy::unwrap_used)]

use std::io::{ErrorKind, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use tollward_testkit::redis::{
    Client, RedisCluster, RedisServer, SentinelTrio, Value, valkey_server, wait_until,
};

const PATIENCE: Duration = Duration::from_secs(60);

fn text(text: &str) -> Value {
    Value::Bulk(text.into())
}

#[test]
fn a_server_answers_counts_and_starts_again_empty() {
    let server = RedisServer::start();
    assert_eq!(server.url(), format!("redis://127.0.0.1:{}", server.port()));
    assert!(server.command(&["SET", "key", "value"]).is_ok());
    let mut client = Client::connect(server.addr()).unwrap();
    assert_eq!(client.call(&["GET", "key"]).unwrap(), text("value"));
    assert_eq!(client.call(&["GET", "other"]).unwrap(), Value::Nil);
    assert_eq!(client.call(&["INCR", "n"]).unwrap(), Value::Int(1));
    let wrong = client.call(&["INCR", "key"]).unwrap();
    assert!(matches!(wrong, Value::Error(why) if why.starts_with("ERR ")));
    let nested = "return {1, {'two', false}, 'three'}";
    assert_eq!(
        client.call(&["EVAL", nested, "0"]).unwrap(),
        Value::Array(vec![
            Value::Int(1),
            Value::Array(vec![text("two"), Value::Nil]),
            text("three"),
        ])
    );
    assert_eq!((server.calls("incr"), server.calls("lpush")), (2, 0));

    let (pid, port) = (server.pid(), server.port());
    server.restart();
    assert!(!is_alive(pid));
    assert_eq!(server.port(), port);
    assert!(client.call(&["PING"]).is_err());
    let mut client = Client::connect(server.addr()).unwrap();
    assert_eq!(client.call(&["DBSIZE"]).unwrap(), Value::Int(0));
}

#[test]
fn a_server_takes_arguments_and_a_password() {
    let server = RedisServer::builder()
        .arg("--maxmemory", "10mb")
        .args(&["--client-output-buffer-limit", "pubsub", "1mb", "1mb", "9"])
        .password("secret")
        .start();
    assert_eq!(server.url(), format!("redis://:secret@{}", server.addr()));
    let memory = server.info("memory", "maxmemory").unwrap();
    assert_eq!(memory, (10 << 20).to_string());
    let mut stranger = Client::connect(server.addr()).unwrap();
    let refusal = stranger.call(&["PING"]).unwrap();
    assert!(matches!(refusal, Value::Error(why) if why.starts_with("NOAUTH")));
    assert!(stranger.call(&["AUTH", "secret"]).unwrap().is_ok());
}

#[test]
fn work_shows_in_the_cpu_time() {
    let server = RedisServer::start();
    let before = server.cpu_us();
    let work = "local n = 0; for i = 1, 3000000 do n = n + i end; return 1";
    assert_eq!(server.command(&["EVAL", work, "0"]), Value::Int(1));
    let used = server.cpu_us() - before;
    assert!((1_000..30_000_000).contains(&used), "{used} µs");
}

#[test]
fn a_stopped_server_is_silent_and_goes_on_as_it_was() {
    let server = RedisServer::start();
    server.command(&["SET", "key", "value"]);
    server.stop();
    let brief = Duration::from_millis(200);
    let mut client = Client::connect_within(server.addr(), brief).unwrap();
    let silence = client.call(&["GET", "key"]).unwrap_err();
    assert_eq!(silence.kind(), ErrorKind::WouldBlock);
    server.cont();
    assert_eq!(server.command(&["GET", "key"]), text("value"));
}

#[test]
fn a_killed_server_is_gone_and_so_is_a_dropped_one() {
    let server = RedisServer::start();
    let pid = server.pid();
    server.kill();
    assert!(!server.is_running());
    assert!(!is_alive(pid));
    assert!(TcpStream::connect(server.addr()).is_err());
    server.restart();
    let (pid, directory) = (server.pid(), server.directory().to_owned());
    assert!(is_alive(pid) && directory.exists());
    // Stopped processes end as well.
    server.stop();
    drop(server);
    assert!(!is_alive(pid));
    assert!(!directory.exists());
}

#[test]
fn a_taken_port_is_not_mistaken_for_the_own_server() {
    let first = RedisServer::start();
    let port = first.port();
    let second = std::panic::catch_unwind(|| RedisServer::builder().port(port).start());
    let why = *second.unwrap_err().downcast::<String>().unwrap();
    assert!(why.contains("Address already in use"), "{why}");
    first.kill();
    let second = RedisServer::builder().port(port).start();
    assert_eq!(second.port(), port);
}

#[test]
fn a_server_on_a_socket_in_the_file_system() {
    let server = RedisServer::builder().unix_socket().start();
    let path = server
        .url()
        .strip_prefix("redis+unix://")
        .map(str::to_owned);
    let mut client = Client::connect_unix(Path::new(&path.unwrap()), PATIENCE).unwrap();
    assert_eq!(client.call(&["PING"]).unwrap().as_text(), Some("PONG"));
    assert_eq!(server.port(), 0);
}

#[test]
fn a_server_with_tls() {
    let server = RedisServer::builder().tls().start();
    assert_eq!(server.url(), format!("rediss://{}", server.addr()));
    let files = server.tls().unwrap();
    let said = through_tls(&server, &files.ca, &[]);
    assert!(said.contains("+PONG"), "{said}");
    let (cert, key) = (files.cert.to_str().unwrap(), files.key.to_str().unwrap());
    let said = through_tls(&server, &files.ca, &["-cert", cert, "-key", key]);
    assert!(said.contains("+PONG"), "{said}");
    // Another authority does not do.
    let other = RedisServer::builder().tls().start();
    let said = through_tls(&server, &other.tls().unwrap().ca, &[]);
    assert!(!said.contains("+PONG"), "{said}");
    // Nor does speaking without it.
    let mut plain = Client::connect(server.addr()).unwrap();
    assert!(plain.call(&["PING"]).is_err());
}

/// What a server says to PING.
fn through_tls(server: &RedisServer, ca: &Path, more: &[&str]) -> String {
    let mut client = Command::new("openssl")
        .args(["s_client", "-quiet", "-verify_return_error"])
        .args(["-verify_ip", "127.0.0.1", "-x509_strict", "-CAfile"])
        .arg(ca)
        .args(["-connect", &server.addr().to_string()])
        .args(more)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // Fails if it has given up already.
    let _ = client
        .stdin
        .as_mut()
        .unwrap()
        .write_all(b"PING\r\nQUIT\r\n");
    let said = client.wait_with_output().unwrap().stdout;
    String::from_utf8_lossy(&said).into_owned()
}

#[test]
fn a_cluster_serves_all_slots_moves_them_and_survives_a_kill() {
    survives(&RedisCluster::start());
}

fn survives(cluster: &RedisCluster) {
    assert_eq!(cluster.primaries(), [0, 1, 2]);
    let seeds: Vec<_> = cluster.servers()[..3]
        .iter()
        .map(|it| it.addr().to_string())
        .collect();
    assert_eq!(
        cluster.url(),
        format!("redis-cluster://{}", seeds.join(","))
    );
    for server in cluster.servers() {
        let info = server.command(&["CLUSTER", "INFO"]);
        let info = info.as_text().unwrap();
        assert!(info.contains("cluster_slots_ok:16384"), "{info}");
    }
    for (slot, owner) in [(0, 0), (5460, 0), (5461, 1), (16383, 2)] {
        assert_eq!(cluster.primary_of(slot), owner);
    }

    // `foo` has slot 12182, `{foo}` as well.
    let owner = cluster.primary_of(12182);
    for n in 0..2500 {
        let key = format!("{{foo}}{n}");
        assert!(
            cluster.servers()[owner]
                .command(&["SET", &key, "value"])
                .is_ok()
        );
    }
    let to = (owner + 1) % 3;
    cluster.move_slot(12182, to);
    assert_eq!(cluster.primary_of(12182), to);
    let counts = [to, owner].map(|it| cluster.servers()[it].command(&["DBSIZE"]));
    assert_eq!(counts, [Value::Int(2500), Value::Int(0)]);
    let moved = cluster.servers()[owner].command(&["GET", "{foo}7"]);
    let there = format!("MOVED 12182 {}", cluster.servers()[to].addr());
    assert_eq!(moved, Value::Error(there));

    cluster.servers()[to].command(&["WAIT", "1", "10000"]);
    cluster.kill(to);
    let heir = cluster.primary_of(12182);
    assert_eq!(heir, to + 3);
    cluster.wait_until_ok();
    assert_eq!(
        cluster.servers()[heir].command(&["GET", "{foo}7"]),
        text("value")
    );
    assert!(!cluster.primaries().contains(&to));

    // Back again, it follows its heir.
    cluster.servers()[to].restart();
    wait_until("it is a replica", PATIENCE, || {
        let link = cluster.servers()[to].info("replication", "master_link_status");
        link.filter(|it| it == "up")
    });
    assert_eq!(cluster.primary_of(12182), heir);
    assert_eq!(cluster.primaries().len(), 3);
}

#[test]
fn a_slot_on_the_move_is_asked_for() {
    let cluster = RedisCluster::start();
    cluster.begin_move(12182, 0);
    let ask = format!("ASK 12182 {}", cluster.servers()[0].addr());
    assert_eq!(
        cluster.servers()[2].command(&["GET", "foo"]),
        Value::Error(ask)
    );
    cluster.move_keys(12182, 0);
    cluster.finish_move(12182, 0);
    assert_eq!(cluster.servers()[0].command(&["GET", "foo"]), Value::Nil);
}

#[test]
fn sentinels_fail_over() {
    fails_over(&SentinelTrio::start());
}

fn fails_over(trio: &SentinelTrio) {
    let sentinels: Vec<_> = trio
        .sentinels()
        .iter()
        .map(|it| it.addr().to_string())
        .collect();
    let url = format!("redis-sentinel://{}/tollward-main", sentinels.join(","));
    assert_eq!(trio.url(), url);
    assert_eq!(trio.primary(), trio.servers()[0].addr());
    trio.servers()[0].command(&["SET", "key", "value"]);
    assert_eq!(
        trio.servers()[0].command(&["WAIT", "1", "10000"]),
        Value::Int(1)
    );

    let old = trio.kill_primary();
    assert_eq!(old, trio.servers()[0].addr());
    let new = trio.wait_for_failover(old);
    assert_eq!(new, trio.servers()[1].addr());
    assert_eq!(trio.primary(), new);
    assert_eq!(trio.server_at(new).command(&["GET", "key"]), text("value"));
    assert!(
        trio.server_at(new)
            .command(&["SET", "key", "other"])
            .is_ok()
    );

    // Back again, empty, it is made a replica.
    trio.servers()[0].restart();
    wait_until("it has the new data", PATIENCE, || {
        let value = trio.servers()[0].command(&["GET", "key"]);
        (value == text("other")).then_some(())
    });
    assert_eq!(trio.primary(), new);
}

#[test]
fn valkey_does_all_of_it() {
    let Some(binary) = valkey_server() else {
        println!("left out: there is no valkey-server");
        return;
    };
    let server = RedisServer::builder().binary(&binary).start();
    assert_eq!(
        server.info("server", "server_name").as_deref(),
        Some("valkey")
    );
    server.command(&["SET", "key", "value"]);
    server.restart();
    assert_eq!(server.command(&["DBSIZE"]), Value::Int(0));
    survives(&RedisCluster::start_with(|builder| builder.binary(&binary)));
    fails_over(&SentinelTrio::start_with(|builder| builder.binary(&binary)));
}

/// A process that has ended and was not waited for is alive, too: fixtures leave none.
fn is_alive(pid: u32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

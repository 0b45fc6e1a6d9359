//! The fault proxy, before a real server.
#![allow(clippy::unwrap_used)]

use std::io::{ErrorKind, Read};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use tollward_testkit::fault::FaultProxy;
use tollward_testkit::redis::{Client, RedisServer, Value, wait_until};

const PATIENCE: Duration = Duration::from_secs(30);
/// For what never comes.
const BRIEF: Duration = Duration::from_millis(200);

fn proxied() -> (RedisServer, FaultProxy) {
    let server = RedisServer::start();
    let proxy = FaultProxy::start(server.addr());
    (server, proxy)
}

/// Whether there is no answer, in the little time that is given to it.
fn is_silent(client: &mut Client, command: &[&str]) -> bool {
    client.set_timeout(BRIEF).unwrap();
    let answer = client.call(command);
    client.set_timeout(PATIENCE).unwrap();
    matches!(answer, Err(error) if error.kind() == ErrorKind::WouldBlock)
}

fn connect(proxy: &FaultProxy) -> Client {
    Client::connect(proxy.addr()).unwrap()
}

#[test]
fn without_faults_everything_passes_in_order() {
    let (server, proxy) = proxied();
    let mut client = connect(&proxy);
    let large = "x".repeat(3 << 20);
    assert!(client.call(&["SET", "large", &large]).unwrap().is_ok());
    assert_eq!(
        client.call(&["GET", "large"]).unwrap(),
        Value::Bulk(large.into())
    );
    for _ in 0..1000 {
        client.send(&["INCR", "n"]).unwrap();
    }
    for n in 1..=1000 {
        assert_eq!(client.read().unwrap(), Value::Int(n));
    }
    assert_eq!(proxy.connections(), 1);
    drop(client);
    wait_until("the proxy has closed", PATIENCE, || {
        (proxy.connections() == 0).then_some(())
    });
    // The server's end, too: only the connection that asks is left.
    wait_until("the server has closed", PATIENCE, || {
        server
            .info("clients", "connected_clients")
            .filter(|it| it == "1")
    });
}

#[test]
#[expect(clippy::disallowed_methods, reason = "delays are real")]
fn answers_are_delayed_and_keep_their_order() {
    let (_server, proxy) = proxied();
    let mut client = connect(&proxy);
    proxy.delay(Duration::from_millis(50), Duration::from_millis(80));
    let start = Instant::now();
    for n in 1..=20 {
        client.send(&["INCR", "n"]).unwrap();
        if n % 5 == 0 {
            // Of one piece or of several, as it happens.
            assert_eq!(client.read().unwrap(), Value::Int(n / 5));
        }
    }
    assert!(start.elapsed() >= Duration::from_millis(50));
    for n in 5..=20 {
        assert_eq!(client.read().unwrap(), Value::Int(n));
    }
    let start = Instant::now();
    client.call(&["PING"]).unwrap();
    assert!(start.elapsed() >= Duration::from_millis(50));

    proxy.delay(Duration::ZERO, Duration::ZERO);
    proxy.lose(1000);
    let start = Instant::now();
    client.call(&["PING"]).unwrap();
    assert!(
        start.elapsed() >= Duration::from_millis(400),
        "lost on both ways"
    );
    proxy.lose(0);
    assert_eq!(client.call(&["INCR", "n"]).unwrap(), Value::Int(21));
}

#[test]
fn a_cut_closes_what_is_open_and_nothing_else() {
    let (server, proxy) = proxied();
    let mut clients = [(); 3].map(|()| connect(&proxy));
    for client in &mut clients {
        client.call(&["PING"]).unwrap();
    }
    proxy.delay(PATIENCE, PATIENCE);
    clients[0].send(&["INCR", "n"]).unwrap();
    wait_until("it is counted", PATIENCE, || {
        (server.calls("incr") == 1).then_some(())
    });
    proxy.cut();
    proxy.delay(Duration::ZERO, Duration::ZERO);
    let [mut waiting, idle @ ..] = clients;
    assert_eq!(waiting.read().unwrap_err().kind(), ErrorKind::UnexpectedEof);
    for mut client in idle {
        assert!(client.call(&["PING"]).is_err());
    }
    let mut client = connect(&proxy);
    assert_eq!(client.call(&["INCR", "n"]).unwrap(), Value::Int(2));
}

#[test]
fn refused_connections_are_closed_at_once() {
    let (_server, proxy) = proxied();
    let mut old = connect(&proxy);
    old.call(&["PING"]).unwrap();
    proxy.refuse(true);
    let mut refused = TcpStream::connect(proxy.addr()).unwrap();
    refused.set_read_timeout(Some(PATIENCE)).unwrap();
    assert_eq!(refused.read(&mut [0]).unwrap(), 0);
    old.call(&["PING"]).unwrap();
    proxy.refuse(false);
    connect(&proxy).call(&["PING"]).unwrap();
}

#[test]
fn a_lost_answer_is_of_a_command_that_was_done_once() {
    let (server, proxy) = proxied();
    let mut client = connect(&proxy);
    assert_eq!(client.call(&["INCR", "n"]).unwrap(), Value::Int(1));
    proxy.drop_replies(true);
    assert!(is_silent(&mut client, &["INCR", "n"]));
    wait_until("it is done", PATIENCE, || {
        (server.calls("incr") == 2).then_some(())
    });
    assert_eq!(server.command(&["GET", "n"]).as_int(), Some(2));
    // The answer that is lost never comes late or in another's place: the connection is closed.
    proxy.drop_replies(false);
    assert_eq!(client.read().unwrap_err().kind(), ErrorKind::UnexpectedEof);
    let mut client = connect(&proxy);
    assert_eq!(client.call(&["INCR", "n"]).unwrap(), Value::Int(3));
}

#[test]
fn a_black_hole_swallows_requests_answers_and_ends() {
    let (server, proxy) = proxied();
    let (mut client, mut idle) = (connect(&proxy), connect(&proxy));
    client.call(&["PING"]).unwrap();
    idle.call(&["PING"]).unwrap();
    proxy.black_hole(true);
    assert!(is_silent(&mut client, &["INCR", "n"]));
    assert!(is_silent(&mut connect(&proxy), &["INCR", "n"]));
    assert_eq!(server.calls("incr"), 0);
    proxy.black_hole(false);
    assert_eq!(client.read().unwrap_err().kind(), ErrorKind::UnexpectedEof);
    // Nothing was lost here.
    assert_eq!(idle.call(&["INCR", "n"]).unwrap(), Value::Int(1));

    proxy.black_hole(true);
    let mut client = connect(&proxy);
    server.kill();
    assert!(is_silent(&mut client, &["PING"]));
}

#[test]
fn a_dead_server_closes_the_connections() {
    let (server, proxy) = proxied();
    let mut client = connect(&proxy);
    client.call(&["PING"]).unwrap();
    server.kill();
    assert_eq!(client.read().unwrap_err().kind(), ErrorKind::UnexpectedEof);
    let mut client = connect(&proxy);
    assert!(client.call(&["PING"]).is_err());
    server.restart();
    let mut client = connect(&proxy);
    client.call(&["PING"]).unwrap();
}

#[test]
fn the_end_of_a_proxy_is_the_end_of_its_connections() {
    let (_server, proxy) = proxied();
    let mut client = connect(&proxy);
    client.call(&["PING"]).unwrap();
    proxy.delay(Duration::from_secs(3600), Duration::from_secs(3600));
    client.send(&["PING"]).unwrap();
    let address = proxy.addr();
    drop(proxy);
    assert_eq!(client.read().unwrap_err().kind(), ErrorKind::UnexpectedEof);
    assert!(TcpStream::connect(address).is_err());
}

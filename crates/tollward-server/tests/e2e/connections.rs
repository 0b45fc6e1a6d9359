//! Clients that are slow, silent, or many.

use std::thread;
use std::time::Duration;

use serde_json::json;
use tollward_testkit::http::{Connection, head};

use crate::served::{Client, Served, assert_problem, until};

const CONFIG: &str = "
plans: { p: { rate_limit: { sustained: { rate: 1000, window: second }, scope: user } } }
";
/// As long as a client may take here, so that tests need not wait for long.
const SOON: Duration = Duration::from_secs(1);
/// How fast slow clients are.
const DRIBBLE: Duration = Duration::from_millis(5);

fn impatient() -> Served {
    Served::with(CONFIG, |options| {
        options.head_timeout = SOON;
        options.body_timeout = SOON;
        options.write_timeout = SOON;
    })
}

/// Connections that are open, by the server's count, this one not included.
fn open_connections(served: &Served) -> u64 {
    let page = served.admin_page("/metrics").text();
    let value = page
        .lines()
        .find_map(|line| line.strip_prefix("tollward_connections "));
    value.unwrap().parse::<u64>().unwrap() - 1
}

#[test]
fn a_silent_connection_is_closed() {
    let served = impatient();
    for address in [served.api, served.admin] {
        let mut silent = Connection::open(address).unwrap();
        let said = String::from_utf8(silent.read_to_end()).unwrap();
        assert!(
            said.is_empty() || said.starts_with("HTTP/1.1 408"),
            "{said}"
        );
    }
}

#[test]
fn a_head_that_never_ends_is_cut_off() {
    let served = impatient();
    let mut slow = Connection::open(served.api).unwrap();
    slow.send(b"POST /v1/check HTTP/1.1\r\nhost: a\r\nx: ")
        .unwrap();
    until("the end of the connection", || {
        thread::sleep(DRIBBLE);
        slow.send(b"a").is_err()
    });
}

#[test]
fn an_idle_connection_is_closed_after_its_request() {
    let served = impatient();
    let mut client = served.client();
    assert_eq!(client.check(json!({})).0, 200);
    assert_eq!(client.check(json!({})).0, 200);
    assert_eq!(client.0.read_to_end(), b"");
    until("no connections", || open_connections(&served) == 0);
}

#[test]
fn a_body_that_does_not_come_is_not_waited_for() {
    let served = impatient();
    for target in ["/v1/check", "/v1/check/batch"] {
        let mut slow = Connection::open(served.api).unwrap();
        slow.send(head("POST", target, &[], 1000).as_bytes())
            .unwrap();
        until("an answer or an end", || {
            thread::sleep(DRIBBLE);
            slow.send(b" ").is_err() || !slow.is_quiet().unwrap()
        });
        let response = slow.read(false).unwrap();
        assert_problem(&response, 408, target);
        assert_eq!(response.header("connection"), Some("close"));
        assert_eq!(slow.read_to_end(), b"");
    }
}

#[test]
fn a_client_that_does_not_read_its_answers_is_let_go() {
    let served = impatient();
    let mut deaf = Connection::open(served.api).unwrap();
    let body = json!({ "checks": vec![json!({ "user": "a", "plan": "p" }); 1000] }).to_string();
    let request = head("POST", "/v1/check/batch", &[], body.len()) + &body;
    // Each is answered with a third of a megabyte: soon there is no room left for more.
    for _ in 0..100 {
        if deaf.send(request.as_bytes()).is_err() {
            break;
        }
    }
    until("no connections", || open_connections(&served) == 0);
    drop(deaf);
}

#[test]
fn a_body_that_breaks_off_harms_nobody() {
    let served = Served::of(CONFIG);
    for _ in 0..20 {
        let mut gone = Connection::open(served.api).unwrap();
        gone.send(head("POST", "/v1/check", &[], 1000).as_bytes())
            .unwrap();
        gone.send(b"{\"user\":").unwrap();
    }
    until("no connections", || open_connections(&served) == 0);
    assert_eq!(served.client().check(json!({})).0, 200);
}

#[test]
fn one_connection_too_many_waits_its_turn() {
    let config = format!("{CONFIG}listen: {{ max_connections: 2 }}\n");
    let served = Served::with(&config, |options| {
        options.head_timeout = Duration::from_secs(600);
    });
    let (mut first, mut second) = (served.client(), served.client());
    assert_eq!(first.check(json!({})).0, 200);
    assert_eq!(second.check(json!({})).0, 200);
    let mut third = Connection::open(served.api).unwrap();
    third
        .send((head("POST", "/v1/check", &[], 2) + "{}").as_bytes())
        .unwrap();
    for _ in 0..100 {
        assert_eq!(first.check(json!({})).0, 200);
        assert_eq!(second.check(json!({})).0, 200);
    }
    assert!(third.is_quiet().unwrap());
    // The other door has places of its own.
    assert_eq!(served.admin_page("/healthz").status, 200);
    drop(first);
    assert_eq!(third.read(false).unwrap().status, 200);
    drop((second, third));
    for _ in 0..20 {
        assert_eq!(served.client().check(json!({})).0, 200);
    }
}

#[test]
fn two_hundred_slow_clients_do_not_stop_an_honest_one() {
    let served = Served::of(CONFIG);
    let slow: Vec<Connection> = (0..200)
        .map(|index| {
            let mut connection = Connection::open(served.api).unwrap();
            let start = match index % 4 {
                0 => String::new(),
                1 => "POST /v1/check HT".to_owned(),
                2 => head("POST", "/v1/check", &[], 100),
                _ => head("POST", "/v1/check/batch", &[], 100) + "{\"checks\":[",
            };
            connection.send(start.as_bytes()).unwrap();
            connection
        })
        .collect();
    until("200 connections", || open_connections(&served) >= 200);
    let mut client = served.client();
    for _ in 0..300 {
        assert_eq!(client.check(json!({ "user": "a", "plan": "p" })).0, 200);
    }
    for _ in 0..50 {
        assert_eq!(
            served.client().check(json!({ "user": "b", "plan": "p" })).0,
            200
        );
    }
    drop(slow);
}

#[test]
fn concurrent_clients_never_get_more_than_there_is() {
    let served = Served::of(
        "plans: { p: { rate_limit: { sustained: { rate: 1, window: day }, \
         burst: { capacity: 500 }, scope: user } } }",
    );
    let api = served.api;
    let clients: Vec<_> = (0..8)
        .map(|_| {
            thread::spawn(move || {
                let mut client = Client::new(api);
                let check = json!({ "user": "a", "plan": "p" });
                (0..150)
                    .filter(|_| client.check(check.clone()).0 == 200)
                    .count()
            })
        })
        .collect();
    let admitted: usize = clients.into_iter().map(|it| it.join().unwrap()).sum();
    assert_eq!(admitted, 500);
}

#[test]
fn stopping_ends_idle_connections_at_once() {
    let served = Served::with(CONFIG, |options| {
        options.head_timeout = Duration::from_secs(600);
    });
    let mut idle = served.client();
    assert_eq!(idle.check(json!({})).0, 200);
    served.stop();
    assert_eq!(idle.0.read_to_end(), b"");
}

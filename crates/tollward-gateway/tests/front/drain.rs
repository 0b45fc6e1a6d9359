//! How a front stops.

use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crate::front::{Client, Front, settings, until};

/// Clients ask one thing after the other while the front stops. Nothing that was sent on a connection
/// goes without its answer, and the last answer on it says that it is the last.
#[test]
fn no_request_is_lost_under_load() {
    let front = Front::start(&settings());
    let (address, answered) = (front.address, &AtomicUsize::new(0));
    thread::scope(|scope| {
        let clients: Vec<_> = (0..16)
            .map(|number| {
                scope.spawn(move || ask_until_it_ends(address, number % 2 == 0, answered))
            })
            .collect();
        until("there is load", || answered.load(Ordering::Relaxed) > 1000);
        front.end();
        for client in clients {
            assert_eq!(client.join().unwrap(), Ok(()));
        }
    });
}

/// Until nobody accepts connections any more. With `keeps`, over one connection as long as it lasts.
fn ask_until_it_ends(
    address: std::net::SocketAddr,
    keeps: bool,
    answered: &AtomicUsize,
) -> Result<(), String> {
    let body = "x".repeat(1000);
    let request = format!("POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n{body}");
    loop {
        let Ok(stream) = TcpStream::connect(address) else {
            return Ok(());
        };
        let mut client = Client::new(stream);
        for number in 0.. {
            client.send(request.as_bytes());
            let Some(answer) = client.answer() else {
                // Without an answer it must be a connection that was refused, not accepted.
                if number == 0 && TcpStream::connect(address).is_err() {
                    return Ok(());
                }
                return Err(format!("request {number} was not answered"));
            };
            if answer.status != 200 || !answer.body.ends_with(&body) {
                return Err(format!("{answer:?}"));
            }
            answered.fetch_add(1, Ordering::Relaxed);
            let is_last = answer.head.contains("connection: close");
            if is_last || !keeps {
                break;
            }
        }
    }
}

#[test]
fn idle_connections_go_and_busy_ones_finish() {
    let front = Front::start(&settings());
    let request = b"GET /a HTTP/1.1\r\nHost: a\r\n\r\n";
    let (mut idle, mut silent, mut busy) = (front.connect(), front.connect(), front.connect());
    idle.send(request);
    assert_eq!(idle.answer().unwrap().status, 200);
    busy.send(b"GET /wait HTTP/1.1\r\nHost: a\r\n\r\n");
    until("it is asked for", || front.has_seen("/wait"));
    front.workers.stop();
    assert_eq!(idle.answer(), None);
    assert_eq!(silent.answer(), None);
    assert!(TcpStream::connect(front.address).is_err());
    front.seen.go.notify_one();
    let answer = busy.answer().unwrap();
    assert_eq!(answer.status, 200);
    assert!(answer.head.contains("connection: close"), "{}", answer.head);
    assert_eq!(busy.answer(), None);
    front.end();
}

#[test]
fn half_a_request_may_still_become_one() {
    let front = Front::start(&settings());
    let mut client = front.connect();
    client.send(b"GET /a HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.answer().unwrap().status, 200);
    client.send(b"GET /half HTTP/1.1\r\n");
    let mut idle = front.connect();
    front.workers.stop();
    // When those who have nothing to say have gone, this one is still there.
    assert_eq!(idle.answer(), None);
    client.send(b"Host: a\r\n\r\n");
    assert!(client.answer().unwrap().body.starts_with("GET /half\n"));
    assert_eq!(client.answer(), None);
    front.end();
}

#[test]
fn what_waits_for_a_place_is_served_before_the_end() {
    let mut settings = settings();
    settings.max_connections = 2;
    let front = Front::start(&settings);
    let request = b"GET /a HTTP/1.1\r\nHost: a\r\n\r\n";
    let mut clients: Vec<_> = (0..4).map(|_| front.connect()).collect();
    for client in &mut clients {
        client.send(request);
    }
    until("the places are taken", || front.open() == 2);
    front.workers.stop();
    for client in &mut clients {
        assert_eq!(client.answer().unwrap().status, 200);
        assert_eq!(client.answer(), None);
    }
    front.end();
}

//! Clients that take their time.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::front::{BIG, Client, Front, LONG, settings, until};

/// Connections that come to nothing, of each kind.
const EACH: usize = 250;

/// A thousand connections that are silent, or dribble, or stop half-way through a head. All are closed,
/// while honest requests are answered.
#[test]
fn slow_heads_do_not_keep_their_places() {
    let mut settings = settings();
    settings.header_timeout = Duration::from_secs(1);
    settings.max_connections = 4 * EACH + 10;
    let front = Front::start(&settings);
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let honest = scope.spawn(|| {
            let mut answered = 0;
            while !is_over.load(Ordering::Relaxed) {
                front.assert_serves();
                answered += 1;
            }
            answered
        });
        let connect = |first: &[u8]| {
            let mut client = front.connect();
            client.send(first);
            client.stream
        };
        let half = b"GET / HTTP/1.1\r\nHost: a\r\nX: ";
        let kinds: [&[u8]; 4] = [b"", half, b"GET ", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"];
        let mut slow: Vec<(usize, TcpStream)> = (0..4 * EACH)
            .map(|number| (number % 4, connect(kinds[number % 4])))
            .collect();
        // The second kind sends a byte now and then. All have gone within a few times the timeout.
        let limit = (LONG.as_millis() / 100) as usize;
        for round in 0.. {
            slow.retain_mut(|(kind, stream)| {
                if *kind == 1 {
                    let _ = stream.write_all(b"y");
                }
                !is_closed(stream)
            });
            if slow.is_empty() {
                break;
            }
            assert!(round < limit, "{} are still there", slow.len());
            thread::sleep(Duration::from_millis(100));
        }
        is_over.store(true, Ordering::Relaxed);
        assert!(honest.join().unwrap() > 0);
    });
    until("all are closed", || front.open() == 0);
    front.end();
}

/// Whether the other end has closed. What it says before is passed over.
fn is_closed(stream: &mut TcpStream) -> bool {
    stream.set_nonblocking(true).unwrap();
    let mut bytes = [0; 1024];
    let is_closed = loop {
        match stream.read(&mut bytes) {
            Ok(0) => break true,
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => break false,
            Err(_) => break true,
        }
    };
    stream.set_nonblocking(false).unwrap();
    is_closed
}

#[test]
fn the_head_of_a_later_request_is_not_waited_for_longer() {
    let mut settings = settings();
    settings.header_timeout = Duration::from_millis(300);
    let front = Front::start(&settings);
    let mut client = front.connect();
    client.send(b"GET /a HTTP/1.1\r\nHost: a\r\n\r\nGET /b HTTP/1.1\r\nHo");
    assert_eq!(client.answer().unwrap().status, 200);
    assert_eq!(client.answer(), None);
    front.end();
}

#[test]
fn a_body_that_stands_still_ends_the_connection() {
    let mut settings = settings();
    settings.idle_timeout = Duration::from_millis(500);
    let front = Front::start(&settings);
    for head in ["Content-Length: 10", "Transfer-Encoding: chunked"] {
        let mut client = front.connect();
        let head = format!("POST / HTTP/1.1\r\nHost: a\r\n{head}\r\n\r\n5\r\nhe");
        client.send(head.as_bytes());
        assert_eq!(client.answer(), None);
    }
    until("they are closed", || front.open() == 0);
    front.end();
}

#[test]
fn an_answer_that_is_not_taken_ends_the_connection() {
    let mut settings = settings();
    settings.idle_timeout = Duration::from_millis(500);
    let front = Front::start(&settings);
    let mut client = front.connect();
    client.send(b"GET /big HTTP/1.1\r\nHost: a\r\n\r\n");
    until("it is asked for", || front.has_seen("/big"));
    until("it is closed", || front.open() == 0);
    assert!(client.rest().len() < BIG);
    front.end();
}

#[test]
fn an_answer_that_takes_time_is_waited_for() {
    let mut settings = settings();
    settings.idle_timeout = Duration::from_millis(300);
    settings.header_timeout = Duration::from_millis(300);
    let front = Front::start(&settings);
    let mut client = front.connect();
    client.send(b"POST /wait HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nok");
    until("it is asked for", || front.has_seen("/wait"));
    // One after the other, these take longer than any timeout.
    for _ in 0..3 {
        assert_eq!(front.connect().answer(), None);
    }
    front.seen.go.notify_one();
    assert_eq!(client.answer().unwrap().status, 200);
    front.end();
}

#[test]
fn connections_beyond_the_bound_wait_for_a_place() {
    let mut settings = settings();
    settings.max_connections = 3;
    let front = Front::start(&settings);
    let request = b"GET /a HTTP/1.1\r\nHost: a\r\n\r\n";
    let mut clients: Vec<Client> = (0..5).map(|_| front.connect()).collect();
    for client in &mut clients {
        client.send(request);
    }
    until("all places are taken", || front.open() == 3);
    // Nobody else gets an answer, however long it is waited for.
    let short = Some(Duration::from_millis(200));
    let (mut served, mut waiting) = (Vec::new(), Vec::new());
    for client in clients {
        client.stream.set_read_timeout(short).unwrap();
        match client.stream.peek(&mut [0]) {
            Ok(_) => served.push(client),
            Err(_) => waiting.push(client),
        }
    }
    assert_eq!((served.len(), waiting.len()), (3, 2));
    served.clear();
    for client in &mut waiting {
        client.stream.set_read_timeout(Some(LONG)).unwrap();
        assert_eq!(client.answer().unwrap().status, 200);
    }
    front.end();
}

//! HTTP/2 with prior knowledge: what is served, what is refused, and floods.

use std::time::Duration;

use bytes::Bytes;
use h2::client::SendRequest;
use http::{Request, StatusCode};
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::front::{Front, LONG, settings, until};

pub(crate) fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

type Connection = JoinHandle<Result<(), h2::Error>>;

async fn connect(front: &Front) -> (SendRequest<Bytes>, Connection) {
    let stream = TcpStream::connect(front.address).await.unwrap();
    // So that one stream cannot use up the window of all.
    let mut builder = h2::client::Builder::new();
    let builder = builder.initial_connection_window_size(1 << 20);
    let (client, connection) = builder.handshake(stream).await.unwrap();
    let connection = tokio::spawn(connection);
    (client.ready().await.unwrap(), connection)
}

fn get(uri: &str) -> Request<()> {
    Request::get(uri).body(()).unwrap()
}

/// The answer to a request with a body.
pub(crate) async fn ask(
    client: &mut SendRequest<Bytes>,
    request: Request<()>,
    body: &[u8],
) -> Result<(StatusCode, String), h2::Error> {
    let (response, mut stream) = client.send_request(request, body.is_empty())?;
    if !body.is_empty() {
        stream.send_data(Bytes::copy_from_slice(body), true)?;
    }
    let response = timeout(LONG, response).await.expect("no answer")?;
    let (status, mut body) = (response.status(), response.into_body());
    let mut text = Vec::new();
    while let Some(data) = timeout(LONG, body.data()).await.expect("no data") {
        let data = data?;
        body.flow_control().release_capacity(data.len())?;
        text.extend_from_slice(&data);
    }
    Ok((status, String::from_utf8(text).unwrap()))
}

#[test]
fn a_request_takes_the_form_of_any_other() {
    let front = Front::start(&settings());
    runtime().block_on(async {
        let (mut client, _) = connect(&front).await;
        let request = Request::post("http://a:1/b?c").body(()).unwrap();
        let (status, seen) = ask(&mut client, request, b"hello").await.unwrap();
        assert_eq!(
            (status, &*seen),
            (StatusCode::OK, "POST /b?c\nhost: a:1\nbody: hello")
        );
        let request = Request::get("http://a/b")
            .header("host", "a")
            .body(())
            .unwrap();
        let (status, _) = ask(&mut client, request, b"").await.unwrap();
        assert_eq!(status, StatusCode::OK);
    });
    front.end();
}

#[test]
fn what_is_ambiguous_is_refused() {
    let front = Front::start(&settings());
    runtime().block_on(async {
        let (mut client, _) = connect(&front).await;
        let hosts = |hosts: &[&str]| {
            let request = Request::get("http://a/never");
            let request = hosts
                .iter()
                .fold(request, |it, host| it.header("host", *host));
            request.body(()).unwrap()
        };
        let connect = Request::connect("a:443").body(()).unwrap();
        let too_long = Request::post("http://a/never");
        let too_long = too_long
            .header("content-length", "1000001")
            .body(())
            .unwrap();
        let expecting = Request::get("http://a/never")
            .header("expect", "x")
            .body(())
            .unwrap();
        let cases = [
            (hosts(&["b"]), 400),
            (hosts(&["a", "a"]), 400),
            (hosts(&["a,b"]), 400),
            (get("http://u@a/never"), 400),
            (connect, 501),
            (expecting, 417),
        ];
        for (request, status) in cases {
            let told = format!("{request:?}");
            let (seen, _) = ask(&mut client, request, b"").await.unwrap();
            assert_eq!(seen, status, "{told}");
        }
        let (response, _stream) = client.send_request(too_long, false).unwrap();
        let response = timeout(LONG, response).await.unwrap().unwrap();
        assert_eq!(response.status(), 413);
        let body = vec![b'x'; 1_000_001];
        let request = Request::post("http://a/").body(()).unwrap();
        let (status, _) = ask(&mut client, request, &body).await.unwrap();
        assert_eq!(status, 413);
    });
    assert!(!front.has_seen("/never"));
    front.end();
}

#[test]
fn an_idle_connection_is_told_to_go() {
    let mut settings = settings();
    settings.header_timeout = Duration::from_millis(200);
    settings.idle_timeout = Duration::from_secs(1);
    let front = Front::start(&settings);
    runtime().block_on(async {
        let (mut client, connection) = connect(&front).await;
        ask(&mut client, get("http://a/"), b"").await.unwrap();
        // Longer than a head may take, shorter than a connection may be idle.
        tokio::time::sleep(Duration::from_millis(500)).await;
        ask(&mut client, get("http://a/"), b"").await.unwrap();
        let ended = timeout(LONG, connection).await.expect("it stays").unwrap();
        ended.expect("it was cut off");
    });
    front.end();
}

#[test]
fn a_stream_that_is_not_taken_ends_and_others_go_on() {
    let mut settings = settings();
    settings.idle_timeout = Duration::from_millis(700);
    let front = Front::start(&settings);
    runtime().block_on(async {
        let (mut client, _connection) = connect(&front).await;
        let (response, _) = client.send_request(get("http://a/big"), true).unwrap();
        let mut stuck = response.await.unwrap().into_body();
        let request = Request::post("http://a/half").body(()).unwrap();
        let (half, mut sending) = client.send_request(request, false).unwrap();
        sending
            .send_data(Bytes::from_static(b"half"), false)
            .unwrap();
        // The window of the connection is not used up: others are answered until both have ended.
        let mut has_ended = false;
        let mut half = std::pin::pin!(half);
        for _ in 0..LONG.as_millis() / 50 {
            ask(&mut client, get("http://a/"), b"").await.unwrap();
            let ended = timeout(Duration::from_millis(50), half.as_mut()).await;
            if let Ok(ended) = ended {
                ended.unwrap_err();
                has_ended = true;
                break;
            }
        }
        assert!(has_ended, "half a body is waited for for ever");
        // What was on its way is still delivered if the client comes to take it; no more.
        let mut taken = 0;
        let ended = loop {
            match timeout(LONG, stuck.data()).await.expect("it stays") {
                Some(Ok(data)) => {
                    taken += data.len();
                    stuck.flow_control().release_capacity(data.len()).unwrap();
                }
                ended => break ended,
            }
        };
        assert!(taken < 1_000_000, "{taken}");
        assert!(matches!(ended, Some(Err(_))), "{ended:?}");
        ask(&mut client, get("http://a/"), b"").await.unwrap();
    });
    front.end();
}

#[test]
fn streams_under_way_finish_when_the_front_stops() {
    let front = Front::start(&settings());
    runtime().block_on(async {
        let (mut client, connection) = connect(&front).await;
        let (response, _) = client.send_request(get("http://a/wait"), true).unwrap();
        let (mut idle, idle_connection) = connect(&front).await;
        ask(&mut idle, get("http://a/"), b"").await.unwrap();
        front.workers.stop();
        timeout(LONG, idle_connection)
            .await
            .expect("it stays")
            .unwrap()
            .unwrap();
        front.seen.go.notify_one();
        let response = timeout(LONG, response).await.unwrap().unwrap();
        assert_eq!(response.status(), 200);
        drop((client, response));
        timeout(LONG, connection)
            .await
            .expect("it stays")
            .unwrap()
            .unwrap();
    });
    front.end();
}

/// Bytes of memory that this process holds.
fn memory() -> usize {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    let resident = pages.split_whitespace().nth(1).unwrap();
    resident.parse::<usize>().unwrap() * 4096
}

const ALLOWED: usize = 64 << 20;

#[test]
fn requests_that_are_taken_back_cost_little() {
    let front = Front::start(&settings());
    let before = memory();
    runtime().block_on(async {
        let mut sent = 0;
        for _ in 0..20 {
            let (mut client, connection) = connect(&front).await;
            for _ in 0..2000 {
                let Ok((_, mut stream)) = client.send_request(get("http://a/wait"), true) else {
                    break;
                };
                stream.send_reset(h2::Reason::CANCEL);
                sent += 1;
                if sent % 50 == 0 {
                    tokio::task::yield_now().await;
                }
            }
            // It was told to go, or is let go.
            drop(client);
            let _ = timeout(LONG, connection).await.expect("it stays");
        }
        assert!(sent > 500, "{sent}");
    });
    front.assert_serves();
    until("all are closed", || front.open() == 0);
    let grown = memory().saturating_sub(before);
    assert!(grown < ALLOWED, "{grown}");
    front.end();
}

/// A client that waits for each of its streams to be begun, so that none is taken back too early to
/// be noticed.
#[test]
fn a_client_that_takes_back_everything_is_let_go() {
    let front = Front::start(&settings());
    runtime().block_on(async {
        let (mut client, connection) = connect(&front).await;
        let mut taken_back = 0;
        while taken_back < 2000 && !connection.is_finished() {
            let seen = front.seen.paths.lock().unwrap().len();
            let Ok((_, mut stream)) = client.send_request(get("http://a/wait"), true) else {
                break;
            };
            while front.seen.paths.lock().unwrap().len() == seen && !connection.is_finished() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            stream.send_reset(h2::Reason::CANCEL);
            taken_back += 1;
        }
        assert!((200..1000).contains(&taken_back), "{taken_back}");
    });
    front.assert_serves();
    front.end();
}

#[test]
fn a_head_without_end_costs_little() {
    let front = Front::start(&settings());
    let before = memory();
    for _ in 0..8 {
        let mut client = front.connect();
        client.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
        client.send(&frame(0x4, 0, 0, &[]));
        // HEADERS that do not end, and CONTINUATION after CONTINUATION: a literal field each.
        client.send(&frame(0x1, 0, 1, &[0x82, 0x86, 0x84, 0x41, 0x01, b'a']));
        let mut field = vec![0x00, 0x01, b'x', 0x7f, 0x81, 0x7e];
        field.resize(16_000, b'y');
        let more = frame(0x9, 0, 1, &field);
        for _ in 0..2000 {
            client.send(&more);
        }
        client.rest();
    }
    front.assert_serves();
    until("all are closed", || front.open() == 0);
    let grown = memory().saturating_sub(before);
    assert!(grown < ALLOWED, "{grown}");
    front.end();
}

/// A frame: kind, flags, stream, content.
fn frame(kind: u8, flags: u8, stream: u32, content: &[u8]) -> Vec<u8> {
    let length = u32::try_from(content.len()).unwrap().to_be_bytes();
    let mut frame = length[1..].to_vec();
    frame.extend_from_slice(&[kind, flags]);
    frame.extend_from_slice(&stream.to_be_bytes());
    frame.extend_from_slice(content);
    frame
}

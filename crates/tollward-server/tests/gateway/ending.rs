//! What else is under way when a gateway is told to end.

use std::io::{Read, Write};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tollward_testkit::http::head;
use tollward_testkit::upstream::{Upstream, answer};

use crate::http2::{post, speak};
use crate::process_gateway::GatewayProcess;
use crate::served::until;

/// A gateway that lets everybody through to one upstream.
pub(crate) fn config(upstream: &Upstream, rest: &str) -> String {
    format!(
        "identity: {{ anonymous: allow }}\nroutes: [ {{ match: /**, upstream: app }} ]\n\
         upstreams: {{ app: {{ url: {} }} }}\n{rest}\n",
        upstream.url()
    )
}

#[test]
fn whoever_waits_in_line_is_served() {
    let upstream = Upstream::start();
    let limit = "limits: { line: { sustained: { rate: 30, window: minute }, scope: ip, \
                 burst: { capacity: 1 }, strategy: queue, queue: { max_wait: 4s } } }";
    let (mut process, _folder, _) = GatewayProcess::of(&config(&upstream, limit), &[]);
    let mut waiting: Vec<_> = (0..3)
        .map(|caller| {
            let mut connection = process.connect();
            let head = head("GET", &format!("/{caller}"), &[], 0);
            connection.send(head.as_bytes()).unwrap();
            let decided = "tollward_decision_sources_total{source=\"memory\"} ";
            let decided = format!("{decided}{}\n", caller + 1);
            until("a decision", || process.metrics().contains(&decided));
            connection
        })
        .collect();
    process.close();
    for connection in &mut waiting {
        let answer = connection.read(false).unwrap();
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
    process.ended();
    assert_eq!(upstream.count(), 3);
}

/// A tunnel has no end of its own that could be waited for.
#[test]
fn a_tunnel_is_closed() {
    let upstream = Upstream::doing(|_, wire| {
        let head =
            "HTTP/1.1 101 Switching Protocols\r\nupgrade: echo\r\nconnection: upgrade\r\n\r\n";
        wire.get_mut().write_all(head.as_bytes())?;
        let mut bytes = [0; 4];
        loop {
            wire.read_exact(&mut bytes)?;
            wire.get_mut().write_all(&bytes)?;
        }
    });
    let (mut process, _folder, _) = GatewayProcess::of(&config(&upstream, ""), &[]);
    let mut connection = process.connect();
    let request = "GET / HTTP/1.1\r\nhost: a\r\nupgrade: echo\r\nconnection: upgrade\r\n\r\n";
    connection.send(request.as_bytes()).unwrap();
    assert_eq!(connection.read_head().unwrap().status, 101);
    connection.send(b"ping").unwrap();
    assert_eq!(connection.read_bytes(4).unwrap(), b"ping");
    process.process.signal("TERM");
    assert_eq!(connection.read_to_end(), b"");
    process.ended();
}

/// A request of HTTP/2 either is answered, or is said not to have been begun.
#[test]
fn no_request_of_http2_is_cut_off() {
    const CONNECTIONS: usize = 4;
    const STREAMS: usize = 4;
    let upstream = Upstream::answering(|_| {
        // So that there is always something under way.
        thread::sleep(Duration::from_millis(2));
        answer(200, &[], &[b'x'; 10_000])
    });
    let (mut process, _folder, _) = GatewayProcess::of(&config(&upstream, ""), &[]);
    let answered = AtomicUsize::new(0);
    let runtime = Runtime::new().unwrap();
    thread::scope(|scope| {
        let (gateway, answered, runtime) = (process.gateway, &answered, &runtime);
        for _ in 0..CONNECTIONS {
            let client =
                runtime.block_on(async { speak(TcpStream::connect(gateway).await.unwrap()).await });
            for _ in 0..STREAMS {
                let mut client = client.clone();
                scope.spawn(move || {
                    runtime.block_on(async {
                        while let Ok(whole) = exchange(&mut client).await {
                            assert_eq!(whole, 10_000);
                            answered.fetch_add(1, SeqCst);
                        }
                    });
                });
            }
        }
        until("some load", || answered.load(SeqCst) > 500);
        process.close();
    });
    process.ended();
    // Whatever reached the upstream was answered.
    assert_eq!(upstream.count(), answered.load(SeqCst));
}

/// The length of an answer; an error if the request was never begun.
async fn exchange(client: &mut h2::client::SendRequest<bytes::Bytes>) -> Result<usize, h2::Error> {
    ready(client).await?;
    let request = post("http://api.test/").body(()).unwrap();
    let (response, _) = client.send_request(request, true)?;
    let mut body = response.await?.into_body();
    let mut length = 0;
    while let Some(data) = body.data().await {
        let data = data.expect("the rest of an answer that has begun");
        body.flow_control().release_capacity(data.len()).unwrap();
        length += data.len();
    }
    Ok(length)
}

async fn ready(client: &mut h2::client::SendRequest<bytes::Bytes>) -> Result<(), h2::Error> {
    std::future::poll_fn(|cx| client.poll_ready(cx)).await
}

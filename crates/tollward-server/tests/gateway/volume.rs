//! Bodies that are larger than memory should be.

use std::fs;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use tollward_testkit::http::{Connection, head};
use tollward_testkit::upstream::{Upstream, Wire, answer};

use crate::process_gateway::GatewayProcess;

const GIGABYTE: u64 = 1 << 30;
/// By how much the process may grow, in kilobytes.
const GROWTH: u64 = 64 << 10;
/// The bytes of a body repeat after so many: no power of two, so that what is out of place shows.
const PERIOD: usize = 251;
const PIECE: usize = PERIOD * 256;

fn pattern() -> Vec<u8> {
    (0..=250).cycle().take(PIECE + PERIOD).collect()
}

fn write_body(to: &mut impl Write, length: u64, written: &AtomicU64) -> std::io::Result<()> {
    let pattern = pattern();
    let mut left = length;
    while left > 0 {
        let piece = left.min(PIECE as u64);
        to.write_all(&pattern[..usize::try_from(piece).unwrap()])?;
        written.fetch_add(piece, SeqCst);
        left -= piece;
    }
    Ok(())
}

/// Reads a body, and says how much of it was as it should be.
fn read_body(from: &mut impl Read, length: u64) -> u64 {
    let pattern = pattern();
    let mut bytes = vec![0; PIECE];
    let mut read = 0;
    while read < length {
        let most = usize::try_from((length - read).min(PIECE as u64)).unwrap();
        let Ok(count @ 1..) = from.read(&mut bytes[..most]) else {
            break;
        };
        let start = usize::try_from(read % PERIOD as u64).unwrap();
        if bytes[..count] != pattern[start..start + count] {
            break;
        }
        read += count as u64;
    }
    read
}

/// `POST /sink` counts a body, `POST /echo` sends it back, and `GET` gives one of a gigabyte.
fn upstream(written: &Arc<AtomicU64>) -> Upstream {
    let written = written.clone();
    Upstream::raw(move |request, wire| {
        let length = request.header("content-length").unwrap_or("0");
        let length: u64 = length.parse().unwrap();
        match &*request.target {
            "/sink" => {
                let read = read_body(wire, length).to_string();
                wire.get_mut().write_all(&answer(200, &[], read.as_bytes()))
            }
            "/echo" => {
                begin(wire, length)?;
                let mut out = wire.get_ref().try_clone()?;
                std::io::copy(&mut wire.take(length), &mut out)?;
                Ok(())
            }
            _ => {
                begin(wire, GIGABYTE)?;
                write_body(wire.get_mut(), GIGABYTE, &written)
            }
        }
    })
}

fn begin(wire: &mut Wire, length: u64) -> std::io::Result<()> {
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n");
    wire.get_mut().write_all(head.as_bytes())
}

/// A figure of the process, in kilobytes.
fn memory(process: &GatewayProcess, figure: &str) -> u64 {
    let path = format!("/proc/{}/status", process.process.id());
    let status = fs::read_to_string(path).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(figure));
    let value = line.unwrap().trim().trim_end_matches(" kB");
    value.parse().unwrap()
}

fn post(connection: &mut Connection, target: &str, length: u64) {
    let length = usize::try_from(length).unwrap();
    let head = head("POST", target, &[], length);
    connection.send(head.as_bytes()).unwrap();
}

#[test]
fn a_gigabyte_goes_through_either_way_in_little_memory() {
    let written = Arc::new(AtomicU64::new(0));
    let upstream = upstream(&written);
    let (mut process, _folder, _) = GatewayProcess::of(
        &format!(
            "identity: {{ anonymous: allow }}\nroutes: [ {{ match: /**, upstream: app }} ]\n\
             upstreams: {{ app: {{ url: {} }} }}\n",
            upstream.url()
        ),
        &[],
    );
    let mut connection = process.connect();
    assert_eq!(
        connection
            .request("POST", "/sink", &[], b"")
            .unwrap()
            .text(),
        "0"
    );
    let before = memory(&process, "VmRSS:");

    post(&mut connection, "/sink", GIGABYTE);
    write_body(connection.stream().get_mut(), GIGABYTE, &AtomicU64::new(0)).unwrap();
    let answer = connection.read(false).unwrap();
    assert_eq!(answer.text(), GIGABYTE.to_string());

    connection
        .send(head("GET", "/big", &[], 0).as_bytes())
        .unwrap();
    assert_eq!(connection.read_head().unwrap().status, 200);
    assert_eq!(read_body(connection.stream(), GIGABYTE), GIGABYTE);
    assert_eq!(written.swap(0, SeqCst), GIGABYTE);

    // Both at once.
    const ECHO: u64 = 64 << 20;
    post(&mut connection, "/echo", ECHO);
    let mut out = connection.stream().get_ref().try_clone().unwrap();
    let sender = thread::spawn(move || write_body(&mut out, ECHO, &AtomicU64::new(0)).unwrap());
    assert_eq!(connection.read_head().unwrap().status, 200);
    assert_eq!(read_body(connection.stream(), ECHO), ECHO);
    sender.join().unwrap();

    // A client that takes nothing stops the upstream, and does not fill the gateway.
    let mut idle = process.connect();
    idle.send(head("GET", "/big", &[], 0).as_bytes()).unwrap();
    let mut last = (0, 0);
    while last.1 < 50 {
        thread::sleep(Duration::from_millis(10));
        let now = written.load(SeqCst);
        last = if now == last.0 && now > 0 {
            (now, last.1 + 1)
        } else {
            (now, 0)
        };
    }
    assert!(last.0 < 32 << 20, "{} bytes are on their way", last.0);

    let peak = memory(&process, "VmHWM:");
    let grown = peak.saturating_sub(before);
    assert!(grown < GROWTH, "from {before} kB to {peak} kB");
    idle.stream().get_mut().shutdown(Shutdown::Both).unwrap();
    drop((idle, connection));
    process.end();
}

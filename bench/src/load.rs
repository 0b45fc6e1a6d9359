//! A small load generator: as many threads as connections, each asks and waits for the answer.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use crate::keys::Random;

pub(crate) const CONNECTIONS: usize = 16;
const TIMEOUT: Duration = Duration::from_secs(10);

/// A request with nine digits to fill in, in one place or several.
#[derive(Clone, Debug)]
pub(crate) struct Template {
    bytes: Vec<u8>,
    holes: Vec<usize>,
}

const HOLE: &str = "#########";

impl Template {
    /// A POST of this body, in which `#########` stands for the number of a key.
    pub(crate) fn post(path: &str, body: &str) -> Self {
        let text = format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n{body}",
            body.len()
        );
        let holes = text.match_indices(HOLE).map(|(at, _)| at).collect();
        Self {
            bytes: text.into_bytes(),
            holes,
        }
    }

    fn fill(&mut self, random: &mut Random, keys: u32) {
        for hole in &self.holes {
            let mut rest = random.below(keys);
            for digit in self.bytes[*hole..*hole + HOLE.len()].iter_mut().rev() {
                *digit = b'0' + (rest % 10) as u8;
                rest /= 10;
            }
        }
    }
}

/// Sends requests over all connections for as long as a turn lasts, at most `max` on each. Answers
/// how many were answered with 200, and in what time.
pub(crate) fn drive(
    server: SocketAddr,
    template: &Template,
    keys: u32,
    turn: Duration,
    max: u64,
) -> io::Result<(u64, Duration)> {
    let began = Instant::now();
    let counts: Vec<io::Result<u64>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..CONNECTIONS)
            .map(|seed| {
                let template = template.clone();
                scope.spawn(move || converse(server, template, keys, began + turn, max, seed))
            })
            .collect();
        let failed = || Err(io::Error::other("a connection's thread failed"));
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|_| failed()))
            .collect()
    });
    let elapsed = began.elapsed();
    Ok((counts.into_iter().sum::<io::Result<u64>>()?, elapsed))
}

fn converse(
    server: SocketAddr,
    mut template: Template,
    keys: u32,
    until: Instant,
    max: u64,
    seed: usize,
) -> io::Result<u64> {
    let mut stream = TcpStream::connect_timeout(&server, TIMEOUT)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    let mut random = Random::new(seed);
    let mut buffer = vec![0; 256 * 1024];
    let mut done = 0;
    while done < max && Instant::now() < until {
        template.fill(&mut random, keys);
        stream.write_all(&template.bytes)?;
        read_answer(&mut stream, &mut buffer)?;
        done += 1;
    }
    Ok(done)
}

/// Reads an answer with a `content-length`, and nothing beyond it: only one is ever awaited.
fn read_answer(stream: &mut TcpStream, buffer: &mut [u8]) -> io::Result<()> {
    let mut filled = 0;
    let mut expected = None;
    while expected.is_none_or(|expected| filled < expected) {
        let read = stream.read(&mut buffer[filled..])?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        filled += read;
        if expected.is_none() {
            expected = answer_length(&buffer[..filled])?;
        }
    }
    Ok(())
}

/// The length of the whole answer, once its head is there.
fn answer_length(read: &[u8]) -> io::Result<Option<usize>> {
    let Some(end) = read.windows(4).position(|it| it == b"\r\n\r\n") else {
        return Ok(None);
    };
    let head = String::from_utf8_lossy(&read[..end]);
    let wrong = |what| io::Error::other(format!("{what}: {head}"));
    if !head.starts_with("HTTP/1.1 200") {
        return Err(wrong("not a 200"));
    }
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        let is_length = name.eq_ignore_ascii_case("content-length");
        is_length.then(|| value.trim().parse::<usize>().ok())?
    });
    Ok(Some(end + 4 + length.ok_or_else(|| wrong("no length"))?))
}

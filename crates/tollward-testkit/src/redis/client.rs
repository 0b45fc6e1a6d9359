//! A small RESP2 client that blocks, one command at a time.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// A server that says nothing for so long has failed the test.
const PATIENCE: Duration = Duration::from_secs(30);
/// No line of an answer is longer.
const MAX_LINE: u64 = 64 << 10;
/// No answer is larger, all its parts together.
const MAX_REPLY: usize = 64 << 20;
/// What a part counts towards [`MAX_REPLY`], besides its bytes.
const PART: usize = 32;
/// No answer is nested deeper.
const MAX_DEPTH: u32 = 16;

/// What a server answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// No such thing.
    Nil,
    /// An integer.
    Int(i64),
    /// Bytes.
    Bulk(Vec<u8>),
    /// A status, such as `OK`.
    Simple(String),
    /// An error, its code first.
    Error(String),
    /// Several answers.
    Array(Vec<Value>),
}

impl Value {
    /// The integer, also if it is written as text.
    pub fn as_int(&self) -> Option<i64> {
        match self {
            Self::Int(int) => Some(*int),
            _ => self.as_text()?.parse().ok(),
        }
    }

    /// The text of bytes or of a status; of an error there is none.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Bulk(bytes) => std::str::from_utf8(bytes).ok(),
            Self::Simple(text) => Some(text),
            _ => None,
        }
    }

    /// The parts of an array; nothing else has any.
    pub fn as_array(&self) -> &[Self] {
        match self {
            Self::Array(parts) => parts,
            _ => &[],
        }
    }

    /// Whether it is the status `OK`.
    pub fn is_ok(&self) -> bool {
        matches!(self, Self::Simple(status) if status == "OK")
    }
}

/// A connection to a server.
#[derive(Debug)]
pub struct Client {
    stream: BufReader<Stream>,
}

impl Client {
    /// Connects, and is patient.
    pub fn connect(address: SocketAddr) -> io::Result<Self> {
        Self::connect_within(address, PATIENCE)
    }

    /// Connects; connecting and every read and write may take that long, and not longer.
    pub fn connect_within(address: SocketAddr, timeout: Duration) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&address, timeout)?;
        stream.set_nodelay(true)?;
        Self::new(Stream::Tcp(stream), timeout)
    }

    /// Connects to a socket in the file system; every read and write may take that long.
    pub fn connect_unix(path: &Path, timeout: Duration) -> io::Result<Self> {
        let stream = UnixStream::connect(path)?;
        Self::new(Stream::Unix(stream), timeout)
    }

    fn new(stream: Stream, timeout: Duration) -> io::Result<Self> {
        let stream = BufReader::new(stream);
        let client = Self { stream };
        client.set_timeout(timeout)?;
        Ok(client)
    }

    /// From now on every read and write may take that long.
    pub fn set_timeout(&self, timeout: Duration) -> io::Result<()> {
        let timeout = Some(timeout);
        match self.stream.get_ref() {
            Stream::Tcp(stream) => {
                stream.set_read_timeout(timeout)?;
                stream.set_write_timeout(timeout)
            }
            Stream::Unix(stream) => {
                stream.set_read_timeout(timeout)?;
                stream.set_write_timeout(timeout)
            }
        }
    }

    /// Sends a command and reads its answer. Not to be used further after an error.
    pub fn call<A: AsRef<[u8]>>(&mut self, parts: &[A]) -> io::Result<Value> {
        self.send(parts)?;
        self.read()
    }

    /// Sends a command and does not wait for the answer.
    pub fn send<A: AsRef<[u8]>>(&mut self, parts: &[A]) -> io::Result<()> {
        let mut request = format!("*{}\r\n", parts.len()).into_bytes();
        for part in parts {
            let part = part.as_ref();
            request.extend_from_slice(format!("${}\r\n", part.len()).as_bytes());
            request.extend_from_slice(part);
            request.extend_from_slice(b"\r\n");
        }
        self.stream.get_mut().write_all(&request)
    }

    /// Reads one answer.
    pub fn read(&mut self) -> io::Result<Value> {
        let mut budget = MAX_REPLY;
        self.read_value(&mut budget, MAX_DEPTH)
    }

    fn read_value(&mut self, budget: &mut usize, depth: u32) -> io::Result<Value> {
        let line = self.read_line()?;
        spend(budget, PART + line.len())?;
        let (kind, rest) = line.split_at_checked(1).ok_or_else(|| malformed(&line))?;
        let length = || match rest {
            "-1" => Ok(None),
            _ => rest
                .parse::<usize>()
                .map(Some)
                .map_err(|_| malformed(&line)),
        };
        match kind {
            "+" => Ok(Value::Simple(rest.to_owned())),
            "-" => Ok(Value::Error(rest.to_owned())),
            ":" => rest.parse().map(Value::Int).map_err(|_| malformed(&line)),
            "$" => match length()? {
                Some(length) => self.read_bulk(budget, length),
                None => Ok(Value::Nil),
            },
            "*" => match (length()?, depth.checked_sub(1)) {
                (None, _) => Ok(Value::Nil),
                // Grows with what has come, not with what was announced.
                (Some(length), Some(depth)) => (0..length)
                    .map(|_| self.read_value(budget, depth))
                    .collect::<io::Result<_>>()
                    .map(Value::Array),
                (Some(_), None) => Err(io::Error::other("an answer nested too deeply")),
            },
            _ => Err(malformed(&line)),
        }
    }

    fn read_bulk(&mut self, budget: &mut usize, length: usize) -> io::Result<Value> {
        spend(budget, length)?;
        let mut bytes = vec![0; length];
        self.stream.read_exact(&mut bytes)?;
        let mut end = [0; 2];
        self.stream.read_exact(&mut end)?;
        match &end {
            b"\r\n" => Ok(Value::Bulk(bytes)),
            _ => Err(io::Error::other("bytes that do not end where they should")),
        }
    }

    fn read_line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        let mut limited = (&mut self.stream).take(MAX_LINE);
        limited.read_line(&mut line)?;
        match line.strip_suffix("\r\n") {
            Some(line) => Ok(line.to_owned()),
            None => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

fn spend(budget: &mut usize, size: usize) -> io::Result<()> {
    *budget = budget
        .checked_sub(size)
        .ok_or_else(|| io::Error::other("an answer too large"))?;
    Ok(())
}

fn malformed(line: &str) -> io::Error {
    io::Error::other(format!("not RESP2: {line:?}"))
}

#[derive(Debug)]
enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(buffer),
            Self::Unix(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(bytes),
            Self::Unix(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.flush(),
            Self::Unix(stream) => stream.flush(),
        }
    }
}

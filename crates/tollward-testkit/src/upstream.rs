//! A small HTTP/1.1 server to stand behind a gateway: a thread for each connection, and a memory of what it was asked.
#![expect(
    clippy::panic,
    reason = "a fixture that cannot do its work fails the test, and only tests use it"
)]

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// A gateway that says nothing for so long has failed the test.
const PATIENCE: Duration = Duration::from_secs(60);
const MAX_LINE: u64 = 1 << 20;

/// A server on a free port of 127.0.0.1. It listens until it is dropped.
#[derive(Debug)]
pub struct Upstream {
    address: SocketAddr,
    shared: Arc<Shared>,
}

/// A request as it came.
#[derive(Clone, Debug)]
pub struct Request {
    /// The method.
    pub method: String,
    /// Path and query.
    pub target: String,
    /// The headers in their order, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body, unless it is left to whoever answers.
    pub body: Vec<u8>,
}

/// The connection that a request came on.
pub type Wire = BufReader<TcpStream>;

#[derive(Debug, Default)]
struct Shared {
    seen: Mutex<Vec<Request>>,
    connections: AtomicUsize,
    ends: AtomicBool,
}

impl Upstream {
    /// Answers every request with 200 and its own words.
    #[track_caller]
    pub fn start() -> Self {
        Self::answering(|request| {
            let words = format!("{} {}", request.method, request.target);
            answer(200, &[], words.as_bytes())
        })
    }

    /// Answers every request, its body read, with these bytes.
    #[track_caller]
    pub fn answering(answer: impl Fn(&Request) -> Vec<u8> + Send + Sync + 'static) -> Self {
        Self::serve(true, move |request, wire| {
            wire.get_mut().write_all(&answer(request))
        })
    }

    /// Does with each request what it is told, its body read; an error ends the connection.
    #[track_caller]
    pub fn doing(
        act: impl Fn(&Request, &mut Wire) -> io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        Self::serve(true, act)
    }

    /// The same, and the body is left to whoever answers.
    #[track_caller]
    pub fn raw(
        act: impl Fn(&Request, &mut Wire) -> io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        Self::serve(false, act)
    }

    #[track_caller]
    fn serve(
        whole: bool,
        act: impl Fn(&Request, &mut Wire) -> io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0));
        let bound = listener.and_then(|it| Ok((it.local_addr()?, it)));
        let (address, listener) = match bound {
            Ok(bound) => bound,
            Err(error) => panic!("the upstream cannot listen: {error}"),
        };
        let shared = Arc::new(Shared::default());
        let (sharing, act) = (Arc::clone(&shared), Arc::new(act));
        thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                if sharing.ends.load(SeqCst) {
                    return;
                }
                sharing.connections.fetch_add(1, SeqCst);
                let (shared, act) = (Arc::clone(&sharing), Arc::clone(&act));
                // The end of a connection is nothing to tell of.
                thread::spawn(move || shared.converse(stream, whole, &*act));
            }
        });
        Self { address, shared }
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.address
    }

    /// The same as a URL, without a path.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// All requests so far.
    pub fn seen(&self) -> Vec<Request> {
        self.shared.seen().clone()
    }

    /// How many those are.
    pub fn count(&self) -> usize {
        self.shared.seen().len()
    }

    /// The last of them.
    #[track_caller]
    pub fn last(&self) -> Request {
        match self.shared.seen().last() {
            Some(request) => request.clone(),
            None => panic!("the upstream has seen nothing"),
        }
    }

    /// How many connections there were.
    pub fn connections(&self) -> usize {
        self.shared.connections.load(SeqCst)
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.shared.ends.store(true, SeqCst);
        // Wakes the listener, which then goes.
        let _ = TcpStream::connect_timeout(&self.address, Duration::from_secs(1));
    }
}

impl Shared {
    fn seen(&self) -> MutexGuard<'_, Vec<Request>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn converse(
        &self,
        stream: TcpStream,
        whole: bool,
        act: &(dyn Fn(&Request, &mut Wire) -> io::Result<()> + Send + Sync),
    ) -> io::Result<()> {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let mut wire = BufReader::new(stream);
        while let Some(mut request) = read_request(&mut wire)? {
            if whole {
                request.body = read_body(&request, &mut wire)?;
            }
            self.seen().push(request.clone());
            act(&request, &mut wire)?;
        }
        Ok(())
    }
}

impl Request {
    /// The value of a header, if there is exactly one.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut values = self.headers.iter().filter(|(header, _)| header == name);
        match (values.next(), values.next()) {
            (Some((_, value)), None) => Some(value),
            _ => None,
        }
    }
}

/// The bytes of an answer with a body of known length.
pub fn answer(status: u16, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let mut head = format!("HTTP/1.1 {status} Whatever\r\n");
    for (name, value) in headers {
        head += &format!("{name}: {value}\r\n");
    }
    head += &format!("content-length: {}\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

/// The head of the next request; nothing at the end of the connection.
fn read_request(wire: &mut Wire) -> io::Result<Option<Request>> {
    let start = match read_line(wire) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        start => start?,
    };
    let mut words = start.split(' ');
    let (Some(method), Some(target)) = (words.next(), words.next()) else {
        return Err(io::Error::other(format!("no request: {start:?}")));
    };
    let mut request = Request {
        method: method.to_owned(),
        target: target.to_owned(),
        headers: Vec::new(),
        body: Vec::new(),
    };
    loop {
        let line = read_line(wire)?;
        if line.is_empty() {
            return Ok(Some(request));
        }
        let (name, value) = line
            .split_once(':')
            .ok_or_else(|| io::Error::other(format!("no header: {line:?}")))?;
        let header = (name.to_ascii_lowercase(), value.trim().to_owned());
        request.headers.push(header);
    }
}

fn read_body(request: &Request, wire: &mut Wire) -> io::Result<Vec<u8>> {
    if request.header("transfer-encoding") == Some("chunked") {
        let mut body = Vec::new();
        while let Some(chunk) = read_chunk(wire)? {
            body.extend_from_slice(&chunk);
        }
        return Ok(body);
    }
    let length = request.header("content-length").map(str::parse::<usize>);
    let length = length.transpose().map_err(io::Error::other)?;
    let mut body = vec![0; length.unwrap_or(0)];
    wire.read_exact(&mut body)?;
    Ok(body)
}

/// The next chunk of a body; nothing at its end. Trailers are skipped.
///
/// # Errors
///
/// The body is broken, or broke off.
pub fn read_chunk<S: Read>(wire: &mut BufReader<S>) -> io::Result<Option<Vec<u8>>> {
    let size = read_line(wire)?;
    let digits = size.split(';').next().unwrap_or_default();
    let size = usize::from_str_radix(digits, 16).map_err(io::Error::other)?;
    if size == 0 {
        while !read_line(wire)?.is_empty() {}
        return Ok(None);
    }
    let mut chunk = vec![0; size];
    wire.read_exact(&mut chunk)?;
    match &*read_line(wire)? {
        "" => Ok(Some(chunk)),
        _ => Err(io::Error::other("a chunk is longer than it says")),
    }
}

fn read_line<S: Read>(wire: &mut BufReader<S>) -> io::Result<String> {
    let mut line = String::new();
    wire.take(MAX_LINE).read_line(&mut line)?;
    match line.strip_suffix("\r\n") {
        Some(line) => Ok(line.to_owned()),
        None => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

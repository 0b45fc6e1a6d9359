//! A small HTTP/1.1 client that blocks, keeps its connection, and sends whatever bytes it is given.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use crate::upstream::read_chunk;

/// A server that says nothing for so long has failed the test.
const PATIENCE: Duration = Duration::from_secs(60);
/// No answer under test has a longer line or more of them.
const MAX_LINE: u64 = 1 << 20;

/// A connection to a server.
#[derive(Debug)]
pub struct Connection {
    stream: BufReader<TcpStream>,
}

/// An answer.
#[derive(Clone, Debug)]
pub struct Response {
    /// The status.
    pub status: u16,
    /// The headers in their order, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

impl Connection {
    /// Connects.
    pub fn open(address: SocketAddr) -> io::Result<Self> {
        Self::over(TcpStream::connect(address)?)
    }

    /// Uses a connection that is there.
    pub fn over(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Self {
            stream: BufReader::new(stream),
        })
    }

    /// Sends bytes as they are.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.get_mut().write_all(bytes)
    }

    /// Sends a request and reads the answer.
    pub fn request(
        &mut self,
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> io::Result<Response> {
        let mut request = head(method, target, headers, body.len()).into_bytes();
        request.extend_from_slice(body);
        self.send(&request)?;
        self.read(method == "HEAD")
    }

    /// Reads one answer; `bodiless` if it answers HEAD.
    pub fn read(&mut self, bodiless: bool) -> io::Result<Response> {
        loop {
            let mut response = self.read_head()?;
            if response.status < 200 {
                continue;
            }
            if bodiless || matches!(response.status, 204 | 304) {
                return Ok(response);
            }
            let length = response.header("content-length").map(str::parse::<usize>);
            match length {
                Some(Ok(length)) => {
                    response.body.resize(length, 0);
                    self.stream.read_exact(&mut response.body)?;
                }
                Some(Err(_)) => return Err(io::Error::other("content-length is not a number")),
                None if response.header("transfer-encoding").is_some() => {
                    while let Some(chunk) = self.read_chunk()? {
                        response.body.extend_from_slice(&chunk);
                    }
                }
                None => {
                    self.stream.read_to_end(&mut response.body)?;
                }
            }
            return Ok(response);
        }
    }

    /// Reads the next chunk of a body, behind the head of an answer; nothing at its end.
    pub fn read_chunk(&mut self) -> io::Result<Option<Vec<u8>>> {
        read_chunk(&mut self.stream)
    }

    /// Reads so many bytes.
    pub fn read_bytes(&mut self, length: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; length];
        self.stream.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    /// The stream itself. What was read ahead of it is in the buffer.
    pub fn stream(&mut self) -> &mut BufReader<TcpStream> {
        &mut self.stream
    }

    /// Waits until the server closes the connection, and gives what it said before that.
    pub fn read_to_end(&mut self) -> Vec<u8> {
        let mut said = Vec::new();
        loop {
            let mut piece = [0; 4096];
            match self.stream.read(&mut piece) {
                Ok(0) => return said,
                Ok(length) => said.extend_from_slice(&piece[..length]),
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return said,
                Err(error) => {
                    // Seen in the comparison with what was expected.
                    said.extend_from_slice(format!("<not closed: {error}>").as_bytes());
                    return said;
                }
            }
        }
    }

    /// Says that nothing more will be sent.
    pub fn finish_sending(&mut self) -> io::Result<()> {
        self.stream.get_mut().shutdown(Shutdown::Write)
    }

    /// Whether nothing has come that was not read, and the connection is open.
    pub fn is_quiet(&mut self) -> io::Result<bool> {
        if !self.stream.buffer().is_empty() {
            return Ok(false);
        }
        let stream = self.stream.get_ref();
        stream.set_nonblocking(true)?;
        let peeked = stream.peek(&mut [0]);
        stream.set_nonblocking(false)?;
        Ok(peeked.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock))
    }

    /// Reads the head of an answer, which may be an interim one.
    pub fn read_head(&mut self) -> io::Result<Response> {
        let start = self.read_line()?;
        let status = start.split(' ').nth(1).and_then(|it| it.parse().ok());
        let status = status.filter(|_| start.starts_with("HTTP/1."));
        let status = status.ok_or_else(|| io::Error::other(format!("no status: {start:?}")))?;
        let mut headers = Vec::new();
        loop {
            let line = self.read_line()?;
            if line.is_empty() {
                break;
            }
            let (name, value) = line
                .split_once(':')
                .ok_or_else(|| io::Error::other(format!("no header: {line:?}")))?;
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        Ok(Response {
            status,
            headers,
            body: Vec::new(),
        })
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

/// The head of a request with a body of this length.
pub fn head(method: &str, target: &str, headers: &[(&str, &str)], length: usize) -> String {
    let mut head = format!("{method} {target} HTTP/1.1\r\nhost: tollward.test\r\n");
    for (name, value) in headers {
        head += &format!("{name}: {value}\r\n");
    }
    head + &format!("content-length: {length}\r\n\r\n")
}

impl Response {
    /// The value of a header, if there is exactly one.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut values = self.headers.iter().filter(|(header, _)| header == name);
        match (values.next(), values.next()) {
            (Some((_, value)), None) => Some(value),
            _ => None,
        }
    }

    /// The body as text, whatever it is.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

//! Where the messages of an HTTP/1 connection begin and end: a second opinion.
//!
//! hyper forgives what a gateway must not: it drops a Content-Length beside a Transfer-Encoding before
//! anybody can see it, and takes a bare line feed for the end of a line. So the bytes are read along
//! here, strictly, and a request is served only if both agree about its head and its length.

use std::collections::VecDeque;

use memchr::memchr;

/// The room for a line that a connection keeps from one message to the next, in bytes.
const KEPT_LINE: usize = 1024;

/// How long the body of a request is, by its head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Length {
    Sized(u64),
    Chunked,
}

/// What a head says of the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) length: Length,
    /// Why the message must not be served.
    pub(super) fault: Option<&'static str>,
}

/// What comes next on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// The first byte of a message.
    Boundary,
    /// The rest of a head.
    Head,
    /// The rest of a body, or nobody knows what.
    Body,
}

/// Follows the bytes of one connection.
#[derive(Debug)]
pub(super) struct Framing {
    place: Place,
    /// The beginning of a line whose end has not come.
    line: Vec<u8>,
    longest_line: usize,
    fields: Fields,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Boundary,
    RequestLine,
    Fields,
    Skip(u64),
    ChunkSize,
    /// The bytes of a chunk and the end of its line.
    Chunk(u64),
    Trailers,
    /// A message that is refused, or cannot be followed. Nothing after it is a request.
    Lost,
}

/// The fields of the head that is being read, as far as they concern its length.
#[derive(Clone, Copy, Debug, Default)]
struct Fields {
    length: Option<u64>,
    chunked: bool,
    fault: Option<&'static str>,
}

impl Framing {
    /// At the beginning of a connection; no line is longer than `longest_line` bytes.
    pub(super) fn new(longest_line: usize) -> Self {
        Self {
            place: Place::Boundary,
            line: Vec::new(),
            longest_line,
            fields: Fields::default(),
        }
    }

    pub(super) fn phase(&self) -> Phase {
        match self.place {
            Place::Boundary => Phase::Boundary,
            Place::RequestLine | Place::Fields => Phase::Head,
            _ => Phase::Body,
        }
    }

    /// Whether nothing that follows can be a request.
    pub(super) fn is_lost(&self) -> bool {
        self.place == Place::Lost
    }

    /// Reads on, and adds the heads that end in these bytes.
    pub(super) fn read(&mut self, mut bytes: &[u8], heads: &mut VecDeque<Head>) {
        while let Some(&first) = bytes.first() {
            match self.place {
                Place::Boundary => {
                    // Whatever it is, from now on it has to become a head.
                    debug_assert!(self.line.is_empty());
                    self.fields = Fields::default();
                    self.place = Place::RequestLine;
                    if !first.is_ascii_graphic() && first != b'\r' && first != b'\n' {
                        self.place = Place::Lost;
                    }
                }
                Place::Skip(left) => self.skip(&mut bytes, left, Place::Skip, Place::Boundary),
                Place::Chunk(left) => self.skip(&mut bytes, left, Place::Chunk, Place::ChunkSize),
                Place::Lost => return,
                _ => match memchr(b'\n', bytes) {
                    None => return self.keep(bytes),
                    Some(end) => {
                        let (line, rest) = (&bytes[..end], &bytes[end + 1..]);
                        bytes = rest;
                        self.end_line(line, heads);
                        self.make_small();
                    }
                },
            }
        }
    }

    fn skip(&mut self, bytes: &mut &[u8], left: u64, on: fn(u64) -> Place, then: Place) {
        let here = usize::try_from(left).map_or(bytes.len(), |left| left.min(bytes.len()));
        *bytes = &bytes[here..];
        let left = left - here as u64;
        self.place = if left == 0 { then } else { on(left) };
    }

    fn keep(&mut self, bytes: &[u8]) {
        if self.line.len() + bytes.len() > self.longest_line {
            self.lose();
            return;
        }
        self.line.extend_from_slice(bytes);
    }

    fn lose(&mut self) {
        self.place = Place::Lost;
        self.line = Vec::new();
    }

    fn end_line(&mut self, end: &[u8], heads: &mut VecDeque<Head>) {
        if self.line.is_empty() {
            return self.take_line(end, heads);
        }
        let mut line = std::mem::take(&mut self.line);
        line.extend_from_slice(end);
        self.take_line(&line, heads);
        line.clear();
        self.line = line;
    }

    /// One long line must not be paid for as long as the connection lasts.
    fn make_small(&mut self) {
        let more_may_follow = matches!(
            self.place,
            Place::RequestLine | Place::Fields | Place::Trailers
        );
        if self.line.capacity() > KEPT_LINE && !more_may_follow {
            self.line.shrink_to(KEPT_LINE);
        }
    }

    fn take_line(&mut self, line: &[u8], heads: &mut VecDeque<Head>) {
        let (line, is_bare) = match line.strip_suffix(b"\r") {
            Some(line) => (line, false),
            None => (line, true),
        };
        match self.place {
            Place::RequestLine | Place::Fields => {
                if is_bare {
                    self.fields.fault = Some("a line of the head does not end with CR LF");
                }
                self.take_head_line(line, heads);
            }
            Place::ChunkSize => match chunk_size(line) {
                Some(0) if !is_bare => self.place = Place::Trailers,
                Some(size) if !is_bare => {
                    self.place = size.checked_add(2).map_or(Place::Lost, Place::Chunk);
                }
                _ => self.place = Place::Lost,
            },
            Place::Trailers if is_bare => self.place = Place::Lost,
            Place::Trailers if line.is_empty() => self.place = Place::Boundary,
            _ => {}
        }
    }

    fn take_head_line(&mut self, line: &[u8], heads: &mut VecDeque<Head>) {
        if self.place == Place::RequestLine {
            // Empty lines before a request are passed over, as RFC 9112 would have it.
            if !line.is_empty() {
                self.fields.take_request_line(line);
                self.place = Place::Fields;
            }
        } else if !line.is_empty() {
            self.fields.take_field(line);
        } else {
            let head = self.fields.head();
            heads.push_back(head);
            self.place = match head {
                Head { fault: Some(_), .. } => Place::Lost,
                Head {
                    length: Length::Chunked,
                    ..
                } => Place::ChunkSize,
                Head {
                    length: Length::Sized(0),
                    ..
                } => Place::Boundary,
                Head {
                    length: Length::Sized(length),
                    ..
                } => Place::Skip(length),
            };
        }
    }
}

impl Fields {
    fn take_request_line(&mut self, line: &[u8]) {
        // It would be cut off with what follows it, and another server may not do that.
        if memchr(b'#', line).is_some() {
            self.fault = Some("the target has a fragment");
        }
    }

    fn take_field(&mut self, line: &[u8]) {
        if !matches!(line[0], b'c' | b'C' | b't' | b'T') {
            return;
        }
        let Some(colon) = memchr(b':', line) else {
            return;
        };
        let (name, value) = (&line[..colon], trimmed(&line[colon + 1..]));
        if name.eq_ignore_ascii_case(b"content-length") {
            match decimal(value) {
                Some(_) if self.length.is_some() => {
                    self.fault = Some("more than one Content-Length");
                }
                Some(length) => self.length = Some(length),
                None => self.fault = Some("Content-Length is not a number"),
            }
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            if self.chunked || !value.eq_ignore_ascii_case(b"chunked") {
                self.fault = Some("Transfer-Encoding is not just `chunked`");
            }
            self.chunked = true;
        }
    }

    fn head(&self) -> Head {
        let both = self.chunked && self.length.is_some();
        let both = both.then_some("both Content-Length and Transfer-Encoding");
        Head {
            length: match self.length {
                _ if self.chunked => Length::Chunked,
                length => Length::Sized(length.unwrap_or(0)),
            },
            fault: self.fault.or(both),
        }
    }
}

fn trimmed(mut value: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = value {
        value = rest;
    }
    value
}

fn decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0u64, |number, digit| {
        let digit = char::from(*digit).to_digit(10)?;
        number.checked_mul(10)?.checked_add(digit.into())
    })
}

/// The size at the beginning of the line before a chunk. What follows it is for hyper to judge.
fn chunk_size(line: &[u8]) -> Option<u64> {
    let digits = line.iter().take_while(|byte| byte.is_ascii_hexdigit());
    let digits = &line[..digits.count()];
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0u64, |size, digit| {
        let digit = char::from(*digit).to_digit(16)?;
        size.checked_mul(16)?.checked_add(digit.into())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heads(framing: &mut Framing, bytes: &[u8]) -> Vec<Head> {
        let mut heads = VecDeque::new();
        framing.read(bytes, &mut heads);
        heads.into()
    }

    fn sized(length: u64) -> Head {
        Head {
            length: Length::Sized(length),
            fault: None,
        }
    }

    const CHUNKED: Head = Head {
        length: Length::Chunked,
        fault: None,
    };

    const TRAFFIC: &[u8] = b"\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n\
        POST /x HTTP/1.1\r\ncontent-LENGTH:\t5 \r\n\r\nGET /\
        PUT / HTTP/1.1\r\nTransfer-Encoding: Chunked\r\n\r\n5;a=b\r\n\r\n\r\n\r\r\nA\r\n0123456789\r\n0\r\nX: y\r\n\r\n\
        HEAD / HTTP/1.1\r\n\r\nGET / HT";

    #[test]
    fn messages_are_told_apart_however_they_are_cut() {
        let expected = [sized(0), sized(5), CHUNKED, sized(0)];
        for size in 1..TRAFFIC.len() {
            let mut framing = Framing::new(1000);
            let mut seen = Vec::new();
            for bytes in TRAFFIC.chunks(size) {
                seen.extend(heads(&mut framing, bytes));
            }
            assert_eq!(seen, expected, "in pieces of {size}");
            assert_eq!(framing.phase(), Phase::Head);
        }
    }

    #[test]
    fn after_a_fault_nothing_is_a_head() {
        let faults: [&[u8]; 7] = [
            b"GET / HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
            b"GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n",
            b"GET / HTTP/1.1\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\n",
            b"GET / HTTP/1.1\r\nContent-Length: +3\r\n\r\n",
            b"GET / HTTP/1.1\r\nTransfer-Encoding: chunked, chunked\r\n\r\n",
            b"GET / HTTP/1.1\nHost: a\r\n\r\n",
            b"GET /#a HTTP/1.1\r\n\r\n",
        ];
        for bytes in faults {
            let mut framing = Framing::new(1000);
            let seen = heads(&mut framing, bytes);
            assert!(
                matches!(seen[..], [Head { fault: Some(_), .. }]),
                "{seen:?}"
            );
            assert_eq!(heads(&mut framing, b"GET / HTTP/1.1\r\n\r\n"), []);
        }
    }

    #[test]
    fn a_line_without_end_is_not_kept() {
        let mut framing = Framing::new(100);
        for _ in 0..1000 {
            assert_eq!(heads(&mut framing, &[b'a'; 10]), []);
        }
        assert_eq!(framing.phase(), Phase::Body);
        assert_eq!(framing.line.capacity(), 0);
    }

    #[test]
    fn a_long_line_leaves_no_large_buffer_behind() {
        let long = "a".repeat(50_000);
        let messages = [
            format!("GET / HTTP/1.1\r\nX: {long}\r\n\r\n"),
            format!("GET /{long} HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc"),
            format!("PUT / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: {long}\r\n\r\n"),
        ];
        for message in messages {
            // The last line comes in a piece of its own, or with the one before it.
            for tail in [2, 6, 7] {
                let mut framing = Framing::new(65_536);
                let (most, last) = message.as_bytes().split_at(message.len() - tail);
                let mut largest = 0;
                let mut seen = Vec::new();
                for piece in most.chunks(4_000).chain([last]) {
                    seen.extend(heads(&mut framing, piece));
                    largest = largest.max(framing.line.capacity());
                }
                assert!(largest > 40_000, "the line was not kept at all");
                assert!(matches!(seen[..], [Head { fault: None, .. }]), "{seen:?}");
                assert_eq!(framing.phase(), Phase::Boundary);
                assert!(framing.line.capacity() <= KEPT_LINE);
            }
        }
    }
}

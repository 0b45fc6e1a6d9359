//! Requests that parsers disagree about, and some on which they do not.

/// What has to become of a request. `/never` is the target of those that must not reach a service.
pub(crate) enum Expect {
    /// The service sees these; the connection stays.
    Served(&'static [&'static str]),
    /// The service sees these; the connection is closed.
    Last(&'static [&'static str]),
    /// One of these statuses; the connection is closed.
    Refused(&'static [u16]),
    /// The same, but more has to come before the answer.
    Unfinished(&'static [u16]),
    /// No matter how, it ends.
    Closed,
}

use Expect::{Closed, Last, Refused, Served, Unfinished};

pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) bytes: Vec<u8>,
    pub(crate) expect: Expect,
}

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let groups = [SERVED, LENGTHS, ENCODINGS, CHUNKS, HOSTS, TARGETS, LINES];
    for &(name, bytes, expect) in groups.iter().flat_map(|group| group.iter()) {
        cases.push(Case {
            name,
            bytes: bytes.to_vec(),
            expect: expect(),
        });
    }
    cases.extend(long());
    cases
}

type Row = (&'static str, &'static [u8], fn() -> Expect);

fn bad() -> Expect {
    Refused(&[400])
}

const SERVED: &[Row] = &[
    ("plain", b"GET /a?b=c HTTP/1.1\r\nHost: a\r\n\r\n", || Served(&["GET /a?b=c\n", "host: a\n"])),
    ("a body", b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello", || Served(&["body: hello"])),
    ("a body like a request", b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 18\r\n\r\nGET / HTTP/1.1\r\n\r\n", || Served(&["body: GET / HTTP/1.1\r\n\r\n"])),
    ("an empty body", b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n", || Served(&["body: "])),
    ("zeros before the length", b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0005\r\n\r\nhello", || Served(&["body: hello"])),
    ("empty lines first", b"\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", || Served(&["GET /\n"])),
    ("an empty line after a body", b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nok\r\n", || Served(&["body: ok"])),
    ("1.0, kept alive", b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", || Served(&["GET /\n"])),
    ("1.0", b"GET / HTTP/1.0\r\n\r\n", || Last(&["GET /\n"])),
    ("close", b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", || Last(&["GET /\n"])),
    ("close among others", b"GET / HTTP/1.1\r\nHost: a\r\nConnection: x, Close\r\nConnection: keep-alive\r\n\r\n", || Last(&["GET /\n"])),
    ("expecting", b"POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-Continue\r\nContent-Length: 2\r\n\r\nok", || Served(&["body: ok"])),
    ("expecting for nothing", b"GET / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n\r\n", || Served(&["GET /\n"])),
    ("expecting in 1.0", b"POST / HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\nok", || Last(&["body: ok"])),
    ("an empty value", b"GET / HTTP/1.1\r\nHost: a\r\nX:\r\n\r\n", || Served(&["x: \n"])),
    ("a method of one's own", b"get / HTTP/1.1\r\nHost: a\r\n\r\n", || Served(&["get /\n"])),
    ("HEAD with a body", b"PUT / HTTP/1.1\r\nHost: a\r\ncontent-length:\t2\t\r\n\r\nok", || Served(&["body: ok"])),
    ("an upgrade to HTTP/2", b"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: websocket, h2c\r\nHTTP2-Settings: AAAA\r\n\r\n", || Served(&["GET /\nhost: a\nconnection: Upgrade, HTTP2-Settings\nbody: "])),
    ("an upgrade with a body", b"POST / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: 2\r\n\r\nok", || Served(&["connection: Upgrade\ncontent-length: 2\nbody: ok"])),
    ("TRACE", b"TRACE / HTTP/1.1\r\nHost: a\r\n\r\n", || Served(&["TRACE /\n"])),
];

const LENGTHS: &[Row] = &[
    ("length, then encoding", b"POST /never HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", bad),
    ("encoding, then length", b"POST /never HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n", bad),
    ("length and encoding, small letters", b"POST /never HTTP/1.1\r\nhost: a\r\ntransfer-encoding: CHUNKED\r\ncontent-length: 0\r\n\r\n0\r\n\r\n", bad),
    ("length and encoding behind a request", b"POST /first HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n1\r\na\r\n0\r\n\r\n", bad),
    ("encoding between two lengths", b"POST /never HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n", bad),
    ("the same length twice", b"POST /never HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello", bad),
    ("two lengths", b"POST /never HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello", bad),
    ("two lengths, one nothing", b"POST /never HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nContent-Length: 5\r\n\r\nhello", bad),
    ("a list of lengths", b"POST /never HTTP/1.1\r\nHost: a\r\nContent-Length: 5, 5\r\n\r\nhello", bad),
    ("a list of different lengths", b"POST /never HTTP/1.1\r\nHost: a\r\nContent-Length: 5,6\r\n\r\nhello", bad),
    ("negative", b"POST /never HTTP/1.1\r\nHost: a\r\nContent-Length: -5\r\n\r\nhello", bad),
    ("with a plus", b"POST /never HTTP/1.1\r\nHost: a\r\nContent-Length: +5\r\n\r\nhello", bad),
    ("hexadecimal", b"POST /never HTTP/1.1\r\nHost: a\r\nContent-Length: 0x5\r\n\r\nhello", bad),
    ("a fraction", b"POST /never HTTP/1.1\r\nHost: a\r\nContent-Length: 5.0\r\n\r\nhello", bad),
    ("two numbers", b"POST /never HTTP/1.1\r\nHost: a\r\nContent-Length: 5 5\r\n\r\nhello", bad),
    ("quoted", b"POST /never HTTP/1.1\r\nHost: a\r\nContent-Length: \"5\"\r\n\r\nhello", bad),
    ("no number", b"POST /never HTTP/1.1\r\nHost: a\r\nContent-Length:\r\n\r\nhello", bad),
    ("a vertical tab", b"POST /never HTTP/1.1\r\nHost: a\r\nContent-Length: \x0b5\r\n\r\nhello", bad),
    ("beyond 64 bits", b"POST /never HTTP/1.1\r\nHost: a\r\nContent-Length: 18446744073709551621\r\n\r\nhello", bad),
    ("all of 64 bits", b"POST /never HTTP/1.1\r\nHost: a\r\nContent-Length: 18446744073709551615\r\n\r\nhello", || Refused(&[400, 413, 431])),
    ("more than is taken", b"POST /never HTTP/1.1\r\nHost: a\r\nContent-Length: 1000001\r\n\r\nhello", || Refused(&[413])),
    ("a space before the colon", b"POST /never HTTP/1.1\r\nHost: a\r\nContent-Length : 5\r\n\r\nhello", bad),
    ("a folded length", b"POST /never HTTP/1.1\r\nHost: a\r\nContent-Length:\r\n 5\r\n\r\nhello", bad),
    ("a body of TRACE", b"TRACE /never HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello", bad),
];

const ENCODINGS: &[Row] = &[
    ("chunked", b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", || Served(&["body: hello"])),
    ("Chunked", b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: ChuNkeD\r\n\r\n5\r\nhello\r\n0\r\n\r\n", || Served(&["body: hello"])),
    ("spaces around", b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:   chunked  \r\n\r\n5\r\nhello\r\n0\r\n\r\n", || Served(&["body: hello"])),
    ("tabs around", b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:\tchunked\t\r\n\r\n5\r\nhello\r\n0\r\n\r\n", || Served(&["body: hello"])),
    ("no space", b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", || Served(&["body: hello"])),
    ("xchunked", b"POST /never HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", bad),
    ("chunkedx", b"POST /never HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunkedx\r\n\r\n0\r\n\r\n", bad),
    ("chunked twice", b"POST /never HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n", bad),
    ("chunked, identity", b"POST /never HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked,identity\r\n\r\n0\r\n\r\n", bad),
    ("identity, chunked", b"POST /never HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: identity, chunked\r\n\r\n0\r\n\r\n", bad),
    ("gzip, chunked", b"POST /never HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", bad),
    ("an empty item", b"POST /never HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: , chunked\r\n\r\n0\r\n\r\n", bad),
    ("identity", b"POST /never HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: identity\r\n\r\n", bad),
    ("no encoding", b"POST /never HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:\r\n\r\n", bad),
    ("a quoted encoding", b"POST /never HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: \"chunked\"\r\n\r\n0\r\n\r\n", bad),
    ("with a parameter", b"POST /never HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked;q=1\r\n\r\n0\r\n\r\n", bad),
    ("a vertical tab before", b"POST /never HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n", bad),
    ("a form feed after", b"POST /never HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\x0c\r\n\r\n0\r\n\r\n", bad),
    ("a byte of Latin 1 after", b"POST /never HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\xa0\r\n\r\n0\r\n\r\n", bad),
    ("two lines, the same", b"POST /never HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", bad),
    ("two lines, identity last", b"POST /never HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n", bad),
    ("two lines, identity first", b"POST /never HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: identity\r\nTransfer-encoding: chunked\r\n\r\n0\r\n\r\n", bad),
    ("a folded encoding", b"POST /never HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n", bad),
    ("an encoding folded behind another field", b"POST /never HTTP/1.1\r\nHost: a\r\nX: y\r\n Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", bad),
    ("a space before the encoding's colon", b"POST /never HTTP/1.1\r\nHost: a\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n", bad),
    ("a tab before the encoding's colon", b"POST /never HTTP/1.1\r\nHost: a\r\nTransfer-Encoding\t: chunked\r\n\r\n0\r\n\r\n", bad),
    ("a space before the encoding's name", b"POST /never HTTP/1.1\r\n Transfer-Encoding: chunked\r\nHost: a\r\n\r\n0\r\n\r\n", bad),
    ("an underscore in its name", b"POST / HTTP/1.1\r\nHost: a\r\nTransfer_Encoding: chunked\r\n\r\n", || Served(&["transfer_encoding: chunked\nbody: "])),
    ("an encoding in 1.0", b"POST /never HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", bad),
];

const CHUNKS: &[Row] = &[
    ("an extension", b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5;a=\"b\"\r\nhello\r\n0;c\r\n\r\n", || Served(&["body: hello"])),
    ("zeros before a size", b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n00005\r\nhello\r\n000\r\n\r\n", || Served(&["body: hello"])),
    ("a size in both cases", b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\na\r\n0123456789\r\nA\r\n0123456789\r\n0\r\n\r\n", || Served(&["body: 01234567890123456789"])),
    ("a space after the size", b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5 \r\nhello\r\n0\r\n\r\n", || Served(&["body: hello"])),
    ("a chunk like an end", b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n0\r\n\r\n\r\n0\r\n\r\n", || Served(&["body: 0\r\n\r\n"])),
    ("trailers", b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nX: y\r\n\r\n", || Served(&["trailer x: y\n", "body: a"])),
    ("a length in the trailers", b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nContent-Length: 100\r\n\r\n", || Served(&["trailer content-length: 100\n", "body: a"])),
    ("a negative size", b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\nhello\r\n0\r\n\r\n", bad),
    ("a size with a plus", b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n+5\r\nhello\r\n0\r\n\r\n", bad),
    ("a size with 0x", b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0x5\r\nhello\r\n0\r\n\r\n", bad),
    ("a size with an underscore", b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1_0\r\n0123456789abcdef\r\n0\r\n\r\n", bad),
    ("a size of 65 bits", b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n10000000000000005\r\nhello\r\n0\r\n\r\n", bad),
    ("a space before the size", b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n 5\r\nhello\r\n0\r\n\r\n", bad),
    ("a space in the size", b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0 5\r\nhello\r\n0\r\n\r\n", bad),
    ("no size", b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n\r\nhello\r\n0\r\n\r\n", bad),
    ("an extension without size", b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n;a\r\nhello\r\n0\r\n\r\n", bad),
    ("a size that ends with LF", b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\nhello\r\n0\r\n\r\n", bad),
    ("a size that ends with CR", b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\rhello\r\n0\r\n\r\n", bad),
    ("an extension that ends with LF", b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5;a\nhello\r\n0\r\n\r\n", bad),
    ("a CR in an extension", b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5;a\rb\r\nhello\r\n0\r\n\r\n", bad),
    ("a chunk that does not end", b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello0\r\n\r\n", bad),
    ("a chunk that ends with LF", b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\n0\r\n\r\n", bad),
    ("a chunk longer than its size", b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhello\r\n0\r\n\r\n", bad),
    ("a chunk shorter than its size", b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nhello\r\n0\r\n\r\n", bad),
    ("an end that ends with LF", b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\n\n", bad),
    ("an end whose last line ends with LF", b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\nX: y\r\n\r\n", || Last(&["body: a"])),
    ("a chunk that another request would fill", b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nhello", || Unfinished(&[400])),
    ("a trailer that ends with LF", b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nX: y\nZ: z\r\n\r\n", bad),
    ("a trailer without colon", b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nnonsense\r\n\r\n", bad),
];

const HOSTS: &[Row] = &[
    (
        "an address and a port",
        b"GET / HTTP/1.1\r\nHost: [::1]:8080\r\n\r\n",
        || Served(&["host: [::1]:8080\n"]),
    ),
    ("no host", b"GET /never HTTP/1.1\r\n\r\n", bad),
    (
        "an empty host",
        b"GET /never HTTP/1.1\r\nHost:\r\n\r\n",
        bad,
    ),
    (
        "the same host twice",
        b"GET /never HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n",
        bad,
    ),
    (
        "two hosts",
        b"GET /never HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        bad,
    ),
    (
        "two hosts in 1.0",
        b"GET /never HTTP/1.0\r\nHost: a\r\nhost: b\r\n\r\n",
        bad,
    ),
    (
        "a list of hosts",
        b"GET /never HTTP/1.1\r\nHost: a,b\r\n\r\n",
        bad,
    ),
    (
        "a space in the host",
        b"GET /never HTTP/1.1\r\nHost: a b\r\n\r\n",
        bad,
    ),
    (
        "a user in the host",
        b"GET /never HTTP/1.1\r\nHost: u@a\r\n\r\n",
        bad,
    ),
    (
        "a path in the host",
        b"GET /never HTTP/1.1\r\nHost: a/b\r\n\r\n",
        bad,
    ),
    (
        "a query in the host",
        b"GET /never HTTP/1.1\r\nHost: a?b\r\n\r\n",
        bad,
    ),
    (
        "a scheme in the host",
        b"GET /never HTTP/1.1\r\nHost: http://a\r\n\r\n",
        bad,
    ),
    (
        "a port that is none",
        b"GET /never HTTP/1.1\r\nHost: a:http\r\n\r\n",
        bad,
    ),
    (
        "a port too high",
        b"GET /never HTTP/1.1\r\nHost: a:65536\r\n\r\n",
        bad,
    ),
    (
        "an escape in the host",
        b"GET /never HTTP/1.1\r\nHost: a%2eb\r\n\r\n",
        bad,
    ),
    (
        "a host with a space before the colon",
        b"GET /never HTTP/1.1\r\nHost : a\r\n\r\n",
        bad,
    ),
    (
        "a folded host",
        b"GET /never HTTP/1.1\r\nHost: a\r\n b\r\n\r\n",
        bad,
    ),
    (
        "a host that is not ASCII",
        b"GET /never HTTP/1.1\r\nHost: \xc3\xa4\r\n\r\n",
        bad,
    ),
];

const TARGETS: &[Row] = &[
    ("absolute", b"GET http://a/b?c HTTP/1.1\r\nHost: a\r\n\r\n", || Served(&["GET /b?c\n", "host: a\n"])),
    ("absolute, for another", b"GET http://b:8080/c HTTP/1.1\r\nHost: a\r\n\r\n", || Served(&["GET /c\nhost: b:8080\n"])),
    ("absolute, without a path", b"GET http://b HTTP/1.1\r\nHost: a\r\n\r\n", || Served(&["GET /\nhost: b\n"])),
    ("absolute in 1.0", b"GET http://b/c HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", || Served(&["GET /c\n", "host: b\n"])),
    ("absolute, without Host", b"GET http://b/never HTTP/1.1\r\n\r\n", bad),
    ("absolute, two hosts", b"GET http://b/never HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", bad),
    ("absolute, with a user", b"GET http://u:p@b/never HTTP/1.1\r\nHost: b\r\n\r\n", bad),
    ("absolute, of another scheme", b"GET ftp://b/never HTTP/1.1\r\nHost: b\r\n\r\n", bad),
    ("an authority", b"GET b:80 HTTP/1.1\r\nHost: b\r\n\r\n", bad),
    ("no slash", b"GET never HTTP/1.1\r\nHost: a\r\n\r\n", bad),
    ("a query only", b"GET ?a HTTP/1.1\r\nHost: a\r\n\r\n", bad),
    ("a fragment", b"GET /never#a HTTP/1.1\r\nHost: a\r\n\r\n", bad),
    ("everything", b"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", || Served(&["OPTIONS *\n"])),
    ("everything, to get", b"GET * HTTP/1.1\r\nHost: a\r\n\r\n", bad),
    ("a star and more", b"OPTIONS *a HTTP/1.1\r\nHost: a\r\n\r\n", bad),
    ("CONNECT", b"CONNECT b:443 HTTP/1.1\r\nHost: b:443\r\n\r\n", || Refused(&[501])),
    ("CONNECT to a path", b"CONNECT /never HTTP/1.1\r\nHost: b\r\n\r\n", || Refused(&[400, 501])),
    ("a space in the target", b"GET /never b HTTP/1.1\r\nHost: a\r\n\r\n", bad),
    ("a NUL in the target", b"GET /never\0 HTTP/1.1\r\nHost: a\r\n\r\n", bad),
    ("a CR in the target", b"GET /never\rX HTTP/1.1\r\nHost: a\r\n\r\n", bad),
    ("an expectation that is none", b"POST /never HTTP/1.1\r\nHost: a\r\nExpect: 200-ok\r\nContent-Length: 2\r\n\r\nok", || Refused(&[417])),
    ("two expectations", b"POST /never HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\nok", || Refused(&[417])),
];

const LINES: &[Row] = &[
    ("0.9", b"GET /never\r\n", bad),
    ("no version", b"GET /never \r\nHost: a\r\n\r\n", bad),
    ("2.0", b"GET /never HTTP/2.0\r\nHost: a\r\n\r\n", bad),
    ("1.2", b"GET /never HTTP/1.2\r\nHost: a\r\n\r\n", bad),
    ("1.10", b"GET /never HTTP/1.10\r\nHost: a\r\n\r\n", bad),
    (
        "a version in small letters",
        b"GET /never http/1.1\r\nHost: a\r\n\r\n",
        bad,
    ),
    (
        "another protocol",
        b"GET /never ICY/1.1\r\nHost: a\r\n\r\n",
        bad,
    ),
    (
        "two spaces",
        b"GET  /never HTTP/1.1\r\nHost: a\r\n\r\n",
        bad,
    ),
    (
        "two spaces later",
        b"GET /never  HTTP/1.1\r\nHost: a\r\n\r\n",
        bad,
    ),
    (
        "a space at the end",
        b"GET /never HTTP/1.1 \r\nHost: a\r\n\r\n",
        bad,
    ),
    (
        "a space at the beginning",
        b" GET /never HTTP/1.1\r\nHost: a\r\n\r\n",
        bad,
    ),
    ("tabs", b"GET\t/never\tHTTP/1.1\r\nHost: a\r\n\r\n", bad),
    (
        "a method that is none",
        b"G@T /never HTTP/1.1\r\nHost: a\r\n\r\n",
        bad,
    ),
    ("no method", b"/never HTTP/1.1\r\nHost: a\r\n\r\n", bad),
    (
        "LF in the first line",
        b"GET /never HTTP/1.1\nHost: a\r\n\r\n",
        bad,
    ),
    (
        "LF in a field",
        b"GET /never HTTP/1.1\r\nHost: a\nX: y\r\n\r\n",
        bad,
    ),
    (
        "LF at the end",
        b"GET /never HTTP/1.1\r\nHost: a\r\n\n",
        bad,
    ),
    ("LF everywhere", b"GET /never HTTP/1.1\nHost: a\n\n", bad),
    (
        "a CR in a value",
        b"GET /never HTTP/1.1\r\nHost: a\r\nX: y\rZ: z\r\n\r\n",
        bad,
    ),
    (
        "a CR at the end of a value",
        b"GET /never HTTP/1.1\r\nHost: a\r\nX: y\r\r\n\r\n",
        bad,
    ),
    (
        "a CR for a line",
        b"GET /never HTTP/1.1\r\nHost: a\r\n\rX: y\r\n\r\n",
        bad,
    ),
    (
        "a NUL in a value",
        b"GET /never HTTP/1.1\r\nHost: a\r\nX: y\0z\r\n\r\n",
        bad,
    ),
    (
        "a NUL in a name",
        b"GET /never HTTP/1.1\r\nHost: a\r\nX\0: y\r\n\r\n",
        bad,
    ),
    (
        "a space in a name",
        b"GET /never HTTP/1.1\r\nHost: a\r\nX Y: z\r\n\r\n",
        bad,
    ),
    (
        "a byte above ASCII in a name",
        b"GET /never HTTP/1.1\r\nHost: a\r\n\xe4: z\r\n\r\n",
        bad,
    ),
    (
        "no name",
        b"GET /never HTTP/1.1\r\nHost: a\r\n: y\r\n\r\n",
        bad,
    ),
    (
        "no colon",
        b"GET /never HTTP/1.1\r\nHost: a\r\nnonsense\r\n\r\n",
        bad,
    ),
    (
        "a folded value",
        b"GET /never HTTP/1.1\r\nHost: a\r\nX: y\r\n\tz\r\n\r\n",
        bad,
    ),
    ("half a preface", b"PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n", bad),
    (
        "a preface and nonsense",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nGET /never HTTP/1.1\r\nHost: a\r\n\r\n",
        || Closed,
    ),
    (
        "a preface, later",
        b"GET /first HTTP/1.1\r\nHost: a\r\n\r\nPRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        || Closed,
    ),
    ("TLS", b"\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03", bad),
    ("SSH", b"SSH-2.0-OpenSSH_9.9\r\n", bad),
    ("NULs", b"\0\0\0\0\0\0\0\0", bad),
    (
        "a byte order mark",
        b"\xef\xbb\xbfGET /never HTTP/1.1\r\nHost: a\r\n\r\n",
        bad,
    ),
    (
        "an answer",
        b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
        bad,
    ),
];

/// Those too long to write down.
fn long() -> Vec<Case> {
    let request = |target: &str, fields: &str| {
        format!("GET {target} HTTP/1.1\r\nHost: a\r\n{fields}\r\n").into_bytes()
    };
    let chunked = |chunks: &str| {
        let head = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
        format!("{head}{chunks}").into_bytes()
    };
    let case = |name, bytes, expect| Case {
        name,
        bytes,
        expect,
    };
    let too_large = || Refused(&[431]);
    let many = |count| "X: y\r\n".repeat(count);
    vec![
        case("many fields", request("/", &many(90)), Served(&["GET /\n"])),
        case(
            "too many fields",
            request("/never", &many(101)),
            too_large(),
        ),
        case(
            "a long field",
            request("/", &format!("X: {}\r\n", "y".repeat(60_000))),
            Served(&["GET /\n"]),
        ),
        case(
            "too long a field",
            request("/never", &format!("X: {}\r\n", "y".repeat(70_000))),
            too_large(),
        ),
        case(
            "too long a name",
            request("/never", &format!("{}: y\r\n", "x".repeat(70_000))),
            too_large(),
        ),
        case(
            "too long a target",
            request(&format!("/{}", "x".repeat(70_000)), ""),
            Refused(&[414, 431]),
        ),
        case(
            "nothing but empty lines",
            "\r\n".repeat(40_000).into_bytes(),
            too_large(),
        ),
        case(
            "a long extension",
            chunked(&format!("5;{}\r\nhello\r\n0\r\n\r\n", "x".repeat(20_000))),
            bad(),
        ),
        case(
            "many extensions",
            chunked(&format!(
                "{}0\r\n\r\n",
                format!("1;{}\r\na\r\n", "x".repeat(500)).repeat(40)
            )),
            bad(),
        ),
        case(
            "many trailers",
            chunked(&format!("0\r\n{}\r\n", "x: y\r\n".repeat(200))),
            bad(),
        ),
        case(
            "a long trailer",
            chunked(&format!("0\r\nx: {}\r\n\r\n", "y".repeat(70_000))),
            bad(),
        ),
        case(
            "more chunks than are taken",
            chunked(&format!(
                "{}0\r\n\r\n",
                format!("10000\r\n{}\r\n", "x".repeat(65536)).repeat(16)
            )),
            Refused(&[413]),
        ),
        case(
            "a long size",
            chunked(&format!("{}5\r\nhello\r\n0\r\n\r\n", "0".repeat(200))),
            Served(&["body: hello"]),
        ),
    ]
}

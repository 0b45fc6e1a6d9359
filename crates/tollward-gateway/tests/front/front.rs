//! A front whose service tells what it saw, and a client that sends what it is told to.

use std::convert::Infallible;
use std::fmt::Write as _;
use std::io::{self, Read};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::pin::Pin;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use tokio::sync::Notify;
use tollward_gateway::front::{Body, BodyError, Refused, Workers, start};
use tollward_policy::{AccessLog, GatewaySettings};

/// Long enough for anything that is not stuck.
pub(crate) const LONG: Duration = Duration::from_secs(20);

/// More than all buffers between two ends take.
pub(crate) const BIG: usize = 50_000_000;

pub(crate) fn settings() -> GatewaySettings {
    GatewaySettings {
        workers: 2,
        header_timeout: Duration::from_secs(10),
        idle_timeout: Duration::from_secs(20),
        max_connections: 2000,
        max_header_bytes: 65536,
        max_body: Some(1_000_000),
        access_log: AccessLog::Off,
        tls: None,
    }
}

/// What the service has seen and waits for.
#[derive(Default)]
pub(crate) struct Seen {
    /// The status and the reason of each request that did not get to the service.
    pub(crate) refused: Mutex<Vec<(u16, String)>>,
    /// The paths of all requests.
    pub(crate) paths: Mutex<Vec<String>>,
    /// Lets one of those who asked for `/wait` go.
    pub(crate) go: Notify,
}

pub(crate) struct Front {
    pub(crate) address: SocketAddr,
    pub(crate) workers: Workers,
    pub(crate) seen: Arc<Seen>,
    open: Arc<AtomicI64>,
}

impl Front {
    pub(crate) fn start(settings: &GatewaySettings) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::<Seen>::default();
        let open = Arc::new(AtomicI64::new(0));
        let count = open.clone();
        let count = move |change| {
            count.fetch_add(change, Ordering::Relaxed);
        };
        let told = seen.clone();
        let service = move || {
            let seen = told.clone();
            move |_, request| answer(seen.clone(), request)
        };
        let told = seen.clone();
        let refused = move |it: &Refused<'_>| {
            let refused = (it.status.as_u16(), it.reason.to_owned());
            told.refused.lock().unwrap().push(refused);
        };
        let (count, refused) = (Arc::new(count), Arc::new(refused));
        let refusing = Arc::new(|_: &_, _: &mut _| ());
        let workers = start(listener, settings, service, refusing, count, refused).unwrap();
        Self {
            address,
            workers,
            seen,
            open,
        }
    }

    pub(crate) fn open(&self) -> i64 {
        self.open.load(Ordering::Relaxed)
    }

    pub(crate) fn has_seen(&self, path: &str) -> bool {
        let paths = self.seen.paths.lock().unwrap();
        paths.iter().any(|seen| seen == path)
    }

    pub(crate) fn connect(&self) -> Client {
        Client::new(TcpStream::connect(self.address).unwrap())
    }

    /// Panics unless an ordinary request is answered.
    pub(crate) fn assert_serves(&self) {
        let mut client = self.connect();
        client.send(b"GET /honest HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(client.answer().unwrap().status, 200);
    }

    /// Stops, and waits for the end.
    pub(crate) fn end(mut self) {
        self.workers.stop();
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().build().unwrap();
        let ended =
            runtime.block_on(async { tokio::time::timeout(LONG, self.workers.ended()).await });
        ended.expect("the workers do not end");
    }
}

/// Any body.
pub(crate) type Reply = UnsyncBoxBody<Bytes, Infallible>;

/// A body of so many bytes, in small pieces.
struct Pieces(usize);

impl http_body::Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        const PIECE: [u8; 10_000] = [b'x'; 10_000];
        self.0 = self.0.saturating_sub(PIECE.len());
        let piece = Frame::data(Bytes::from_static(&PIECE));
        Poll::Ready((self.0 > 0).then_some(Ok(piece)))
    }
}

async fn answer(seen: Arc<Seen>, request: Request<Body>) -> Response<Reply> {
    match request.uri().path() {
        "/big" => {
            seen.paths.lock().unwrap().push("/big".into());
            Response::new(Pieces(BIG).boxed_unsync())
        }
        _ => tell(seen, request).await.map(BodyExt::boxed_unsync),
    }
}

async fn tell(seen: Arc<Seen>, request: Request<Body>) -> Response<Full<Bytes>> {
    let path = request.uri().path().to_owned();
    seen.paths.lock().unwrap().push(path.clone());
    let mut told = format!("{} {}\n", request.method(), request.uri());
    for (name, value) in request.headers() {
        let value = String::from_utf8_lossy(value.as_bytes());
        writeln!(told, "{name}: {value}").unwrap();
    }
    match path.as_str() {
        "/panic" => panic!("as was asked for"),
        "/wait" => seen.go.notified().await,
        "/upgrade" => return crate::upgrade::switch(request),
        // As hyper itself would write it.
        "/empty-400" => {
            let mut response = Response::new(Full::default());
            *response.status_mut() = StatusCode::BAD_REQUEST;
            return response;
        }
        "/unread" => return Response::new(Full::default()),
        _ => {}
    }
    let body = match request.into_body().collect().await {
        Ok(body) => body,
        Err(error) => {
            let mut response = Response::new(Full::from("the body is broken"));
            *response.status_mut() = match error {
                BodyError::TooLong => StatusCode::PAYLOAD_TOO_LARGE,
                BodyError::Broken(_) => StatusCode::BAD_REQUEST,
            };
            return response;
        }
    };
    for (name, value) in body.trailers().into_iter().flatten() {
        writeln!(told, "trailer {name}: {}", value.to_str().unwrap()).unwrap();
    }
    told.push_str("body: ");
    told.push_str(&String::from_utf8_lossy(&body.to_bytes()));
    Response::new(Full::from(told))
}

/// Polls until it is so, for a long time if need be.
pub(crate) fn until(what: &str, is_so: impl Fn() -> bool) {
    for _ in 0..LONG.as_millis() / 10 {
        if is_so() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("never: {what}");
}

/// A connection that is read one answer at a time.
pub(crate) struct Client<S = TcpStream> {
    pub(crate) stream: S,
    unread: Vec<u8>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Client {
    pub(crate) fn new(stream: TcpStream) -> Self {
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        stream.set_write_timeout(Some(LONG)).unwrap();
        Self::over(stream)
    }
}

impl<S: Read + io::Write> Client<S> {
    pub(crate) fn over(stream: S) -> Self {
        let unread = Vec::new();
        Self { stream, unread }
    }

    /// Sends what the other end takes: it may have closed.
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        let _ = self
            .stream
            .write_all(bytes)
            .and_then(|()| self.stream.flush());
    }

    /// The next answer that is not informational; none if the connection ends before.
    ///
    /// Panics if there is neither for a long time.
    pub(crate) fn answer(&mut self) -> Option<Answer> {
        loop {
            let head = self.take_head()?;
            let status = head.get(9..12).and_then(|status| status.parse().ok());
            let status: u16 = status.unwrap_or_else(|| panic!("no status: {head:?}"));
            if status == 100 {
                continue;
            }
            let lower = head.to_ascii_lowercase();
            let length = lower.split("content-length: ").nth(1);
            let length = length.and_then(|rest| rest.split("\r\n").next()?.parse().ok());
            let length = length.unwrap_or(0);
            while self.unread.len() < length {
                if !self.read_more() {
                    return None;
                }
            }
            let body = self.unread.drain(..length).collect();
            let body = String::from_utf8(body).unwrap();
            return Some(Answer { status, head, body });
        }
    }

    fn take_head(&mut self) -> Option<String> {
        loop {
            let mut windows = self.unread.windows(4);
            if let Some(end) = windows.position(|end| end == b"\r\n\r\n") {
                let head = self.unread.drain(..end + 4).collect();
                return Some(String::from_utf8(head).unwrap());
            }
            if !self.read_more() {
                return None;
            }
        }
    }

    fn read_more(&mut self) -> bool {
        let mut bytes = [0; 16384];
        match self.stream.read(&mut bytes) {
            Ok(0) => false,
            Ok(read) => {
                self.unread.extend_from_slice(&bytes[..read]);
                true
            }
            Err(error) if is_timeout(&error) => panic!("neither an answer nor the end"),
            Err(_) => false,
        }
    }

    /// The next bytes, whatever they are.
    pub(crate) fn bytes(&mut self, count: usize) -> Vec<u8> {
        while self.unread.len() < count && self.read_more() {}
        self.unread.drain(..count.min(self.unread.len())).collect()
    }

    /// Reads whatever comes to the end of the connection.
    pub(crate) fn rest(&mut self) -> Vec<u8> {
        while self.read_more() {}
        std::mem::take(&mut self.unread)
    }
}

fn is_timeout(error: &io::Error) -> bool {
    use io::ErrorKind::{TimedOut, WouldBlock};
    matches!(error.kind(), TimedOut | WouldBlock)
}

//! A connection to a target: its name, TCP, TLS.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};

use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tollward_policy::{Protocol, Target};

/// Connects, without a time limit of its own.
pub(super) async fn connect(
    target: &Target,
    protocol: Protocol,
    tls: Option<Arc<ClientConfig>>,
) -> io::Result<Link> {
    let tcp = TcpStream::connect((&*target.host, target.port)).await?;
    tcp.set_nodelay(true)?;
    let Some(tls) = tls else {
        return Ok(Link::new(Stream::Plain(tcp)));
    };
    let name = ServerName::try_from(target.host.to_string()).map_err(io::Error::other)?;
    let stream = TlsConnector::from(tls).connect(name, tcp).await?;
    if protocol == Protocol::Http2 && stream.get_ref().1.alpn_protocol() != Some(b"h2") {
        return Err(io::Error::other("the server does not offer HTTP/2"));
    }
    Ok(Link::new(Stream::Tls(Box::new(stream))))
}

/// A connection with or without TLS.
///
/// While it carries HTTP, a broken pipe is not an error of writing: a server that refuses an upload
/// answers and closes, and that answer would be lost if the failed write ended the exchange. Writing
/// just does not go on, and reading tells how it ends.
pub(super) struct Link {
    stream: Stream,
    hides_broken_pipe: bool,
    arrivals: Option<Telling>,
}

enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Link {
    fn new(stream: Stream) -> Self {
        Self {
            stream,
            hides_broken_pipe: true,
            arrivals: None,
        }
    }

    /// From now on a broken pipe is an error.
    pub(super) fn show_broken_pipe(&mut self) {
        self.hides_broken_pipe = false;
    }

    /// Tells from now on when something has been read.
    pub(super) fn arrivals(&mut self) -> Arrivals {
        let arrivals = Arc::new(Notify::new());
        self.arrivals = Some(Telling(Arc::downgrade(&arrivals)));
        Arrivals(arrivals)
    }

    fn written<T>(&self, polled: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        match polled {
            // No waker is kept, and none is needed: a reset wakes whoever reads.
            Poll::Ready(Err(error)) if self.hides_broken_pipe && is_broken_pipe(&error) => {
                Poll::Pending
            }
            polled => polled,
        }
    }
}

/// Whoever waits for something to be read by somebody else.
pub(super) struct Arrivals(Arc<Notify>);

impl Arrivals {
    /// Waits for it. Not if the connection is gone.
    pub(super) async fn next(&self) -> bool {
        let is_there = || Arc::weak_count(&self.0) > 0;
        if is_there() {
            self.0.notified().await;
        }
        is_there()
    }
}

struct Telling(Weak<Notify>);

impl Telling {
    /// Whether anybody cares.
    fn tell(&self) -> bool {
        let waiting = self.0.upgrade();
        waiting.map(|waiting| waiting.notify_one()).is_some()
    }
}

impl Drop for Telling {
    fn drop(&mut self) {
        let waiting = std::mem::take(&mut self.0).upgrade();
        if let Some(waiting) = waiting {
            waiting.notify_one();
        }
    }
}

fn is_broken_pipe(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset
    )
}

impl AsyncRead for Link {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let polled = match &mut self.stream {
            Stream::Plain(stream) => Pin::new(stream).poll_read(cx, buf),
            Stream::Tls(stream) => Pin::new(stream).poll_read(cx, buf),
        };
        if polled.is_ready()
            && let Some(arrivals) = &self.arrivals
            && !arrivals.tell()
        {
            self.arrivals = None;
        }
        polled
    }
}

impl AsyncWrite for Link {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = match &mut self.stream {
            Stream::Plain(stream) => Pin::new(stream).poll_write(cx, buf),
            Stream::Tls(stream) => Pin::new(stream).poll_write(cx, buf),
        };
        self.written(polled)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = match &mut self.stream {
            Stream::Plain(stream) => Pin::new(stream).poll_write_vectored(cx, bufs),
            Stream::Tls(stream) => Pin::new(stream).poll_write_vectored(cx, bufs),
        };
        self.written(polled)
    }

    fn is_write_vectored(&self) -> bool {
        match &self.stream {
            Stream::Plain(stream) => stream.is_write_vectored(),
            Stream::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = match &mut self.stream {
            Stream::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Stream::Tls(stream) => Pin::new(stream).poll_flush(cx),
        };
        self.written(polled)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Stream::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Stream::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}

//! What comes after `101 Switching Protocols`: bytes in both directions.

use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf, Bytes};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf, copy_bidirectional};

use super::connect::Link;
use super::http1::Http1;
use super::server::Flight;

/// How often in its idle time a tunnel is looked after.
const LOOKS: u32 = 4;

/// Joins a client and an upstream until both have ended, or nothing has moved for `idle`.
///
/// An end of one side is passed on, and the other side goes on.
pub(super) async fn join(client: OnUpgrade, http1: Box<Http1>, flight: Flight, idle: Duration) {
    let _flight = flight;
    // A client that never takes up its upgrade must not keep the connection.
    let joined = tokio::time::timeout(idle, async { (client.await, http1.into_link().await) });
    let Ok((Ok(client), Some((mut link, early, _slot)))) = joined.await else {
        tracing::debug!("an upgrade came to nothing");
        return;
    };
    link.show_broken_pipe();
    let moved = Arc::new(AtomicU64::new(0));
    let mut client = TokioIo::new(client);
    let mut upstream = Side {
        early,
        link,
        moved: moved.clone(),
    };
    let mut copying = pin!(copy_bidirectional(&mut client, &mut upstream));
    let mut seen = 0;
    let mut quiet = 0;
    while quiet < LOOKS {
        match tokio::time::timeout(idle / LOOKS, copying.as_mut()).await {
            Ok(Ok(_)) => return,
            Ok(Err(error)) => {
                tracing::debug!(%error, "an upgraded connection broke");
                return;
            }
            Err(_) => {
                let now = moved.load(Ordering::Relaxed);
                quiet = if now == seen { quiet + 1 } else { 0 };
                seen = now;
            }
        }
    }
    tracing::debug!("an upgraded connection stood still");
}

/// The upstream's side: what was read too early comes first, and all that moves is counted.
struct Side {
    early: Bytes,
    link: Link,
    moved: Arc<AtomicU64>,
}

impl Side {
    fn count<T>(&self, polled: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            self.moved.fetch_add(1, Ordering::Relaxed);
        }
        polled
    }
}

impl AsyncRead for Side {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.early.is_empty() {
            let length = self.early.len().min(buf.remaining());
            buf.put_slice(&self.early[..length]);
            self.early.advance(length);
            return Poll::Ready(Ok(()));
        }
        let polled = Pin::new(&mut self.link).poll_read(cx, buf);
        self.count(polled)
    }
}

impl AsyncWrite for Side {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.link).poll_write(cx, buf);
        self.count(polled)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.link).poll_write_vectored(cx, bufs);
        self.count(polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.link.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.link).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.link).poll_shutdown(cx)
    }
}

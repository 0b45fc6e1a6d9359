//! The connections of a door: how many, for how long, and how they end.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use prometheus_client::metrics::gauge::Gauge;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tollward_gateway::front::Turn;
use tracing::{debug, warn};

use super::patience::Patient;

/// What answers the requests of a door.
pub(crate) trait Door: Send + Sync + 'static {
    /// Answers one request of a connection from `peer`. Dropped when the client goes.
    fn answer(
        &self,
        peer: SocketAddr,
        request: Request<Incoming>,
    ) -> impl Future<Output = Response<Full<Bytes>>> + Send;
}

/// The bounds of a door.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Connections beyond these wait to be accepted.
    pub(crate) connections: usize,
    /// A client that has not sent the head of a request by then, first or next, is let go.
    pub(crate) head_timeout: Duration,
    /// A client that takes nothing of its answer for so long is let go too.
    pub(crate) write_timeout: Duration,
}

/// The longest head of a request, in bytes.
const MAX_HEAD: usize = 64 * 1024;
/// When accepting fails (for want of descriptors, say), others get this long to let some go.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Serves a door until `stopping`, then waits for the requests that are under way.
pub(crate) async fn serve<D: Door>(
    listener: TcpListener,
    door: Arc<D>,
    limits: Limits,
    open: Gauge,
    mut stopping: watch::Receiver<bool>,
) {
    let places = Arc::new(Semaphore::new(limits.connections));
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = accept(&listener, &places) => accepted,
            Some(_) = connections.join_next() => continue,
            () = stopped(&mut stopping) => break,
        };
        let (stream, peer, place) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                warn!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let (door, open, stopping) = (door.clone(), open.clone(), stopping.clone());
        connections.spawn(async move {
            open.inc();
            converse(stream, peer, door, limits, stopping).await;
            open.dec();
            drop(place);
        });
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

/// Waits until the server stops, or nobody is left to stop it.
async fn stopped(stopping: &mut watch::Receiver<bool>) {
    let _ = stopping.wait_for(|stopping| *stopping).await;
}

type Place = tokio::sync::OwnedSemaphorePermit;

async fn accept(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
) -> io::Result<(TcpStream, SocketAddr, Place)> {
    let place = places.clone().acquire_owned().await;
    let place = place.map_err(io::Error::other)?;
    let (stream, peer) = listener.accept().await?;
    Ok((stream, peer, place))
}

async fn converse<D: Door>(
    stream: TcpStream,
    peer: SocketAddr,
    door: Arc<D>,
    limits: Limits,
    mut stopping: watch::Receiver<bool>,
) {
    if let Err(error) = stream.set_nodelay(true) {
        debug!(%error, "cannot set TCP_NODELAY");
    }
    let turn = Arc::new(Turn::idle());
    let service = service_fn(|request| {
        let (door, turn) = (door.clone(), turn.clone());
        async move {
            turn.asked();
            let answer = door.answer(peer, request).await;
            turn.answered();
            Ok::<_, Infallible>(answer)
        }
    });
    let stream = Patient::new(stream, limits.write_timeout, turn.clone());
    // Without a timer hyper would ignore the timeout.
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head_timeout)
        .max_buf_size(MAX_HEAD)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = stopped(&mut stopping) => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        debug!(%peer, %error, "connection ended");
    }
}

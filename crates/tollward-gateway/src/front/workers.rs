//! The threads that serve.

use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{OwnedSemaphorePermit, mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tollward_http::Peer;
use tollward_policy::GatewaySettings;
use tracing::warn;

use super::body::Body;
use super::clock::Clock;
use super::connection::{RefusalHook, Shared, converse};
use super::limits::Limits;
use super::patience::stopped;
use super::places::{OpenHook, Places};
use super::refused::RefusedHook;
use super::tls::{Certificate, tls_config};

/// When accepting fails (for want of descriptors, say), others get this long to let some go.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// A worker that has more connections than another leaves it this long to take the next.
const STAND_BACK: Duration = Duration::from_millis(1);
/// How long a worker that stops goes on accepting what others had already been promised.
const LAST_CALL: Duration = Duration::from_secs(1);

/// The threads that serve a listener. They stop when this is dropped, too.
#[derive(Debug)]
pub struct Workers {
    stopping: watch::Sender<bool>,
    /// Each worker holds the other end until it has ended.
    ended: mpsc::Receiver<()>,
}

impl Workers {
    /// Stops accepting, once what is in the backlog has been accepted. Connections are closed when
    /// they are idle, or after the requests that are under way.
    pub fn stop(&self) {
        self.stopping.send_replace(true);
    }

    /// Waits until every connection has ended. What became of upgrades is not waited for: it ends
    /// with the workers.
    pub async fn ended(&mut self) {
        while self.ended.recv().await.is_some() {}
    }
}

/// Serves the connections of a listener.
///
/// Each worker is a thread with a runtime of its own. `service` is called once on each, within its
/// runtime, and makes what answers the requests of that worker's connections. What a client does wrong
/// never gets there: every request has a target that starts with a slash (or is `*`), one Host that is
/// right (HTTP/1.0: or none), and a body whose length is beyond doubt. `refusing` adds headers to the refusals of
/// the others, and `refused` is told of them. `open` is told of every connection that is opened (1) or closed
/// (-1).
pub fn start<M, S, F, B>(
    listener: std::net::TcpListener,
    settings: &GatewaySettings,
    service: M,
    refusing: RefusalHook,
    open: OpenHook,
    refused: RefusedHook,
) -> io::Result<Workers>
where
    M: Fn() -> S + Send + Sync + 'static,
    S: Fn(Peer, Request<Body>) -> F + Send + Sync + 'static,
    F: Future<Output = Response<B>> + Send + 'static,
    B: http_body::Body<Data = Bytes> + Unpin + Send + 'static,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let workers = match settings.workers {
        0 => thread::available_parallelism()?.get(),
        workers => workers,
    };
    listener.set_nonblocking(true)?;
    let certificate = settings.tls.as_ref().map(Certificate::read).transpose()?;
    let tls = certificate.clone().map(tls_config).transpose()?;
    let tls = tls.map(|config| TlsAcceptor::from(Arc::new(config)));
    let limits = Arc::new(Limits::new(settings));
    let (stopping, stop) = watch::channel(false);
    let (alive, ended) = mpsc::channel(1);
    let service = Arc::new(service);
    let places = Places::new(settings.max_connections, workers, open);
    for (number, places) in places.into_iter().enumerate() {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let listener = listener.try_clone()?;
        let listener = {
            let _within = runtime.enter();
            TcpListener::from_std(listener)?
        };
        if let Some(certificate) = certificate.clone().filter(|_| number == 0) {
            runtime.spawn(certificate.keep_fresh());
        }
        let clock = Clock::new();
        runtime.spawn(clock.clone().run());
        let (service, tls, limits) = (service.clone(), tls.clone(), limits.clone());
        let refusing = refusing.clone();
        let (alive, stopping) = (alive.clone(), stop.clone());
        let refused = refused.clone();
        let shared = move || Shared {
            service: service(),
            refusing,
            clock,
            limits,
            tls,
            stopping,
            refused,
        };
        thread::Builder::new()
            .name(format!("gateway-{number}"))
            .spawn(move || {
                work(&runtime, listener, &places, shared);
                runtime.shutdown_background();
                drop(alive);
            })?;
    }
    Ok(Workers { stopping, ended })
}

fn work<S, F, B>(
    runtime: &Runtime,
    listener: TcpListener,
    places: &Places,
    shared: impl FnOnce() -> Shared<S>,
) where
    S: Fn(Peer, Request<Body>) -> F + Send + Sync + 'static,
    F: Future<Output = Response<B>> + Send + 'static,
    B: http_body::Body<Data = Bytes> + Unpin + Send + 'static,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    runtime.block_on(async {
        let shared = Arc::new(shared());
        let mut connections = JoinSet::new();
        let mut stopping = shared.stopping.clone();
        loop {
            let accepted = tokio::select! {
                accepted = accept(&listener, places) => accepted,
                Some(ended) = connections.join_next() => {
                    if ended.is_err() {
                        warn!("a connection panicked");
                    }
                    continue;
                }
                () = stopped(&mut stopping) => break,
            };
            match accepted {
                Ok((stream, peer, permit)) => {
                    let place = places.take(permit);
                    connections.spawn(converse(stream, peer, place, shared.clone()));
                }
                Err(error) => {
                    warn!(%error, "cannot accept a connection");
                    sleep(ACCEPT_PAUSE).await;
                }
            }
        }
        let last_call = async {
            let listener = listener.into_std()?;
            while let Some((stream, peer, permit)) = accept_waiting(&listener, places).await? {
                let place = places.take(permit);
                connections.spawn(converse(stream, peer, place, shared.clone()));
            }
            io::Result::Ok(())
        };
        if let Ok(Err(error)) = timeout(LAST_CALL, last_call).await {
            warn!(%error, "cannot accept what is waiting");
        }
        while connections.join_next().await.is_some() {}
    });
}

type Accepted = (TcpStream, SocketAddr, OwnedSemaphorePermit);

async fn accept(listener: &TcpListener, places: &Places) -> io::Result<Accepted> {
    if places.is_ahead() {
        sleep(STAND_BACK).await;
    }
    let permit = places.free().await.map_err(io::Error::other)?;
    let (stream, peer) = listener.accept().await?;
    Ok((stream, peer, permit))
}

/// Accepts a connection that has been waiting, if there is one.
async fn accept_waiting(
    listener: &std::net::TcpListener,
    places: &Places,
) -> io::Result<Option<Accepted>> {
    let permit = places.free().await.map_err(io::Error::other)?;
    match listener.accept() {
        Ok((stream, peer)) => {
            stream.set_nonblocking(true)?;
            Ok(Some((TcpStream::from_std(stream)?, peer, permit)))
        }
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
}
